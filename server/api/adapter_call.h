/* server/api/adapter_call.h - the endpoints of LoRA adapters: vLLM's to load and unload one by its
 * name, llama-server's to list them and to choose the adapter of requests that name none.
 *
 * A load is answered when its file has been read, and cancelled when its client disconnects. Once
 * it is answered, requests can use the name. Running requests are not disturbed: they keep their
 * adapter when its name is unloaded or given to another file.
 *
 * Source: vLLM, docs/features/lora.md, "Dynamically serving LoRA Adapters"; llama.cpp,
 * tools/server/README.md, "GET /lora-adapters" and "POST /lora-adapters".
 *
 * Thread: the loop's.
 * Memory: a load holds the name and the path; the numbers are the adapter set's.
 */
#ifndef SERVER_API_ADAPTER_CALL_H
#define SERVER_API_ADAPTER_CALL_H

#include <stdbool.h>

struct engine_client;
struct http_call;

/* POST /v1/load_lora_adapter {"lora_name","lora_path","load_inplace"}; is_taken: returns true if a
 * served model has that name. */
void adapter_call_load(struct engine_client *engine, struct http_call *call,
                       bool (*is_taken)(void *ud, const char *name), void *ud);
/* POST /v1/unload_lora_adapter {"lora_name"} */
void adapter_call_unload(struct engine_client *engine, struct http_call *call);
/* GET and POST /lora-adapters */
void adapter_call_list(struct engine_client *engine, struct http_call *call);

#endif
