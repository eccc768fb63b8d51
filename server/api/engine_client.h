/* server/api/engine_client.h - the I/O thread's side of one model's engine: requests in, events
 * out.
 *
 * It posts requests to the queue, remembers by id which completion or probe each belongs to, and
 * passes it its events. From the engine's statistics and the requests posted since, it computes a
 * request's position in the queue, when it would run, and when a refused client may retry.
 *
 * Dry runs (questions) have slots of their own, so that asking works when the queue is full.
 *
 * Thread: the loop's.
 * Memory: one slot for each request or question that may be outstanding, taken in
 * engine_client_create().
 */
#ifndef SERVER_API_ENGINE_CLIENT_H
#define SERVER_API_ENGINE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/buf.h"
#include "core/base/hash_index.h"
#include "core/base/list.h"
#include "scheduler/forecast.h"
#include "scheduler/queue.h"
#include "server/api/server_options.h"
#include "server/http/error.h"
#include "server/metrics/metrics.h"

struct request_memory;
struct tenants;
struct usage_ledger;
struct request_keeper;
struct response_keeper;
struct slots;
struct stream_pings;
struct stream_store;
struct worker_pool;

/* The part of a completion or probe to which the events of its requests are passed. It must live
 * until the last EVENT_END has come. */
struct engine_caller {
    void (*event)(struct engine_caller *c, uint32_t part, const struct event *e);
    const char *request_id; /* X-Request-Id */
};

/* Parts of the server that all its models share; borrowed, and set before the first model opens. */
struct engine_shared {
    const struct server_options *options;
    uv_loop_t *loop;
    struct tenants *tenants;
    struct usage_ledger *usage;
    struct worker_pool *text_pool;       /* parses requests: templates and tokens */
    struct worker_pool *constraint_pool; /* parses requests with a schema or a grammar */
    struct worker_pool *answer_pool;     /* renders large answers */
    struct response_keeper *keeper;      /* NULL: responses are not kept */
    struct stream_store *streams;        /* NULL: streams are not kept */
    struct request_keeper *requests;     /* NULL: requests do not outlive the process */
    struct stream_pings *pings;
    struct request_memory *memory; /* memory of requests outside the KV cache */
};

struct engine_client { /* completions and endpoints read its members */
    const struct engine_shared *shared;
    const struct server_model *model; /* borrowed; complete after engine_client_attach() */
    struct metrics *metrics;          /* the model's, borrowed */
    struct slots *slots;              /* the model's, borrowed */
    struct hash_index completions;    /* struct completion, by tenant and id of the answer */
    struct list adapter_waits;        /* struct api_call whose adapters are being read */
    uv_timer_t expiry;                /* runs while adapter_waits is not empty, and ends the calls
                                       * whose time is over */
    struct queue *queue;              /* NULL until it is attached */
    bool is_draining;
    bool is_stopping;       /* the second signal to stop came: the server cancels requests */
    uint32_t n_jobs;        /* calls that exist, also those whose client has disconnected */
    uint64_t used_us;       /* clock_us() at which the last call ended */
    void (*idle)(void *ud); /* called when n_jobs becomes 0; it must not free the client; or NULL */
    void *idle_ud;
    struct engine_client_private *priv;
    /* Buffers of the call that is being processed; empty between calls. */
    struct buf scratch, frame, numbered;
};

/* `model`, `metrics` and `slots` are borrowed until engine_client_destroy(). ERR_NOMEM. */
int engine_client_create(struct engine_client **out, const struct engine_shared *shared,
                         const struct server_model *model, struct metrics *metrics,
                         struct slots *slots);
void engine_client_attach(struct engine_client *engine, struct queue *q);
/* Forget the queue, which is to be freed: no request is outstanding, and no job exists. */
void engine_client_detach(struct engine_client *engine);
void engine_client_destroy(struct engine_client **d);

/* Count a call that uses the loaded model or its tokenizer: begun and ended on the I/O thread.
 * While n_jobs is not 0 the model is not unloaded. */
void engine_client_begin_job(struct engine_client *engine);
void engine_client_end_job(struct engine_client *engine);

/* Take the waiting events and pass them to their callers: all, or as many as fit into a callback of
 * the loop (loop_guard.h). True: more may wait, and this is to be called again in the loop's next
 * turn. */
bool engine_client_take_events(struct engine_client *engine);

/* Refuse requests from now on; with `now` cancel those that run as well. */
void engine_client_close(struct engine_client *engine, bool now);

/* Check that n more requests (or questions) may be posted. 0, or a negative ERR_* with *e
 * filled. */
int engine_client_check_room(struct engine_client *engine, uint32_t n, struct api_error *e);
/* Return how many more requests may be posted now. */
uint32_t engine_client_room(const struct engine_client *engine);
int engine_client_check_dry_room(struct engine_client *engine, uint32_t n, struct api_error *e);

/* Return the milliseconds after which n requests that got a 429 or 503 may retry; 0 for any other
 * status. */
uint32_t engine_client_retry_ms(struct engine_client *engine, int status, uint32_t n);

/* Return the position in the queue of a request that arrives now: 1 is the next one; 0: it need not
 * wait. */
uint32_t engine_client_position(struct engine_client *engine, enum priority p);
/* Return the position of a request before which n_ahead waiting requests and n_more that are posted
 * first will run. */
uint32_t engine_client_position_behind(struct engine_client *engine, uint32_t n_ahead,
                                       uint32_t n_more);

/* Forecast the times of a request of which n_cached prompt tokens are cached, if `ahead` prompt
 * tokens are computed first in addition to the work that the engine client knows. */
struct forecast engine_client_forecast(struct engine_client *engine, const struct request *r,
                                       uint32_t n_cached, uint64_t ahead);
/* As engine_client_forecast(), for an idle engine. */
struct forecast engine_client_forecast_idle(struct engine_client *engine, const struct request *r,
                                            uint32_t n_cached);
/* Return the microseconds until a prompt of one token that arrives now would have its first token;
 * 0: unknown. */
uint64_t engine_client_forecast_least_us(struct engine_client *engine);

/* Give a request or dry run its id; room must have been checked. Its events are passed to part
 * `part` of the caller. Then engine_client_post() posts all registered ones: the engine gets them
 * together. */
uint64_t engine_client_register(struct engine_client *engine, struct request *r,
                                struct engine_caller *client, uint32_t part);
void engine_client_post(struct engine_client *engine, struct request **r /* takes the requests, sets
                                                                          * the pointers NULL */,
                        uint32_t n);
void engine_client_cancel(struct engine_client *engine, uint64_t id);
/* End the request's open thought; called at most once for each request. */
void engine_client_end_thought(struct engine_client *engine, uint64_t id);

/* Return the X-Request-Id of the HTTP request that a request belongs to, or NULL. */
const char *engine_client_request_id(struct engine_client *engine, uint64_t id);

/* ---- probes: one dry run for each prompt of a call ---- */

struct engine_probe { /* zero but for `done` and client.request_id, which are filled in */
    struct engine_caller client;
    uint32_t n, n_open;        /* number of questions, and of those without an answer */
    bool is_failed;            /* the server stopped before all were answered */
    struct event_probe *found; /* [n] */
    void (*done)(struct engine_probe *p);
};

/* Post a question for each of like[0], like[step] … (n in all) after engine_client_check_dry_room()
 * for them; `done` is called when all are answered. 0, or ERR_NOMEM. */
int engine_probe_start(struct engine_probe *p, struct engine_client *engine,
                       struct request *const *like, uint32_t n, uint32_t step);
void engine_probe_release(struct engine_probe *p); /* called when n_open is 0 */

#endif
