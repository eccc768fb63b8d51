/* server/api/chat/call_pattern.h - how one family of models writes a tool call, as a sequence of
 * texts and holes.
 *
 * A pattern is a line of a family's description (family.h), for example
 *
 *     "<tool_call>"? ~ "<function=" NAME ">" ~ ARGUMENTS "</function>" ~ "</tool_call>"
 *
 *     "text"     this text; \n, \t, \" and \\ as in C
 *     ~          white space, or none
 *     x?         x, or nothing: a text, or ( … ), which begins with a text
 *     NAME       the function's name, up to the next item
 *     NAME_INDEX the name in functions.NAME:INDEX, which as a whole is the call's id
 *     ID         the call's id, up to the next item
 *     KEY        an argument's name, up to the next item
 *     SKIP       any text up to the next item
 *     CALLS      in `section`: the calls, one after the other
 *
 * The arguments of a call are one of
 *
 *     JSON       the object
 *     OBJECT     the whole call as a JSON object with the members of `members`
 *     KEYED      the whole call as a JSON object {"NAME": arguments}
 *     ARGUMENTS  one after the other, each in an `argument` pattern
 *
 * and the value of an argument is one of
 *
 *     TEXT       raw text, a value of the type that the tool's schema has for it (call_value.h)
 *     TAGS       as TEXT, but objects and lists are nested tags: in `argument "<" KEY ">" TAGS
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
#define PATTERN_MAX_TEXTS 12 /* texts that may come next */
/* Bytes of a call before its arguments, or of an argument before its value. */
#define PATTERN_MAX_HEAD 1024

enum pattern_kind {
    PATTERN_TEXT = 0,
    PATTERN_BLANKS,
    PATTERN_GROUP, /* the next n_items, which may be missing together */
    PATTERN_NAME,
    PATTERN_NAME_INDEX,
    PATTERN_ID,
    PATTERN_KEY,
    PATTERN_SKIP,
    /* Holes from here on: pattern_match() stops, and the reader of the call reads them. */
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
    uint8_t n_items;  /* size of a group */
    const char *text; /* [n] the text of PATTERN_TEXT, NUL-terminated */
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

/* Parses a line of a description, whose texts are unquoted in place. NULL, or the reason of an
 * error. */
const char *pattern_parse(struct call_pattern *out, char *line);

/* Returns the index of the hole that the reader of the call reads itself; p->n: there is none. */
uint32_t pattern_hole(const struct call_pattern *p);

struct pattern_texts { /* the texts that may come next */
    const char *at[PATTERN_MAX_TEXTS];
    uint32_t n;
    bool is_open; /* all of them are optional */
};

/* Lists the texts that may begin item i, or the items after it if it may be missing, without white
 * space. A hole with a JSON object is "{". ARGUMENTS are the beginnings of the family's `argument`
 * patterns, and the texts after it. */
void pattern_next(const struct family *f, const struct call_pattern *p, uint32_t i,
                  struct pattern_texts *out);

enum pattern_verdict {
    PATTERN_MORE = 0, /* it fits so far: more text is needed */
    PATTERN_FITS,
    PATTERN_FAILS,
};

struct pattern_found {                         /* offsets into the text */
    size_t name, n_name, id, n_id, key, n_key; /* n 0: not found */
    size_t end;                                /* offset after the bytes that were read */
    uint32_t item;                             /* item at which it stopped: a hole, or p->n */
};

/* Matches text[at..n) from item `first` on, up to the first hole or the end. */
enum pattern_verdict pattern_match(const struct family *f, const struct call_pattern *p,
                                   uint32_t first, const char *text, size_t at, size_t n,
                                   struct pattern_found *out);

/* Check for one of the texts at text[at..n). White space before it is skipped, unless the text
 * itself begins with some. */
enum pattern_verdict pattern_texts_at(const struct pattern_texts *texts, const char *text,
                                      size_t at, size_t n);

#endif
