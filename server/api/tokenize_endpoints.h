/* server/api/tokenize_endpoints.h - POST /tokenize and /detokenize, in llama-server's and vLLM's
 * shapes.
 *
 * {"content":…} -> {"tokens":[…]}; {"prompt":…} -> {"count":…,"max_model_len":…,"tokens":[…]}.
 * {"messages":…} -> the same, of the prompt that such a chat has (template_endpoints.h).
 * {"tokens":[…]} -> {"content":…}, or {"prompt":…} when the request names a model, as vLLM's do.
 * Long bodies are worked on by the pool that prepares texts.
 *
 * Thread: the loop's.
 * Memory: bounded by max_body.
 */
#ifndef SERVER_API_TOKENIZE_ENDPOINTS_H
#define SERVER_API_TOKENIZE_ENDPOINTS_H

struct body_scan;
struct engine_client;
struct http_call;

void tokens_encode(struct engine_client *engine, struct http_call *call,
                   const struct body_scan *scan);
void tokens_decode(struct engine_client *engine, struct http_call *call,
                   const struct body_scan *scan);

#endif
