/* server/api/chat/output_parser.h - the text of a chat's answer as reasoning, content and tool
 * calls.
 *
 * Models put reasoning and tool calls between marks, each family its own; the chat template tells
 * which (output_style_find). Text goes in as it is decoded and comes out as content, reasoning or
 * calls; what may begin a mark is held back until that is decided. White space next to a mark
 * belongs to the mark. A tool call comes out whole; one that is not valid is content, marks
 * included, so no text is lost. The result does not depend on how the text was cut into tokens.
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

#define OUTPUT_MAX_CALLS 128

enum output_syntax { /* of tool calls */
    OUTPUT_HERMES = 0, /* <tool_call>{"name":…,"arguments":{…}}</tool_call>, also when unknown */
    OUTPUT_LLAMA3,     /* all of it, or what follows <|python_tag|>: {"name":…,"parameters":…} */
    OUTPUT_MISTRAL,    /* [TOOL_CALLS][{"name":…,"arguments":{…}}] to the end */
    OUTPUT_GRANITE,    /* <|tool_call|>[{"name":…,"arguments":{…}}] to the end */
    OUTPUT_DEEPSEEK,   /* <｜tool▁calls▁begin｜>, calls with a fenced JSON block */
    OUTPUT_HARMONY,    /* channels: analysis, final, and commentary to=functions.NAME */
    /* Calls that the client insists on: a constraint sees to it that there is nothing else. */
    OUTPUT_FORCED,       /* [{"name":…,"arguments":{…}}] */
    OUTPUT_FORCED_NAMED, /* the arguments of a function that is known */
};

struct output_style {
    enum output_syntax syntax;
    bool has_thoughts; /* <think> … </think>, or a channel for them */
};

/* The habits that a chat template shows. */
struct output_style output_style_find(const char *chat_template);

/* Is this a mark of the style? Tokens of that name are control tokens in some vocabularies, and yet
 * have to be seen. */
bool output_parser_is_mark(const struct output_style *style, const char *name, size_t n);

/* Does the rendered prompt end inside reasoning, which the answer then continues? */
bool output_parser_prompt_thinks(const struct output_style *style, const char *prompt, size_t n);

/* Append the end of that thought, an empty one. */
void output_parser_close_thought(const struct output_style *style, struct buf *prompt);

struct output_call {
    char id[16];
    char *name;
    char *arguments; /* JSON text of an object */
};

enum output_part { OUTPUT_TEXT = 0, OUTPUT_THOUGHT, OUTPUT_CALL, OUTPUT_HEADER };

struct output_parser {
    struct output_style style;
    bool finds_calls;
    enum output_part part;    /* that the next bytes belong to */
    bool has_begun;           /* the part has something but white space */
    bool has_text;            /* any text at all */
    bool has_thought;         /* a thought has ended */
    bool is_marked_call;      /* the call began with a mark */
    struct buf held;          /* not sorted yet: a possible mark, white space, the body of a call */
    size_t n_searched;        /* bytes of it in which no mark begins */
    size_t n_blank;           /* of its first bytes, white space, as far as was looked */
    struct buf thought, text; /* sorted, not yet sent; the sender clears them */
    char recipient[160];      /* HARMONY, FORCED_NAMED: whom a call is for */
    uint32_t n_calls, n_sent; /* the sender counts n_sent up */
    struct output_call *calls; /* [OUTPUT_MAX_CALLS] from the first one on */
    int err;
};

/* For styles that are forced: the text is one call's arguments, or a list of calls. `name` is the
 * function's, NULL for OUTPUT_FORCED. */
void output_parser_init_forced(struct output_parser *s, const char *name);
/* With `finds_calls` false marks of tool calls are text: none were offered. `thinks`: it begins
 * inside a thought. */
void output_parser_init(struct output_parser *s, const struct output_style *style, bool finds_calls,
                        bool thinks);
void output_parser_release(struct output_parser *s);

void output_parser_feed(struct output_parser *s, const char *text, size_t n);
/* No more comes: everything held back comes out. */
void output_parser_end(struct output_parser *s);

bool output_parser_has_more(const struct output_parser *s);
/* Does what the model writes now count as thinking? */
bool output_parser_is_thinking(const struct output_parser *s);
/* The first error: something was lost. */
int output_parser_error(const struct output_parser *s);

#endif
