/* server/model_set.h - the served models: which are in memory, and how they come and go.
 *
 * A model is unloaded, loading, ready, unloading or failed. A call for one that is not ready waits
 * (model_waits.h), if its setting `load` lets requests load it; model_choice.h says which one is
 * loaded next and which leaves. Files are read, weights packed and engines ended on the threads of
 * a pool, through the callbacks of struct server_loader. A model is unloaded when nothing uses it:
 * calls that come while it ends its requests wait until it is there again, so that none is lost.
 *
 * One whose file cannot be loaded has failed: its calls get a 503 with the reason, and it is tried
 * again only when the file has changed, which is looked up at most once in a second, or when it is
 * asked for by model_set_load().
 *
 * Thread: the loop's.
 * Memory: the threads of the pool, and a job for each model.
 */
#ifndef SERVER_MODEL_SET_H
#define SERVER_MODEL_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "server/served_model.h"

#define MODEL_SET_THREADS 2 /* one looks at files while the other loads */

struct api_error;
struct body_scan;
struct http_call;
struct worker_pool;

struct model_set_options {
    uv_loop_t *loop;
    struct served_model *models; /* [n]; borrowed, as what follows */
    uint32_t n;
    const struct server_loader *loader;
    struct worker_pool *pool;
    struct model_memory memory;
};

struct model_set_job;

struct model_set {
    struct model_set_options opt;
    struct model_set_job *jobs; /* [n] */
    uint32_t n_running;         /* of them */
    uv_timer_t timer;
    bool is_closed, has_timer;
    bool is_stale; /* something has changed since the last choice */
};

/* All models are unloaded. ERR_NOMEM. */
int model_set_open(struct model_set *s, const struct model_set_options *options);
void model_set_close(struct model_set *s); /* the loop has run out, and no job runs */

/* Model h has been attached to its engine (served_model_attach()): calls begin. */
void model_set_ready(struct model_set *s, struct served_model *h);

/* Do this with the body of a call: now, or when the model is there. */
void model_set_start(struct model_set *s, struct served_model *h, struct http_call *call,
                     const struct model_work *work, const struct body_scan *scan);
/* Is it there? If not, the call has been answered. For pages about what is loaded. */
bool model_set_check_ready(struct model_set *s, struct served_model *h, struct http_call *call);

/* The operator's wishes. 0; ERR_INVAL with *e: it is there, or not there, already, or it stays. */
int model_set_load(struct model_set *s, struct served_model *h, struct api_error *e);
int model_set_unload(struct model_set *s, struct served_model *h, struct api_error *e);

/* The settings were read again; model_set_pump() follows. A model has been added behind the others
 * (served_model_open()); what is in force of it without a new load, h->model, has changed, and with
 * `reloads` more has, which server_loader.unloaded() puts in force when nothing uses the model;
 * or it is served no longer. */
void model_set_add(struct model_set *s, struct served_model *h);
void model_set_change(struct model_set *s, struct served_model *h, bool reloads);
void model_set_remove(struct model_set *s, struct served_model *h);

/* Something may have changed: do what can be done now. */
void model_set_pump(struct model_set *s);

/* What is so now, in h->model.state and what follows there. */
void model_set_tell(struct served_model *h);
/* How many milliseconds until the model may be there; for Retry-After. */
uint32_t model_set_wait_ms(const struct model_set *s, const struct served_model *h);

/* No call is taken any more, and those that wait are refused. */
void model_set_drain(struct model_set *s);
/* A thread works on a model: nothing of that may be freed. */
bool model_set_is_working(const struct model_set *s);
/* The same of model i, but for a look at its files. */
bool model_set_is_changing(const struct model_set *s, uint32_t i);
/* Give back the loop's handle. */
void model_set_stop(struct model_set *s);

#endif
