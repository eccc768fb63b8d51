/* server/server.c - see server.h: builds the parts, runs the loop, and ends in order.
 *
 * The start: the sockets are bound first. While a thread of the pool loads the models, calls are
 * answered with a 503 (auth.h).
 *
 * The end: the first signal to stop closes the engine clients, so that posts are refused and the
 * engines finish what they have. When the last completion and the last HTTP exchange are over, HTTP
 * stops, the handles close and the loop runs out.
 */
#include "server/server_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/hold.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/adapters/adapter_set.h"
#include "server/admin/anthropic_pages.h"
#include "server/api/engine_client.h"
#include "server/api/not_built.h"
#include "server/api/response/response_writer.h"
#include "server/auth/api_keys.h"
#include "server/auth/tenants.h"
#include "server/batches/batch_runner.h"
#include "server/http/limits.h"
#include "server/http/tls.h"
#include "server/process/loop_guard.h"
#include "server/process/worker_pool.h"
#include "server/storage/response_keeper.h"
#include "server/storage/slot_folder.h"
#include "server/storage/stream_store.h"
#include "server/storage/usage_keeper.h"
#include "server/storage/usage_ledger.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Seconds after which an idle connection is closed: such connections are kept for health checks,
 * metrics, keep-alive. */
#define IDLE_TIMEOUT_S 60
/* Descriptors that are opened later: files that are read for a moment (keys, certificates, /proc, a
 * log), and for each model its file and parts that are read one after the other, the file of packed
 * weights, swap, journal. */
#define OTHER_FDS 12
#define OTHER_FDS_PER_MODEL 4
/* Descriptors for a model's KV events: its sockets, ZeroMQ's wakeups of threads, some readers. */
#define KV_EVENT_FDS 32
/* Descriptors of batches: the database and its log, three files of each running batch, uploads. */
#define BATCH_FDS 96
/* While draining: the interval of the checks for the end, and, after the second signal, the time
 * that clients get to read their last bytes. */
#define DRAIN_TICK_MS 20
#define FLUSH_US 500000u
/* Requests that may wait to be parsed, in each pool, and adapters that may wait to be read; more
 * get a 429. */
#define MAX_PREPARING 1024
/* One thread, because a disk does not read two files faster at once. */
#define ADAPTER_THREADS 1
/* Threads that render large answers, in addition to the engines' threads. */
#define ANSWER_THREADS 2
#define STORAGE_THREADS 1
/* Bytes of an upload besides its file: boundaries, headers, other fields. */
#define UPLOAD_EXTRA ((uint64_t)16 << 10)

static void on_call_done(void *ud, size_t route, int status)
{
    metrics_http(&((struct server *)ud)->server_counts, route, status);
}

static bool on_hold(void *ud, int64_t bytes, bool may_refuse)
{
    return request_memory_count(&((struct server *)ud)->memory, bytes, may_refuse);
}

static int on_admit(void *ud, struct http_call *call, unsigned flags)
{
    if ((flags & AUTH_BY_VERSION) != 0 && anthropic_pages_are_wanted(call))
        http_call_render_errors(call, anthropic_messages_error);
    return auth_admit(&((struct server *)ud)->auth, call, flags);
}

/* ---- ending ---- */

static void end_loop(struct server *s)
{
    http_stop(s->http);
    worker_pool_stop(s->text_pool);
    worker_pool_stop(s->constraint_pool);
    worker_pool_stop(s->adapter_pool);
    worker_pool_stop(s->answer_pool);
    worker_pool_stop(s->model_pool);
    worker_pool_stop(s->storage);
    model_set_stop(&s->set);
    usage_keeper_stop(s->usage_keeper);
    server_stop_batches(s);
    server_stop_requests(s);
    stream_store_stop(s->streams);
    stream_pings_stop(&s->pings);
    server_end_handover(s);
    uv_close((uv_handle_t *)&s->wake, NULL);
    uv_close((uv_handle_t *)&s->stop, NULL);
    uv_close((uv_handle_t *)&s->on_hup, NULL);
    uv_close((uv_handle_t *)&s->on_usr1, NULL);
    uv_close((uv_handle_t *)&s->tick, NULL);
}

/* True: every client has its answer, or had enough time to read it since the last answer was
 * ready. */
