/* server/api/chat/output_parser.h - the text of a chat's answer as reasoning, content and tool
 * calls.
 *
 * Models put reasoning and tool calls between marks, each family its own (family.h); the chat
 * template tells which (output_style_find). Text goes in as it is decoded and comes out as content,
 * reasoning or calls; what may begin a mark is held back until that is decided. White space next to
 * a mark belongs to the mark. A mark inside an argument's value is that value's.
 *
 * A call comes out once its name is known and its arguments have begun; these then grow as they
 * are written, as JSON in any family. What is no call up to there is content, mark included, so no
 * text is lost. Arguments that end early, or continue as the family writes none, stay as they are:
 * their call is not whole. A call inside a thought that is open ends the thought. Text behind a
 * call or a thought is set off from text before it by an empty line; clients that know blocks get
 * the pieces in the model's order instead. The result does not depend on how the text was cut into
 * tokens.
 *
 * Thread: one owner.
 * Memory: bounded by HTTP_MAX_REPLY.
 */
#ifndef SERVER_API_CHAT_OUTPUT_PARSER_H
#define SERVER_API_CHAT_OUTPUT_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/json_scan.h"
#include "server/api/chat/call_tools.h"
#include "server/api/chat/call_value.h"
#include "server/api/chat/family.h"

#define OUTPUT_MAX_CALLS 128

struct output_style {                     /* how a model writes its answers */
    const struct family *family;          /* NULL: calls are not read */
    const char *think_open, *think_close; /* around a thought; NULL: the model has none */
    const char *closing;                  /* what ends one by default (family.h); NULL: nothing */
};

/* What a chat template shows: the family whose signs it has, and the marks of thoughts. */
struct output_style output_style_find(const char *chat_template);
/* The same with a family that is known, NULL: none. */
struct output_style output_style_of(const struct family *family, const char *chat_template);

/* What ends the thoughts of the family `thinker`, or NULL, by default. */
void output_style_find_closing(struct output_style *style, const struct family *thinker,
                               const char *chat_template);

/* Do the model's answers have thoughts that can be told from its text? */
bool output_style_has_thoughts(const struct output_style *style);

/* Is this a mark of the style? Tokens of that name are control tokens in some vocabularies, and yet
 * have to be seen. */
bool output_parser_is_mark(const struct output_style *style, const char *name, size_t n);

/* Does the rendered prompt end inside reasoning, which the answer then continues? */
bool output_parser_prompt_thinks(const struct output_style *style, const char *prompt, size_t n);

/* Does it end behind one? */
bool output_parser_prompt_has_thought(const struct output_style *style, const char *prompt,
                                      size_t n);

/* Append the end of that thought, an empty one. */
void output_parser_close_thought(const struct output_style *style, struct buf *prompt);

/* Append what the family writes where the answer shall have no thought (family.h, "off"): may a
 * call follow, an empty thought, else the beginning of the answer. Of most families that is
 * nothing. */
void output_parser_skip_thought(const struct output_style *style, bool may_call,
                                struct buf *prompt);

struct output_call {
    char id[160]; /* the model's own, where its family writes one */
    char *name;
    struct call_traits traits;
    struct buf arguments; /* JSON text of an object, as far as it was written */
    bool is_over;         /* no more of it comes */
    bool is_whole;        /* it came to its end */
    bool was_announced;   /* a stream has sent the name */
    size_t n_sent;        /* bytes of the arguments that a stream has sent */
};

enum output_part { OUTPUT_TEXT = 0, OUTPUT_THOUGHT, OUTPUT_CALL, OUTPUT_HEADER };

struct output_piece { /* of an answer: a run of text or thought, or a call */
    enum output_part part;
    uint32_t call; /* which one of `calls` */
    size_t at, n;  /* bytes of `text` or `thought`, without the empty line that sets a text off */
};

