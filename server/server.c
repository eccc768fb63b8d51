/* server/server.c - see server.h: builds the parts, runs the loop, and ends in order.
 *
 * The start: the sockets are bound first. While a thread of the pool loads the model, whoever calls
 * is told so (gate.h).
 *
 * The end: the first signal closes the desk, so that posts are refused and the engine finishes
 * what it has. When the last completion and the last HTTP exchange are over, HTTP stops, the
 * handles close and the loop runs out.
 */
#include "server/server.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/version.h"
#include "server/answer.h"
#include "server/completion.h"
#include "server/desk.h"
#include "server/facts.h"
#include "server/gate.h"
#include "server/hosted.h"
#include "server/http.h"
#include "server/keys.h"
#include "server/plan.h"
#include "server/prompting.h"
#include "server/reception.h"
#include "server/tenants.h"
#include "server/tls.h"
#include "server/tokens.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Connections beyond the requests that may be outstanding: health checks, metrics, keep-alive. */
#define EXTRA_CONNECTIONS 256
#define IDLE_TIMEOUT_S 60
/* While draining: how often the end is looked for, and, after the second signal, how long clients
 * get to read their last bytes. */
#define DRAIN_TICK_MS 20
#define FLUSH_US 2000000u

struct server {
    struct server_options opt;
    uv_loop_t loop;
    uv_async_t wake;
    uv_signal_t on_term, on_int, on_hup;
    uv_timer_t tick;
    uv_work_t load;
    struct gate gate;
    struct keys *keys; /* or NULL */
    struct tls *tls;   /* or NULL */
    struct http *http;
    struct tenants *tenants;
    struct metrics_house house;
    struct hosted models[SERVER_MAX_MODELS]; /* [opt.n_models] */
    uint32_t n_attached;                     /* of them: their engines run */
    bool is_draining;
    uint64_t start_us;
    uint64_t stopped_us; /* when everything was cancelled; 0 before */
    bool has_loop;
    bool has_abandoned_load;
};

/* ---- routes ---- */

/* The desk of the model that the call's body asks for. */
static struct desk *desk_for(void *ud, const struct http_call *call)
{
    struct server *s = ud;

    return reception_by_body(s->models, s->opt.n_models, call)->desk;
}

static struct hosted *model_for(void *ud, struct http_call *call)
{
    struct server *s = ud;

    return reception_by_query(s->models, s->opt.n_models, call);
}

static void debug(void *ud, struct http_call *call, enum debug_page page)
{
    struct hosted *h = model_for(ud, call);

    if (h != NULL)
        debug_ask(&h->debug, call, page);
}

static void on_completions(void *ud, struct http_call *call)
{
    completion_start(desk_for(ud, call), call, dialect_text());
}

static void on_chat(void *ud, struct http_call *call)
{
    completion_start(desk_for(ud, call), call, dialect_chat());
}

static void on_native(void *ud, struct http_call *call)
{
    completion_start(desk_for(ud, call), call, dialect_native());
}

static void on_native_too(void *ud, struct http_call *call)
{
    on_native(ud, call);
}

static void on_infill(void *ud, struct http_call *call)
{
    completion_start(desk_for(ud, call), call, dialect_infill());
}

static void on_embeddings(void *ud, struct http_call *call)
{
    completion_start(desk_for(ud, call), call, dialect_embeddings());
}

static void on_responses(void *ud, struct http_call *call)
{
    completion_start(desk_for(ud, call), call, dialect_responses());
}

static void on_messages(void *ud, struct http_call *call)
{
    completion_start(desk_for(ud, call), call, dialect_messages());
}

static void on_count_tokens(void *ud, struct http_call *call)
{
    prompting_count(desk_for(ud, call), call);
}

static void on_apply_template(void *ud, struct http_call *call)
{
    prompting_apply(desk_for(ud, call), call);
}

static void on_plan(void *ud, struct http_call *call)
{
    plan_start(desk_for(ud, call), call);
}

static void on_debug_requests(void *ud, struct http_call *call)
{
    debug(ud, call, DEBUG_REQUESTS);
}

static void on_debug_iterations(void *ud, struct http_call *call)
{
    debug(ud, call, DEBUG_ITERATIONS);
}

static void on_slots(void *ud, struct http_call *call)
{
    debug(ud, call, DEBUG_SLOTS);
}

