/* server/api/chat/output_parser.h - the text of a chat's answer as reasoning, content and tool
 * calls.
 *
 * Models put reasoning and tool calls between marks, each family its own (family.h); the chat
 * template shows which (output_style_find). Text goes in as it is decoded and comes out as content,
 * reasoning or calls; text that may begin a mark is held back until that is decided. White space
 * next to a mark belongs to the mark. A mark inside an argument's value belongs to the value.
 *
 * A call comes out once its name is known and its arguments have begun; these then grow as they are
 * written, as JSON in any family. If the text turns out not to be a call before that, it is
 * content, mark included, so no text is lost. Arguments that end early, or continue in a way that
 * the family does not write, stay as they are: their call is not whole. A call inside an open
 * thought ends the thought. Text after a call or a thought is separated from text before it by an
 * empty line; clients that know blocks get the pieces in the model's order instead. The result does
 * not depend on how the text was cut into tokens.
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
#include "core/json/json_scan.h"
#include "server/api/chat/call_tools.h"
#include "server/api/chat/call_value.h"
#include "server/api/chat/family.h"

#define OUTPUT_MAX_CALLS 128

struct output_style {                     /* how a model writes its answers */
    const struct family *family;          /* NULL: calls are not read */
    const char *think_open, *think_close; /* marks around a thought; NULL: the model has none */
    const char *closing;                  /* text that ends a thought by default, or NULL */
};

/* Finds the style that a chat template shows: the family whose signs it has, and the marks of
 * thoughts. */
struct output_style output_style_find(const char *chat_template);
/* As output_style_find(), with a known family; NULL: none. */
struct output_style output_style_of(const struct family *family, const char *chat_template);

/* Sets the text that ends the thoughts of the family `thinker` by default; NULL: none. */
void output_style_find_closing(struct output_style *style, const struct family *thinker,
                               const char *chat_template);

/* True: the parser can tell thoughts from text in the model's answers. */
bool output_style_has_thoughts(const struct output_style *style);

/* True: `name` is a part of a mark of the style. Some vocabularies have it as a control token,
 * which the parser must see nevertheless. */
bool output_parser_is_mark(const struct output_style *style, const char *name, size_t n);

/* True: the rendered prompt ends inside a thought, which the answer then continues. */
bool output_parser_prompt_thinks(const struct output_style *style, const char *prompt, size_t n);
/* True: the rendered prompt ends with a mark that opens a thought in any family, even if the
 * template does not say how a thought ends. */
bool output_parser_prompt_may_think(const char *prompt, size_t n);

/* True: the rendered prompt ends after a finished thought. */
bool output_parser_prompt_has_thought(const struct output_style *style, const char *prompt,
                                      size_t n);

/* Appends the end of the open thought, which stays empty. */
void output_parser_close_thought(const struct output_style *style, struct buf *prompt);

/* Appends the text that the family writes if the answer shall have no thought (family.h, "off"): an
 * empty thought if a call may follow, else the beginning of the answer. Most families have no such
 * text. */
void output_parser_skip_thought(const struct output_style *style, bool may_call,
                                struct buf *prompt);

struct output_call {
    char id[160]; /* the model's own id, if its family writes one */
    char *name;
    struct call_traits traits;
    struct buf arguments; /* JSON text of an object, as far as it was written */
    bool is_over;         /* no more text of it comes */
    bool is_whole;        /* the model has finished it */
    bool was_announced;   /* a stream has sent the name */
    size_t n_sent;        /* bytes of the arguments that a stream has sent */
};

enum output_part { OUTPUT_TEXT = 0, OUTPUT_THOUGHT, OUTPUT_CALL, OUTPUT_HEADER };

struct output_piece { /* a run of text or thought of an answer, or a call */
    enum output_part part;
    uint32_t call; /* index in `calls` */
    size_t at, n;  /* bytes of `text` or `thought`, without the empty line that separates texts */
};

