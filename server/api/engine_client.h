/* server/api/engine_client.h - the I/O thread's side of one model's engine: requests in, events
 * out.
 *
 * It posts requests to the queue, remembers by id which completion or probe each belongs to, and
 * hands that one its events. From the engine's statistics and what it has posted since, it tells a
 * request's position in the queue, when it would run, and when a refused client may come again.
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

/* The poster of requests, who gets their events: embedded in a completion or a probe, which lives
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
    struct request_memory *memory; /* of requests, outside the KV cache */
};

struct engine_client { /* read by completions and endpoints */
    const struct engine_shared *shared;
    const struct server_model *model; /* borrowed; complete after engine_client_attach() */
    struct metrics *metrics;          /* the model's, borrowed */
    struct slots *slots;              /* the model's, borrowed */
    struct hash_index completions;    /* struct completion, by tenant and id of the answer */
    struct list adapter_waits;        /* struct api_call: their adapters are being read */
    uv_timer_t expiry;                /* runs while there are any, and ends those that are late */
    struct queue *queue;              /* NULL until it is attached */
    bool is_draining;
    bool is_stopping;       /* the second signal came: the server itself cancels requests */
    uint32_t n_jobs;        /* calls that exist, also those whose client has gone */
    uint64_t used_us;       /* when the last call ended, clock_us() */
    void (*idle)(void *ud); /* NULL, or called when n_jobs becomes 0; it may free nothing */
    void *idle_ud;
    struct engine_client_private *priv;
    /* For the one call that the loop works on; empty between calls. */
    struct buf scratch, frame, numbered;
};

/* `model`, `metrics` and `slots` are borrowed until engine_client_destroy(). ERR_NOMEM. */
int engine_client_create(struct engine_client **out, const struct engine_shared *shared,
                         const struct server_model *model, struct metrics *metrics,
                         struct slots *slots);
void engine_client_attach(struct engine_client *engine, struct queue *q);
/* The queue is there no longer: nothing is outstanding, and there are no jobs. */
void engine_client_detach(struct engine_client *engine);
void engine_client_destroy(struct engine_client **d);

/* A call's work with the model, its tokenizer and what else is loaded, from its beginning on the
 * I/O thread to its end there. */
void engine_client_begin_job(struct engine_client *engine);
void engine_client_end_job(struct engine_client *engine);

/* Take the events that wait and hand them on: all, or as many as a callback of the loop may take
 * (loop_guard.h). True: others may wait, and the caller calls again in the loop's next turn. */
bool engine_client_take_events(struct engine_client *engine);

/* Refuse from now on; with `now` what runs is cancelled as well. */
void engine_client_close(struct engine_client *engine, bool now);

/* May n more requests (or questions) come in? 0, or a negative ERR_* with *e filled. */
int engine_client_check_room(struct engine_client *engine, uint32_t n, struct api_error *e);
/* How many more may come in now. */
uint32_t engine_client_room(const struct engine_client *engine);
int engine_client_check_dry_room(struct engine_client *engine, uint32_t n, struct api_error *e);

/* Milliseconds until n requests that a 429 or 503 turned away may come again; 0 for any other
 * status. */
uint32_t engine_client_retry_ms(struct engine_client *engine, int status, uint32_t n);

/* The position in the queue of a request that arrives now: 1 is the next; 0: it need not wait. */
uint32_t engine_client_position(struct engine_client *engine, enum priority p);
/* The position behind n_ahead requests that the engine has waiting and n_more that are posted
 * before. */
uint32_t engine_client_position_behind(struct engine_client *engine, uint32_t n_ahead,
                                       uint32_t n_more);

/* When the turn of such a request would come; n_cached of its prompt's tokens are there, and those
 * of `ahead` other prompt tokens go first beside what the engine client knows. */
struct forecast engine_client_forecast(struct engine_client *engine, const struct request *r,
                                       uint32_t n_cached, uint64_t ahead);
/* engine_client_forecast() on an idle engine. */
struct forecast engine_client_forecast_idle(struct engine_client *engine, const struct request *r,
                                            uint32_t n_cached);
/* Microseconds until a prompt of one token that arrives now would have its first; 0: unknown. */
uint64_t engine_client_forecast_least_us(struct engine_client *engine);

/* Give a request, or a dry run, that there was room for its id, and its events to part `part` of
 * the client. Then all that were given one are posted: the engine gets them together. */
uint64_t engine_client_register(struct engine_client *engine, struct request *r,
                                struct engine_caller *client, uint32_t part);
void engine_client_post(struct engine_client *engine, struct request **r /* takes, sets NULL */,
                        uint32_t n);
void engine_client_cancel(struct engine_client *engine, uint64_t id);
/* At most once for each request. */
void engine_client_end_thought(struct engine_client *engine, uint64_t id);

/* X-Request-Id of the HTTP request that a request is part of, or NULL. */
const char *engine_client_request_id(struct engine_client *engine, uint64_t id);

/* ---- probes: what would the prompts of a call find? One dry run for each ---- */

struct engine_probe { /* zero but for `done` and client.request_id, which are filled in */
    struct engine_caller client;
    uint32_t n, n_open;        /* questions, and of them without an answer */
    bool is_failed;            /* at shutdown: not all were answered */
    struct event_probe *found; /* [n] */
    void (*done)(struct engine_probe *p);
};

/* Post a question for each of like[0], like[step] … (n in all) after engine_client_check_dry_room()
 * for them; `done` is called when all are answered. 0, or ERR_NOMEM. */
int engine_probe_start(struct engine_probe *p, struct engine_client *engine,
                       struct request *const *like, uint32_t n, uint32_t step);
void engine_probe_release(struct engine_probe *p); /* when nothing is open */

#endif
