/* server/api/formats/anthropic_body.h - a body of POST /v1/messages (Anthropic's shape) as one of a
 * chat.
 *
 * system, content blocks, tool_use and tool_result become messages; tools, tool_choice,
 * stop_sequences and thinking their counterparts; what is not Anthropic's stays as it is, so that
 * priority, seed and their like work here as well. What chats cannot say (images, documents, server
 * tools) is refused by name, and so is n.
 *
 * Thread: any.
 * Memory: the tree stays the caller's; on failure it may be half done.
 */
#ifndef SERVER_API_FORMATS_ANTHROPIC_BODY_H
#define SERVER_API_FORMATS_ANTHROPIC_BODY_H

#include "core/base/json.h"
#include "server/http/error.h"

/* Nothing is echoed. 0, or a negative ERR_* with *e filled. The second is for count_tokens, which
 * wants no max_tokens. */
int messages_to_chat(cJSON *body, struct buf *echo, struct api_error *e);
int messages_to_counted_chat(cJSON *body, struct buf *echo, struct api_error *e);

#endif
