/* server/api/params/conversation.h - a chat in one typed form: messages, calls and tools.
 *
 * Each wire format's fields fill it: params_chat.c, params_anthropic.c, params_responses.c. The
 * chat template, the constraint of a forced call and the output parser read it.
 *
 * Thread: any.
 * Memory: the arrays are the conversation's, and so are texts that were composed for it; other
 *         texts, schemas and `given` are borrowed from the body's JSON tree.
 * Errors: ERR_NOMEM.
 */
#ifndef SERVER_API_PARAMS_CONVERSATION_H
#define SERVER_API_PARAMS_CONVERSATION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/json.h"

struct tool_call {
    const char *id; /* NULL: none was given */
    const char *name;
    const char *arguments; /* their JSON text; NULL: `input` has them */
    const cJSON *input;    /* an object */
    const cJSON *given;    /* OpenAI's chat: the whole call, for members that only templates know */
};

struct chat_message {
    const char *role;
    bool has_content;             /* an empty one, too */
    uint32_t first_part, n_parts; /* of the conversation's parts: the texts of its content */
    uint32_t first_call, n_calls; /* of the conversation's calls */
    bool is_passing;              /* not shown once the user has said more */
    const char *reasoning;        /* NULL: none */
    const char *tool_call_id;     /* which call it answers, or NULL */
    const char *tool_name;        /* whose result it is, in Ollama's bodies, or NULL */
    const cJSON *given;           /* OpenAI's chat: the whole message, as for a call */
};

struct tool {
    const char *name;
    const cJSON *description, *parameters, *strict; /* NULL where not given */
    const cJSON *given;                             /* OpenAI's chat: the whole tool */
    /* OpenAI's custom tool: the client gets a text, which the model writes as the string `input`
     * of a function. */
    bool is_custom;
    bool is_search;      /* the client searches tools, and its call is told as an item of its own */
    bool is_deferred;    /* the model is not told of it until it is found */
    bool is_late;        /* it came with an item of the conversation */
    const char *intro;   /* what its namespace says of itself, or NULL */
    uint32_t n_space;    /* bytes of the name before the dot: its namespace; 0: it is in none */
    const char *pattern; /* a regular expression that a custom tool's text matches, or NULL */
    const char *pattern_field; /* where the body has it */
    const char *lark;          /* the grammar that it was made of, or NULL */
    const cJSON *shown;        /* what the template is told of the parameters; NULL: all */
    bool is_hidden;            /* the model is not told of it, and cannot call it */
};

struct tool_change { /* what a message says of the tools from there on */
    const char *name;
    bool removes;
};

struct conversation { /* zero is empty */
    struct chat_message *messages;
    const char **parts;
    struct tool_call *calls;
    struct tool *tools;
    char **owned; /* parts that were composed */
    struct tool_change *changes;
    cJSON *made; /* a list of JSON values that were composed */
    uint32_t n_messages, n_parts, n_calls, n_tools, n_owned, n_changes;
    int64_t now;        /* Unix seconds: what the template is told */
    bool numbers_calls; /* calls without an id get one, and so do the results that follow */
};

void conversation_release(struct conversation *c);

/* Another message without content; NULL: no memory. Valid until the next one is added. */
struct chat_message *conversation_add_message(struct conversation *c, const char *role);
/* The last message, or NULL. */
struct chat_message *conversation_last(const struct conversation *c);
/* A part of no message: its index is n_parts before the call. */
int conversation_add_part(struct conversation *c, const char *text);
/* A text that was composed is the conversation's from now on; NULL: no memory. The buffer is empty
 * afterwards, also on failure. */
const char *conversation_own(struct conversation *c, struct buf *text);
/* To the last message: it has content from now on. */
int conversation_add_text(struct conversation *c, const char *text);
/* The same of a text that was composed; the buffer as above. */
int conversation_add_composed(struct conversation *c, struct buf *text);
int conversation_add_call(struct conversation *c, const struct tool_call *call);
int conversation_add_tool(struct conversation *c, const struct tool *tool);

/* Keep a value that was composed: it lives as long as the conversation. The value, or NULL when
 * there was no memory for it, or for keeping it. */
const cJSON *conversation_keep(struct conversation *c, cJSON *value /* takes */);

/* How many of the first messages may be dropped so that message i stays, for stays[n_messages]:
 * UINT32_MAX for one of the system. With `keeps_pairs` the developer's stay as well, and the result
 * of a call goes together with the message that has the call. ERR_NOMEM. */
int conversation_find_stays(const struct conversation *c, bool keeps_pairs, uint32_t *stays);
/* Without the messages that do not stay where the first n are dropped. */
void conversation_drop(struct conversation *c, const uint32_t *stays, uint32_t n);

/* Without the passing messages that have one of the user, or a tool's result, behind them. */
void conversation_drop_passed(struct conversation *c);

/* The tool of that name, or NULL. */
struct tool *conversation_tool(const struct conversation *c, const char *name);
/* Of tools that came with items and have the same name as one before, the later one stays, in the
 * place of the other. */
void conversation_merge_tools(struct conversation *c);
/* Without the tools that are hidden. */
void conversation_drop_hidden(struct conversation *c);
int conversation_add_change(struct conversation *c, const struct tool_change *change);
/* Show and hide tools as the changes say, one after another, and drop those that are hidden then.
 * NULL, or the name in a change that no tool has. */
const char *conversation_apply_changes(struct conversation *c);

/* Append the message's content as one text, with line ends between its parts. */
void conversation_join(const struct conversation *c, const struct chat_message *m, struct buf *out);

#endif
