/* server/models/model_router.h - finds the served model that a call is for.
 *
 * A body names it in its member "model", any call in ?model=NAME; a call that names none, or
 * "default", gets the first model. A name is compared with the models' own names, then with their
 * aliases, then their adapters, then the aliases' patterns, then with all of these again without
 * Ollama's tag ":latest". The body is parsed later, with the model's tokenizer and limits and
 * perhaps on another thread; body_scan() has found the name in its text. The parser reports a value
 * that is not a name and a body that is not JSON.
 *
 * Thread: the loop's.
 */
#ifndef SERVER_MODELS_MODEL_ROUTER_H
#define SERVER_MODELS_MODEL_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct body_scan;
struct served_model;
struct http_call;

/* Return the model among the n that has that name, or an adapter with it; or NULL. */
struct served_model *model_router_find(struct served_model *all, uint32_t n, const char *name);
/* True: `name` is the name of a model, or an alias that is not a pattern. No adapter may have
 * it. */
bool model_router_has_model(struct served_model *all, uint32_t n, const char *name);

/* Return the model that ?model= names, or the first. NULL: no model has that name, and the call has
 * been answered. */
struct served_model *model_router_by_query(struct served_model *all, uint32_t n,
                                           struct http_call *call);
/* Return the model that the call's body names; if it names none, that of
 * model_router_by_query(). */
struct served_model *model_router_by_body(struct served_model *all, uint32_t n,
                                          struct http_call *call, const struct body_scan *scan);

/* Answer a call for a model that is not served. */
void model_router_refuse(struct http_call *call, const char *name);

#endif