static bool is_over(struct server *s)
{
    uint64_t since;

    for (uint32_t i = 0; i < s->opt.n_models; i++)
        if (!served_model_is_over(&s->models[i]))
            return false;
    if (s->body_jobs.n > 0 || !batch_runner_is_idle(s->batch_runner) ||
        !request_keeper_is_idle(s->requests))
        return false;
    if (http_n_owed(s->http) == 0)
        return usage_keeper_is_saved(s->usage_keeper);
    if (s->answered_us == 0)
        s->answered_us = clock_us();
    since = s->answered_us > s->stopped_us ? s->answered_us : s->stopped_us;
    return s->stopped_us > 0 && clock_us() - since > FLUSH_US;
}

/* Pass on the events of all models. Each turn begins with another model, so that one with many
 * events does not delay the others. */
static void pump_models(struct server *s)
{
    const uint32_t n = s->opt.n_models, first = s->n_pumps++ % n;
    bool has_more = false;

    for (uint32_t i = 0; i < n; i++)
        has_more = served_model_pump(&s->models[(first + i) % n]) || has_more;
    if (has_more)
        uv_async_send(&s->wake);
}

/* Leave the loop while another thread still works: its work cannot be cancelled. */
static void abandon(struct server *s)
{
    http_stop(s->http);
    uv_stop(&s->loop);
}

static bool is_reading(const struct server *s)
{
    if (model_set_is_working(&s->set) || s->is_reloading || s->is_reading_keys)
        return true;
    for (uint32_t i = 0; i < s->opt.n_models; i++)
        if (served_model_is_reading(&s->models[i]))
            return true;
    return false;
}

/* Stop a process that has handed its sockets over, or whose drain_ms are over. */
static void end_drain(struct server *s)
{
    if (!s->is_draining && server_has_handed_over(s))
        server_stop(s, "reason=handed_over");
    while (server_drain_is_over(s))
        server_stop(s, "reason=drain_ms");
}

/* Reads of adapters stop at the next row; a read that hangs is not waited for. */
static void end_or_abandon(struct server *s)
{
    if (!is_reading(s)) {
        end_loop(s);
        return;
    }
    s->has_abandoned_read = true;
    abandon(s);
}

static void on_server_tick(uv_timer_t *tick)
{
    LOOP_CALLBACK(tick->loop, "server.tick");
    struct server *s = tick->data;

    pump_models(s);
    end_drain(s);
    if (!s->is_draining || !is_over(s))
        return;
    if (is_reading(s) && s->over_us == 0)
        s->over_us = clock_us();
    if (is_reading(s) && clock_us() - s->over_us <= FLUSH_US)
        return;
    if (http_close(s->http)) /* otherwise the next tick tries again */
        end_or_abandon(s);
}

static const char *log_name(int number)
{
    return number == SIGINT ? "signal=INT" : "signal=TERM";
}

/* Stop during the load, when no request runs except probes of /health. */
static void abandon_load(struct server *s, int number)
{
    log_info("server", "event=stopping %s outstanding=0", log_name(number));
    s->has_abandoned_load = true;
    abandon(s);
}

static uint32_t n_outstanding(const struct server *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->opt.n_models; i++)
        n += served_model_n_outstanding(&s->models[i]);
    return n;
}

void server_stop(struct server *s, const char *why)
{
    const bool is_first = !s->is_draining;

    log_info("server", "event=%s %s outstanding=%u", is_first ? "draining" : "stopping", why,
             n_outstanding(s));
    s->is_draining = true;
    if (s->drain_us == 0)
        s->drain_us = clock_us();
    server_end_handover(s);
    batch_runner_drain(s->batch_runner);
    server_put_off_requests(s);
    if (s->sockets_stay) /* the next process accepts clients that connect now */
        http_stop_listening(s->http);
    model_set_drain(&s->set);
    for (uint32_t i = 0; i < s->opt.n_models; i++)
        served_model_drain(&s->models[i], !is_first);
    if (!is_first && s->stopped_us == 0)
        s->stopped_us = clock_us();
    http_drain(s->http);
    server_begin_ticks(s);
}

void server_begin_ticks(struct server *s)
{
    uv_timer_start(&s->tick, on_server_tick, 0, DRAIN_TICK_MS);
}

