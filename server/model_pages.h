/* server/model_pages.h - what operators do to models, and see of them: POST /models/load and
 * /models/unload, as the router of llama-server has them, and GET /debug/models.
 *
 * Both are answered at once: what they begin is told by /v1/models. An unload waits for the
 * requests that run.
 *
 * Thread: the loop's.
 * Memory: the reply only.
 */
#ifndef SERVER_MODEL_PAGES_H
#define SERVER_MODEL_PAGES_H

#include "server/model_set.h"

struct http_call;

void model_pages_load(struct model_set *s, struct http_call *call);
void model_pages_unload(struct model_set *s, struct http_call *call);
void model_pages_debug(struct model_set *s, struct http_call *call);

#endif
