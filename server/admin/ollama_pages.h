/* server/admin/ollama_pages.h - the pages that Ollama's server has beside the API: which models
 * there are, what one is, and what is refused.
 *
 * Names end in ":latest" where a model's own has no tag, as Ollama's do. Nothing is downloaded,
 * made or deleted here: the models are those of the settings.
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

/* /api/tags: all models; /api/ps: those in memory, and when they leave. */
void ollama_pages_tags(struct http_call *call, const struct server_model *const *models,
                       uint32_t n);
void ollama_pages_ps(struct http_call *call, const struct server_model *const *models, uint32_t n);
/* The version of Ollama's API whose shapes these are: clients ask for it to know what they may
 * send. */
void ollama_pages_version(struct http_call *call);
/* "Ollama is running", which clients look for at /. */
void ollama_pages_running(struct http_call *call);
/* Pull, push, create, copy and delete. */
void ollama_pages_refuse(struct http_call *call);

/* /api/show: its body names the model. */
extern const struct wire_format wire_ollama_show;

#endif