/* Handle signals to stop; two may have arrived since the last call. */
static void on_stop(uv_async_t *handle)
{
    LOOP_CALLBACK(handle->loop, "server.stop");
    struct server *s = handle->data;
    const unsigned n = atomic_load(&s->n_stops);
    const int number = atomic_load(&s->stop_number);

    if (s->auth.is_loading) {
        abandon_load(s, number);
        return;
    }
    if (!s->is_draining)
        server_stop(s, log_name(number));
    if (n > 1 && s->stopped_us == 0)
        server_stop(s, log_name(number));
}

void server_tell_to_stop(void *server, int number, unsigned nth)
{
    struct server *s = server;

    atomic_store(&s->stop_number, number);
    atomic_store(&s->n_stops, nth);
    uv_async_send(&s->stop);
}

/* ---- reading files again ---- */

static void on_hangup(uv_signal_t *handle, int number)
{
    LOOP_CALLBACK(handle->loop, "server.hangup");
    struct server *s = handle->data;
    char err[300] = "";

    (void)number;
    hold_here("QUIRE_DEBUG_HOLD_RELOAD");
    if (s->keys != NULL)
        server_reload_keys(s);
    if (s->tls != NULL)
        server_log_reload("certificate", tls_reload(s->tls, err, sizeof(err)), err);
    server_begin_reload(s);
}

/* Open the log again, after a rotation. */
static void on_reopen(uv_signal_t *handle, int number)
{
    LOOP_CALLBACK(handle->loop, "server.reopen");
    (void)handle;
    (void)number;
    log_reopen();
}

/* ---- life ---- */

static void on_server_wake(uv_async_t *wake)
{
    LOOP_CALLBACK(wake->loop, "server.wake");
    struct server *s = wake->data;

    if (s->auth.is_loading) /* an engine may wake the loop before it is attached */
        return;
    pump_models(s);
}

void server_wake(void *ud)
{
    uv_async_send(&((struct server *)ud)->wake);
}

static int init_loop(struct server *s)
{
    if (uv_loop_init(&s->loop) != 0)
        return ERR_INTERNAL;
    s->has_loop = true;
    loop_guard_attach(&s->guard, &s->loop);
    if (uv_async_init(&s->loop, &s->wake, on_server_wake) != 0 ||
        uv_async_init(&s->loop, &s->stop, on_stop) != 0 ||
        uv_signal_init(&s->loop, &s->on_hup) != 0 || uv_signal_init(&s->loop, &s->on_usr1) != 0 ||
        uv_timer_init(&s->loop, &s->tick) != 0)
        return ERR_INTERNAL;
    s->wake.data = s->stop.data = s->on_hup.data = s->tick.data = s;
    return 0;
}

/* Open the pools that prepare requests before they are posted; start_pools() starts their
 * threads. */
static int open_pools(struct server *s)
{
    const struct worker_pool_options o = {.loop = &s->loop, .max_waiting = MAX_PREPARING};
    /* Jobs of the storage thread are bounded by calls, batches and files, which have one each. */
    const struct worker_pool_options storage = {.loop = &s->loop, .max_waiting = UINT32_MAX};
    int rc = worker_pool_create(&s->text_pool, &o);

    s->body_jobs = (struct body_jobs){.pool = s->text_pool, .memory = &s->memory};
    if (rc == 0)
        rc = worker_pool_create(&s->constraint_pool, &o);
    if (rc == 0)
        rc = worker_pool_create(&s->adapter_pool, &o);
    if (rc == 0)
        rc = worker_pool_create(&s->answer_pool, &o);
    if (rc == 0)
        rc = worker_pool_create(&s->model_pool, &o);
    return rc == 0 ? worker_pool_create(&s->storage, &storage) : rc;
}

