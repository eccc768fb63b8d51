/* tests/golden/machine.h - a small random model and a whole engine around it, for tests of P1.
 *
 * The model has 4 layers with GQA, and its matrices take turns at the packed weight types (the
 * second one that a program builds has those that the first has not); or three of its layers are
 * delta nets, which keep a state. The machine is what the program runs: queue, loop, scheduler,
 * cache manager, swap tiers, runner. The test plays the I/O thread: it takes events and carries out
 * the transfers of the swap tiers.
 */
#ifndef TESTS_GOLDEN_MACHINE_H
#define TESTS_GOLDEN_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <math.h>
#include <semaphore.h>

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/float_mode.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"
#include "core/model/model.h"
#include "core/runtime/runner.h"
#include "core/runtime/thread_pool.h"
#include "kvcache/kv_manager.h"
#include "kvcache/kv_store.h"
#include "kvcache/state_store.h"
#include "kvcache/swap_store.h"
#include "scheduler/engine_loop.h"
#include "tests/fixtures/odd_floats.h"
#include "tests/tools/fixture.h"

#define EMBD 256
#define HEADS 8
#define KV_HEADS 2
#define HEAD_DIM 32
#define FF 256
#define VOCAB 331
#define LAYERS 4
#define CONTEXT 2048
#define MAX_NEW 96
#define MAX_ROWS 1600 /* in a step */
#define N_TOP 3
#define EOG 5
#define MAX_ANSWERS 64

/* ---- the model ---- */

static inline float normal(uint64_t *rng)
{
    float sum = 0;

    for (int i = 0; i < 4; i++) {
        *rng = *rng * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(*rng >> 40) / 16777216.0f - 0.5f;
    }
    return sum * 1.7320508f; /* variance 1 */
}

static inline void add_tensor(struct gguf_writer *w, const char *name, enum block_type type,
                              uint64_t cols, uint64_t rows, float scale, float offset)
{
    const uint64_t dims[2] = {cols, rows};
    float *values = malloc(cols * rows * sizeof(*values));
    uint64_t rng = 88172645463325252u;

    for (const char *c = name; *c != '\0'; c++)
        rng = rng * 31 + (uint64_t)*c;
    for (uint64_t i = 0; i < cols * rows; i++)
        values[i] = normal(&rng) * scale + offset;
    gguf_writer_tensor(w, name, type, rows > 1 ? 2 : 1, dims, values);
    free(values);
}

/* A matrix of any type, its blocks made at random: most types have no encoder here. */
static inline void add_blocks(struct gguf_writer *w, const char *name, enum block_type type,
                              uint64_t cols, uint64_t rows)
{
    static struct fixture_tensor made[7 * LAYERS]; /* borrowed by the writer */
    static size_t n_made;
    const uint64_t dims[2] = {cols, rows};
    struct fixture_tensor *t = &made[n_made++ % (7 * LAYERS)];

    *t = (struct fixture_tensor){
        .seed = n_made, .type = type, .std = 2.0f / sqrtf(EMBD), .n_in = (uint32_t)cols};
    gguf_writer_tensor_fill(w, name, type, 2, dims, fixture_fill, t);
}

static inline void add_layer(struct gguf_writer *w, int layer)
{
    /* All but F32 and those whose panels are another type's (TQ1_0, IQ2_S). */
    static const enum block_type types[] = {
        BLOCK_Q8_0,   BLOCK_Q4_K,  BLOCK_Q6_K,    BLOCK_F16,   BLOCK_Q4_0,    BLOCK_BF16,
        BLOCK_Q5_0,   BLOCK_Q4_1,  BLOCK_Q5_1,    BLOCK_Q5_K,  BLOCK_Q3_K,    BLOCK_Q2_K,
        BLOCK_IQ4_NL, BLOCK_IQ4_XS, BLOCK_MXFP4,  BLOCK_TQ2_0, BLOCK_IQ3_S,   BLOCK_IQ3_XXS,
        BLOCK_IQ2_XS, BLOCK_IQ2_XXS, BLOCK_IQ1_S, BLOCK_IQ1_M, BLOCK_NVFP4,   BLOCK_Q1_0,
        BLOCK_Q2_0,   BLOCK_IQ2_K, BLOCK_IQ3_K,   BLOCK_IQ4_K, BLOCK_IQ5_K,   BLOCK_IQ6_K,
        BLOCK_IQ4_KS, BLOCK_IQ5_KS};
    static size_t next;
    static const struct {
        const char *name;
        uint64_t cols, rows;
    } matrices[] = {
        {"attn_q", EMBD, HEADS * HEAD_DIM},      {"attn_k", EMBD, KV_HEADS * HEAD_DIM},
        {"attn_v", EMBD, KV_HEADS * HEAD_DIM},   {"attn_output", HEADS * HEAD_DIM, EMBD},
        {"ffn_gate", EMBD, FF},                  {"ffn_up", EMBD, FF},
        {"ffn_down", FF, EMBD},
    };
    char name[64];

    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof(name), "blk.%d.%s.weight", layer, matrices[i].name);
        add_blocks(w, name, types[next++ % (sizeof(types) / sizeof(types[0]))], matrices[i].cols,
                   matrices[i].rows);
    }
    snprintf(name, sizeof(name), "blk.%d.attn_norm.weight", layer);
    add_tensor(w, name, BLOCK_F32, EMBD, 1, 0.1f, 1);
    snprintf(name, sizeof(name), "blk.%d.ffn_norm.weight", layer);
    add_tensor(w, name, BLOCK_F32, EMBD, 1, 0.1f, 1);
}

