/* server/cli/serve.c - `quire serve`: builds everything in order, serves, and tears down in
 * reverse.
 *
 * The order matters: the server is made and its sockets are bound first; then the sandbox is
 * entered before there are other threads, so that all inherit it; then signals and the log get
 * threads, and the loop begins. Models are loaded on a thread of the loop's pool, while the server
 * already answers that it is loading. If at the end a thread still uses models (a load, or a store
 * that hangs), nothing is freed and the process exits at once.
 */
#include "server/cli/serve.h"

#include "config/config.h"
#include "config/models.h"
#include "core/base/err.h"
#include "core/base/hold.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/stop_signals.h"
#include "server/cli/command.h"
#include "server/cli/serve_model.h"
#include "server/cli/serve_models.h"
#include "server/cli/serve_reload.h"
#include "server/cli/serve_sandbox.h"
#include "server/process/handover.h"
#include "server/process/sandbox_probe.h"
#include "server/process/startup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Milliseconds for which the end of the process waits for a reader of the log. */
#define LOG_STOP_MS 1000
/* Descriptors of the loop, the sockets, the log and the first file; connections are added. */
#define FDS_TO_BEGIN 12

/* Threads that prepare requests, the same number for texts and for constraints. */
#define PREPARING_THREADS 2
/* Milliseconds after a second SIGTERM or SIGINT at which the process is ended, whatever it is
 * doing. */
#define KILL_AFTER_MS 900
/* Threads besides libuv's: those that prepare requests, 2 that render answers, 2 that load models,
 * one that loads in the background of steps, and those of adapters, of storage, of the signals, and
 * of the log. */
#define OTHER_THREADS (2 * PREPARING_THREADS + 9)
/* For each model that publishes KV events: its own thread and ZeroMQ's two. */
#define KV_EVENT_THREADS 3

struct service {
    struct config config;  /* the server's settings */
    struct serve_models models;
    struct serve_reload *reload;
    struct server *server;
    struct stop_signals *signals;
    struct sandbox_state sandbox;
    const struct server_batch *batch; /* or NULL */
    int code; /* result of the load, when it is over */
    char err[512];
};

static void print_serve_help(void)
{
    fputs("quire - HTTP inference server for GGUF language models on CPUs\n\n", stdout);
#define COMMAND(name, usage, text) printf("  quire %-30s %s\n", usage, text);
#include "server/cli/commands.inc"
    fputs("\n"
          "Settings (each also as NAME = value in a file, or QUIRE_NAME in the environment):\n",
          stdout);
    config_print_help(stdout);
    fputs("  --config            file of settings (config/quire.conf is a commented sample)\n"
          "  --print-config      print every setting with its value and source, and exit\n"
          "  --version, --help\n",
          stdout);
}

/* ---- on a thread of the loop's pool, while the server already answers that it is loading ---- */

static void load_server(void *ud)
{
    struct service *s = ud;

    hold_here("QUIRE_DEBUG_HOLD_LOAD");
    s->code = serve_models_load(&s->models, &s->config, s->err, sizeof(s->err));
    sandbox_probe("pool");
    sandbox_probe_on_new_thread("new");
}

/* ---- on the loop's thread ---- */

static void loaded(void *ud)
{
    struct service *s = ud;

    if (s->code != EXIT_OK) {
        server_fail(s->server);
        return;
    }
    if (s->batch == NULL)
        sandbox_log(&s->sandbox);
    sandbox_probe("io");
    serve_models_attach(&s->models);
}

static uint32_t load_permille(void *ud)
{
    return serve_models_permille(&((struct service *)ud)->models);
}

/* Set the options for a batch of the command line: the server listens nowhere and has no
 * databases. */
static void serve_nobody(struct server_options *o, const struct server_batch *batch)
{
    o->host = o->unix_socket = o->handover_socket = o->api_keys = o->tls_certificate = "";
    o->batch_dir = o->responses_db = o->requests_db = "";
    o->sockets = HTTP_NO_SOCKETS;
    o->reload = (struct server_reload){0};
    o->batch = batch;
}

