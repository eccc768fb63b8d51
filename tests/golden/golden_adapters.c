/* tests/golden/golden_adapters.c - promise P1 with LoRA adapters in the batch.
 *
 * 20 requests, 18 of them with one of 8 adapters of different ranks, types and targets, some at
 * scales of their own. What each yields alone it yields beside all others: in any batch, chunk,
 * thread count and instruction set (by the definitions of the kernels half of them), after
 * preemption by recompute and by swap, and with the prefix cache on, where most of them share their
 * prompts and must not share their blocks. And each adapter is felt.
 */
#include <stdatomic.h>
#include <xxhash.h>

#include "core/model/adapter.h"
#include "tests/fixtures/random.h"
#include "tests/golden/machine.h"

#define N_REQUESTS 20
#define N_ADAPTERS 8
#define N_SLOW 10 /* requests by the definitions: each adapter is there */
#define N_NEW 64

static const struct {
    const char *name;
    uint64_t n_in, n_out;
} targets[] = {
    {"attn_q", EMBD, HEADS * HEAD_DIM},      {"attn_k", EMBD, KV_HEADS * HEAD_DIM},
    {"attn_v", EMBD, KV_HEADS * HEAD_DIM},   {"attn_output", HEADS * HEAD_DIM, EMBD},
    {"ffn_gate", EMBD, FF},                  {"ffn_up", EMBD, FF},
    {"ffn_down", FF, EMBD},
};

static struct {
    struct model *model;
    struct adapter *adapters[N_ADAPTERS];
    struct response_writer plain[N_REQUESTS], want[N_REQUESTS], got[N_REQUESTS];
} shared;

static void add_pair(struct gguf_writer *w, int layer, size_t target, enum block_type type,
                     uint64_t rank)
{
    char name[80];

    snprintf(name, sizeof(name), "blk.%d.%s.weight.lora_a", layer, targets[target].name);
    add_tensor(w, name, type, targets[target].n_in, rank, 1.0f / 16, 0);
    snprintf(name, sizeof(name), "blk.%d.%s.weight.lora_b", layer, targets[target].name);
    add_tensor(w, name, type == BLOCK_Q8_0 ? BLOCK_F16 : type, rank, targets[target].n_out,
               0.3f / sqrtf((float)rank), 0);
}

/* Adapter i leaves out a target here and there. */
static struct adapter *make_adapter(int i)
{
    static const uint64_t ranks[N_ADAPTERS] = {2, 4, 8, 16, 17, 31, 64, 256};
    static const enum block_type types[] = {BLOCK_F32, BLOCK_F16, BLOCK_BF16, BLOCK_Q8_0};
    struct gguf_writer *w;
    struct adapter *a;
    struct gguf *g;
    uint8_t *data;
    size_t bytes;
    char err[400];

