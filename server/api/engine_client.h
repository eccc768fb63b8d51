/* server/api/engine_client.h - everything that is on its way through the engine of one model.
 *
 * The desk hands requests to the queue, remembers by id which part of whose work each of them is,
 * and takes events back to it. It knows how full the queue is and how fast it moves, and so what
 * to tell a client that has to come back later, and when a request's turn would be.
 *
 * Beside requests there are questions (dry runs): they have places of their own, so that asking
 * works when the queue is full.
 *
 * Thread: the loop's.
 * Memory: one slot for each request or question that may be outstanding, taken in desk_create().
 */
#ifndef SERVER_API_ENGINE_CLIENT_H
#define SERVER_API_ENGINE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/buf.h"
#include "scheduler/forecast.h"
#include "scheduler/queue.h"
#include "server/admin/metrics.h"
#include "server/http/error.h"
#include "server/server.h"

struct http_call;
struct request_memory;
struct tenants;
struct worker_pool;

/* Whoever posts: embedded in it, and alive until its last EVENT_END has come. */
struct desk_client {
    void (*event)(struct desk_client *c, uint32_t part, const struct event *e);
    const char *request_id; /* X-Request-Id */
};

struct desk {                           /* open to those who post, which are its other half */
    const struct server_options *house; /* borrowed, as what follows */
    const struct server_model *model;   /* not all of it is known before desk_attach() */
    uv_loop_t *loop;
    struct metrics *metrics;
    struct tenants *tenants; /* of the house, as the pools: they are the same at all desks */
    struct worker_pool *text_pool;       /* prepares requests: templates and tokens */
    struct worker_pool *constraint_pool; /* the same for requests with a schema or a grammar */
    struct request_memory *memory;       /* what requests hold outside the KV cache */
    struct queue *queue; /* attached later, as is http */
    bool is_draining;
    bool is_stopping;       /* the second signal came: cancellations are ours */
    uint32_t n_jobs; /* alive, also those whose client has gone */
    struct desk_private *priv;
    struct buf scratch, frame; /* emptied and used by whoever works */
};

struct desk_options { /* see struct desk */
    const struct server_options *house;
    const struct server_model *model;
    uv_loop_t *loop;
    struct metrics *metrics;
    struct tenants *tenants;
    struct worker_pool *text_pool, *constraint_pool;
    struct request_memory *memory;
};

int desk_create(struct desk **out, const struct desk_options *options);
void desk_attach(struct desk *d, struct queue *q);
void desk_destroy(struct desk **d);

/* Take every event that waits and hand it on. */
void desk_take_events(struct desk *d);

/* Refuse from now on; with `now` what runs is cancelled as well. */
void desk_close(struct desk *d, bool now);

/* May n more requests (or questions) come in? 0, or a negative ERR_* with *e filled. */
int desk_check_room(struct desk *d, uint32_t n, struct api_error *e);
int desk_check_dry_room(struct desk *d, uint32_t n, struct api_error *e);

/* The headers that belong to a refusal of status 429 or 503 for n requests. */
void desk_set_retry_headers(struct desk *d, struct http_call *call, int status, uint32_t n);
/* The same when the time is known. */
void desk_say_when(struct http_call *call, uint32_t ms);

/* The place in the queue of a request that arrives now: 1 is the next; 0: it need not wait. */
uint32_t desk_position(struct desk *d, enum priority p);
/* The same when the engine has said how many of those it has waiting would go first, and n_more
 * are still to be posted before. */
uint32_t desk_position_behind(struct desk *d, uint32_t n_ahead, uint32_t n_more);

/* When the turn of such a request would come; n_cached of its prompt's tokens are there, and those
 * of `ahead` other prompt tokens go first beside what the desk knows. */
struct forecast desk_forecast(struct desk *d, const struct request *r, uint32_t n_cached,
                              uint64_t ahead);
/* The same with nobody else there. */
struct forecast desk_forecast_idle(struct desk *d, const struct request *r, uint32_t n_cached);

/* Post a request, or a dry run, after there was room for it; returns the id it got. */
uint64_t desk_post(struct desk *d, struct request *r /* takes */, struct desk_client *client,
                   uint32_t part);
void desk_cancel(struct desk *d, uint64_t id);

/* X-Request-Id of the HTTP request that a request is part of, or NULL. */
const char *desk_request_id(struct desk *d, uint64_t id);

#endif