static void on_props(void *ud, struct http_call *call)
{
    const struct hosted *h = model_for(ud, call);

    if (h != NULL)
        facts_props(&h->model, call);
}

static void on_debug_kv(void *ud, struct http_call *call)
{
    debug(ud, call, DEBUG_KV);
}

static void on_tokenize(void *ud, struct http_call *call)
{
    tokens_encode(desk_for(ud, call), call);
}

static void on_detokenize(void *ud, struct http_call *call)
{
    tokens_decode(desk_for(ud, call), call);
}

static void on_models(void *ud, struct http_call *call)
{
    const struct server_model *models[SERVER_MAX_MODELS];
    const struct server *s = ud;

    for (uint32_t i = 0; i < s->opt.n_models; i++)
        models[i] = &s->models[i].model;
    facts_models(call, models, s->opt.n_models);
}

static void on_model(void *ud, struct http_call *call)
{
    struct server *s = ud;
    const struct hosted *h = reception_find(s->models, s->opt.n_models, http_call_tail(call));

    if (h != NULL)
        facts_model(call, &h->model);
    else
        reception_refuse(call, http_call_tail(call));
}

static void on_health(void *ud, struct http_call *call)
{
    (void)ud;
    facts_health(call);
}

static void on_ready(void *ud, struct http_call *call)
{
    struct server *s = ud;
    const char *trouble = NULL;

    if (s->gate.is_loading) {
        gate_answer_ready(&s->gate, call);
        return;
    }
    for (uint32_t i = 0; trouble == NULL && i < s->opt.n_models; i++)
        trouble = facts_trouble(s->models[i].desk, &s->models[i].watchdog);
    facts_ready(call, trouble);
}

static void on_version(void *ud, struct http_call *call)
{
    (void)ud;
    facts_version(call);
}

static void on_openapi(void *ud, struct http_call *call)
{
    (void)ud;
    facts_openapi(call);
}

static void on_metrics(void *ud, struct http_call *call);

#define ERRORS(flags) ((flags) & GATE_ANTHROPIC ? dialect_messages_error : NULL)

static const struct http_route routes[] = {
#define ROUTE(path, tail, method, handler, flags, body, reply, text)                               \
    {path, method, on_##handler, ERRORS(flags), flags},
#include "server/routes.inc"
#undef ROUTE
};
#define N_ROUTES (sizeof(routes) / sizeof(routes[0]))
_Static_assert(N_ROUTES < METRICS_MAX_ROUTES, "each route is a label, and so is the lack of one");

static void on_metrics(void *ud, struct http_call *call)
{
    struct server *s = ud;
    const char *labels[N_ROUTES + 1];
    struct metrics_model models[SERVER_MAX_MODELS];
    struct metrics_scene scene = {.models = models,
                                  .n_models = s->opt.n_models,
                                  .house = &s->house,
                                  .routes = labels,
                                  .n_routes = N_ROUTES + 1,
                                  .isa = s->models[0].model.isa,
                                  .version = quire_version(),
                                  .n_connections = http_n_connections(s->http),
                                  .n_tenants = tenants_n(s->tenants),
                                  .n_tenants_shared = tenants_n_shared(s->tenants),
                                  .uptime_s = (double)(clock_us() - s->start_us) / 1e6};

    for (size_t i = 0; i < N_ROUTES; i++)
        labels[i] = routes[i].path;
    labels[N_ROUTES] = "other";
    for (uint32_t i = 0; i < s->opt.n_models; i++)
        facts_fill_metrics(s->models[i].desk, &models[i]);
    facts_metrics(call, &scene);
}

static void on_done(void *ud, size_t route, int status)
{
    metrics_http(&((struct server *)ud)->house, route, status);
}

static int on_admit(void *ud, struct http_call *call, unsigned flags)
{
    return gate_admit(&((struct server *)ud)->gate, call, flags);
}

/* ---- ending ---- */

static void end_loop(struct server *s)
{
    http_stop(s->http);
    uv_close((uv_handle_t *)&s->wake, NULL);
    uv_close((uv_handle_t *)&s->on_term, NULL);
    uv_close((uv_handle_t *)&s->on_int, NULL);
    uv_close((uv_handle_t *)&s->on_hup, NULL);
    uv_close((uv_handle_t *)&s->tick, NULL);
}

/* Everybody has an answer, or had time enough to read it. */
static bool is_over(const struct server *s)
{
    for (uint32_t i = 0; i < s->opt.n_models; i++)
        if (!hosted_is_over(&s->models[i]))
            return false;
    if (http_n_owed(s->http) == 0)
        return true;
    return s->stopped_us > 0 && clock_us() - s->stopped_us > FLUSH_US;
}

static void kick_models(struct server *s)
{
    for (uint32_t i = 0; i < s->opt.n_models; i++)
        hosted_kick(&s->models[i]);
}

static void on_tick(uv_timer_t *tick)
{
    struct server *s = tick->data;

    kick_models(s);
    if (is_over(s))
        end_loop(s);
}

/* Nobody waits for an answer but to the question whether it is ready. The work cannot be called
 * off: the loop is left while it goes on. */
static void abandon_load(struct server *s, int number)
{
    log_info("server", "event=stopping signal=%s outstanding=0", number == SIGINT ? "INT" : "TERM");
    s->has_abandoned_load = true;
    http_stop(s->http);
    uv_stop(&s->loop);
}

static uint32_t n_outstanding(const struct server *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->opt.n_models; i++)
        n += hosted_n_outstanding(&s->models[i]);
    return n;
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct server *s = handle->data;
    const bool is_first = !s->is_draining;

    if (s->gate.is_loading) {
        abandon_load(s, number);
        return;
    }
    log_info("server", "event=%s signal=%s outstanding=%u", is_first ? "draining" : "stopping",
             number == SIGINT ? "INT" : "TERM", n_outstanding(s));
    s->is_draining = true;
    for (uint32_t i = 0; i < s->opt.n_models; i++)
        hosted_drain(&s->models[i], !is_first);
    if (!is_first && s->stopped_us == 0)
        s->stopped_us = clock_us();
    http_drain(s->http);
    uv_timer_start(&s->tick, on_tick, 0, DRAIN_TICK_MS);
}

