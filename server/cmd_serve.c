/* server/cmd_serve.c - `quire serve`: build everything in order, serve, tear down in reverse. */
#include "server/command.h"

#include "config/config.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/model/model.h"
#include "core/text/tokenizer.h"
#include "scheduler/journal.h"
#include "scheduler/loop.h"
#include "server/chat.h"
#include "server/constrain.h"
#include "server/engine.h"
#include "server/server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Compiled constraints that are kept: some of a megabyte each with a large vocabulary. */
#define CONSTRAIN_ENTRIES 256
#define CONSTRAIN_BYTES ((size_t)128 << 20)

struct service {
    struct config config;
    struct engine engine;
    struct chat *chat;
    struct constrain *constrain;
    struct engine_progress progress;
    char model_id[sizeof(((struct engine *)0)->id)];
    struct server *server;
    struct queue *queue;
    struct journal *journal;
    struct loop *loop;
    int code; /* of the load, when it is over */
    char err[512];
};

static void print_help(void)
{
    fputs("quire - HTTP inference server for GGUF language models on CPUs\n"
          "\n"
          "  quire [serve] [settings]             serve a model over HTTP\n"
          "  quire generate --prompt TEXT         continue a text on the terminal\n"
          "  quire score --ids F.json | --text F  mean negative log-likelihood of a text\n"
          "  quire inspect FILE                   what is in a GGUF file\n"
          "  quire tokenize [--ids]               standard input as tokens\n"
          "  quire replay FILE                    plan a recorded journal again, or otherwise\n"
          "  quire key --name NAME                make an API key\n"
          "  quire plan [settings]                the memory a server would take\n"
          "  quire bench                          how fast a model is here, beside the limits\n"
          "\n"
          "Settings; also NAME = value in a file, or QUIRE_NAME in the environment:\n",
          stdout);
    config_print_help(stdout);
    fputs("  --config            file of settings (config/quire.conf is a commented sample)\n"
          "  --print-config      print every setting with its value and source, and stop\n"
          "  --version, --help\n",
          stdout);
}

/* ---- on a thread of the loop's pool, while the server already answers that it is loading ---- */

static int make_loop(struct service *s)
{
    const uint32_t max_outstanding = s->engine.sched.max_requests + SERVER_DRY_RUNS;
    struct loop_options options = {
        .sched = s->engine.sched,
        .runner = s->engine.runner,
        .kv_options = &s->engine.cache,
        .kv = s->engine.kv,
        .swap = s->engine.swap,
        .step_target_ms = (uint32_t)s->config.step_target_ms,
        .journal = s->journal,
    };
    const struct queue_options queue = {
        .max_outstanding = max_outstanding,
        .max_tenants = s->engine.sched.max_tenants,
        .n_blocks = s->engine.cache.n_blocks,
        /* Room for a step, and for the end of everything at once when nobody reads any more. */
        .max_events = 2 * s->engine.sched.max_batch_tokens + max_outstanding,
        .wake = server_wake,
        .wake_ud = s->server,
    };
    int rc = queue_create(&s->queue, &queue);

    if (rc < 0)
        return rc;
    options.queue = s->queue;
    options.eog = tokenizer_eog(s->engine.tokenizer, &options.n_eog);
    return loop_create(&s->loop, &options);
}

static int make_chat(struct service *s, char *err, size_t err_len)
{
    const int rc =
        chat_create(&s->chat, s->config.chat_template, s->engine.tokenizer, err, err_len);

    if (rc < 0)
        return rc;
    if (chat_complaint(s->chat) != NULL)
        log_warn("main", "chat_template=\"%s\" unusable=\"%s\"", chat_origin(s->chat),
                 chat_complaint(s->chat));
    else
        log_info("main", "chat_template=\"%s\"", chat_origin(s->chat));
    return 0;
}

static int make_constrain(struct service *s)
{
    const struct constrain_options options = {.tokenizer = s->engine.tokenizer,
                                              .max_entries = CONSTRAIN_ENTRIES,
                                              .max_bytes = CONSTRAIN_BYTES};

    return constrain_create(&s->constrain, &options);
}

#ifdef QUIRE_DEBUG
/* For tests of what is answered meanwhile: wait until somebody opens the named FIFO to write. */
static void hold_load(void)
{
    const char *path = getenv("QUIRE_DEBUG_HOLD_LOAD");
    const int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0)
        close(fd);
}
#else
static void hold_load(void)
{
}
#endif

static void load(void *ud)
{
    struct service *s = ud;
    int rc;

    hold_load();
    s->code = engine_init_among(&s->engine, &s->config, ENGINE_SWAP | ENGINE_ENCODERS,
                                &(struct engine_company){.progress = &s->progress}, s->err,
                                sizeof(s->err));
    if (s->code != EXIT_OK)
        return;
    if (make_chat(s, s->err, sizeof(s->err)) < 0) {
        s->code = EXIT_FAILED;
        return;
    }
    rc = make_constrain(s);
    if (rc == 0)
        rc = make_loop(s);
    if (rc == 0)
        rc = loop_start(s->loop);
    if (rc == 0)
        return;
    loop_destroy(&s->loop);
    snprintf(s->err, sizeof(s->err), "cannot start the engine: %s", err_text(rc));
    s->code = EXIT_FAILED;
}

/* ---- on the loop's thread ---- */

/* The setting, else what the file says. */
static enum pooling pooling_of(const char *setting, uint32_t type)
{
    if (strcmp(setting, "mean") == 0 || (strcmp(setting, "auto") == 0 && type == 1))
        return POOLING_MEAN;
    if (strcmp(setting, "first") == 0 || (strcmp(setting, "auto") == 0 && type == 2))
        return POOLING_FIRST;
    return POOLING_LAST;
}