    assert_int_equal(gguf_writer_create(&w), 0);
    gguf_writer_str(w, "general.type", "adapter");
    gguf_writer_str(w, "adapter.type", "lora");
    gguf_writer_f32(w, "adapter.lora.alpha", (float)ranks[i] * (1.0f + 0.1f * (float)i));
    for (int layer = 0; layer < LAYERS; layer++)
        for (size_t t = 0; t < sizeof(targets) / sizeof(targets[0]); t++)
            if ((layer + (int)t + i) % 5 != 0)
                add_pair(w, layer, t, types[i % 4], ranks[i]);
    assert_int_equal(gguf_writer_finish(w, &data, &bytes), 0);
    gguf_writer_destroy(&w);
    if (gguf_open_memory(&g, "adapter", data, bytes, err, sizeof(err)) < 0 ||
        adapter_load(&a, g, shared.model, NULL, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    assert_true(a->bytes <= adapter_most_bytes(g) + sizeof(*a) + LAYERS * sizeof(a->layers[0]));
    assert_int_equal(a->max_rank, ranks[i]);
    gguf_close(&g);
    mem_free(data);
    return a;
}

/* ---- the requests ---- */

/* -1: none. */
static int adapter_of(uint32_t i)
{
    return i % 10 == 9 ? -1 : (int)(i % N_ADAPTERS);
}

static float scale_of(uint32_t i)
{
    return i % 7 == 3 ? -0.5f : i % 7 == 5 ? 1.25f : 1.0f;
}

/* As the server makes it. */
static uint64_t salt_of(const struct adapter *a, float scale)
{
    struct {
        uint64_t id[2];
        float scale, unused;
    } key = {.id = {a->id[0], a->id[1]}, .scale = scale};

    return XXH3_64bits(&key, sizeof(key));
}

/* Three prompts among all of them; requests i and i + 8 have one adapter and one prompt. */
static struct request *make_request(uint32_t i, bool is_adapted)
{
    static const uint32_t lengths[] = {45, 130, 400};
    const struct request_size size = {.n_prompt = lengths[i % 8 % 3], .max_tokens = N_NEW};
    const int adapter = is_adapted ? adapter_of(i) : -1;
    uint64_t rng = 4000 + i % 8 % 3;
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = i + 1;
    r->arrival_us = clock_us();
    for (uint32_t t = 0; t < size.n_prompt; t++)
        r->ids[t] = (int32_t)random_below(&rng, VOCAB);
    r->priority = (enum priority)(i % PRIORITY_COUNT);
    r->sampling.n_top = N_TOP;
    r->sampling.seed = 5 + i;
    r->sampling.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    r->ignore_eos = true;
    r->score_prompt = i % 7 == 2;
    if (adapter < 0)
        return r;
    r->adapter = adapter_ref(shared.adapters[adapter]);
    r->adapter_scale = scale_of(i);
    r->drop_adapter = adapter_unref;
    r->key.salt = salt_of(r->adapter, r->adapter_scale);
    return r;
}

static uint64_t run_first(uint32_t n, const struct setup *s, bool is_adapted,
                          struct response_writer *answers)
{
    struct engine_stats stats;
    struct machine m;

    memset(answers, 0, N_REQUESTS * sizeof(*answers));
    build_machine(&m, shared.model, s, answers);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(queue_post(m.queue, make_request(i, is_adapted)), 0);
        if (s->alone)
            wait_for(&m, i + 1, UINT32_MAX);
        else if (s->two_waves && i == n / 2)
            wait_for(&m, i, 4);
    }
    wait_for(&m, n, UINT32_MAX);
    queue_get_stats(m.queue, &stats);
    tear_down(&m);
    for (int i = 0; i < N_ADAPTERS; i++)
        assert_true(adapter_is_alone(shared.adapters[i])); /* all requests have let go */
    return stats.preemptions_recompute + stats.preemptions_swap;
}

static uint64_t run_all(const struct setup *s, bool is_adapted, struct response_writer *answers)
{
    return run_first(N_REQUESTS, s, is_adapted, answers);
}

static struct setup best(void)
{
    return (struct setup){.chunk = 512, .threads = 2, .n_blocks = 1200, .max_sequences = N_REQUESTS,
                          .isa = kern_isa_best(), .preemption = SCHED_RECOMPUTE,
                          .takes_adapters = true};
}

static bool is_same(const struct response_writer *a, const struct response_writer *b)
{
    struct response_writer x = *a, y = *b;

    x.n_cached = y.n_cached = 0;
    return memcmp(&x, &y, sizeof(x)) == 0;
}

static void compare_first(uint32_t n, const char *what)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(shared.got[i].n_ends, 1);
        if (!is_same(&shared.want[i], &shared.got[i]))
            fail_msg("%s: request %u differs", what, i);
    }
}

static void compare(const char *what)
{
    compare_first(N_REQUESTS, what);
}

/* ---- the tests ---- */

static void every_adapter_is_felt(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        assert_int_equal(shared.want[i].n_tokens, N_NEW);
        assert_true(is_same(&shared.plain[i], &shared.want[i]) == (adapter_of(i) < 0));
    }
}

