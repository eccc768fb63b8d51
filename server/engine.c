/* server/engine.c - see engine.h. */
#include "server/engine.h"

#include "config/config.h"
#include "config/demo.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/gguf/gguf.h"
#include "core/model/model.h"
#include "core/run/runner.h"
#include "core/text/tokenizer.h"
#include "kvcache/block_pool.h"
#include "kvcache/kv_store.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A bar on a terminal, redrawn at most at every whole per cent. */
struct progress {
    uint64_t start_ms;
    int shown;
};

static void show_progress(void *ud, uint64_t done, uint64_t total)
{
    static const char bar[] = "##############################";
    struct progress *p = ud;
    const int percent = total > 0 ? (int)(done * 100 / total) : 100;
    const int n = percent * 30 / 100;

    if (percent == p->shown || !isatty(STDERR_FILENO) || clock_ms() - p->start_ms < 200)
        return;
    p->shown = percent;
    fprintf(stderr, "\rpacking weights [%-30.*s] %3d %%%s", n, bar, percent,
            percent == 100 ? "\r\033[K" : "");
}

int engine_open_gguf(struct gguf **out, const char *path, char *err, size_t err_len)
{
    size_t bytes;
    const void *data;

    if (path[0] != '\0')
        return gguf_open(out, path, err, err_len);
    data = demo_model(&bytes);
    return gguf_open_memory(out, "the built-in demo model", data, bytes, err, err_len);
}

static int choose_isa(struct engine *e, const char *name, char *err, size_t err_len)
{
    const enum kern_isa best = kern_isa_best();
    const int wanted = strcmp(name, "auto") == 0 ? (int)best : kern_isa_parse(name);

    if (wanted < 0 || wanted > (int)best) {
        snprintf(err, err_len, "isa '%s' is not available here; this machine goes up to '%s'", name,
                 kern_isa_name(best));
        return ERR_UNSUPPORTED;
    }
    e->isa = (enum kern_isa)wanted;
    return 0;
}

static uint32_t count_cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
    return 1;
}

static void name_model(struct engine *e, const char *path)
{
    const char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    size_t n = strlen(base);

    if (n == 0)
        base = "quire-demo", n = strlen(base);
    else if (n > 5 && strcmp(base + n - 5, ".gguf") == 0)
        n -= 5;
    snprintf(e->id, sizeof(e->id), "%.*s", (int)n, base);
}

static int load_model(struct engine *e, const struct config *c, char *err, size_t err_len)
{
    struct progress progress = {.start_ms = clock_ms(), .shown = -1};
    const struct model_options options = {
        .n_ctx = (uint32_t)c->context,
        .threads = e->threads,
        .progress = show_progress,
        .progress_ud = &progress,
    };
    struct gguf *g;
    int rc = engine_open_gguf(&g, c->model, err, err_len);

    if (rc < 0)
        return rc;
    rc = tokenizer_create(&e->tokenizer, g, err, err_len);
    if (rc == 0)
        rc = model_load(&e->model, g, &options, err, err_len);
    if (rc == 0 && tokenizer_n_vocab(e->tokenizer) != (int32_t)e->model->shape.n_vocab) {
        snprintf(err, err_len, "%s: the tokenizer has %d tokens, the model %u", gguf_name(g),
                 tokenizer_n_vocab(e->tokenizer), e->model->shape.n_vocab);
        rc = ERR_FORMAT;
    }
    gguf_close(&g);
    return rc;
}

static int make_cache(struct engine *e, const struct config *c, char *err, size_t err_len)
{
    const struct model_shape *s = &e->model->shape;
    const struct kv_shape shape = {s->n_layer, s->n_kv_head, s->head_dim};
    const uint32_t n_blocks = kv_store_blocks_for(&shape, c->kv_memory);
    int rc;

    if (n_blocks == 0) {
        snprintf(err, err_len,
                 "kv_memory %" PRIu64 " is too small: one block of 16 tokens takes %zu bytes",
                 c->kv_memory, kv_store_block_bytes(&shape));
        return ERR_RANGE;
    }
    rc = kv_store_create(&e->kv, &shape, n_blocks);
    if (rc == 0)
        rc = block_pool_create(&e->pool, n_blocks);
    if (rc < 0)
        snprintf(err, err_len, "cannot reserve %" PRIu64 " bytes for the KV cache: %s",
                 c->kv_memory, err_text(rc));
    return rc;
}

static void fill_sched_options(struct engine *e, const struct config *c)
{
    const uint64_t kv_tokens = (uint64_t)e->kv->n_blocks * BLOCK_TOKENS;
    const uint32_t n_ctx = e->model->shape.n_ctx;

    e->sched = (struct sched_options){
        .pool = e->pool,
        .policy = strcmp(c->policy, "fcfs") == 0 ? SCHED_FCFS : SCHED_PRIORITY,
        .max_sequences = (uint32_t)c->max_sequences,
        .max_requests = (uint32_t)(c->max_sequences + c->queue_limit),
        .max_context = kv_tokens < n_ctx ? (uint32_t)kv_tokens : n_ctx,
        .max_batch_tokens = (uint32_t)c->max_batch_tokens,
        .prefill_chunk = (uint32_t)c->prefill_chunk,
    };
}

static int make_runner(struct engine *e, char *err, size_t err_len)
{
    struct runner_options options = {
        .model = e->model,
        .kv = e->kv,
        .isa = e->isa,
        .threads = e->threads,
        .max_rows = e->sched.max_batch_tokens,
    };

    options.eog = tokenizer_eog(e->tokenizer, &options.n_eog);
    return runner_create(&e->runner, &options, err, err_len);
}

static void log_sizes(const struct engine *e, uint64_t load_ms)
{
    const struct model *m = e->model;
    char id[160], name[160];

    log_info("engine",
             "model=%s name=%s arch=%s type=%s params=%" PRIu64 " weights_bytes=%" PRIu64
             " load_ms=%" PRIu64,
             log_quote(id, sizeof(id), e->id), log_quote(name, sizeof(name), m->name), m->arch,
             m->ftype, m->n_params, m->weight_bytes, load_ms);
    log_info("engine",
             "isa=%s threads=%u kv_blocks=%u kv_bytes=%zu context=%u scratch_bytes=%zu",
             kern_isa_name(e->isa), e->threads, e->kv->n_blocks, e->kv->bytes,
             e->sched.max_context, runner_scratch_bytes(e->runner));
}

int engine_init(struct engine *e, const struct config *c, char *err, size_t err_len)
{
    const uint64_t start = clock_ms();
    int code = EXIT_FAILED;

    memset(e, 0, sizeof(*e));
    name_model(e, c->model);
    e->threads = c->threads > 0 ? (uint32_t)c->threads : count_cores();
    if (choose_isa(e, c->isa, err, err_len) < 0)
        return EXIT_USAGE;
    if (load_model(e, c, err, err_len) < 0)
        goto fail;
    if (make_cache(e, c, err, err_len) < 0) {
        code = EXIT_USAGE;
        goto fail;
    }
    fill_sched_options(e, c);
    if (make_runner(e, err, err_len) < 0)
        goto fail;
    log_sizes(e, clock_ms() - start);
    return EXIT_OK;

fail:
    engine_release(e);
    return code;
}

void engine_release(struct engine *e)
{
    runner_destroy(&e->runner);
    block_pool_destroy(&e->pool);
    kv_store_destroy(&e->kv);
    model_destroy(&e->model);
    tokenizer_destroy(&e->tokenizer);
}
