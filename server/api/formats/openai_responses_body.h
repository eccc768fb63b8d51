/* server/api/formats/openai_responses_body.h - a body of POST /v1/responses (OpenAI's shape) as one
 * of a chat.
 *
 * The stateless part of that API: instructions and input items become messages, tools, tool_choice,
 * text.format, reasoning and max_output_tokens their counterparts; what is not OpenAI's stays as it
 * is, so that priority, seed and their like work here as well. What would need a memory between
 * requests (previous_response_id, conversation, background, item references) or tools of the server
 * is refused by name.
 *
 * Thread: any.
 * Memory: the tree stays the caller's; on failure it may be half done.
 */
#ifndef SERVER_API_FORMATS_OPENAI_RESPONSES_BODY_H
#define SERVER_API_FORMATS_OPENAI_RESPONSES_BODY_H

#include "core/base/json.h"
#include "server/http/error.h"

/* `echo` gets the members of a response that repeat the request: ,"instructions":…,"tools":…
 * 0, or a negative ERR_* with *e filled. */
int responses_to_chat(cJSON *body, struct buf *echo, struct api_error *e);

#endif