static int make_server(struct service *s, const struct server_model *models)
{
    const struct config *c = &s->config;
    struct server_options options = {
        .host = c->host,
        .port = (uint16_t)c->port,
        .tls_certificate = c->tls_certificate,
        .tls_key = c->tls_key,
        .unix_socket = c->unix_socket,
        .unix_socket_mode = (unsigned)strtoul(c->unix_socket_mode, NULL, 8),
        .api_keys = c->api_keys,
        .has_open_metrics = c->metrics_open == CONFIG_ON,
        .takes_props = c->props == CONFIG_ON,
        .has_page = c->page == CONFIG_ON,
        .metrics_names = c->metrics_names,
        .cors_origins = c->cors_origins,
        .allowed_hosts = c->allowed_hosts,
        .max_body = c->max_body,
        .max_connections = (uint32_t)c->max_connections,
        .max_connections_per_address = (uint32_t)c->max_connections_per_address,
        .header_timeout_s = (uint32_t)c->header_timeout_s,
        .min_body_rate = (uint32_t)c->min_body_rate,
        .request_memory = c->request_memory,
        .tenant_header = c->tenant_header,
        .trusted_proxies = c->trusted_proxies,
        .objectives = c->objectives,
        .tenant_weights = c->tenant_weights,
        .max_tenants = (uint32_t)c->max_tenants,
        .tenant_limit = (uint32_t)c->tenant_limit,
        .stream_keep_ms = (uint32_t)c->stream_keep_ms,
        .resumable_streams = c->resumable_streams == CONFIG_ON,
        .stream_max_bytes = c->stream_max_bytes,
        .stream_memory = c->stream_memory,
        .stream_ping_ms = (uint32_t)c->stream_ping_ms,
        .drain_ms = (uint32_t)c->drain_ms,
        .handover_socket = c->handover_socket,
        .salt_seed = s->models.place.seed,
        .slot_save_path = c->slot_save_path,
        .slot_limits = {c->slot_save_size, (uint32_t)c->slot_save_files},
        .responses_db = c->responses_db,
        .batch_dir = c->batch_dir,
        .batch_streams = (uint32_t)c->batch_streams,
        .batch_max_lines = (uint32_t)c->batch_max_lines,
        .batch_days = (uint32_t)c->batch_days,
        .batch_file_size = c->batch_file_size,
        .batch_size = c->batch_size,
        .requests_db = c->requests_db,
        .requests_size = c->requests_size,
        .usage_db = c->usage_db,
        .responses_days = (uint32_t)c->responses_days,
        .responses_size = c->responses_size,
        .models = models,
        .n_models = s->models.n,
        .n_text_threads = PREPARING_THREADS,
        .n_constraint_threads = PREPARING_THREADS,
        .load = {load_server, loaded, load_permille, s},
        .loader = serve_models_loader(&s->models),
        .reload = serve_reload_callbacks(s->reload),
        .memory_limit = s->models.memory_limit,
        .process_bytes = s->models.process_bytes,
    };

    if (handover_from_systemd(getenv("LISTEN_PID"), getenv("LISTEN_FDS"), &options.sockets, s->err,
                              sizeof(s->err)) < 0)
        return ERR_INVAL;
    if (s->batch != NULL)
        serve_nobody(&options, s->batch);
    if (server_create(&s->server, &options, s->err, sizeof(s->err)) < 0)
        return ERR_INVAL;
    s->models.server = s->server;
    return 0;
}

/* Start the thread that takes signals. */
static int take_signals(struct service *s)
{
    const struct stop_signals_options options = {server_tell_to_stop, s->server, KILL_AFTER_MS};

    if (stop_signals_open(&s->signals, &options) == 0)
        return 0;
    snprintf(s->err, sizeof(s->err), "cannot start the thread that handles signals");
    return ERR_INTERNAL;
}

/* Choose the size of libuv's pool, and check that the threads can be started. Each model may use
 * two threads for its swap file, and one for saving slots; one thread loads, one is the
 * journal's. */
static int size_pool(struct service *s)
{
    const char *set = getenv("UV_THREADPOOL_SIZE");
    const unsigned n_each = s->config.slot_save_path[0] != '\0' ? 3 : 2;
    const unsigned n_store = s->config.kv_store[0] != '\0' ? 2 * s->models.n : 0;
    const unsigned n = set != NULL ? (unsigned)strtoul(set, NULL, 10) : 2 + n_each * s->models.n;
    unsigned n_event = 0;
    char text[16];
    int rc;

    snprintf(text, sizeof(text), "%u", n);
    setenv("UV_THREADPOOL_SIZE", text, 0);
    for (uint32_t i = 0; i < s->models.n; i++)
        n_event += s->models.all[i].publisher != NULL ? KV_EVENT_THREADS : 0;
    rc = startup_try_descriptors(FDS_TO_BEGIN, s->err, sizeof(s->err));
    if (rc == 0)
        rc = startup_try_threads(n + n_event + n_store + OTHER_THREADS, s->err, sizeof(s->err));
    return rc == 0 ? EXIT_OK : EXIT_FAILED;
}

static int build_options(struct service *s)
{
    struct server_model models[MODELS_MAX];
    int code;

    mem_tune();
    code = serve_models_init(&s->models, &s->config, s->err, sizeof(s->err));
    if (code != EXIT_OK)
        return code;
    for (uint32_t i = 0; i < s->models.n; i++)
        models[i] = s->models.all[i].info;
    if (size_pool(s) != EXIT_OK)
        return EXIT_FAILED;
    if (store_place_open(&s->models.place, s->config.kv_store, s->config.kv_store_password,
                         (uint32_t)s->config.kv_store_wait_ms, s->err, sizeof(s->err)) < 0)
        return EXIT_FAILED;
    snprintf(s->err, sizeof(s->err), "no memory");
    return make_server(s, models) == 0 ? EXIT_OK : EXIT_FAILED;
}