struct output_reader { /* of the calls behind one mark; output_reader.c */
    uint8_t state;
    enum output_part from;   /* where the mark stood: text, or a thought */
    size_t n_mark;           /* bytes of the mark; 0: the answer begins with a call that has none */
    uint32_t call, argument; /* the patterns under way, of the family's */
    uint32_t n_calls;        /* that began behind this mark */
    size_t at;               /* bytes of `held` that were read, or searched */
    struct json_scan scan;
    uint32_t level;       /* its depth behind the arguments: 1 inside of the call's object */
    bool is_plain;        /* the arguments wait for the whole object */
    size_t object;        /* where the call's object begins in `held` */
    size_t string;        /* where its latest name of a member begins */
    size_t name, n_name;  /* of the function, or its literal; 0 bytes: unknown */
    uint8_t member;       /* of which member the value comes */
    uint32_t n_arguments; /* that were written */
    unsigned types;       /* of the argument under way (call_value.h) */
    bool is_string;       /* it is one in any case, and comes out as it is written */
    size_t n_scanned;     /* bytes of one that may be JSON which `scan` has seen, or of tags */
    uint32_t n_open;      /* tags within it */
    size_t n_key;         /* bytes of its name, the last ones of the call's arguments before it */
    struct call_value_scan value;
};

struct output_parser {
    struct output_style style;
    const struct call_tools *tools; /* that were offered; NULL: not known */
    bool finds_calls;
    bool has_forced;             /* nothing but calls comes, behind a thought */
    bool insists;                /* the same, written as the family does */
    uint64_t call_seed;          /* the calls' ids follow from it: the answer's own */
    enum output_part part;       /* that the next bytes belong to */
    bool has_begun;              /* the part has something but white space */
    bool has_text;               /* any text at all */
    bool has_consumed;           /* of what is held, anything */
    bool has_thought;            /* a thought has ended */
    bool is_wrapped;             /* the text has begun with the mark that the family wraps it in */
    uint32_t n_calls_thought;    /* calls before the latest thought's mark */
    enum output_part latest;     /* of the latest piece, sent or not */
    struct output_reader reader; /* of the CALL part */
    struct buf held;   /* not sorted yet: a possible mark, white space, a call without arguments */
    size_t n_searched; /* bytes of it in which no mark begins */
    size_t n_blank;    /* of its first bytes, white space, as far as was looked */
    struct buf thought, text;    /* sorted, not yet sent; the sender clears them */
    struct output_piece *pieces; /* [n_pieces] the order of what was not sent; a call that goes on
                                    is the first */
    uint32_t n_pieces, max_pieces;
    char recipient[160];       /* the function, where it is known before the call */
    uint32_t n_calls, n_sent;  /* the first n_sent of them have nothing more to send */
    struct output_call *calls; /* [OUTPUT_MAX_CALLS] from the first one on */
    int err;
};

/* With `finds_calls` false marks of tool calls are text: none were offered. `thinks`: it begins
 * inside a thought. `tools` are borrowed, and may be NULL. */
void output_parser_init(struct output_parser *s, const struct output_style *style,
                        const struct call_tools *tools, bool finds_calls, bool thinks);
/* Nothing but calls comes, behind a thought if there is one: one call's arguments, or a list of
 * calls. `name` is the function's, NULL: of any; of the model's style only its thoughts count. */
void output_parser_init_forced(struct output_parser *s, const char *name,
                               const struct output_style *style, const struct call_tools *tools,
                               bool thinks);
/* After output_parser_init(): nothing but calls comes, behind a thought if there is one, so that
 * what is cut is no text. `name` is the function's, NULL: of any. */
void output_parser_insist(struct output_parser *s, const char *name);
void output_parser_release(struct output_parser *s);

void output_parser_feed(struct output_parser *s, const char *text, size_t n);
/* No more comes: everything held back comes out. */
void output_parser_end(struct output_parser *s);

/* Is there something that was not sent? */
bool output_parser_has_more(const struct output_parser *s);
/* All there is was sent. */
void output_parser_clear(struct output_parser *s);
/* The text was changed: of what was not sent it is one piece, and calls stand behind it. */
void output_parser_flatten(struct output_parser *s);
/* Did every call come to its end? */
bool output_parser_calls_are_whole(const struct output_parser *s);
/* That it holds. */
size_t output_parser_bytes(const struct output_parser *s);
/* Does what the model writes now count as thinking? */
bool output_parser_is_thinking(const struct output_parser *s);
/* The first error: something was lost. */
int output_parser_error(const struct output_parser *s);

/* The text of a custom tool's call: the string `input` of its arguments, as far as it was written.
 * Of arguments that came to their end without one, the client gets the JSON text. */
void output_call_add_input(const struct output_call *call, struct buf *out);
/* A call's arguments as a JSON value: what was cut is closed, what is no JSON is "{}". */
void output_call_add_object(const struct output_call *call, struct buf *out);

#endif
