/* tests/golden/golden_one_answer.c - promise P1: the same bits, whatever happens around a request.
 *
 * 24 requests (greedy and seeded sampling, prompts of 1 to 900 tokens) on a random-weight model
 * of 4 layers with GQA, whose matrices use every packed weight type. Each is first run alone; then
 * all tokens, log-probabilities and alternatives must be equal, bit for bit: all at once, with
 * chunks of 1 to 512, with 1 and 2 threads, in a pool so small that sequences are preempted, and
 * on every instruction set that the machine has. Prompt scoring (echo) is compared as well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>
#include <semaphore.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/gguf/gguf.h"
#include "core/gguf/gguf_write.h"
#include "core/model/model.h"
#include "core/run/runner.h"
#include "kvcache/kv_store.h"
#include "scheduler/loop.h"

#define EMBD 256
#define HEADS 8
#define KV_HEADS 2
#define HEAD_DIM 32
#define FF 256
#define VOCAB 331
#define LAYERS 4
#define CONTEXT 1024
#define N_REQUESTS 24
#define MAX_NEW 96
#define SHORT_NEW 24 /* tokens of requests with long prompts */
#define N_TOP 3
#define EOG 5

/* ---- the model ---- */

static float normal(uint64_t *rng)
{
    float sum = 0;

    for (int i = 0; i < 4; i++) {
        *rng = *rng * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(*rng >> 40) / 16777216.0f - 0.5f;
    }
    return sum * 1.7320508f; /* variance 1 */
}

static void add_tensor(struct gguf_writer *w, const char *name, enum block_type type, uint64_t cols,
                       uint64_t rows, float scale, float offset)
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

static void add_layer(struct gguf_writer *w, int layer)
{
    static const enum block_type types[] = {BLOCK_Q8_0, BLOCK_Q4_K, BLOCK_Q6_K, BLOCK_F16,
                                            BLOCK_Q4_0, BLOCK_BF16, BLOCK_F32};
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
        add_tensor(w, name, types[(i + 2 * layer) % 7], matrices[i].cols, matrices[i].rows,
                   2.0f / sqrtf(EMBD), 0);
    }
    snprintf(name, sizeof(name), "blk.%d.attn_norm.weight", layer);
    add_tensor(w, name, BLOCK_F32, EMBD, 1, 0.1f, 1);
    snprintf(name, sizeof(name), "blk.%d.ffn_norm.weight", layer);
    add_tensor(w, name, BLOCK_F32, EMBD, 1, 0.1f, 1);
}

