/* server/server_impl.h - private to the files of the server: struct server and what they share.
 *
 * Thread: the loop's.
 */
#ifndef SERVER_SERVER_IMPL_H
#define SERVER_SERVER_IMPL_H

#include <stdatomic.h>
#include <uv.h>

#include "server/api/body_job.h"
#include "server/api/request_memory.h"
#include "server/api/stream_pings.h"
#include "server/auth/auth.h"
#include "server/batches/batch_pages.h"
#include "server/http/http.h"
#include "server/metrics/metrics.h"
#include "server/models/model_set.h"
#include "server/process/loop_guard.h"
#include "server/process/worker_pool.h"
#include "server/storage/request_keeper.h"
#include "server/api/engine_client.h"
#include "server/models/served_model.h"
#include "server/server.h"

struct server {
    struct server_options opt;
    uv_loop_t loop;
    uv_async_t wake, stop;
    uint32_t n_pumps; /* calls of pump_models() */
    struct loop_guard guard;
    uv_signal_t on_hup, on_usr1;
    atomic_uint n_stops; /* signals to stop: set by the signal thread, read in on_stop() */
    atomic_int stop_number;
    struct worker_pool *text_pool, *constraint_pool, *adapter_pool, *answer_pool, *model_pool;
    struct response_keeper *keeper; /* or NULL */
    struct request_memory memory;
    struct body_jobs body_jobs;
    struct stream_store *streams; /* or NULL */
    struct request_keeper *requests;   /* or NULL, as the next */
    struct request_restorer *restorer;
    struct stream_pings pings;
    uv_timer_t tick;
    uv_work_t load;
    struct auth auth;
    struct keys *keys; /* or NULL */
    struct tls *tls;   /* or NULL */
    struct http *http;
    struct tenants *tenants;
    struct usage_ledger *usage;
    struct usage_keeper *usage_keeper; /* or NULL */
    struct batch_store *batch_store;   /* or NULL, as the next two */
    struct worker_pool *batch_pool;    /* of one thread */
    struct batch_runner *batch_runner;
    struct batch_pages batch_pages;
    struct metrics_server server_counts;
    struct served_model models[SERVER_MAX_MODELS]; /* [opt.n_models] */
    struct engine_shared shared;       /* for served_model_open() */
    struct worker_job reload;                /* reads the settings */
    bool is_reloading, reloads_again;        /* again: another signal came meanwhile */
    uv_work_t keys_work;                     /* reads the file of keys */
    struct keys_fresh *fresh_keys;
    bool is_reading_keys, reads_keys_again;
    int keys_rc;
    char keys_err[300];
    int reload_rc;
    char reload_err[512];
    struct model_set set;                    /* of `models` */
    struct http_sockets sockets; /* that were open before this process */
    bool sockets_stay;           /* and belong to systemd */
    struct handover handover;
    bool has_handover; /* `handover` is open */
    bool is_handed;    /* another process has the sockets */
    bool is_draining;
    uint64_t start_us;
    uint64_t drain_us; /* when the drain began; 0 before */
    uint64_t stopped_us; /* when all requests were cancelled; 0 before */
    uint64_t answered_us; /* when all requests had ended and clients still had to read answers; or
                           * 0 */
    uint64_t over_us; /* when only reads that nobody waits for were left; or 0 */
    bool has_loop;
    bool has_served; /* the models were loaded: event=ready was logged */
    bool has_abandoned_load, has_abandoned_read; /* another thread's work still runs */
};

/* ---- server_batches.c ---- */

/* Open what the settings ask for; an error has a sentence. */
int server_open_batches(struct server *s, char *err, size_t err_len);
int server_start_batches(struct server *s);
/* The server accepts requests: start the batches. */
void server_run_batches(struct server *s);
void server_stop_batches(struct server *s);
void server_close_batches(struct server *s);

/* ---- server_requests.c ---- */

/* Open what the settings ask for, after the streams; an error has a sentence. */
int server_open_requests(struct server *s, char *err, size_t err_len);
int server_start_requests(struct server *s);
/* The server accepts requests: requests of an earlier process start. */
void server_run_requests(struct server *s);
/* Let the end of the process not wait for kept requests; the next process continues them. */
void server_put_off_requests(struct server *s);
void server_stop_requests(struct server *s);
void server_close_requests(struct server *s);

/* ---- server_handover.c ---- */

/* Take sockets that another process has opened, before http_create(). 0, or a negative ERR_* with a
 * sentence. */
int server_take_sockets(struct server *s, char *err, size_t err_len);
/* Whether an old process serves until this one is ready. */
bool server_takes_over(const struct server *s);
/* Accept clients from now on; the old process no longer does. */
void server_serve(struct server *s);
void server_end_handover(struct server *s);
/* A new process serves, and this one's last client has disconnected. */
bool server_has_handed_over(const struct server *s);
/* drain_ms are over, and something still runs. */
bool server_drain_is_over(const struct server *s);
/* server.c: end as after a signal. */
void server_stop(struct server *s, const char *why);
/* server.c: check again and again whether all is over. */
void server_begin_ticks(struct server *s);

/* ---- server_metrics.c ---- */

/* Answer GET /metrics. */
void server_tell_metrics(struct server *s, struct http_call *call);

/* ---- server_usage.c ---- */

/* Answer GET /v1/usage. */
void server_tell_usage(struct server *s, struct http_call *call);

/* ---- server_reload.c ---- */

/* Read the settings again, on a pool thread. */
void server_begin_reload(struct server *s);
/* Read the file of keys again; it must be set. */
void server_reload_keys(struct server *s);
/* Count what the owners of new keys have used before against their quotas. */
void server_recall_keys(struct server *s);
void server_log_reload(const char *what, int rc, const char *err);

/* All routes in the order of routes.inc; the handlers' `ud` is the server. */
const struct http_route *server_routes(size_t *n);

#endif