struct output_reader { /* reads the calls after one mark; output_reader.c */
    uint8_t state;
    enum output_part from;   /* the part in which the mark stood: text, or a thought */
    size_t n_mark;           /* bytes of the mark; 0: the answer begins with a call that has none */
    uint32_t call, argument; /* indices of the family's patterns at work */
    uint32_t n_calls;        /* calls that began after this mark */
    size_t at;               /* bytes of `held` that were read or searched */
    struct json_scan scan;
    uint32_t level;       /* depth of `scan` after the arguments: 1 inside the call's object */
    bool is_plain;        /* the arguments wait for the whole object */
    size_t object;        /* offset in `held` of the call's object */
    size_t string;        /* offset of the latest name of a member */
    size_t name, n_name;  /* the function's name or its literal; 0 bytes: unknown */
    uint8_t member;       /* the member whose value comes */
    uint32_t n_arguments; /* arguments that were written */
    unsigned types;       /* types of the current argument (call_value.h) */
    bool is_string;       /* it is a string in any case, and comes out as it is written */
    size_t n_scanned;     /* bytes of a value that `scan` or the search for tags has seen */
    uint32_t n_open;      /* open tags within the value */
    size_t n_key;         /* bytes of its name, which ends the call's arguments so far */
    struct call_value_scan value;
};

struct output_parser {
    struct output_style style;
    const struct call_tools *tools; /* tools that were offered; NULL: not known */
    bool finds_calls;
    bool has_forced;             /* only calls come, after a thought */
    bool insists;                /* only calls come, in the family's format */
    uint64_t call_seed;          /* the answer's own; the ids of calls follow from it */
    enum output_part part;       /* the part that the next bytes belong to */
    bool has_begun;              /* the part has more than white space */
    bool has_text;               /* there was any text */
    bool has_consumed;           /* bytes of `held` were consumed */
    bool has_thought;            /* a thought has ended */
    bool is_wrapped;             /* the text began with the first mark of `wrap` */
    uint32_t n_calls_thought;    /* calls before the latest thought's mark */
    enum output_part latest;     /* part of the latest piece, sent or not */
    struct output_reader reader; /* state of the CALL part */
    struct buf held;   /* not sorted yet: a possible mark, white space, a call's beginning */
    size_t n_searched; /* bytes of `held` in which no mark begins */
    size_t n_blank;    /* white space at the beginning of `held`, as far as was looked */
    struct buf thought, text;    /* sorted, not sent yet; the sender clears them */
    struct output_piece *pieces; /* [n_pieces] the order of the unsent pieces; a call that continues
                                  * is the first */
    uint32_t n_pieces, max_pieces;
    char recipient[160];       /* the function, if it is known before the call */
    uint32_t n_calls, n_sent;  /* the first n_sent calls have nothing more to send */
    struct output_call *calls; /* [OUTPUT_MAX_CALLS], allocated for the first call */
    int err;
};

/* If `finds_calls` is false, no tools were offered and marks of calls are text. `thinks`: the
 * answer begins inside a thought. `tools` are borrowed, and may be NULL. */
void output_parser_init(struct output_parser *s, const struct output_style *style,
                        const struct call_tools *tools, bool finds_calls, bool thinks);
/* For answers that a constraint forces to be calls, after a thought if there is one: one call's
 * arguments, or a list of calls. `name` is the function's, NULL: any; of the model's style only the
 * thoughts are used. */
void output_parser_init_forced(struct output_parser *s, const char *name,
                               const struct output_style *style, const struct call_tools *tools,
                               bool thinks);
/* After output_parser_init(): only calls in the family's format come, after a thought if there is
 * one, so a beginning that is cut is not text. `name` is the function's, NULL: any. */
void output_parser_insist(struct output_parser *s, const char *name);
void output_parser_release(struct output_parser *s);

void output_parser_feed(struct output_parser *s, const char *text, size_t n);
/* Called when the answer has ended: all text that was held back becomes output. */
void output_parser_end(struct output_parser *s);

/* True: there is output that was not sent. */
bool output_parser_has_more(const struct output_parser *s);
/* Marks everything so far as sent. */
void output_parser_clear(struct output_parser *s);
/* Rebuilds the pieces after the text was changed: the unsent text becomes one piece, and unsent
 * calls follow it. */
void output_parser_flatten(struct output_parser *s);
/* True: the model has finished every call. */
bool output_parser_calls_are_whole(const struct output_parser *s);
/* Bytes of memory that the parser holds. */
size_t output_parser_bytes(const struct output_parser *s);
/* True: the answer is inside a thought now. */
bool output_parser_is_thinking(const struct output_parser *s);
/* Return the first error, after which text was lost, or 0. */
int output_parser_error(const struct output_parser *s);

/* Appends the text of a custom tool's call: the string `input` of its arguments, as far as it was
 * written. If finished arguments have none, the client gets their JSON text. */
void output_call_add_input(const struct output_call *call, struct buf *out);
/* Appends a call's arguments as a JSON value: a cut value is closed, text that is not JSON becomes
 * "{}". */
void output_call_add_object(const struct output_call *call, struct buf *out);

#endif
