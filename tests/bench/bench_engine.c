/* tests/bench/bench_engine.c - prefill and decode of a whole model, without HTTP.
 *
 *   bench_engine --model FILE [--threads N] [--isa NAME] [--prefill 512] [--decode 64]
 *                [--batch 1,4,16]
 *
 * Prints tokens a second: one prompt of --prefill tokens (median of 3), then decoding for each
 * batch size after prompts of 128 tokens (median over the steps). Beside them what the products
 * alone amount to: arithmetic in the prefill, bytes of weights read in a decode step. bench_kern
 * prints the machine's limits for both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/model/model.h"
#include "core/run/runner.h"
#include "kvcache/kv_manager.h"
#include "server/command.h"
#include "server/engine.h"

#define DECODE_PROMPT 128
#define MAX_STEPS 4096

struct stream {
    struct kv_seq kv;
    uint32_t n; /* tokens computed */
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

static void grow(struct engine *e, struct stream *s, uint32_t n_tokens)
{
    if (s->kv.table.blocks == NULL) {
        const uint32_t cap = block_table_needed(e->sched.max_context);

        kv_seq_init(&s->kv, calloc(cap, sizeof(block_id)), cap);
    }
    if (kv_manager_grow(e->manager, &s->kv, s->n, n_tokens) < 0) {
        fprintf(stderr, "bench_engine: the KV cache or the context is too small\n");
        exit(EXIT_FAILED);
    }
}

/* n more tokens of a stream as one span, sampling at its last row. */
static void add_span(struct engine *e, struct batch *b, struct stream *s, uint32_t n)
{
    static const struct sampling greedy = {.n_top = -1};
    int32_t ids[4096];
    uint32_t row;

    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)((s->n + i) * 7919 % e->model->shape.n_vocab);
    grow(e, s, s->n + n);
    row = batch_add_span(b, ids, n, s->n, s->kv.table.blocks);
    s->n += n;
    batch_add_output(b, row + n - 1)->sampling = &greedy;
}

static double step(struct engine *e, struct batch *b)
{
    const uint64_t from = clock_us();

    runner_step(e->runner, b);
    return (double)(clock_us() - from) / 1e6;
}

static void forget(struct engine *e, struct stream *s)
{
    block_id *blocks = s->kv.table.blocks;

    kv_manager_release(e->manager, &s->kv);
    free(blocks);
    memset(s, 0, sizeof(*s));
}

/* Parameters of the layers' matrices: what every prompt token is multiplied with. */
static uint64_t layer_params(const struct model *m)
{
    const struct model_shape *s = &m->shape;
    const uint64_t attn = 2 * (uint64_t)(s->n_head + s->n_kv_head) * s->head_dim * s->n_embd;

    return s->n_layer * (attn + 3 * (uint64_t)s->n_ff * s->n_embd);
}

static void bench_prefill(struct engine *e, struct batch *b, uint32_t n)
{
    double seconds[3];

    for (int i = -1; i < 3; i++) { /* the first one warms up */
        struct stream s = {0};

        batch_clear(b);
        add_span(e, b, &s, n);
        if (i < 0)
            step(e, b);
        else
            seconds[i] = step(e, b);
        forget(e, &s);
    }
    const double rate = n / median(seconds, 3);

    printf("prefill %5u tokens   %8.1f tok/s   %6.0f Gop/s\n", n, rate,
           2 * rate * (double)layer_params(e->model) / 1e9);
}

static void bench_decode(struct engine *e, struct batch *b, uint32_t n_streams, uint32_t n_steps)
{
    struct stream *streams = calloc(n_streams, sizeof(*streams));
    static double seconds[MAX_STEPS];

    for (uint32_t i = 0; i < n_streams; i++) {
        batch_clear(b);
        add_span(e, b, &streams[i], DECODE_PROMPT);
        step(e, b);
    }
    for (uint32_t t = 0; t < n_steps; t++) {
        batch_clear(b);
        for (uint32_t i = 0; i < n_streams; i++)
            add_span(e, b, &streams[i], 1);
        seconds[t] = step(e, b);
    }
    const double steps = 1 / median(seconds, n_steps);

    printf("decode  %5u streams  %8.1f tok/s   %6.1f GB/s\n", n_streams, n_streams * steps,
           steps * (double)e->model->weight_bytes / 1e9);
    for (uint32_t i = 0; i < n_streams; i++)
        forget(e, &streams[i]);
    free(streams);
}

int main(int argc, char **argv)
{
    int64_t prefill = 512, decode = 64;
    const char *batches = "1,4,16";
    struct config config;
    struct engine e;
    struct batch *b;
    char err[512];
    bool done;

    if (!command_take_int(&argc, argv, "--prefill", 1, 4096, &prefill) ||
        !command_take_int(&argc, argv, "--decode", 1, MAX_STEPS, &decode) ||
        !command_take_value(&argc, argv, "--batch", &batches))
        return EXIT_USAGE;
    if (command_config(&config, argc, argv, NULL, &done) != EXIT_OK || done)
        return EXIT_USAGE;
    log_setup(LOG_WARN, false, 2);
    if (engine_init(&e, &config, 0, err, sizeof(err)) != EXIT_OK)
        return command_fail(EXIT_FAILED, "%s", err);
    if (batch_create(&b, e.sched.max_batch_tokens, 4096, 4096) < 0)
        return command_fail(EXIT_FAILED, "no memory");
    printf("model %s (%s, %s), isa %s, %u threads\n", e.model->name, e.model->arch, e.model->ftype,
           kern_isa_name(e.isa), e.threads);
    if ((uint32_t)prefill < e.sched.max_context)
        bench_prefill(&e, b, (uint32_t)prefill);
    for (const char *p = batches; p != NULL; p = strchr(p, ',') != NULL ? strchr(p, ',') + 1 : NULL)
        bench_decode(&e, b, (uint32_t)strtoul(p, NULL, 10), (uint32_t)decode);
    batch_destroy(&b);
    engine_release(&e);
    config_release(&config);
    return EXIT_OK;
}