static struct model *build_model(void)
{
    const struct model_options options = {.threads = 2};
    struct gguf_writer *w;
    struct gguf *g;
    struct model *m;
    uint8_t *data;
    size_t bytes;
    char err[512];

    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_str(w, "general.architecture", "llama");
    gguf_writer_u32(w, "llama.block_count", LAYERS);
    gguf_writer_u32(w, "llama.context_length", CONTEXT);
    gguf_writer_u32(w, "llama.embedding_length", EMBD);
    gguf_writer_u32(w, "llama.feed_forward_length", FF);
    gguf_writer_u32(w, "llama.attention.head_count", HEADS);
    gguf_writer_u32(w, "llama.attention.head_count_kv", KV_HEADS);
    gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    add_tensor(w, "token_embd.weight", BLOCK_Q8_0, EMBD, VOCAB, 1, 0);
    add_tensor(w, "output_norm.weight", BLOCK_F32, EMBD, 1, 0.1f, 1);
    add_tensor(w, "output.weight", BLOCK_Q6_K, EMBD, VOCAB, 3.0f / sqrtf(EMBD), 0);
    for (int i = 0; i < LAYERS; i++)
        add_layer(w, i);
    assert_int_equal(gguf_writer_finish(w, &data, &bytes), 0);
    gguf_writer_destroy(&w);
    if (gguf_open_memory(&g, "random model", data, bytes, err, sizeof(err)) < 0 ||
        model_load(&m, g, &options, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    gguf_close(&g);
    mem_free(data);
    return m;
}

/* ---- the requests and what they yield ---- */

struct answer {
    uint32_t n_tokens, n_scores;
    int32_t tokens[MAX_NEW];
    float logprobs[MAX_NEW];
    struct top_logprob top[MAX_NEW][N_TOP];
    float scores[CONTEXT];
    enum finish finish;
    uint32_t n_ends;
};

static uint32_t most_tokens(uint32_t n_prompt)
{
    return n_prompt <= 64 ? MAX_NEW : SHORT_NEW;
}

static struct request *make_request(uint32_t i)
{
    static const uint32_t lengths[N_REQUESTS] = {1,   2,   15,  16,  17,  31,  33,  48,
                                                 64,  100, 128, 129, 5,   7,   255, 256,
                                                 257, 300, 400, 511, 513, 640, 777, 900};
    const struct request_size size = {.n_prompt = lengths[i], .max_tokens = most_tokens(lengths[i]),
                                      .penalties = i % 6 == 5};
    uint64_t rng = 1000 + i;
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = i + 1;
    r->arrival_us = clock_us();
    for (uint32_t t = 0; t < lengths[i]; t++) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        r->ids[t] = (int32_t)((rng >> 33) % VOCAB);
    }
    r->priority = (enum priority)(i % PRIORITY_COUNT);
    r->sampling.n_top = N_TOP;
    r->sampling.seed = 77 + i;
    r->sampling.temperature = i % 3 == 0 ? 0.0f : 0.7f + 0.1f * (float)(i % 5);
    r->sampling.top_p = i % 4 == 1 ? 0.9f : 1.0f;
    r->sampling.top_k = i % 5 == 2 ? 40 : 0;
    r->sampling.min_p = i % 7 == 3 ? 0.05f : 0.0f;
    r->sampling.repetition_penalty = i % 6 == 5 ? 1.2f : 1.0f;
    r->ignore_eos = i % 2 == 0;
    r->score_prompt = i % 8 == 2;
    return r;
}

struct setup {
    uint32_t chunk, threads, n_blocks, max_sequences;
    enum kern_isa isa;
    bool alone;     /* one request after the other */
    bool two_waves; /* the second half comes when the first is decoding */
};

static void on_wake(void *ud)
{
    sem_post(ud);
}

static void take_event(struct answer *answers, const struct event *e, uint32_t *n_ended)
{
    struct answer *a = &answers[e->request - 1];

    switch (e->kind) {
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
        (*n_ended)++;
        break;
    }
}

/* Take events until n requests have ended in all, or any has n_tokens tokens. */
static void wait_for(struct queue *q, sem_t *wake, struct answer *answers, uint32_t *n_ended,
                     uint32_t n, uint32_t n_tokens)
{
    struct event events[32];

    while (*n_ended < n) {
        const size_t got = queue_take_events(q, events, 32);

        for (size_t i = 0; i < got; i++)
            take_event(answers, &events[i], n_ended);
        if (got > 0 && events[0].kind == EVENT_TOKEN && events[0].pos >= n_tokens)
            return;
        if (got == 0)
            sem_wait(wake);
    }
}

struct machine {
    struct kv_store *kv;
    struct block_pool *pool;
    struct runner *runner;
    struct queue *queue;
    struct loop *loop;
    sem_t wake;
};

static void build_machine(struct machine *m, const struct model *model, const struct setup *s)
{
    static const int32_t eog[] = {EOG};
    const struct kv_shape shape = {LAYERS, KV_HEADS, HEAD_DIM};
    struct runner_options ro = {.model = model, .isa = s->isa, .threads = s->threads,
                                .max_rows = 600, .eog = eog, .n_eog = 1};
    struct loop_options lo = {.eog = eog, .n_eog = 1, .step_target_ms = 0};
    struct queue_options qo = {.max_outstanding = 64, .max_events = 4096, .wake = on_wake};
    char err[256];

    sem_init(&m->wake, 0, 0);
    assert_int_equal(kv_store_create(&m->kv, &shape, s->n_blocks), 0);
    memset(m->kv->data, 0xff, m->kv->bytes); /* NaN wherever nothing was written */
    assert_int_equal(block_pool_create(&m->pool, s->n_blocks), 0);
    ro.kv = m->kv;
    assert_int_equal(runner_create(&m->runner, &ro, err, sizeof(err)), 0);
    qo.wake_ud = &m->wake;
    assert_int_equal(queue_create(&m->queue, &qo), 0);
    lo.queue = m->queue;
    lo.runner = m->runner;
    lo.sched = (struct sched_options){.pool = m->pool, .policy = SCHED_PRIORITY,
                                      .max_sequences = s->max_sequences, .max_requests = 64,
                                      .max_context = CONTEXT, .max_batch_tokens = 600,
                                      .prefill_chunk = s->chunk};
    assert_int_equal(loop_create(&m->loop, &lo), 0);
    assert_int_equal(loop_start(m->loop), 0);
}

static void tear_down(struct machine *m)
{
    queue_close(m->queue, false);
    loop_join(m->loop);
    assert_int_equal(block_pool_stats(m->pool).n_held, 0);
    assert_true(block_pool_check(m->pool));
    loop_destroy(&m->loop);
    queue_destroy(&m->queue);
    runner_destroy(&m->runner);
    block_pool_destroy(&m->pool);
    kv_store_destroy(&m->kv);
    sem_destroy(&m->wake);
}

/* Run all requests; returns how often a sequence was preempted. */
static uint64_t run_all(const struct model *model, const struct setup *s, struct answer *answers)
{
    struct engine_stats stats;
    struct machine m;
    uint32_t n_ended = 0;

    memset(answers, 0, N_REQUESTS * sizeof(*answers));
    build_machine(&m, model, s);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        assert_int_equal(queue_post(m.queue, make_request(i)), 0);
        if (s->alone)
            wait_for(m.queue, &m.wake, answers, &n_ended, i + 1, UINT32_MAX);
        else if (s->two_waves && i == N_REQUESTS / 2)
            wait_for(m.queue, &m.wake, answers, &n_ended, i, 4);
    }
    wait_for(m.queue, &m.wake, answers, &n_ended, N_REQUESTS, UINT32_MAX);
    queue_get_stats(m.queue, &stats);
    tear_down(&m);
    return stats.preemptions_recompute;
}

