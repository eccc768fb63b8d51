/* server/api/chat/chat_values.h - a chat as the variables of its template.
 *
 * Strings of the client are not marked as the template's own (value.h); strings that the server
 * chose are: roles, reasoning efforts, the texts of special tokens.
 *
 * Thread: any.
 * Memory: everything is in the pool, or borrowed from the tokens and params.
 * Errors: pool->err.
 */
#ifndef SERVER_API_CHAT_CHAT_VALUES_H
#define SERVER_API_CHAT_CHAT_VALUES_H

#include <stdbool.h>

#include "core/base/buf.h"
#include "core/jinja/value.h"
#include "server/api/params/params.h"

#define CHAT_MAX_PROMPT ((size_t)64 << 20) /* bytes */

struct chat_text {
    const char *bytes; /* borrowed */
    size_t n;
};

struct chat_tokens {
    struct chat_text bos, eos;
};

/* The forms of values that a template accepts; see chat_caps.h. */
struct chat_caps {
    bool knows_system;     /* false: a system message is put into the user's message that follows
                            * it */
    bool late_system;      /* a system message may follow others; else it goes into the user's
                            * message directly before it, or into the next one */
    bool knows_developer;  /* else that role becomes system */
    bool typed_content;    /* contents are lists of parts, not strings */
    bool string_arguments; /* arguments of calls are JSON text, not objects */
    bool null_content;     /* an empty content beside calls is null, not "" */
    bool full_tools;       /* a tool has a description and parameters, and these have one each */
    bool no_tools_unset;   /* without tools the template's variable `tools` is undefined, not
                            * null */
    bool refuses_none;     /* an effort of "none" is left out */
    bool prints_tools, prints_calls;
};

/* True: the model shall think. The client's enable_thinking or thinking decides, then Anthropic's
 * switch, then the effort (none: no), then the settings; if nothing is set, yes. */
bool chat_wants_thoughts(const struct params *p);

/* Converts a JSON value. */
struct value chat_json_value(struct value_pool *pool, const cJSON *v);

/* Makes the dict of a template's variables. */
struct value chat_values(struct value_pool *pool, const struct params *p,
                         const struct chat_tokens *tokens, const struct chat_caps *caps);

#endif
