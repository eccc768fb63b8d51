/* server/model_router.h - to which of the served models a call goes.
 *
 * A body says so in its member "model", any call in ?model=NAME; who says nothing, or "default",
 * gets the first model. Names are a model's own, then its aliases, then its adapters, then the
 * aliases' patterns, then all of these without Ollama's tag ":latest". The body is parsed
 * afterwards, for a model, with its tokenizer and its limits, perhaps on another thread;
 * body_scan() has found the name in its text. A value that is no name, and a body that is no JSON,
 * are left to the parser.
 *
 * Thread: the loop's.
 */
#ifndef SERVER_MODEL_ROUTER_H
#define SERVER_MODEL_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct body_scan;
struct served_model;
struct http_call;

/* The model of that name among the n, or the one whose adapter has it; or NULL. */
struct served_model *model_router_find(struct served_model *all, uint32_t n, const char *name);
/* Is it the name of a model, or an alias that is no pattern? No adapter may have it. */
bool model_router_has_model(struct served_model *all, uint32_t n, const char *name);

/* The model that ?model= asks for, or the first. NULL: there is none of that name, and the call has
 * been answered. */
struct served_model *model_router_by_query(struct served_model *all, uint32_t n,
                                           struct http_call *call);
/* The same, but that a name in the call's body comes first. */
struct served_model *model_router_by_body(struct served_model *all, uint32_t n,
                                          struct http_call *call, const struct body_scan *scan);

/* Answer a call for a model that is not served. */
void model_router_refuse(struct http_call *call, const char *name);

#endif