static void tell_server(struct service *s)
{
    const struct engine *e = &s->engine;
    const struct model *m = e->model;
    const struct server_model facts = {
        .id = s->model_id,
        .arch = m->arch,
        .ftype = m->ftype,
        .created = (int64_t)time(NULL),
        .n_vocab = m->shape.n_vocab,
        .n_ctx_train = m->shape.n_ctx_train,
        .n_embd = m->shape.n_embd,
        .max_context = e->sched.max_context,
        .max_kv_tokens = kv_lanes_most_tokens(&e->cache.lanes, e->cache.n_blocks),
        .n_blocks = e->cache.n_blocks,
        .block_tokens = BLOCK_TOKENS,
        .n_params = m->n_params,
        .size = m->file_bytes,
        .kv_type = kern_kv_name(e->kv_type),
        .pooling = pooling_of(s->config.pooling, m->shape.pooling_type),
        .is_encoder = m->shape.is_encoder,
    };

    server_set_engine(s->server, &(struct server_engine){.prefill_chunk = e->sched.prefill_chunk,
                                                         .shares_prefixes = e->cache.prefix_cache,
                                                         .model = &facts,
                                                         .tokenizer = e->tokenizer,
                                                         .chat = s->chat,
                                                         .constrain = s->constrain,
                                                         .swap = e->swap,
                                                         .isa = kern_isa_name(e->isa)});
    server_attach(s->server, s->queue);
}

static void loaded(void *ud)
{
    struct service *s = ud;

    if (s->code == EXIT_OK)
        tell_server(s);
    else
        server_fail(s->server);
}

static uint32_t load_permille(void *ud)
{
    struct service *s = ud;

    return atomic_load_explicit(&s->progress.permille, memory_order_relaxed);
}

static int make_server(struct service *s)
{
    const struct config *c = &s->config;
    const struct server_options options = {
        .host = c->host,
        .port = (uint16_t)c->port,
        .tls_certificate = c->tls_certificate,
        .tls_key = c->tls_key,
        .unix_socket = c->unix_socket,
        .unix_socket_mode = (unsigned)strtoul(c->unix_socket_mode, NULL, 8),
        .api_keys = c->api_keys,
        .has_open_metrics = strcmp(c->metrics_open, "on") == 0,
        .cors_origins = c->cors_origins,
        .max_body = c->max_body,
        .max_sequences = (uint32_t)c->max_sequences,
        .max_batch_tokens = (uint32_t)c->max_batch_tokens,
        .max_outstanding = (uint32_t)(c->max_sequences + c->queue_limit),
        .request_timeout_s = (uint32_t)c->request_timeout,
        .max_queue_ms = (uint32_t)c->max_queue_ms,
        .tenant_header = c->tenant_header,
        .tenant_weights = c->tenant_weights,
        .max_tenants = (uint32_t)c->max_tenants,
        .tenant_limit = (uint32_t)c->tenant_limit,
        .model = {.id = s->model_id},
        .journal_path = c->journal[0] != '\0' ? c->journal : NULL,
        .journal = s->journal,
        .load = {load, loaded, load_permille, s},
    };

    engine_name_model(c->model, s->model_id, sizeof(s->model_id));
    return server_create(&s->server, &options, s->err, sizeof(s->err));
}

static int build(struct service *s)
{
    int rc = 0;

    snprintf(s->err, sizeof(s->err), "no memory");
    if (s->config.journal[0] != '\0')
        rc = journal_create(&s->journal, JOURNAL_BYTES);
    return rc == 0 ? make_server(s) : rc;
}

static void tear_down(struct service *s)
{
    server_destroy(&s->server);
    loop_destroy(&s->loop);
    queue_destroy(&s->queue);
    journal_destroy(&s->journal);
    constrain_destroy(&s->constrain);
    chat_destroy(&s->chat);
    engine_release(&s->engine);
    config_release(&s->config);
}

static void print_places(const struct service *s)
{
    const struct config *c = &s->config;
    const bool is_ipv6 = strchr(c->host, ':') != NULL;

    if (c->host[0] != '\0')
        printf("listening on http%s://%s%s%s:%u (model %s)\n",
               c->tls_certificate[0] != '\0' ? "s" : "", is_ipv6 ? "[" : "", c->host,
               is_ipv6 ? "]" : "", server_port(s->server), s->model_id);
    if (c->unix_socket[0] != '\0')
        printf("listening on unix:%s (model %s)\n", c->unix_socket, s->model_id);
    fflush(stdout);
}

static int serve(struct service *s)
{
    int rc;

    print_places(s);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is a full disk, not an end */
    rc = server_run(s->server);
    if (rc == ERR_BUSY) { /* the load goes on and uses everything: there is no way but out */
        log_info("main", "stopped=1");
        _exit(EXIT_OK);
    }
    if (s->loop != NULL) {
        queue_close(s->queue, true); /* whatever ended the server: the engine must end too */
        loop_join(s->loop);
    }
    if (s->code != EXIT_OK)
        return command_fail(s->code, "%s", s->err);
    log_info("main", "stopped=1");
    return rc < 0 ? EXIT_FAILED : EXIT_OK;
}

int cmd_serve(int argc, char **argv)
{
    struct service s = {0};
    bool done;
    int code = command_config(&s.config, argc, argv, print_help, &done);

    if (done)
        return code;
    if (build(&s) < 0)
        code = command_fail(EXIT_FAILED, "%s", s.err);
    else
        code = serve(&s);
    tear_down(&s);
    return code;
}