/* ---- reading files again ---- */

static void log_reload(const char *what, int rc, const char *err)
{
    char quoted[400];

    if (rc < 0)
        log_error("server", "event=reload_failed what=%s kept=old reason=%s", what,
                  log_quote(quoted, sizeof(quoted), err));
    else
        log_info("server", "event=reloaded what=%s", what);
}

static void on_hangup(uv_signal_t *handle, int number)
{
    struct server *s = handle->data;
    char err[300] = "";

    (void)number;
    if (s->keys != NULL)
        log_reload("keys", keys_reload(s->keys, clock_us(), err, sizeof(err)), err);
    if (s->tls != NULL)
        log_reload("certificate", tls_reload(s->tls, err, sizeof(err)), err);
}

/* ---- life ---- */

static void on_wake(uv_async_t *wake)
{
    struct server *s = wake->data;

    if (s->gate.is_loading) /* the engines' first words may come before they are attached */
        return;
    kick_models(s);
    http_kick(s->http);
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
    if (uv_async_init(&s->loop, &s->wake, on_wake) != 0 ||
        uv_signal_init(&s->loop, &s->on_term) != 0 || uv_signal_init(&s->loop, &s->on_int) != 0 ||
        uv_signal_init(&s->loop, &s->on_hup) != 0 || uv_timer_init(&s->loop, &s->tick) != 0)
        return ERR_INTERNAL;
    s->wake.data = s->on_term.data = s->on_int.data = s->on_hup.data = s->tick.data = s;
    return 0;
}

static int take_signals(struct server *s)
{
    if (uv_signal_start(&s->on_term, on_signal, SIGTERM) != 0 ||
        uv_signal_start(&s->on_int, on_signal, SIGINT) != 0 ||
        uv_signal_start(&s->on_hup, on_hangup, SIGHUP) != 0)
        return ERR_INTERNAL;
    return 0;
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* What strangers have to get past. */
static int open_locks(struct server *s, char *err, size_t err_len)
{
    int rc = 0;

    if (or_empty(s->opt.api_keys)[0] != '\0')
        rc = keys_open(&s->keys, s->opt.api_keys, clock_us(), err, err_len);
    if (rc == 0 && or_empty(s->opt.tls_certificate)[0] != '\0')
        rc = tls_open(&s->tls, s->opt.tls_certificate, s->opt.tls_key, err, err_len);
    s->gate = (struct gate){
        .keys = s->keys,
        .has_open_metrics = s->opt.has_open_metrics,
        .house = &s->house,
        .is_loading = s->opt.load.work != NULL,
        .load_permille = s->opt.load.permille,
        .load_ud = s->opt.load.ud,
        .load_start_us = s->start_us,
    };
    return rc;
}

/* All that may be outstanding at once. */
static uint32_t max_outstanding(const struct server *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->opt.n_models; i++)
        n += s->models[i].model.max_outstanding;
    return n;
}

