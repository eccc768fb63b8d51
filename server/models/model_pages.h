/* server/models/model_pages.h - operators' pages about models: POST /models/load and
 * /models/unload, as in llama-server's router mode, and GET /debug/models.
 *
 * A load or an unload is answered at once; /v1/models shows its progress. An unload waits until the
 * model's running requests have ended.
 *
 * Thread: the loop's.
 * Memory: the reply only.
 */
#ifndef SERVER_MODELS_MODEL_PAGES_H
#define SERVER_MODELS_MODEL_PAGES_H

#include "server/models/model_set.h"

struct http_call;

void model_pages_load(struct model_set *s, struct http_call *call);
void model_pages_unload(struct model_set *s, struct http_call *call);
void model_pages_debug(struct model_set *s, struct http_call *call);

#endif
