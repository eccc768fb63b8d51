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
#include "server/engine.h"
#include "server/server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct service {
    struct config config;
    struct engine engine;
    struct chat *chat;
    struct server *server;
    struct queue *queue;
    struct journal *journal;
    struct loop *loop;
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

static int make_server(struct service *s, char *err, size_t err_len)
{
    const struct config *c = &s->config;
    const struct model *m = s->engine.model;
    const struct server_options options = {
        .host = c->host,
        .port = (uint16_t)c->port,
        .max_body = c->max_body,
        .max_sequences = s->engine.sched.max_sequences,
        .max_batch_tokens = s->engine.sched.max_batch_tokens,
        .prefill_chunk = s->engine.sched.prefill_chunk,
        .max_outstanding = s->engine.sched.max_requests,
        .request_timeout_s = (uint32_t)c->request_timeout,
        .max_queue_ms = (uint32_t)c->max_queue_ms,
        .shares_prefixes = s->engine.cache.prefix_cache,
        .tenant_header = c->tenant_header,
        .tenant_weights = c->tenant_weights,
        .max_tenants = (uint32_t)c->max_tenants,
        .tenant_limit = (uint32_t)c->tenant_limit,
        .model = {
            .id = s->engine.id,
            .arch = m->arch,
            .ftype = m->ftype,
            .created = (int64_t)time(NULL),
            .n_vocab = m->shape.n_vocab,
            .n_ctx_train = m->shape.n_ctx_train,
            .n_embd = m->shape.n_embd,
            .max_context = s->engine.sched.max_context,
            .max_kv_tokens = s->engine.cache.n_blocks * BLOCK_TOKENS,
            .block_tokens = BLOCK_TOKENS,
            .n_params = m->n_params,
            .size = m->file_bytes,
            .kv_type = kern_kv_name(s->engine.kv_type),
        },
        .tokenizer = s->engine.tokenizer,
        .chat = s->chat,
        .journal_path = c->journal[0] != '\0' ? c->journal : NULL,
        .journal = s->journal,
        .swap = s->engine.swap,
        .isa = kern_isa_name(s->engine.isa),
    };

    return server_create(&s->server, &options, err, err_len);
}

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

static int build(struct service *s, char *err, size_t err_len)
{
    int rc = make_chat(s, err, err_len);

    if (rc == 0 && s->config.journal[0] != '\0')
        rc = journal_create(&s->journal, JOURNAL_BYTES);
    if (rc == 0)
        rc = make_server(s, err, err_len);
    if (rc < 0)
        return rc;
    rc = make_loop(s);
    if (rc == 0)
        rc = loop_start(s->loop);
    if (rc < 0)
        snprintf(err, err_len, "cannot start the engine: %s", err_text(rc));
    return rc;
}

static void tear_down(struct service *s)
{
    server_destroy(&s->server);
    loop_destroy(&s->loop);
    queue_destroy(&s->queue);
    journal_destroy(&s->journal);
    chat_destroy(&s->chat);
    engine_release(&s->engine);
    config_release(&s->config);
}

static int serve(struct service *s)
{
    const bool is_ipv6 = strchr(s->config.host, ':') != NULL;
    int rc;

    printf("listening on http://%s%s%s:%u (model %s)\n", is_ipv6 ? "[" : "", s->config.host,
           is_ipv6 ? "]" : "", server_port(s->server), s->engine.id);
    fflush(stdout);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is a full disk, not an end */
    server_attach(s->server, s->queue);
    rc = server_run(s->server);
    queue_close(s->queue, true); /* whatever ended the loop: the engine thread must end too */
    loop_join(s->loop);
    log_info("main", "stopped=1");
    return rc < 0 ? EXIT_FAILED : EXIT_OK;
}

int cmd_serve(int argc, char **argv)
{
    struct service s = {0};
    char err[512] = "no memory";
    bool done;
    int code = command_config(&s.config, argc, argv, print_help, &done);

    if (done)
        return code;
    code = engine_init(&s.engine, &s.config, ENGINE_SWAP, err, sizeof(err));
    if (code != EXIT_OK) {
        config_release(&s.config);
        return command_fail(code, "%s", err);
    }
    if (build(&s, err, sizeof(err)) < 0)
        code = command_fail(EXIT_FAILED, "%s", err);
    else
        code = serve(&s);
    tear_down(&s);
    return code;
}