static void in_any_batch(void **state)
{
    static const uint32_t chunks[] = {512, 64, 7};
    (void)state;

    for (uint32_t i = 0; i < 3; i++) {
        struct setup s = best();
        char what[48];

        s.chunk = chunks[i];
        s.threads = i + 1;
        snprintf(what, sizeof(what), "chunk %u, %u threads", s.chunk, s.threads);
        run_all(&s, true, shared.got);
        compare(what);
    }
}

static void on_any_instruction_set(void **state)
{
    (void)state;
    for (int isa = KERN_ISA_SCALAR; isa <= (int)kern_isa_best(); isa = next_level(isa)) {
        const uint32_t n = isa == KERN_ISA_SCALAR ? N_SLOW : N_REQUESTS;
        struct setup s = best();

        s.isa = (enum kern_isa)isa;
        run_first(n, &s, true, shared.got);
        compare_first(n, kern_isa_name(s.isa));
    }
}

static void preempted(void **state)
{
    static const enum sched_preemption ways[] = {SCHED_RECOMPUTE, SCHED_SWAP};
    (void)state;

    for (size_t w = 0; w < 2; w++) {
        struct setup s = best();
        uint64_t n;

        s.n_blocks = 60;
        s.two_waves = true;
        s.chunk = 100;
        s.preemption = ways[w];
        s.n_ram = w == 1 ? 200 : 0;
        n = run_all(&s, true, shared.got);
        compare(w == 0 ? "recomputed" : "swapped");
        printf("note: %u preemptions\n", (unsigned)n);
        assert_true(n > 0);
    }
}

/* Equal prompts are found again by requests with the same adapter and scale alone. */
static void beside_a_prefix_cache(void **state)
{
    struct setup s = best();
    uint32_t n_cached = 0;
    (void)state;

    s.prefix_cache = true;
    s.alone = true;
    run_all(&s, true, shared.got);
    compare("prefix cache, alone");
    for (uint32_t i = 0; i < N_REQUESTS; i++)
        n_cached += shared.got[i].n_cached;
    assert_true(n_cached > 0);
    s.alone = false;
    run_all(&s, true, shared.got);
    compare("prefix cache");
}

static int set_up(void **state)
{
    struct setup s = best();
    (void)state;

    s.alone = true;
    s.threads = 1;
    shared.model = build_model(0, NULL);
    for (int i = 0; i < N_ADAPTERS; i++)
        shared.adapters[i] = make_adapter(i);
    run_all(&s, false, shared.plain);
    run_all(&s, true, shared.want);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    for (int i = 0; i < N_ADAPTERS; i++)
        adapter_unref(&shared.adapters[i]);
    model_destroy(&shared.model);
    return 0;
}

static atomic_bool has_let_go;

/* A client that reads its answer's end at once has a head start. */
static void let_go_slowly(struct adapter **a)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};

    nanosleep(&pause, NULL);
    adapter_unref(a);
    atomic_store(&has_let_go, true);
}

static void adapters_are_free_at_the_end(void **state)
{
    const struct setup s = best();
    struct request *r = make_request(0, true);
    struct response_writer *answers = mem_calloc(N_REQUESTS, sizeof(*answers));
    struct machine m;

    (void)state;
    assert_non_null(answers);
    build_machine(&m, shared.model, &s, answers);
    r->drop_adapter = let_go_slowly;
    assert_int_equal(queue_post(m.queue, r), 0);
    wait_for(&m, 1, UINT32_MAX);
    assert_true(atomic_load(&has_let_go));
    tear_down(&m);
    mem_free(answers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_adapter_is_felt),  cmocka_unit_test(in_any_batch),
        cmocka_unit_test(on_any_instruction_set), cmocka_unit_test(preempted),
        cmocka_unit_test(beside_a_prefix_cache),  cmocka_unit_test(adapters_are_free_at_the_end),
    };

    return cmocka_run_group_tests(tests, set_up, finish);
}
