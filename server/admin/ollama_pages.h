/* server/admin/ollama_pages.h - the pages of Ollama's server besides its API: lists of models, the
 * details of a model, and refusals.
 *
 * Names without a tag get ":latest", as Ollama's do. Nothing is downloaded, created or deleted
 * here: the models are those of the settings.
 *
 * Thread: the loop's; each but ollama_show is answered within its handler.
 * Memory: the reply only.
 * Source: Ollama, docs/api.md and api/types.go.
 */
#ifndef SERVER_ADMIN_OLLAMA_PAGES_H
#define SERVER_ADMIN_OLLAMA_PAGES_H

#include <stdint.h>

struct http_call;
struct server_model;
struct wire_format;

/* Answer /api/tags: all models; /api/ps: those in memory, and when they will be unloaded. */
void ollama_pages_tags(struct http_call *call, const struct server_model *const *models,
                       uint32_t n);
void ollama_pages_ps(struct http_call *call, const struct server_model *const *models, uint32_t n);
/* The version of Ollama's API that these formats belong to: clients use it to know which fields
 * they may send. */
void ollama_pages_version(struct http_call *call);
/* Answer "Ollama is running", which clients expect at /. */
void ollama_pages_running(struct http_call *call);
/* Refuse pull, push, create, copy and delete. */
void ollama_pages_refuse(struct http_call *call);

/* Answer /api/show: its body names the model. */
extern const struct wire_format wire_ollama_show;

#endif
