/* tests/golden/golden_parts.c - weights in parts for several memory nodes give the same bits.
 *
 * Dense models, mixtures of experts and layers with a state, with matrices of all the types, whose
 * panels are cut into 1 to 5 parts: alone and together, on one thread and on several. Here the
 * nodes may not be there: where pages lie changes nothing. P1.
 */
#include "core/base/numa.h"
#include "tests/fixtures/random.h"
#include "tests/golden/machine.h"

#define N_REQUESTS 4
#define N_TOKENS 12

static const uint32_t lengths[N_REQUESTS] = {1, 17, 130, 300};

static struct request *make_request(uint32_t i)
{
    const struct request_size size = {.n_prompt = lengths[i], .max_tokens = N_TOKENS};
    uint64_t rng = 7 + i;
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = i + 1;
    r->arrival_us = clock_us();
    for (uint32_t t = 0; t < lengths[i]; t++)
        r->ids[t] = (int32_t)random_below(&rng, VOCAB);
    r->ignore_eos = true;
    r->sampling.n_top = N_TOP;
    return r;
}

static void run(const struct model *model, uint32_t threads, bool alone,
                struct response_writer *answers)
{
    const struct setup s = {.chunk = 256, .threads = threads, .n_blocks = 200, .max_sequences = 8,
                            .isa = kern_isa_best(), .alone = alone};
    struct machine m;

    memset(answers, 0, N_REQUESTS * sizeof(*answers));
    build_machine(&m, model, &s, answers);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        assert_int_equal(queue_post(m.queue, make_request(i)), 0);
        if (alone)
            wait_for(&m, i + 1, UINT32_MAX);
    }
    wait_for(&m, N_REQUESTS, UINT32_MAX);
    tear_down(&m);
}

static void compare(const struct response_writer *a, const struct response_writer *b)
{
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        assert_int_equal(b[i].n_tokens, N_TOKENS);
        assert_memory_equal(a[i].tokens, b[i].tokens, sizeof(a[i].tokens));
        assert_memory_equal(a[i].logprobs, b[i].logprobs, sizeof(a[i].logprobs));
        assert_memory_equal(a[i].top, b[i].top, sizeof(a[i].top));
    }
}

static struct model *build(struct fixture *f)
{
    struct gguf_writer *w;
    struct model *m;

    f->n_vocab = VOCAB;
    f->n_ctx = CONTEXT;
    f->seed = 5;
    assert_int_equal(gguf_writer_create(&w), 0);
    assert_int_equal(fixture_add(f, w), 0);
    m = load_written(w);
    fixture_release(f);
    return m;
}

/* Keys and values of one panel each: some parts are empty. */
static struct model *build_dense(void)
{
    struct fixture f = {.arch = "llama", .n_embd = EMBD, .n_layer = 4, .n_head = 8,
                        .n_kv_head = 1, .head_dim = 16, .n_ff = 768, .n_mix = 8,
                        .mix = {BLOCK_Q8_0, BLOCK_F16, BLOCK_Q4_0, BLOCK_F32, BLOCK_Q5_1,
                                BLOCK_IQ4_NL, BLOCK_MXFP4, BLOCK_Q4_1}};

    return build(&f);
}

/* Odd numbers of panels. */
static struct model *build_experts(void)
{
    struct fixture f = {.arch = "qwen3moe", .n_embd = 160, .n_layer = 2, .n_head = 5,
                        .n_kv_head = 1, .head_dim = 32, .n_ff = 96, .n_expert = 6, .n_used = 3,
                        .n_mix = 3, .mix = {BLOCK_Q8_0, BLOCK_F16, BLOCK_Q4_0}};

    return build(&f);
}

static void check(struct model *(*make)(void))
{
    static struct response_writer want[N_REQUESTS], got[N_REQUESTS];
    struct model *m = make();

    run(m, 1, true, want);
    model_destroy(&m);
    for (uint32_t n = 2; n <= 5; n++) {
        const struct numa numa = {.mode = NUMA_LOCAL, .n = n, .nodes = {0, 1, 2, 3, 4}};

        model_numa = &numa;
        m = make();
        model_numa = NULL;
        assert_int_equal(m->n_parts, n);
        run(m, n == 3 ? 1 : n, n == 2, got);
        compare(want, got);
        model_destroy(&m);
    }
}

static void parts_of_dense_models(void **state)
{
    (void)state;
    check(build_dense);
}

static void parts_of_experts(void **state)
{
    (void)state;
    check(build_experts);
}

static void parts_of_recurrent_layers(void **state)
{
    (void)state;
    check(build_hybrid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_dense_models),
        cmocka_unit_test(parts_of_experts),
        cmocka_unit_test(parts_of_recurrent_layers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
