/* server/models/model_set.h - the served models: keeps their states, and loads and unloads them.
 *
 * A model is unloaded, loading, ready, unloading or failed. A call for one that is not ready waits
 * (model_waits.h), if its setting `load` lets requests load it; model_choice.h decides which one is
 * loaded next and which one is unloaded. Files are read, weights packed and engines ended on the
 * threads of a pool, through the callbacks of struct server_loader. A model is unloaded when
 * nothing uses it: calls that arrive while it ends its requests wait until it is loaded again, so
 * that no call fails.
 *
 * A model whose file cannot be loaded has failed: its calls get a 503 with the reason, and it is
 * tried again only when the file has changed, which is checked at most once in a second, or when
 * model_set_load() asks for it.
 *
 * Thread: the loop's.
 * Memory: the threads of the pool, and a job for each model.
 */
#ifndef SERVER_MODELS_MODEL_SET_H
#define SERVER_MODELS_MODEL_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "server/models/served_model.h"

#define MODEL_SET_THREADS 2 /* one thread can look at files while the other loads */

struct api_error;
struct body_scan;
struct http_call;
struct worker_pool;

struct model_set_options {
    uv_loop_t *loop;
    struct served_model *models; /* [n]; borrowed, like loader and pool */
    uint32_t n;
    const struct server_loader *loader;
    struct worker_pool *pool;
    struct model_memory memory;
};

struct model_set_job;

struct model_set {
    struct model_set_options opt;
    struct model_set_job *jobs; /* [n] */
    uint32_t n_running;         /* jobs that are running */
    uv_timer_t timer;
    bool is_closed, has_timer;
    bool is_stale; /* something has changed since the last choice */
};

/* Every model is unloaded at first. ERR_NOMEM. */
int model_set_open(struct model_set *s, const struct model_set_options *options);
void model_set_close(struct model_set *s); /* called after the loop has ended, when no job runs */

/* Called when model h has been attached to its engine (served_model_attach()): its calls begin. */
void model_set_ready(struct model_set *s, struct served_model *h);

/* Start processing a call: now, or when the model is loaded. */
void model_set_start(struct model_set *s, struct served_model *h, struct http_call *call,
                     const struct wire_format *wire_format, const struct body_scan *scan);
/* True: the model is loaded; false: it is not, and the call has been answered. For pages about
 * loaded models. */
bool model_set_check_ready(struct model_set *s, struct served_model *h, struct http_call *call);

/* Load or unload a model on an operator's request. 0; ERR_INVAL with *e: the model is loaded, or
 * unloaded, already, or it must stay. */
int model_set_load(struct model_set *s, struct served_model *h, struct api_error *e);
int model_set_unload(struct model_set *s, struct served_model *h, struct api_error *e);

/* Called after the settings were read again, before model_set_pump(). _add: a model was added after
 * the others (served_model_open()). _change: settings of h->model that need no new load have
 * changed; with `reloads` others have too, which server_loader.unloaded() puts in force when
 * nothing uses the model. _remove: the model is no longer served. */
void model_set_add(struct model_set *s, struct served_model *h);
void model_set_change(struct model_set *s, struct served_model *h, bool reloads);
void model_set_remove(struct model_set *s, struct served_model *h);

/* Take all steps that are possible now. Called when something may have changed. */
void model_set_pump(struct model_set *s);

/* Write the model's present state into h->model.state and the fields after it. */
void model_set_tell(struct served_model *h);
/* Estimate the milliseconds until the model may be loaded, for Retry-After. */
uint32_t model_set_wait_ms(const struct model_set *s, const struct served_model *h);

/* Accept no more calls, and refuse those that wait. */
void model_set_drain(struct model_set *s);
/* True: a pool thread works on a model, so that nothing of the models may be freed. */
bool model_set_is_working(const struct model_set *s);
/* True: a pool thread loads or unloads model i (a look at its files does not count). */
bool model_set_is_changing(const struct model_set *s, uint32_t i);
/* Close the timer. */
void model_set_stop(struct model_set *s);

#endif