static int open_http(struct server *s, char *err, size_t err_len)
{
    const struct http_options http = {
        .loop = &s->loop,
        .host = s->opt.host,
        .port = s->opt.port,
        .tls = s->tls,
        .unix_path = or_empty(s->opt.unix_socket),
        .unix_mode = s->opt.unix_socket_mode,
        .cors_origins = or_empty(s->opt.cors_origins),
        .max_body = s->opt.max_body,
        .max_connections = max_outstanding(s) + EXTRA_CONNECTIONS,
        .idle_timeout_s = IDLE_TIMEOUT_S,
        .routes = routes,
        .n_routes = N_ROUTES,
        .ud = s,
        .admit = on_admit,
        .done = on_done,
    };

    return http_create(&s->http, &http, err, err_len);
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
    for (uint32_t i = 0; rc == 0 && i < s->opt.n_models; i++)
        rc = hosted_open(&s->models[i], &s->opt, &s->opt.models[i], &s->loop, s->tenants, err,
                         err_len);
    return rc;
}

static int open_parts(struct server *s, char *err, size_t err_len)
{
    int rc = init_loop(s);

    if (rc == 0 && getrandom(&s->opt.salt_seed, sizeof(s->opt.salt_seed), 0) < 0)
        rc = ERR_IO;
    if (rc < 0) {
        snprintf(err, err_len, "the event loop cannot be set up: %s", err_text(rc));
        return rc;
    }
    rc = open_models(s, err, err_len);
    if (rc == 0)
        rc = open_locks(s, err, err_len);
    if (rc == 0)
        rc = open_http(s, err, err_len);
    if (rc == 0 && take_signals(s) < 0) {
        snprintf(err, err_len, "the signals cannot be taken over");
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
    rc = open_parts(s, err, err_len);
    if (rc < 0) {
        server_destroy(&s);
        return rc;
    }
    s->opt.models = NULL; /* copied by now */
    for (uint32_t i = 0; i < s->opt.n_models; i++)
        s->models[i].desk->http = s->http;
    *out = s;
    return 0;
}

void server_set_model(struct server *s, uint32_t i, const struct server_model *model)
{
    hosted_set_model(&s->models[i], model);
}

void server_attach(struct server *s, uint32_t i, struct queue *q)
{
    hosted_attach(&s->models[i], q);
    if (++s->n_attached < s->opt.n_models)
        return;
    s->gate.is_loading = false;
    log_info("server", "event=ready ms=%.1f", (double)(clock_us() - s->start_us) / 1e3);
}

void server_fail(struct server *s)
{
    s->gate.is_loading = false;
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
    const struct server *s = work->data;

    (void)status; /* nobody cancels it */
    s->opt.load.done(s->opt.load.ud);
}

int server_run(struct server *s)
{
    s->load.data = s;
    if (s->gate.is_loading && uv_queue_work(&s->loop, &s->load, on_load, after_load) != 0)
        return ERR_INTERNAL;
    http_start(s->http);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    return s->has_abandoned_load ? ERR_BUSY : 0;
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
    if (s->http != NULL)
        http_stop(s->http);
    if (s->has_loop) { /* whatever was set up before a failure, or never ran */
        uv_walk(&s->loop, close_handle, NULL);
        uv_run(&s->loop, UV_RUN_DEFAULT);
        uv_loop_close(&s->loop);
    }
    http_destroy(&s->http);
    for (uint32_t i = 0; i < s->opt.n_models; i++)
        hosted_close(&s->models[i]);
    tenants_destroy(&s->tenants);
    keys_close(&s->keys);
    tls_close(&s->tls);
    mem_free(s);
    *server = NULL;
}
