/* tests/bench/bench_adapters.c - what LoRA adapters cost: `make bench-adapters`.
 *
 * A batch of 16 streams makes the same step over and over: of the model alone, with one adapter for
 * all of them, and with 8 adapters for two streams each, in turn, so that a machine that becomes
 * slower meanwhile does so for all three. Adapters are random, F16, of the ranks that are asked
 * for, on all products of all layers or on queries and values alone. Medians of the steps, and
 * ratios of medians. Quiet machine, please.
 */
#include "server/cli/command.h"

#include "config/config.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"
#include "core/model/adapter.h"
#include "core/runtime/runner_impl.h"
#include "kvcache/kv_manager.h"
#include "server/models/instance.h"
#include "tests/fixtures/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS 16
#define ADAPTERS 8
#define POSITION 64 /* of the rows */
#define STEPS 300
#define WARM 10
#define MAX_ARGS 32

enum who { NOBODY, ONE, EIGHT, N_WHO };

struct stream {
    struct kv_seq kv;
    block_id blocks[BLOCK_TOKENS];
};

struct bench {
    struct instance e;
    struct batch *batch;
    struct stream streams[STREAMS];
    struct adapter *adapters[ADAPTERS];
    double ms[N_WHO][STEPS];
};

static void die(const char *what)
{
    fprintf(stderr, "bench_adapters: %s\n", what);
    exit(EXIT_FAILURE);
}

/* ---- adapters ---- */

static void add_tensor(struct gguf_writer *w, int layer, const char *name, char end, uint64_t n_in,
                       uint64_t n_out, uint64_t *rng)
{
    const uint64_t dims[2] = {n_in, n_out};
    float *values = mem_calloc(n_in * n_out, sizeof(*values));
    char full[96];

    if (values == NULL)
        die("out of memory");
    for (uint64_t i = 0; i < n_in * n_out; i++)
        values[i] = (float)random_below(rng, 2001) * 1e-5f - 0.01f;
    snprintf(full, sizeof(full), "blk.%d.%s.weight.lora_%c", layer, name, end);
    gguf_writer_tensor(w, full, BLOCK_F16, 2, dims, values);
    mem_free(values);
}

static void add_pair(struct gguf_writer *w, int layer, const char *name, const struct matrix *m,
                     uint64_t rank, uint64_t *rng)
{
    add_tensor(w, layer, name, 'a', m->n_in, rank, rng);
    add_tensor(w, layer, name, 'b', rank, m->n_out, rng);
}

static void add_layer(struct gguf_writer *w, int i, const struct model_layer *l, uint64_t rank,
                      bool all, uint64_t *rng)
{
    add_pair(w, i, "attn_q", &l->q, rank, rng);
    add_pair(w, i, "attn_v", &l->v, rank, rng);
    if (!all)
        return;
    add_pair(w, i, "attn_k", &l->k, rank, rng);
    add_pair(w, i, "attn_output", &l->attn_out, rank, rng);
    add_pair(w, i, "ffn_gate", &l->ffn.gate, rank, rng);
    add_pair(w, i, "ffn_up", &l->ffn.up, rank, rng);
    add_pair(w, i, "ffn_down", &l->ffn.down, rank, rng);
}

static struct adapter *make_adapter(const struct model *m, uint64_t rank, bool all, uint64_t seed)
{
    struct gguf_writer *w;
    struct adapter *a;
    struct gguf *g;
    uint8_t *data;
    size_t bytes;
    char err[400];

    if (gguf_writer_create(&w) < 0)
        die("out of memory");
    gguf_writer_str(w, "general.type", "adapter");
    gguf_writer_str(w, "adapter.type", "lora");
    gguf_writer_f32(w, "adapter.lora.alpha", (float)rank);
    for (uint32_t i = 0; i < m->shape.n_layer; i++)
        add_layer(w, (int)i, &m->layers[i], rank, all, &seed);
    if (gguf_writer_finish(w, &data, &bytes) < 0)
        die("cannot write an adapter");
    gguf_writer_destroy(&w);
    if (gguf_open_memory(&g, "adapter", data, bytes, err, sizeof(err)) < 0 ||
        adapter_load(&a, g, m, NULL, err, sizeof(err)) < 0)
        die(err);
    gguf_close(&g);
    mem_free(data);
    return a;
}

/* ---- steps ---- */

