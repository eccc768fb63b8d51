/* server/api/template_endpoints.h - POST /apply-template, POST /v1/messages/count_tokens, and POST
 * /tokenize of messages: the prompt that a chat would have, without computing anything.
 *
 * Bodies are those of /v1/chat/completions and /v1/messages, read and checked in the same way;
 * {"prompt":"…"} and {"input_tokens":…}.
 *
 * Thread: the loop's.
 * Memory: as for an API call.
 */
#ifndef SERVER_API_TEMPLATE_ENDPOINTS_H
#define SERVER_API_TEMPLATE_ENDPOINTS_H

struct body_scan;
struct engine_client;
struct http_call;

void template_endpoints_apply(struct engine_client *engine, struct http_call *call,
                              const struct body_scan *scan);
/* {"count":…,"max_model_len":…,"tokens":[…]}, as vLLM has it. */
void template_endpoints_tokenize(struct engine_client *engine, struct http_call *call,
                                 const struct body_scan *scan);
void template_endpoints_count(struct engine_client *engine, struct http_call *call,
                              const struct body_scan *scan);

#endif
