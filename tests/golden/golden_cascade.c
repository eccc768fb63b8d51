/* tests/golden/golden_cascade.c - promise P1 where decoding sequences share their first blocks.
 *
 * 14 requests whose prompts form a tree: all begin with the same 530 tokens, pairs of them go on
 * together for 300 more, and each ends with tokens of its own. Each is run alone, without a prefix
 * cache: nothing is shared. All at once with one, their attention over what they share is done
 * together, which a count shows, and the bits must be the same: with keys and values of each kind,
 * with 1 to 4 threads, on every vector instruction set, and where sequences are preempted.
 */
#include "tests/fixtures/emulated.h"
#include "tests/fixtures/random.h"
#include "tests/golden/machine.h"

#define N_REQUESTS 14
#define N_EMULATED 8 /* of these in an emulator */
#define N_ALL 530  /* tokens that all have in common */
#define N_PAIR 300 /* that pairs have, behind these */
#define N_OWN 90   /* at most */
#define N_NEW 24

static struct response_writer want[N_REQUESTS], got[N_REQUESTS];
static struct model *model;

static uint32_t n_requests(void)
{
    return is_emulated() ? N_EMULATED : N_REQUESTS;
}

/* Tokens of a stream of its own for each seed. */
static uint32_t add_tokens(struct request *r, uint32_t at, uint64_t seed, uint32_t n)
{
    uint64_t rng = seed;

    for (uint32_t i = 0; i < n; i++)
        r->ids[at + i] = (int32_t)random_below(&rng, VOCAB);
    return at + n;
}

static struct request *make_request(uint32_t i)
{
    const uint32_t pair = i % 3 == 2 ? 0 : N_PAIR; /* every third goes its own way at once */
    const uint32_t own = 1 + i * 37 % N_OWN;
    const struct request_size size = {.n_prompt = N_ALL + pair + own, .max_tokens = N_NEW};
    struct request *r;
    uint32_t at;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = i + 1;
    r->arrival_us = clock_us();
    at = add_tokens(r, 0, 7, N_ALL);
    at = add_tokens(r, at, 100 + i / 3, pair);
    add_tokens(r, at, 1000 + i, own);
    r->priority = PRIORITY_NORMAL;
    r->sampling.n_top = N_TOP;
    r->sampling.seed = i;
    r->sampling.temperature = i % 2 ? 0.9f : 0;
    r->sampling.top_p = r->sampling.repetition_penalty = 1;
    r->ignore_eos = true;
    return r;
}

struct counts {
    uint64_t rows, preemptions;
};

/* The first is done when the others come, so that they find what it has computed. */
static struct counts run(const struct setup *s, struct response_writer *answers)
{
    struct engine_stats stats;
    struct counts n;
    struct machine m;

    memset(answers, 0, N_REQUESTS * sizeof(*answers));
    build_machine(&m, model, s, answers);
    for (uint32_t i = 0; i < n_requests(); i++) {
        assert_int_equal(queue_post(m.queue, make_request(i)), 0);
        if (s->alone || i == 0)
            wait_for(&m, i + 1, UINT32_MAX);
    }
    wait_for(&m, n_requests(), UINT32_MAX);
    queue_get_stats(m.queue, &stats);
    tear_down(&m);
    n.rows = m.n_cascade_rows;
    n.preemptions = stats.preemptions_recompute + stats.preemptions_swap;
    return n;
}

static struct setup usual(enum kern_kv kv)
{
    return (struct setup){.chunk = 512, .threads = 2, .n_blocks = 1200, .max_sequences = 16,
                          .isa = kern_isa_best(), .kv_type = kv, .preemption = SCHED_RECOMPUTE};
}

static void make_want(enum kern_kv kv)
{
    struct setup s = usual(kv);

    s.alone = true;
    s.threads = 1;
    assert_int_equal(run(&s, want).rows, 0);
}

/* All at once: the bits are those of each alone, and so many rows at least shared their reading. */
static struct counts check(struct setup s, const char *what, uint64_t least)
{
    struct counts n;

    s.prefix_cache = true;
    n = run(&s, got);
    for (uint32_t i = 0; i < n_requests(); i++) {
        assert_int_equal(got[i].n_ends, 1);
        assert_int_equal(got[i].n_tokens, N_NEW);
        got[i].n_cached = want[i].n_cached;
        if (memcmp(&want[i], &got[i], sizeof(want[i])) != 0)
            fail_msg("%s: request %u differs", what, i);
    }
    if (n.rows < least)
        fail_msg("%s: %u rows shared blocks", what, (unsigned)n.rows);
    return n;
}

static void any_kv_type(void **state)
{
    (void)state;
    for (int kv = KERN_N_KV - 1; kv >= 0; kv--) { /* f16 last: the next tests go on with it */
        make_want((enum kern_kv)kv);
        check(usual((enum kern_kv)kv), kern_kv_name((enum kern_kv)kv), n_requests() * N_NEW / 2);
    }
}

static void any_number_of_threads(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 4; n += n == 1 ? 2 : 1) {
        struct setup s = usual(KERN_KV_F16);

        s.threads = n;
        check(s, "threads", n_requests() * N_NEW / 2);
    }
}

static void any_instruction_set(void **state)
{
    const int best = (int)kern_isa_best();

    (void)state;
    for (int isa = next_level(KERN_ISA_SCALAR); isa <= best; isa = next_level(isa)) {
        struct setup s = usual(KERN_KV_F16);

        s.isa = (enum kern_isa)isa;
        check(s, kern_isa_name(s.isa), n_requests() * N_NEW / 2);
    }
}

#define TRIES 40 /* where requests come so slowly that each finds the pool empty, none is */

static void preempted(void **state)
{
    struct setup s = usual(KERN_KV_F16);
    uint64_t n = 0;

    (void)state;
    s.n_blocks = is_emulated() ? 84 : 110;
    for (int i = 0; i < TRIES && n == 0; i++)
        n = check(s, "preempted", 0).preemptions;
    assert_true(n > 0);
}

static int set_up(void **state)
{
    (void)state;
    model = build_model(0, NULL);
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
        cmocka_unit_test(any_kv_type),
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(any_instruction_set),
        cmocka_unit_test(preempted),
    };

    if (is_emulated())
        printf("note: %d of %d requests, in an emulator\n", N_EMULATED, N_REQUESTS);
    return cmocka_run_group_tests(tests, set_up, finish);
}