static void make_streams(struct bench *b)
{
    for (int i = 0; i < STREAMS; i++) {
        struct stream *s = &b->streams[i];

        kv_seq_init(&s->kv, s->blocks, BLOCK_TOKENS, 1);
        if (kv_manager_n_groups(b->e.manager) != 1 ||
            kv_manager_alloc(b->e.manager, &s->kv, 0, POSITION + 1) < 0)
            die("takes a model without windows, and 80 blocks");
    }
    if (batch_create(&b->batch, STREAMS, STREAMS, STREAMS) < 0)
        die("out of memory");
}

static void fill_batch(struct bench *b, enum who who)
{
    static const struct sampling greedy = {.top_p = 1, .repetition_penalty = 1, .n_top = -1};

    batch_clear(b->batch);
    for (int i = 0; i < STREAMS; i++) {
        const int32_t id = 1000 + i;
        struct stream *s = &b->streams[i];
        const uint32_t row = batch_add_span(b->batch, &id, 1, POSITION, s->kv.table.blocks,
                                            s->kv.table.cap);
        struct batch_output *o = batch_add_output(b->batch, row);
        struct batch_span *span = &b->batch->spans[b->batch->n_spans - 1];

        o->want = BATCH_SAMPLE;
        o->sampling = &greedy;
        o->pos = POSITION + 1;
        span->adapter = who == NOBODY ? NULL : b->adapters[who == ONE ? 0 : i * ADAPTERS / STREAMS];
        span->adapter_scale = 1;
    }
    b->batch->has_adapters = who != NOBODY;
}

static void time_steps(struct bench *b)
{
    for (int i = -WARM; i < STEPS; i++)
        for (int who = 0; who < N_WHO; who++) {
            uint64_t begin;

            fill_batch(b, (enum who)who);
            begin = clock_ns();
            runner_step(b->e.runner, b->batch);
            if (i >= 0)
                b->ms[who][i] = (double)(clock_ns() - begin) * 1e-6;
        }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double ms[STEPS])
{
    qsort(ms, STEPS, sizeof(*ms), by_size);
    return ms[STEPS / 2];
}

static void bench_rank(struct bench *b, uint64_t rank, bool all)
{
    double none, one, eight;

    for (int i = 0; i < ADAPTERS; i++)
        b->adapters[i] = make_adapter(b->e.model, rank, all, (uint64_t)i + 1);
    time_steps(b);
    none = median(b->ms[NOBODY]);
    one = median(b->ms[ONE]);
    eight = median(b->ms[EIGHT]);
    printf("rank %3d %-7s %6.1f MB each: none %.2f ms  one for all %.2f ms (%.3f)  "
           "8 adapters %.2f ms (%.3f)  quartiles of none %.2f and %.2f\n",
           (int)rank, all ? "all" : "q and v", (double)b->adapters[0]->bytes * 1e-6, none, one,
           one / none, eight, eight / none, b->ms[NOBODY][STEPS / 4],
           b->ms[NOBODY][STEPS * 3 / 4]);
    fflush(stdout);
    for (int i = 0; i < ADAPTERS; i++)
        adapter_unref(&b->adapters[i]);
}

static void print_help(void)
{
    fputs("bench_adapters --ranks 8,16 --model PATH [settings]\n", stdout);
}

int main(int argc, char **argv)
{
    static struct bench b;
    const char *ranks = "8,16,64";
    struct config config;
    char err[512];
    bool done;
    int code;

    if (!command_take_value(&argc, argv, "--ranks", &ranks))
        return EXIT_USAGE;
    code = command_config(&config, argc, argv, print_help, &done);
    if (done)
        return code;
    code = instance_init(&b.e, &config, 0, err, sizeof(err));
    config_release(&config);
    if (code != EXIT_OK)
        die(err);
    make_streams(&b);
    for (char *end = (char *)ranks; *ranks != '\0'; ranks = *end == ',' ? end + 1 : end) {
        const uint64_t rank = strtoull(ranks, &end, 10);

        if (end == ranks || rank < 1 || rank > ADAPTER_MAX_RANK)
            die("--ranks takes numbers from 1 to 256 with commas between");
        bench_rank(&b, rank, false);
        bench_rank(&b, rank, true);
    }
    batch_destroy(&b.batch);
    for (int i = 0; i < STREAMS; i++)
        kv_manager_release(b.e.manager, &b.streams[i].kv);
    instance_release(&b.e);
    return 0;
}
