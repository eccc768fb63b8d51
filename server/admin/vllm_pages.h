/* server/admin/vllm_pages.h - the pages that vLLM's server has beside the API: /load,
 * /tokenizer_info, /server_info, and what its routers ask for: /get_server_info and
 * /kv_event_sources.
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

/* {"server_load":N}: calls whose answers are being made, of all models. */
void vllm_pages_load(struct http_call *call, uint64_t n_calls);
/* What tokenizer_config.json would say of the model's tokenizer. */
void vllm_pages_tokenizer_info(struct http_call *call, const struct server_model *m);
/* The settings in force, under vLLM's names: of the first model as one text, or with
 * ?config_format=json as objects; of the others in the list `models`. */
void vllm_pages_server_info(struct http_call *call, const struct server_model *const *models,
                            uint32_t n);

/* What a router has to know of one model: its name, and the blocks that prefixes are shared in. */
void vllm_pages_get_server_info(struct http_call *call, const struct server_model *m);
/* The ZeroMQ sockets that publish what a model's prefix cache holds, by the data-parallel rank, of
 * which there is one: {"0":{"endpoint":…,"topic":…,…}}, or {}. */
void vllm_pages_kv_event_sources(struct http_call *call, const struct server_model *m);

#endif