static const struct numa *model_numa; /* of the models that are loaded, or NULL */

/* The model that a writer has been told; the writer goes. */
static struct model *load_written(struct gguf_writer *w)
{
    const struct model_options options = {.threads = 2, .numa = model_numa};
    struct gguf *g;
    struct model *m;
    uint8_t *data;
    size_t bytes;
    char err[512];

    assert_int_equal(gguf_writer_finish(w, &data, &bytes), 0);
    gguf_writer_destroy(&w);
    if (gguf_open_memory(&g, "random model", data, bytes, err, sizeof(err)) < 0 ||
        model_load(&m, g, &options, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    gguf_close(&g);
    mem_free(data);
    return m;
}

/* Layers may have a window: those whose pattern[] is 1. NULL: none has. */
static inline struct model *build_model(uint32_t window, const int32_t *pattern)
{
    struct gguf_writer *w;

    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_str(w, "general.architecture", "llama");
    gguf_writer_u32(w, "llama.block_count", LAYERS);
    gguf_writer_u32(w, "llama.context_length", CONTEXT);
    gguf_writer_u32(w, "llama.embedding_length", EMBD);
    gguf_writer_u32(w, "llama.feed_forward_length", FF);
    gguf_writer_u32(w, "llama.attention.head_count", HEADS);
    gguf_writer_u32(w, "llama.attention.head_count_kv", KV_HEADS);
    gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    if (pattern != NULL) {
        gguf_writer_u32(w, "llama.attention.sliding_window", window);
        gguf_writer_i32_array(w, "llama.attention.sliding_window_pattern", pattern, LAYERS);
    }
    add_tensor(w, "token_embd.weight", BLOCK_Q8_0, EMBD, VOCAB, 1, 0);
    add_tensor(w, "output_norm.weight", BLOCK_F32, EMBD, 1, 0.1f, 1);
    add_tensor(w, "output.weight", BLOCK_Q6_K, EMBD, VOCAB, 3.0f / sqrtf(EMBD), 0);
    for (int i = 0; i < LAYERS; i++)
        add_layer(w, i);
    return load_written(w);
}

/* Three layers of four are delta nets. */
static inline struct model *build_hybrid(void)
{
    struct fixture f = {.arch = "qwen35", .n_embd = EMBD, .n_layer = LAYERS, .n_head = HEADS,
                        .n_kv_head = KV_HEADS, .head_dim = HEAD_DIM, .n_ff = FF,
                        .n_delta_key = 2, .n_delta_value = 4, .delta_dim = 32,
                        .n_vocab = VOCAB, .n_ctx = CONTEXT, .type = BLOCK_Q8_0, .n_mix = 4,
                        .mix = {BLOCK_Q8_0, BLOCK_F16, BLOCK_Q4_K, BLOCK_F32}, .seed = 3};
    struct gguf_writer *w;
    struct model *m;

    assert_int_equal(gguf_writer_create(&w), 0);
    assert_int_equal(fixture_add(&f, w), 0);
    m = load_written(w);
    fixture_release(&f);
    return m;
}

/* ---- what a request yields ---- */

struct response_writer {
    uint32_t n_tokens, n_scores;
    int32_t tokens[MAX_NEW];
    float logprobs[MAX_NEW];
    struct top_logprob top[MAX_NEW][N_TOP];
    float scores[CONTEXT];
    enum finish finish;
    uint32_t n_ends;
    uint32_t n_cached;
};

/* ---- the machine ---- */

/* The lowest of its levels above `isa`, or one above the best. */
static inline int next_level(int isa)
{
    do
        isa++;
    while (isa <= (int)kern_isa_best() && !kern_isa_exists((enum kern_isa)isa));
    return isa;
}

struct setup {
    uint32_t chunk, threads, n_blocks, max_sequences;
    enum kern_isa isa;
    enum kern_kv kv_type;
    bool alone;         /* one request after the other */
    bool two_waves;     /* the second half comes when the first is decoding */
    bool prefix_cache;
    bool takes_adapters;
    enum sched_preemption preemption;
    uint32_t n_ram, n_file; /* swap slots */
    uint32_t state_interval; /* of a model with states: blocks between snapshots; 0: 2 */
    uint32_t n_writes_ok;   /* transfers to the file that succeed before the disk is "full" */
};

struct machine {
    struct setup setup;
    struct kv_manager_options kv_options;
    struct kv_manager *manager;
    struct kv_store *kv;
    struct swap_store *swap;
    struct state_store *states;
    uint32_t n_writes;
    char path[64];
    struct thread_pool *pool;
    struct runner *runner;
    struct queue *queue;
    struct engine_loop *loop;
    sem_t wake;
    struct response_writer *answers; /* by request id - 1 */
    uint32_t n_ended;
    uint64_t n_cascade_rows; /* once torn down */
};

static void on_wake(void *ud)
{
    sem_post(ud);
}

static void take_event(struct machine *m, const struct event *e)
{
    struct response_writer *a = &m->answers[e->request - 1];

    switch (e->kind) {
    case EVENT_PROGRESS:
        break;
    case EVENT_TOKEN:
        assert_int_equal(e->pos, a->n_tokens); /* in order, none twice (T5) */
        a->tokens[a->n_tokens] = e->token;
        a->logprobs[a->n_tokens] = e->logprob;
        assert_int_equal(e->n_top, N_TOP);
        memcpy(a->top[a->n_tokens++], e->top, sizeof(a->top[0]));
        break;
    case EVENT_SCORE:
        assert_int_equal(e->pos, ++a->n_scores);
        a->scores[e->pos] = e->logprob;
        break;
    case EVENT_END:
        a->finish = e->finish;
        a->n_ends++;
        a->n_cached = e->times.n_cached;
        m->n_ended++;
        break;
    }
}

/* What the I/O thread does with libuv's pool; a full disk is played here. */
static void carry_out(struct machine *m)
{
    struct swap_io io;

    while (queue_take_io(m->queue, &io)) {
        const uint64_t from = clock_us();
        int rc;

        if (io.is_write && m->n_writes++ >= m->setup.n_writes_ok)
            rc = ERR_IO;
        else if (io.is_write)
            rc = swap_store_write(m->swap, io.n, io.ram, io.file);
        else
            rc = swap_store_read(m->swap, io.n, io.ram, io.file);
        queue_io_done(m->queue, io.copy, rc, io.n, clock_us() - from);
    }
}

/* Take events until n requests have ended in all, or any has n_tokens tokens. */
static void wait_for(struct machine *m, uint32_t n, uint32_t n_tokens)
{
    struct event events[32];

    while (m->n_ended < n) {
        const size_t got = queue_take_events(m->queue, events, 32);

        carry_out(m);
        for (size_t i = 0; i < got; i++)
            take_event(m, &events[i]);
        if (got > 0 && events[0].kind == EVENT_TOKEN && events[0].pos >= n_tokens)
            return;
        if (got == 0)
            sem_wait(&m->wake);
    }
}

/* A slot for each sequence, and some for snapshots; NaN wherever nothing was written. */
static struct kv_state_options build_states(struct machine *m, size_t bytes, size_t part)
{
    const struct setup *s = &m->setup;
    const struct kv_state_options o = {.n_slots = s->max_sequences + 8,
                                       .interval = s->state_interval > 0 ? s->state_interval : 2,
                                       .n_parts = (uint32_t)((bytes + part - 1) / part)};

    assert_int_equal(state_store_create(&m->states, o.n_parts * part, o.n_slots), 0);
    for (uint32_t slot = 1; slot <= o.n_slots; slot++)
        memset(state_store_at(m->states, slot), 0xff, o.n_parts * part);
    return o;
}

static void build_cache(struct machine *m, const struct model *model)
{
    const struct setup *s = &m->setup;
    const struct kv_groups *groups = &model->groups;
    const struct kv_shape shape = runner_kv_shape(model, s->kv_type);
    struct swap_store_options so = {.block_bytes = kv_store_block_bytes(&shape),
                                    .n_ram = s->n_ram, .n_file = s->n_file, .path = m->path};
    char err[256];

    m->kv_options = (struct kv_manager_options){
        .n_blocks = s->n_blocks, .prefix_cache = s->prefix_cache, .n_ram = s->n_ram,
        .n_file = s->n_file, .max_sequences = 64, .max_table = CONTEXT / BLOCK_TOKENS,
        .groups = *groups, .max_chunk = s->chunk, .low_percent = 30, .critical_percent = 10};
    if (runner_state_bytes(model) > 0)
        m->kv_options.states = build_states(m, runner_state_bytes(model), so.block_bytes);
    assert_int_equal(kv_manager_create(&m->manager, &m->kv_options), 0);
    assert_int_equal(kv_store_create(&m->kv, &shape, s->n_blocks), 0);
    memset(m->kv->data, 0xff, m->kv->bytes); /* NaN wherever nothing was written */
    snprintf(m->path, sizeof(m->path), "/tmp/quire-golden-%d.swap", (int)getpid());
    if (s->n_ram > 0 && swap_store_open(&m->swap, &so, err, sizeof(err)) < 0)
        fail_msg("%s", err);
}

static void build_machine(struct machine *m, const struct model *model, const struct setup *s,
                          struct response_writer *answers)
{
    static const int32_t eog[] = {EOG};
    struct runner_options ro = {.model = model, .isa = s->isa,
                                .kv_type = s->kv_type, .max_rows = MAX_ROWS,
                                .eog = eog, .n_eog = 1,
                                .takes_adapters = s->takes_adapters};
    struct engine_loop_options lo = {.eog = eog, .n_eog = 1, .step_target_ms = 0};
    struct queue_options qo = {.max_outstanding = 64, .max_events = 4096, .max_tenants = 1,
                               .n_blocks = s->n_blocks, .wake = on_wake, .wake_ud = &m->wake};
    char err[256];

    *m = (struct machine){.setup = *s, .answers = answers};
    sem_init(&m->wake, 0, 0);
    build_cache(m, model);
    ro.kv = m->kv;
    ro.states = m->states;
    assert_int_equal(
        thread_pool_create(&m->pool, &(struct thread_pool_options){.n_threads = s->threads}), 0);
    ro.pool = m->pool;
    assert_int_equal(runner_create(&m->runner, &ro, err, sizeof(err)), 0);
    assert_int_equal(queue_create(&m->queue, &qo), 0);
    lo.queue = m->queue;
    lo.runner = m->runner;
    lo.kv = m->kv;
    lo.swap = m->swap;
    lo.states = m->states;
    lo.kv_options = &m->kv_options;
    sched_options_default(&lo.sched);
    lo.sched.kv = m->manager;
    lo.sched.preemption = s->preemption;
    lo.sched.max_sequences = s->max_sequences;
    lo.sched.max_requests = 64;
    lo.sched.max_context = CONTEXT;
    lo.sched.max_batch_tokens = MAX_ROWS;
    lo.sched.prefill_chunk = s->chunk;
    assert_int_equal(engine_loop_create(&m->loop, &lo), 0);
    odd_floats_set(); /* the thread that starts it may round as it likes */
    assert_int_equal(engine_loop_start(m->loop), 0);
    float_mode_set();
}

static void tear_down(struct machine *m)
{
    queue_close(m->queue, false);
    engine_loop_join(m->loop);
    m->n_cascade_rows = runner_times(m->runner)->n_cascade_rows;
    assert_int_equal(kv_manager_stats(m->manager).pool.n_held, 0);
    assert_true(kv_manager_check(m->manager));
    carry_out(m);
    engine_loop_destroy(&m->loop);
    queue_destroy(&m->queue);
    runner_destroy(&m->runner);
    thread_pool_destroy(&m->pool);
    kv_manager_destroy(&m->manager);
    kv_store_destroy(&m->kv);
    state_store_destroy(&m->states);
    swap_store_close(&m->swap);
    sem_destroy(&m->wake);
}

#endif
