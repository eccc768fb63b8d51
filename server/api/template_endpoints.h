/* server/api/template_endpoints.h - POST /apply-template, POST /v1/messages/count_tokens, and POST
 * /tokenize of
 * messages: the prompt that a chat would have, without computing anything.
 *
 * Bodies are those of /v1/chat/completions and /v1/messages, read and checked in the same way;
 * {"prompt":"…"} and {"input_tokens":…}.
 *
 * Thread: the loop's.
 * Memory: as for an intake.
 */
#ifndef SERVER_API_TEMPLATE_ENDPOINTS_H
#define SERVER_API_TEMPLATE_ENDPOINTS_H

struct desk;
struct http_call;

void prompting_apply(struct desk *d, struct http_call *call);
/* {"count":…,"max_model_len":…,"tokens":[…]}, as vLLM has it. */
void prompting_tokenize(struct desk *d, struct http_call *call);
void prompting_count(struct desk *d, struct http_call *call);

#endif
