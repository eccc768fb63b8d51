/* server/api/params/conversation.h - a chat in one typed form: messages, calls and tools.
 *
 * Each wire format's fields fill it: params_chat.c, params_anthropic.c, params_responses.c. The
 * chat template, the constraint of a forced call and the output parser read it.
 *
 * Thread: any.
 * Memory: the conversation owns its arrays and the texts that were composed for it; other texts,
 *         schemas and `given` are borrowed from the body's JSON tree.
 * Errors: ERR_NOMEM.
 */
#ifndef SERVER_API_PARAMS_CONVERSATION_H
#define SERVER_API_PARAMS_CONVERSATION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json/json.h"

struct tool_call {
    const char *id; /* NULL: none was given */
    const char *name;
    const char *arguments; /* JSON text; NULL: `input` has the arguments */
    const cJSON *input;    /* an object */
    const cJSON *given;    /* OpenAI's chat: the whole call, for members that only templates know */
};

struct chat_message {
    const char *role;
    bool has_content;             /* true for an empty content, too */
    uint32_t first_part, n_parts; /* the texts of its content, in conversation.parts */
    uint32_t first_call, n_calls; /* in conversation.calls */
    bool is_passing;              /* dropped once the user or a tool has said more */
    const char *reasoning;        /* NULL: none */
    const char *tool_call_id;     /* id of the call that it answers, or NULL */
    const char *tool_name;        /* Ollama: the tool whose result it is, or NULL */
    const cJSON *given;           /* OpenAI's chat: the whole message, for the template */
};

struct tool {
    const char *name;
    const cJSON *description, *parameters, *strict; /* NULL: not given */
    const cJSON *given;                             /* OpenAI's chat: the whole tool */
    /* OpenAI's custom tool: the client gets a text, which the model writes as the string `input`
     * of a function. */
    bool is_custom;
    bool is_search;      /* Responses' tool_search; the client searches, and a call is an item of
                          * its own type */
    bool is_deferred;    /* hidden from the model until a search finds it */
    bool is_late;        /* an item of the conversation brought it */
    const char *intro;   /* its namespace's description, or NULL */
    uint32_t n_space;    /* bytes of the namespace, before the name's dot; 0: no namespace */
    const char *pattern; /* a regular expression that a custom tool's text matches, or NULL */
    const char *pattern_field; /* the pattern's path in the body */
    const char *lark;          /* the Lark grammar from which `pattern` was made, or NULL */
    const cJSON *shown;        /* the parameters that the template sees; NULL: `parameters` */
    bool is_hidden;            /* the model does not see it, and cannot call it */
};

struct tool_change { /* a message shows or hides a tool */
    const char *name;
    bool removes;
};

/* A place in the conversation up to which the prompt is worth keeping in the prefix cache. */
struct cache_breakpoint {
    uint32_t n_parts; /* conversation.parts before it */
    size_t n_bytes;   /* of the last of these parts only the first bytes; SIZE_MAX: all of it */
    uint32_t ttl_s;   /* seconds for which the prompt's beginning stays cached */
};
#define CONVERSATION_MAX_BREAKPOINTS 4

struct conversation { /* zero is empty */
    struct chat_message *messages;
    const char **parts;
    struct tool_call *calls;
    struct tool *tools;
    char **owned; /* composed texts */
    struct tool_change *changes;
    cJSON *made; /* a list of composed JSON values */
    uint32_t n_messages, n_parts, n_calls, n_tools, n_owned, n_changes;
    struct cache_breakpoint breakpoints[CONVERSATION_MAX_BREAKPOINTS];
    uint32_t n_breakpoints;
    int64_t now;        /* Unix seconds, for the template */
    bool numbers_calls; /* calls without an id get one, and so do the results that follow */
};

void conversation_release(struct conversation *c);

/* Append a message without content. NULL: no memory. The pointer is valid until the next message is
 * added. */
struct chat_message *conversation_add_message(struct conversation *c, const char *role);
/* The last message, or NULL. */
struct chat_message *conversation_last(const struct conversation *c);
/* Append a part that belongs to no message; its index is n_parts before the call. */
int conversation_add_part(struct conversation *c, const char *text);
/* Give a composed text to the conversation, which frees it with itself. NULL: no memory. The buffer
 * is empty afterwards, also on failure. */
const char *conversation_own(struct conversation *c, struct buf *text);
/* Append a text to the last message's content. */
int conversation_add_text(struct conversation *c, const char *text);
/* Append a composed text to it; the buffer as in conversation_own(). */
int conversation_add_composed(struct conversation *c, struct buf *text);
int conversation_add_call(struct conversation *c, const struct tool_call *call);
int conversation_add_tool(struct conversation *c, const struct tool *tool);

/* Keep a composed value as long as the conversation lives. Returns the value, or NULL when there
 * was no memory for it, or for keeping it. */
const cJSON *conversation_keep(struct conversation *c, cJSON *value /* takes */);

/* Fill stays[n_messages]: message i stays while at most stays[i] of the first messages are dropped;
 * UINT32_MAX: always, as system messages. With `keeps_pairs` developer messages always stay, too,
 * and a tool result goes together with the message that has its call. ERR_NOMEM. */
int conversation_find_stays(const struct conversation *c, bool keeps_pairs, uint32_t *stays);
/* Drop the messages that do not stay when the first n are dropped. */
void conversation_drop(struct conversation *c, const uint32_t *stays, uint32_t n);

/* Drop the passing messages that a message of the user or a tool result follows. */
void conversation_drop_passed(struct conversation *c);

/* Find the tool of that name, or NULL. */
struct tool *conversation_tool(const struct conversation *c, const char *name);
/* A tool that came with an item replaces, in its place, an earlier tool of the same name. */
void conversation_merge_tools(struct conversation *c);
/* Drop the hidden tools. */
void conversation_drop_hidden(struct conversation *c);
int conversation_add_change(struct conversation *c, const struct tool_change *change);
/* Show and hide tools as the changes say, in order, then drop the hidden ones. Returns NULL, or the
 * name in a change that no tool has. */
const char *conversation_apply_changes(struct conversation *c);

/* Add a breakpoint behind the parts so far; of too many the first is dropped. */
void conversation_add_breakpoint(struct conversation *c, uint32_t ttl_s);
/* Let the breakpoints behind the first `from` parts stand behind the first `to` parts. */
void conversation_move_breakpoints(struct conversation *c, uint32_t from, uint32_t to);
/* Called before conversation_join() makes one text of the message's parts, which takes the place of
 * its first part: breakpoints within the message then stand within that text. */
void conversation_join_breakpoints(struct conversation *c, const struct chat_message *m);

/* Append the message's content as one text, with line ends between its parts. */
void conversation_join(const struct conversation *c, const struct chat_message *m, struct buf *out);

#endif
