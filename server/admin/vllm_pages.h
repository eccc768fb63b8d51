/* server/admin/vllm_pages.h - the pages of vLLM's server besides its API: /load, /tokenizer_info,
 * /server_info, and those for its routers: /get_server_info and /kv_event_sources.
 *
 * Thread: the loop's; each is answered within its handler.
 * Memory: the reply only.
 * Source: vLLM 0.32, entrypoints/serve: instrumentator/basic.py, tokenize, dev/server_info;
 * config/kv_events.py; vllm-router 0.1.17, which reads model_id and kv_block_size of
 * /get_server_info.
 */
#ifndef SERVER_ADMIN_VLLM_PAGES_H
#define SERVER_ADMIN_VLLM_PAGES_H

#include <stdint.h>

struct http_call;
struct server_model;

/* Answer {"server_load":N}: the number of calls in progress, of all models. */
void vllm_pages_load(struct http_call *call, uint64_t n_calls);
/* Answer with the contents that tokenizer_config.json has for the model's tokenizer. */
void vllm_pages_tokenizer_info(struct http_call *call, const struct server_model *m);
/* Answer with the current settings under vLLM's names: of the first model as one text, or with
 * ?config_format=json as objects; of the other models in the list `models`. */
void vllm_pages_server_info(struct http_call *call, const struct server_model *const *models,
                            uint32_t n);

/* Answer with the name of a model and the size of its blocks, in which prefixes are shared, for
 * routers. */
void vllm_pages_get_server_info(struct http_call *call, const struct server_model *m);
/* Answer with the ZeroMQ sockets that publish the contents of a model's prefix cache, by the
 * data-parallel rank, of which there is one: {"0":{"endpoint":…,"topic":…,…}}, or {}. */
void vllm_pages_kv_event_sources(struct http_call *call, const struct server_model *m);

#endif