static void tear_down(struct service *s)
{
    stop_signals_mute(s->signals); /* a second signal still ends the process if this hangs */
    server_destroy(&s->server);
    serve_reload_destroy(&s->reload);
    serve_models_release(&s->models);
    config_release(&s->config);
    stop_signals_close(&s->signals);
}

static void print_models(const struct service *s)
{
    printf(" (%s ", s->models.n > 1 ? "models" : "model");
    for (uint32_t i = 0; i < s->models.n; i++)
        printf("%s%s", i > 0 ? ", " : "", s->models.all[i].id);
    printf(")");
}

static void print_places(const struct service *s)
{
    const struct config *c = &s->config;
    const bool is_ipv6 = strchr(c->host, ':') != NULL;
    char host[300];

    if (c->host[0] != '\0') {
        printf("listening on http%s://%s%s%s:%u", c->tls_certificate[0] != '\0' ? "s" : "",
               is_ipv6 ? "[" : "", c->host, is_ipv6 ? "]" : "", server_port(s->server));
        print_models(s);
        puts(config_is_exposed(c)
                 ? " WITHOUT API KEYS: everybody who can connect can use the server (see api_keys)"
                 : "");
    }
    if (c->unix_socket[0] != '\0') {
        printf("listening on unix:%s", c->unix_socket);
        print_models(s);
        puts("");
    }
    fflush(stdout);
    if (config_is_exposed(c))
        log_warn("main", "event=no_api_keys host=%s advice=\"set api_keys, or insecure = on\"",
                 log_quote(host, sizeof(host), c->host));
}

/* Do everything from the log file to bound sockets, the sandbox, signals, and the thread of the
 * log, which keeps writers from blocking. */
static int begin_service(struct service *s)
{
    int code;

    if (s->config.log_file[0] != '\0' &&
        log_open_file(s->config.log_file, s->err, sizeof(s->err)) < 0)
        return EXIT_FAILED;
    if (s->batch == NULL)
        sandbox_begin((enum sandbox_mode)s->config.sandbox, &s->sandbox);
    code = build_options(s);
    sandbox_probe("early");
    if (code != EXIT_OK)
        return code;
    /* The sandbox is entered before there are other threads, so that they inherit it. */
    if (s->batch == NULL &&
        serve_sandbox_enter(&s->config, s->models.all, s->models.n, &s->models.place, &s->sandbox,
                            s->err, sizeof(s->err)) < 0)
        return EXIT_FAILED;
    if (take_signals(s) < 0)
        return EXIT_FAILED;
    if (log_start() == 0)
        return EXIT_OK;
    snprintf(s->err, sizeof(s->err), "cannot start the thread that writes the log");
    return EXIT_FAILED;
}

/* Exit without freeing: a thread still runs and uses what would be freed. */
static void leave_service(void)
{
    log_info("main", "stopped=1");
    (void)log_flush(LOG_STOP_MS);
    _exit(EXIT_OK);
}

static int serve(struct service *s)
{
    int rc;

    if (s->batch == NULL)
        print_places(s);
    rc = server_run(s->server);
    if (rc == ERR_BUSY) /* the load still runs, and uses everything */
        leave_service();
    serve_models_stop(&s->models); /* the engines must end, however the server ended */
    if (rc == ERR_AGAIN) /* a thread still uses or loads a model */
        leave_service();
    if (s->code != EXIT_OK)
        return command_fail(s->code, "%s", s->err);
    if (rc < 0)
        return command_fail(EXIT_FAILED, "the server cannot start: %s", err_text(rc));
    log_info("main", "stopped=1");
    return EXIT_OK;
}

int cmd_serve(int argc, char **argv)
{
    struct config config;
    bool done;
    const int code = command_config(&config, argc, argv, print_serve_help, &done);

    return done ? code : serve_run(&config, argc, argv, NULL);
}

int serve_run(const struct config *config, int argc, char *const *argv,
              const struct server_batch *batch)
{
    struct service s = {.config = *config, .batch = batch};
    const struct serve_reload_options reload = {&s.models, &s.config, argc, argv};
    int code;

    startup_ignore_signals();
    code = serve_reload_create(&s.reload, &reload) == 0 ? begin_service(&s) : EXIT_FAILED;
    if (code == EXIT_OK)
        code = serve(&s);
    else
        command_fail(code, "%s", s.err);
    tear_down(&s);
    (void)log_stop(LOG_STOP_MS);
    return code;
}