static struct {
    struct model *model;
    struct answer want[N_REQUESTS], got[N_REQUESTS];
} shared;

static const struct setup usual = {.chunk = 512, .threads = 2, .n_blocks = 1200,
                                   .max_sequences = 24, .isa = KERN_ISA_SCALAR};

static void compare(const char *what)
{
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        const struct answer *a = &shared.want[i], *b = &shared.got[i];

        assert_int_equal(b->n_ends, 1);
        if (memcmp(a, b, sizeof(*a)) != 0)
            fail_msg("%s: request %u differs (%u and %u tokens, %u and %u scores)", what, i,
                     a->n_tokens, b->n_tokens, a->n_scores, b->n_scores);
    }
}

static struct setup best(void)
{
    struct setup s = usual;

    s.isa = kern_isa_best();
    return s;
}

static void answers_are_not_trivial(void **state)
{
    uint32_t n_distinct = 0, n_stop = 0;
    (void)state;

    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        const struct answer *a = &shared.want[i];

        n_stop += a->finish == FINISH_STOP;
        assert_true(a->n_tokens > 0 && (a->finish == FINISH_STOP || a->n_tokens >= SHORT_NEW));
        for (uint32_t t = 1; t < a->n_tokens; t++)
            n_distinct += a->tokens[t] != a->tokens[t - 1];
        for (uint32_t t = 0; t < a->n_tokens; t++)
            assert_true(isfinite(a->logprobs[t]) && a->logprobs[t] <= 0);
    }
    printf("note: %u requests ended by the end token, %u token changes\n", n_stop, n_distinct);
    assert_true(n_distinct > 100);
}

static void all_at_once(void **state)
{
    const struct setup s = best();
    (void)state;

    run_all(shared.model, &s, shared.got);
    compare("all at once");
}

static void any_chunk(void **state)
{
    static const uint32_t chunks[] = {1, 7, 16, 64, 512};
    (void)state;

    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        struct setup s = best();
        char what[32];

        s.chunk = chunks[i];
        snprintf(what, sizeof(what), "chunk %u", chunks[i]);
        run_all(shared.model, &s, shared.got);
        compare(what);
    }
}

static void any_number_of_threads(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 3; n++) {
        struct setup s = best();
        char what[32];

        s.threads = n;
        snprintf(what, sizeof(what), "%u threads", n);
        run_all(shared.model, &s, shared.got);
        compare(what);
    }
}

/* 59 blocks hold the longest request and hardly more. */
static void preempted(void **state)
{
    struct setup s = best();
    uint64_t n;
    (void)state;

    s.n_blocks = 59;
    s.two_waves = true;
    s.chunk = 100;
    n = run_all(shared.model, &s, shared.got);
    compare("preempted");
    printf("note: %u preemptions in the small pool\n", (unsigned)n);
    assert_true(n > 2);
}

static void any_instruction_set(void **state)
{
    (void)state;
    for (int isa = KERN_ISA_SCALAR; isa <= (int)kern_isa_best(); isa++) {
        struct setup s = usual;

        s.isa = (enum kern_isa)isa;
        run_all(shared.model, &s, shared.got);
        compare(kern_isa_name(s.isa));
        printf("note: isa %s gives the same bits\n", kern_isa_name(s.isa));
    }
}

/* The reference: everything alone, one thread, on the best instruction set. */
static int prepare(void **state)
{
    struct setup s = best();
    (void)state;

    s.alone = true;
    s.threads = 1;
    shared.model = build_model();
    run_all(shared.model, &s, shared.want);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    model_destroy(&shared.model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_not_trivial), cmocka_unit_test(all_at_once),
        cmocka_unit_test(any_chunk),               cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(preempted),               cmocka_unit_test(any_instruction_set),
    };

    return cmocka_run_group_tests(tests, prepare, finish);
}