static int start_pools(struct server *s)
{
    int rc = worker_pool_start(s->text_pool, s->opt.n_text_threads);

    if (rc == 0)
        rc = worker_pool_start(s->storage, STORAGE_THREADS);
    if (rc == 0)
        rc = worker_pool_start(s->constraint_pool, s->opt.n_constraint_threads);
    if (rc == 0)
        rc = worker_pool_start(s->adapter_pool, ADAPTER_THREADS);
    if (rc == 0)
        rc = worker_pool_start(s->answer_pool, ANSWER_THREADS);
    return rc == 0 ? worker_pool_start(s->model_pool, MODEL_SET_THREADS) : rc;
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static int open_keeper(struct server *s, char *err, size_t err_len)
{
    const struct response_store_options o = {or_empty(s->opt.responses_db), s->opt.responses_size,
                                             s->opt.responses_days};

    if (o.path[0] == '\0')
        return 0;
    return response_keeper_open(&s->keeper, s->storage, &o, err, err_len);
}

static int open_usage(struct server *s, char *err, size_t err_len)
{
    const char *path = or_empty(s->opt.usage_db);

    if (usage_ledger_create(&s->usage) < 0)
        return snprintf(err, err_len, "no memory for the usage"), ERR_NOMEM;
    if (path[0] == '\0')
        return 0;
    return usage_keeper_open(&s->usage_keeper, &s->loop, s->storage, s->usage, path, err, err_len);
}

static int open_streams(struct server *s, char *err, size_t err_len)
{
    const struct stream_store_options o = {&s->loop, s->opt.stream_keep_ms, s->opt.stream_max_bytes,
                                           s->opt.stream_memory};

    stream_pings_init(&s->pings, &s->loop, s->opt.stream_ping_ms);
    if (s->opt.stream_keep_ms == 0 || stream_store_open(&s->streams, &o) == 0)
        return 0;
    snprintf(err, err_len, "out of memory");
    return ERR_NOMEM;
}

static int check_slot_folder(const struct server *s, char *err, size_t err_len)
{
    const char *path = or_empty(s->opt.slot_save_path);
    struct stat st;

    if (path[0] == '\0' ||
        (stat(path, &st) == 0 && S_ISDIR(st.st_mode) && access(path, R_OK | W_OK | X_OK) == 0)) {
        if (path[0] != '\0')
            slot_folder_sweep(path);
        return 0;
    }
    snprintf(err, err_len, "slot_save_path '%s' is no folder that can be read and written", path);
    return ERR_IO;
}

/* Open keys and certificates, and set up the checks of auth.h. */
static int open_locks(struct server *s, char *err, size_t err_len)
{
    int rc = 0;

    if (or_empty(s->opt.api_keys)[0] != '\0')
        rc = keys_open(&s->keys, s->opt.api_keys, clock_us(), err, err_len);
    if (s->keys != NULL)
        server_recall_keys(s);
    if (rc == 0 && or_empty(s->opt.tls_certificate)[0] != '\0')
        rc = tls_open(&s->tls, s->opt.tls_certificate, s->opt.tls_key, err, err_len);
    s->auth = (struct auth){
        .keys = s->keys,
        .has_open_metrics = s->opt.has_open_metrics,
        .tenant_header = or_empty(s->opt.tenant_header),
        .server_counts = &s->server_counts,
        .is_loading = s->opt.load.work != NULL,
        .load_permille = s->opt.load.permille,
        .load_ud = s->opt.load.ud,
        .load_start_us = s->start_us,
    };
    return rc;
}

/* Return the most requests that may be outstanding at once; of the models that are loaded on demand
 * only the largest counts. */
static uint32_t max_outstanding(const struct server *s)
{
    uint32_t n = 0, most = 0;

    for (uint32_t i = 0; i < s->opt.n_models; i++) {
        const struct server_model *m = &s->models[i].model;

        if (m->load == SERVER_LOAD_START)
            n += m->max_outstanding;
        else if (m->max_outstanding > most)
            most = m->max_outstanding;
    }
    return n + most;
}

static uint32_t n_other_fds(const struct server *s)
{
    uint32_t n = OTHER_FDS + OTHER_FDS_PER_MODEL * s->opt.n_models;

    n += s->batch_runner != NULL ? BATCH_FDS : 0;
    for (uint32_t i = 0; i < s->opt.n_models; i++)
        n += s->models[i].model.kv_events != NULL ? KV_EVENT_FDS : 0;
    return n;
}

static int open_http(struct server *s, char *err, size_t err_len)
{
    struct http_options http = {
        .loop = &s->loop,
        .host = s->opt.host,
        .port = s->opt.port,
        .tls = s->tls,
        .unix_path = or_empty(s->opt.unix_socket),
        .unix_mode = s->opt.unix_socket_mode,
        .cors_origins = or_empty(s->opt.cors_origins),
        .max_body = s->opt.max_body,
        .max_upload = s->opt.batch_file_size + UPLOAD_EXTRA,
        .max_connections = limits_wanted(s->opt.max_connections, max_outstanding(s)),
        .max_connections_per_address = s->opt.max_connections_per_address,
        .n_other_fds = n_other_fds(s),
        .header_timeout_s = s->opt.header_timeout_s,
        .idle_timeout_s = IDLE_TIMEOUT_S,
        .min_body_rate = s->opt.min_body_rate,
        .allowed_hosts = or_empty(s->opt.allowed_hosts),
        .tenant_header = or_empty(s->opt.tenant_header),
        .trusted_proxies = or_empty(s->opt.trusted_proxies),
        .reserved_flags = AUTH_ALWAYS,
        .ud = s,
        .hold = on_hold,
        .admit = on_admit,
        .refuse_path = not_built_refuse,
        .done = on_call_done,
    };

    if (server_take_sockets(s, err, err_len) < 0)
        return ERR_IO;
    http.inherited = &s->sockets;
    http.keeps_files = s->sockets_stay;
    http.routes = server_routes(&http.n_routes);
    return http_create(&s->http, &http, err, err_len);
}

static int open_set(struct server *s, char *err, size_t err_len)
{
    const struct model_set_options o = {.loop = &s->loop,
                                        .models = s->models,
                                        .n = s->opt.n_models,
                                        .loader = &s->opt.loader,
                                        .pool = s->model_pool,
                                        .memory = {s->opt.memory_limit, s->opt.process_bytes}};

    if (model_set_open(&s->set, &o) == 0)
        return 0;
    snprintf(err, err_len, "no memory for %u models", s->opt.n_models);
    return ERR_NOMEM;
}

static int open_models(struct server *s, char *err, size_t err_len)
{
    const struct tenants_options tenants = {
        .max = s->opt.max_tenants,
        .limit = s->opt.tenant_limit,
        .weights = s->opt.tenant_weights,
    };
    int rc = tenants_create(&s->tenants, &tenants);

    if (rc < 0)
        snprintf(err, err_len, "no memory for %u tenants", s->opt.max_tenants);
    s->shared = (struct engine_shared){.options = &s->opt,
                                       .loop = &s->loop,
                                       .tenants = s->tenants,
                                       .usage = s->usage,
                                       .text_pool = s->text_pool,
                                       .constraint_pool = s->constraint_pool,
                                       .answer_pool = s->answer_pool,
                                       .keeper = s->keeper,
                                       .memory = &s->memory,
                                       .streams = s->streams,
                                       .requests = s->requests,
                                       .pings = &s->pings};
    for (uint32_t i = 0; rc == 0 && i < s->opt.n_models; i++)
        rc = served_model_open(&s->models[i], &s->shared, &s->opt.models[i], err, err_len);
    return rc == 0 ? open_set(s, err, err_len) : rc;
}

static int open_parts(struct server *s, char *err, size_t err_len)
{
    int rc = init_loop(s);

    if (rc == 0 && s->opt.salt_seed == 0 &&
        getrandom(&s->opt.salt_seed, sizeof(s->opt.salt_seed), 0) < 0)
        rc = ERR_IO;
    if (rc < 0) {
        snprintf(err, err_len, "the event loop cannot be set up: %s", err_text(rc));
        return rc;
    }
    rc = open_pools(s);
    if (rc < 0)
        return snprintf(err, err_len, "the pools of threads cannot be set up"), rc;
    rc = check_slot_folder(s, err, err_len);
    if (rc == 0)
        rc = open_keeper(s, err, err_len);
    if (rc == 0)
        rc = open_usage(s, err, err_len);
    if (rc == 0)
        rc = server_open_batches(s, err, err_len);
    if (rc == 0)
        rc = open_streams(s, err, err_len);
    if (rc == 0)
        rc = server_open_requests(s, err, err_len);
    if (rc == 0)
        rc = open_models(s, err, err_len);
    if (rc == 0)
        rc = open_locks(s, err, err_len);
    if (rc == 0)
        rc = open_http(s, err, err_len);
    if (rc == 0 && (uv_signal_start(&s->on_hup, on_hangup, SIGHUP) != 0 ||
                    uv_signal_start(&s->on_usr1, on_reopen, SIGUSR1) != 0)) {
        snprintf(err, err_len, "the signals SIGHUP and SIGUSR1 cannot be taken over");
        rc = ERR_INTERNAL;
    }
    return rc;
}

int server_create(struct server **out, const struct server_options *options, char *err,
                  size_t err_len)
{
    struct server *s = mem_calloc(1, sizeof(*s));
    int rc;

    *out = NULL;
    if (s == NULL)
        return snprintf(err, err_len, "out of memory"), ERR_NOMEM;
    s->opt = *options;
    s->start_us = clock_us();
    s->memory.max = options->request_memory;
    rc = open_parts(s, err, err_len);
    if (rc < 0) {
        server_destroy(&s);
        return rc;
    }
    s->opt.models = NULL; /* the models were copied */
    *out = s;
    return 0;
}

void server_set_model(struct server *s, uint32_t i, const struct server_model *model)
{
    served_model_set_model(&s->models[i], model);
    adapter_set_read_on(model->adapters, s->adapter_pool);
}

void server_attach(struct server *s, uint32_t i, struct queue *q)
{
    served_model_attach(&s->models[i], q);
    model_set_ready(&s->set, &s->models[i]);
}

void server_ready(struct server *s)
{
    if (s->auth.is_loading && server_takes_over(s))
        server_serve(s);
    s->auth.is_loading = false;
    s->has_served = true;
    log_info("server", "event=ready ms=%.1f", (double)(clock_us() - s->start_us) / 1e3);
    server_run_requests(s);
    server_run_batches(s);
    model_set_pump(&s->set);
}

void server_fail(struct server *s)
{
    s->auth.is_loading = false;
    end_loop(s);
}

uint16_t server_port(const struct server *s)
{
    return http_port(s->http);
}

static void on_load(uv_work_t *work)
{
    const struct server *s = work->data;

    s->opt.load.work(s->opt.load.ud);
}

static void after_load(uv_work_t *work, int status)
{
    LOOP_CALLBACK(work->loop, "server.loaded");
    const struct server *s = work->data;

    (void)status; /* never canceled */
    s->opt.load.done(s->opt.load.ud);
}

int server_run(struct server *s)
{
    s->load.data = s;
    if (start_pools(s) < 0)
        return ERR_INTERNAL;
    if (s->auth.is_loading && uv_queue_work(&s->loop, &s->load, on_load, after_load) != 0)
        return ERR_INTERNAL;
    if (!s->auth.is_loading || !server_takes_over(s))
        server_serve(s);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    if (s->has_served)
        loop_guard_log(&s->guard);
    return s->has_abandoned_load ? ERR_BUSY : s->has_abandoned_read ? ERR_AGAIN : 0;
}

bool server_is_changing(const struct server *s, uint32_t i)
{
    return model_set_is_changing(&s->set, i);
}

static void close_handle(uv_handle_t *handle, void *ud)
{
    (void)ud;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void server_destroy(struct server **server)
{
    struct server *s = server != NULL ? *server : NULL;

    if (s == NULL)
        return;
    stream_store_stop(s->streams);
    server_end_handover(s);
    if (s->http != NULL)
        http_stop(s->http);
    if (s->has_loop) { /* after a failure during setup, or without server_run() */
        uv_walk(&s->loop, close_handle, NULL);
        uv_run(&s->loop, UV_RUN_DEFAULT);
        uv_loop_close(&s->loop);
    }
    http_destroy(&s->http);
    worker_pool_destroy(&s->text_pool);
    worker_pool_destroy(&s->constraint_pool);
    worker_pool_destroy(&s->adapter_pool);
    worker_pool_destroy(&s->answer_pool);
    worker_pool_destroy(&s->model_pool);
    worker_pool_destroy(&s->storage); /* its jobs use what is closed below */
    model_set_close(&s->set);
    response_keeper_close(&s->keeper);
    usage_keeper_close(&s->usage_keeper);
    server_close_batches(s);
    server_close_requests(s);
    stream_store_close(&s->streams);
    for (uint32_t i = 0; i < s->opt.n_models; i++)
        served_model_close(&s->models[i]);
    tenants_destroy(&s->tenants);
    usage_ledger_destroy(&s->usage);
    keys_drop(&s->fresh_keys);
    keys_close(&s->keys);
    tls_close(&s->tls);
    mem_free(s);
    *server = NULL;
}
