/* server/server_impl.h - struct server and functions shared by the files of the server; private to
 * them.
 *
 * Thread: the loop's.
 */
#ifndef SERVER_SERVER_IMPL_H
#define SERVER_SERVER_IMPL_H

#include <stdatomic.h>
#include <uv.h>

#include "server/api/body_job.h"
#include "server/api/completion/stream_pings.h"
#include "server/api/request_memory.h"
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
    struct worker_pool *storage;    /* the storage thread; see server/storage/README.md */
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
    struct batch_store *batch_store;   /* or NULL, as the next */
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
    struct http_sockets sockets; /* sockets that were open before this process */
    bool sockets_stay;           /* `sockets` belong to systemd, and stay open for the next
                                  * process */
    struct handover handover;
    bool has_handover; /* `handover` is open */
    bool is_handed;    /* another process has the sockets */
    bool is_draining;
    uint64_t start_us;
    uint64_t drain_us; /* time at which the drain began; 0 before */
    uint64_t stopped_us; /* time at which all requests were cancelled; 0 before */
    uint64_t answered_us; /* time at which all requests had ended and clients still had to read
                           * answers; or 0 */
    uint64_t over_us; /* time from which on only reads of adapters without waits were left; or 0 */
    bool has_loop;
    bool has_served; /* the models were loaded: event=ready was logged */
    bool has_abandoned_load, has_abandoned_read; /* work of another thread still runs when the
                                                  * server ends */
};

/* ---- server_batches.c ---- */

/* Open the batches if the settings have them; an error has a sentence. */
int server_open_batches(struct server *s, char *err, size_t err_len);
/* Start the batches; called when the server accepts requests. */
void server_run_batches(struct server *s);
void server_stop_batches(struct server *s);
void server_close_batches(struct server *s);

/* ---- server_requests.c ---- */

/* Open requests_db if the settings have it; called after the streams are open. An error has a
 * sentence. */
int server_open_requests(struct server *s, char *err, size_t err_len);
/* Restart the requests of an earlier process; called when the server accepts requests. */
void server_run_requests(struct server *s);
/* Put off kept requests, so that the process need not wait for them; the next process continues
 * them. */
void server_put_off_requests(struct server *s);
void server_stop_requests(struct server *s);
void server_close_requests(struct server *s);

/* ---- server_handover.c ---- */

/* Take sockets that another process has opened, before http_create(). 0, or a negative ERR_* with a
 * sentence. */
int server_take_sockets(struct server *s, char *err, size_t err_len);
/* True: an old process serves until this one is ready. */
bool server_takes_over(const struct server *s);
/* Accept clients from now on; the old process no longer does. */
void server_serve(struct server *s);
void server_end_handover(struct server *s);
/* True: a new process serves, and this one's last client has disconnected. */
bool server_has_handed_over(const struct server *s);
/* True: drain_ms are over, and requests still run. */
bool server_drain_is_over(const struct server *s);
/* server.c: stop as after a signal. */
void server_stop(struct server *s, const char *why);
/* server.c: start the timer that checks if the server can end. */
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
/* Count the tokens that the owners of new keys have used before against their quotas. */
void server_recall_keys(struct server *s);
void server_log_reload(const char *what, int rc, const char *err);

/* All routes in the order of routes.inc; the handlers' `ud` is the server. */
const struct http_route *server_routes(size_t *n);

#endif
