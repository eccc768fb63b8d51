/* server/desk.h - everything that is on its way through the engine.
 *
 * The desk hands requests to the queue, remembers by id which choice of which completion each of
 * them is, and takes events back to it. It knows how full the queue is and how fast it moves, and
 * so what to tell a client that has to come back later.
 *
 * Thread: the loop's.
 * Memory: one slot for each request that may be outstanding, taken in desk_create().
 */
#ifndef SERVER_DESK_H
#define SERVER_DESK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/buf.h"
#include "scheduler/queue.h"
#include "server/error.h"
#include "server/metrics.h"
#include "server/server.h"

struct completion;
struct http;
struct http_call;

struct desk {                         /* open to completion.c, which is its other half */
    const struct server_options *opt; /* borrowed */
    uv_loop_t *loop;
    struct metrics *metrics;
    struct queue *queue; /* attached later, as is http */
    struct http *http;
    bool is_draining;
    bool is_stopping;       /* the second signal came: cancellations are ours */
    uint32_t n_completions; /* alive, also those whose client has gone */
    struct desk_private *priv;
    struct buf scratch, frame; /* emptied and used by whoever works */
};

int desk_create(struct desk **out, const struct server_options *options, uv_loop_t *loop,
                struct metrics *metrics);
void desk_attach(struct desk *d, struct queue *q);
void desk_destroy(struct desk **d);

/* Take every event that waits and hand it on. */
void desk_take_events(struct desk *d);

/* Refuse from now on; with `now` what runs is cancelled as well. */
void desk_close(struct desk *d, bool now);

/* May n more requests come in? 0, or a negative ERR_* with *e filled. */
int desk_check_room(struct desk *d, uint32_t n, struct api_error *e);

/* The headers that belong to a refusal of status 429 or 503 for n requests. */
void desk_set_retry_headers(struct desk *d, struct http_call *call, int status, uint32_t n);

/* Requests that will go before one that arrives now with this priority. */
uint32_t desk_position(struct desk *d, enum priority p);

/* Post a request after desk_check_room() for it; returns the id it got. */
uint64_t desk_post(struct desk *d, struct request *r /* takes */, struct completion *owner,
                   uint32_t choice);
void desk_cancel(struct desk *d, uint64_t id);

#endif
