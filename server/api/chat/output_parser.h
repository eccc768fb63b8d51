/* server/api/chat/output_parser.h - the text of a chat's answer as reasoning, content and tool
 * calls.
 *
 * Models put reasoning and tool calls between marks, each family its own; the chat template tells
 * which (output_style_find). Text goes in as it is decoded and comes out as content, reasoning or
 * calls; what may begin a mark is held back until that is decided. White space next to a mark
 * belongs to the mark. A mark inside a string of a call's JSON is that string's.
 *
 * A call comes out once its name is known and its arguments have begun; these then grow as they
 * are written. What is no call up to there is content, mark included, so no text is lost. Arguments
 * that end early, or go on as no JSON does, stay as they are: their call is not whole. The result
 * does not depend on how the text was cut into tokens.
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

#define OUTPUT_MAX_CALLS 128

enum output_syntax { /* of tool calls */
    OUTPUT_HERMES = 0, /* <tool_call>{"name":…,"arguments":{…}}</tool_call>, also when unknown */
    OUTPUT_LLAMA3,     /* all of it, or what follows <|python_tag|>: {"name":…,"parameters":…} */
    OUTPUT_MISTRAL,    /* [TOOL_CALLS][{"name":…,"arguments":{…}}] to the end, or NAME[ARGS]{…} */
    OUTPUT_GRANITE,    /* <|tool_call|>[{"name":…,"arguments":{…}}] to the end */
    OUTPUT_DEEPSEEK,   /* <｜tool▁calls▁begin｜>, names with a JSON block, fenced or not */
    OUTPUT_HARMONY,    /* channels: analysis, final, and commentary to=functions.NAME */
    /* Calls that the client insists on: a constraint sees to it that there is nothing else. */
    OUTPUT_FORCED,       /* [{"name":…,"arguments":{…}}] */
    OUTPUT_FORCED_NAMED, /* the arguments of a function that is known */
};

struct output_style {
    enum output_syntax syntax;
    bool has_thoughts; /* <think> … </think>, or a channel for them */
    bool names_first;  /* MISTRAL: NAME[ARGS]{…} */
};

struct output_call_form { /* calls that are JSON between two texts */
    const char *open, *close; /* "": none */
    bool may_be_bare;         /* a text that begins with a call needs no mark */
    bool is_list;             /* one list of calls, else each call has marks of its own */
    bool is_single;           /* one call a text */
    const char *arguments;    /* the name of the member */
};

/* The habits that a chat template shows. */
struct output_style output_style_find(const char *chat_template);

/* Is this a mark of the style? Tokens of that name are control tokens in some vocabularies, and yet
 * have to be seen. */
bool output_parser_is_mark(const struct output_style *style, const char *name, size_t n);

/* Does the rendered prompt end inside reasoning, which the answer then continues? */
bool output_parser_prompt_thinks(const struct output_style *style, const char *prompt, size_t n);

/* Does it end behind one? */
bool output_parser_prompt_has_thought(const struct output_style *style, const char *prompt,
                                      size_t n);

/* The marks around reasoning; NULL where the style has none. */
const char *output_parser_think_open(const struct output_style *style);
const char *output_parser_think_close(const struct output_style *style);

/* How calls of the style are written; false where that takes more than JSON between two marks. */
bool output_style_call_form(const struct output_style *style, struct output_call_form *out);

/* Append the end of that thought, an empty one. */
void output_parser_close_thought(const struct output_style *style, struct buf *prompt);

struct output_call {
    char id[16];
    char *name;
    struct buf arguments; /* JSON text of an object, as far as it was written */
    bool is_over;         /* no more of it comes */
    bool is_whole;        /* it came to its end */
    bool was_announced;   /* a stream has sent the name */
    size_t n_sent;        /* bytes of the arguments that a stream has sent */
};

enum output_part { OUTPUT_TEXT = 0, OUTPUT_THOUGHT, OUTPUT_CALL, OUTPUT_HEADER };

struct output_reader { /* of the calls behind one mark; output_reader.c */
    uint8_t state;
    bool is_marked;      /* a mark stands before it */
    bool is_plain;       /* the arguments wait for the whole object */
    struct json_scan scan;
    uint32_t level;      /* its depth behind the arguments: 1 inside of the call's object */
    size_t at;           /* bytes of `held` that were read */
    size_t object;       /* where the call's object begins in it */
    size_t string;       /* where its latest name of a member begins, or the call's name */
    size_t name, n_name; /* the name, or its literal; 0 bytes: unknown */
    uint8_t member;      /* of which member the value comes */
    uint32_t n_calls;    /* that began behind this mark */
};

struct output_parser {
    struct output_style style;
    bool finds_calls;
    uint64_t call_seed;       /* the calls' ids follow from it: the answer's own */
    enum output_part part;    /* that the next bytes belong to */
    bool has_begun;           /* the part has something but white space */
    bool has_text;            /* any text at all */
    bool has_thought;         /* a thought has ended */
    struct output_reader reader; /* of the CALL part */
    struct buf held; /* not sorted yet: a possible mark, white space, a call without arguments */
    size_t n_searched;        /* bytes of it in which no mark begins */
    size_t n_blank;           /* of its first bytes, white space, as far as was looked */
    struct buf thought, text; /* sorted, not yet sent; the sender clears them */
    char recipient[160];      /* HARMONY, FORCED_NAMED: whom a call is for */
    uint32_t n_calls, n_sent; /* the first n_sent of them have nothing more to send */
    struct output_call *calls; /* [OUTPUT_MAX_CALLS] from the first one on */
    int err;
};

/* Nothing but calls comes, behind a thought if there is one: one call's arguments, or a list of
 * calls. `name` is the function's, NULL for OUTPUT_FORCED; of the model's style only its thoughts
 * count. */
void output_parser_init_forced(struct output_parser *s, const char *name,
                               const struct output_style *style, bool thinks);
/* With `finds_calls` false marks of tool calls are text: none were offered. `thinks`: it begins
 * inside a thought. */
void output_parser_init(struct output_parser *s, const struct output_style *style, bool finds_calls,
                        bool thinks);
void output_parser_release(struct output_parser *s);

void output_parser_feed(struct output_parser *s, const char *text, size_t n);
/* No more comes: everything held back comes out. */
void output_parser_end(struct output_parser *s);

/* Is there something that was not sent? */
bool output_parser_has_more(const struct output_parser *s);
/* All there is was sent. */
void output_parser_clear(struct output_parser *s);
/* Did every call come to its end? */
bool output_parser_calls_are_whole(const struct output_parser *s);
/* That it holds. */
size_t output_parser_bytes(const struct output_parser *s);
/* Does what the model writes now count as thinking? */
bool output_parser_is_thinking(const struct output_parser *s);
/* The first error: something was lost. */
int output_parser_error(const struct output_parser *s);

/* A call's arguments as a JSON value: what was cut is closed, what is no JSON is "{}". */
void output_call_add_object(const struct output_call *call, struct buf *out);

#endif
