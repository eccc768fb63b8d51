/* tests/golden/golden_chunks.c - T1: prompts around and far over the chunk give what they give in
 * one piece, greedily and bit for bit, alone and together, and when they come again to a prefix
 * cache that holds them.
 */
#include "tests/fixtures/random.h"
#include "tests/golden/machine.h"

#define N_REQUESTS 5
#define N_TOKENS 20

static const uint32_t lengths[N_REQUESTS] = {1, 511, 512, 513, 1500};

static struct request *make_request(uint32_t i, uint32_t round)
{
    const struct request_size size = {.n_prompt = lengths[i], .max_tokens = N_TOKENS};
    uint64_t rng = 7 + i;
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = round * N_REQUESTS + i + 1;
    r->arrival_us = clock_us();
    for (uint32_t t = 0; t < lengths[i]; t++)
        r->ids[t] = (int32_t)random_below(&rng, VOCAB);
    r->ignore_eos = true;
    r->sampling.n_top = N_TOP;
    return r;
}

static struct model *model;
static struct response_writer want[N_REQUESTS], got[2 * N_REQUESTS];

static struct setup whole(void)
{
    return (struct setup){.chunk = MAX_ROWS, .threads = 2, .n_blocks = 400, .max_sequences = 8,
                          .isa = kern_isa_best(), .alone = true};
}

static void run(const struct setup *s, struct response_writer *answers, uint32_t n_rounds)
{
    struct machine m;

    memset(answers, 0, n_rounds * N_REQUESTS * sizeof(*answers));
    build_machine(&m, model, s, answers);
    for (uint32_t round = 0; round < n_rounds; round++) {
        for (uint32_t i = 0; i < N_REQUESTS; i++) {
            assert_int_equal(queue_post(m.queue, make_request(i, round)), 0);
            if (s->alone)
                wait_for(&m, round * N_REQUESTS + i + 1, UINT32_MAX);
        }
        wait_for(&m, (round + 1) * N_REQUESTS, UINT32_MAX);
    }
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

static void t1_chunks_change_nothing(void **state)
{
    struct setup s = whole();
    (void)state;

    s.chunk = 512;
    run(&s, got, 1);
    compare(want, got);
    s.alone = false;
    run(&s, got, 1);
    compare(want, got);
}

static void t1_prefix_hits_change_nothing(void **state)
{
    struct setup s = whole();
    (void)state;

    s.chunk = 512;
    s.prefix_cache = true;
    run(&s, got, 2);
    compare(want, got);
    compare(want, got + N_REQUESTS);
    assert_int_equal(got[N_REQUESTS + 4].n_cached, 1499);
}

static int set_up(void **state)
{
    struct setup s = whole();
    (void)state;

    model = build_model(0, NULL);
    run(&s, want, 1);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    model_destroy(&model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t1_chunks_change_nothing),
        cmocka_unit_test(t1_prefix_hits_change_nothing),
    };

    return cmocka_run_group_tests(tests, set_up, finish);
}
