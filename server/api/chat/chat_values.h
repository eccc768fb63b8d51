/* server/api/chat/chat_values.h - a chat as the variables of its template.
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

/* The dict of a template's variables. */
struct value chat_values(struct value_pool *pool, const struct params *p,
                         const struct chat_tokens *tokens, bool knows_developer);

#endif
