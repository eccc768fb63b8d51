/* server/api/chat/call_pattern.h - how one family of models writes a tool call, as a sequence of
 * texts and holes.
 *
 * A pattern is a line of a family's description (family.h), for example
 *
 *     "<tool_call>"? ~ "<function=" NAME ">" ~ ARGUMENTS "</function>" ~ "</tool_call>"
 *
 *     "text"     stands there as it is; \n, \t, \" and \\ as in C
 *     ~          white space, or none
 *     x?         x, or nothing: a text, or ( … ), which begins with a text
 *     NAME       the function's name, up to what follows
 *     NAME_INDEX the name in functions.NAME:INDEX, which as a whole is the call's id
 *     ID         the call's id, up to what follows
 *     KEY        an argument's name, up to what follows
 *     SKIP       whatever stands before what follows
 *     CALLS      of `section`: the calls, one after the other
 *
 * The arguments of a call are one of
 *
 *     JSON       the object
 *     OBJECT     the whole call as a JSON object with the members of `members`
 *     KEYED      the whole call as a JSON object {"NAME": arguments}
 *     ARGUMENTS  one after the other, each as an `argument` pattern says
 *
 * and the value of an argument is one of
 *
 *     TEXT       raw text, a value of the type that the tool's schema has for it (call_value.h)
 *     TAGS       the same, but objects and lists are tags within: of `argument "<" KEY ">" TAGS
 *                "</" KEY ">"` a member is <KEY>...</KEY>, and an item of a list <item>...</item>
 *     STRING     raw text, always a string
 *     VALUE      a JSON value
 *     PYTHON     a literal of Python
 *     QUOTED     JSON with keys without quotes, and strings between the marks of `quote`
 *
 * Thread: any; a pattern does not change.
 * Memory: texts are the family's.
 */
#ifndef SERVER_API_CHAT_CALL_PATTERN_H
#define SERVER_API_CHAT_CALL_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATTERN_MAX_ITEMS 24
#define PATTERN_MAX_TEXTS 12 /* that may come next */
/* Bytes of a call before its arguments, or of an argument before its value. */
#define PATTERN_MAX_HEAD 1024

enum pattern_kind {
    PATTERN_TEXT = 0,
    PATTERN_BLANKS,
    PATTERN_GROUP, /* the next n_items may be missing, all of them */
    PATTERN_NAME,
    PATTERN_NAME_INDEX,
    PATTERN_ID,
    PATTERN_KEY,
    PATTERN_SKIP,
    /* From here on whoever reads a call goes on by itself. */
    PATTERN_CALLS,
    PATTERN_JSON,
    PATTERN_OBJECT,
    PATTERN_KEYED,
    PATTERN_ARGUMENTS,
    PATTERN_VALUE_TEXT,
    PATTERN_VALUE_TAGS,
    PATTERN_VALUE_STRING,
    PATTERN_VALUE_JSON,
    PATTERN_VALUE_PYTHON,
    PATTERN_VALUE_QUOTED,
};

struct pattern_item {
    enum pattern_kind kind;
    bool is_optional;
    uint8_t n_items;  /* of a group */
    const char *text; /* [n] of PATTERN_TEXT, NUL-terminated */
    size_t n;
};

struct call_pattern {
    uint32_t n;
    struct pattern_item at[PATTERN_MAX_ITEMS];
};

struct family;

/* White space between the parts of a call. */
static inline bool pattern_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Parse a line of a description, which is cut into the texts in place. NULL, or what is wrong. */
const char *pattern_parse(struct call_pattern *out, char *line);

/* The index of the item from which on its reader goes on by itself; p->n: there is none. */
uint32_t pattern_hole(const struct call_pattern *p);

struct pattern_texts { /* what may come next; a prefix of none is something else */
    const char *at[PATTERN_MAX_TEXTS];
    uint32_t n;
    bool is_open; /* none of them need come */
};

/* What may stand at item i and behind it, white space left out. A hole with a JSON object is "{".
 * ARGUMENTS are the beginnings of the family's `argument` patterns, and what follows them. */
void pattern_next(const struct family *f, const struct call_pattern *p, uint32_t i,
                  struct pattern_texts *out);

enum pattern_verdict {
    PATTERN_MORE = 0, /* it fits so far: more text is needed */
    PATTERN_FITS,
    PATTERN_FAILS,
};

struct pattern_found {                         /* offsets into the text */
    size_t name, n_name, id, n_id, key, n_key; /* n 0: not found */
    size_t end;                                /* behind what was read */
    uint32_t item;                             /* at which it stopped: a hole, or p->n */
};

/* Read text[at..n) from item `first` on, up to the first hole or the end. */
enum pattern_verdict pattern_match(const struct family *f, const struct call_pattern *p,
                                   uint32_t first, const char *text, size_t at, size_t n,
                                   struct pattern_found *out);

/* Does one of the texts stand at text[at..n), behind white space, unless it begins with some? */
enum pattern_verdict pattern_texts_at(const struct pattern_texts *texts, const char *text,
                                      size_t at, size_t n);

#endif
