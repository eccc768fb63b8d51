/* tests/golden/golden_shift.c - a context that is shifted goes on as a new prompt would (P1).
 *
 * Requests that generate more than their context holds, greedy and sampled, with penalties and
 * kept beginnings. What a greedy one says behind a shift is, bit for bit, what a request says whose
 * prompt is what stayed. All of it is the same with a prefix cache, in a pool so small that
 * sequences are preempted and swapped, all at once, and with layers that have a window.
 */
#include "tests/fixtures/random.h"
#include "tests/golden/machine.h"

#define N_REQUESTS 12
#define KNOWN 64 /* tokens in a context */
#define WINDOW 21

static const struct shift_spec {
    uint32_t n_prompt, n_keep, n_discard;
} specs[N_REQUESTS] = {{6, 0, 32},   {20, 4, 30},  {1, 0, 63},  {63, 17, 23},
                       {40, 33, 15}, {3, 0, 5},    {8, 62, 1},  {16, 16, 24},
                       {11, 1, 31},  {50, 50, 6},  {5, 20, 22}, {7, 7, 28}};

static bool is_greedy(uint32_t i)
{
    return i % 2 == 0;
}

static struct request *make_request(uint32_t i)
{
    const struct request_size size = {.n_prompt = specs[i].n_prompt, .max_tokens = MAX_NEW,
                                      .max_known = KNOWN, .penalties = i % 3 == 1};
    uint64_t rng = 500 + i;
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = i + 1;
    r->arrival_us = clock_us();
    for (uint32_t t = 0; t < size.n_prompt; t++)
        r->ids[t] = (int32_t)random_below(&rng, VOCAB);
    r->n_keep = specs[i].n_keep;
    r->n_discard = specs[i].n_discard;
    r->priority = (enum priority)(i % PRIORITY_COUNT);
    r->sampling.n_top = N_TOP;
    r->sampling.seed = 9 + i;
    r->sampling.temperature = is_greedy(i) ? 0.0f : 0.9f;
    r->sampling.repetition_penalty = i % 3 == 1 ? 1.2f : 1.0f;
    r->sampling.dry_multiplier = i % 4 == 2 ? 1.0f : 0.0f;
    r->sampling.dry_base = 1.75f;
    r->sampling.dry_allowed_length = 1;
    r->sampling.dry_last_n = UINT32_MAX;
    r->ignore_eos = true;
    return r;
}

static struct {
    struct model *model;
    struct response_writer want[N_REQUESTS], got[N_REQUESTS];
    struct engine_stats stats;
} shared;

static struct setup quiet(void)
{
    return (struct setup){.chunk = 32, .threads = 2, .n_blocks = 200, .max_sequences = 16,
                          .isa = kern_isa_best(), .alone = true,
                          .preemption = SCHED_RECOMPUTE, .n_writes_ok = UINT32_MAX};
}

static void run(const struct setup *s, struct response_writer *answers)
{
    struct machine m;

    memset(answers, 0, N_REQUESTS * sizeof(*answers));
    build_machine(&m, shared.model, s, answers);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        assert_int_equal(queue_post(m.queue, make_request(i)), 0);
        if (s->alone)
            wait_for(&m, i + 1, UINT32_MAX);
    }
    wait_for(&m, N_REQUESTS, UINT32_MAX);
    queue_get_stats(m.queue, &shared.stats);
    tear_down(&m);
}

static void compare(const char *what)
{
    uint64_t n_shifts = 0;

    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        struct response_writer *a = &shared.want[i], *b = &shared.got[i];
        struct request *r = make_request(i);

        assert_int_equal(b->n_tokens, MAX_NEW);
        assert_int_equal(b->finish, FINISH_LENGTH);
        n_shifts += request_n_shifts(r->n_prompt + MAX_NEW, KNOWN, r->n_discard);
        request_destroy(&r);
        a->n_cached = b->n_cached; /* the one thing that may differ */
        if (memcmp(a, b, sizeof(*a)) != 0)
            fail_msg("%s: request %u differs", what, i);
    }
    assert_int_equal(shared.stats.context_shifts, n_shifts);
    printf("note: %-24s %u contexts shifted, %u tokens recomputed, %u preempted, %u swapped\n",
           what, (unsigned)n_shifts, (unsigned)shared.stats.recomputed_tokens,
           (unsigned)shared.stats.preemptions_recompute, (unsigned)shared.stats.preemptions_swap);
}

/* ---- behind a shift: a new request ---- */

/* Its answer is compared with what the shifted one said from token `at` on. */
static void compare_fresh(const int32_t *ids, uint32_t n, uint32_t i, uint32_t at)
{
    const struct response_writer *want = &shared.want[i];
    const uint32_t n_new = KNOWN - n < MAX_NEW - at ? KNOWN - n : MAX_NEW - at;
    const struct request_size size = {.n_prompt = n, .max_tokens = n_new, .penalties = i % 3 == 1};
    const struct setup s = quiet();
    static struct response_writer got;
    struct request *r, *like = make_request(i);
    struct machine m;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = 1;
    r->arrival_us = clock_us();
    memcpy(r->ids, ids, n * sizeof(*ids));
    r->sampling = like->sampling;
    r->ignore_eos = true;
    request_destroy(&like);
    memset(&got, 0, sizeof(got));
    build_machine(&m, shared.model, &s, &got);
    assert_int_equal(queue_post(m.queue, r), 0);
    wait_for(&m, 1, UINT32_MAX);
    tear_down(&m);
    assert_int_equal(got.n_tokens, n_new);
    assert_memory_equal(got.tokens, want->tokens + at, n_new * sizeof(got.tokens[0]));
    assert_memory_equal(got.logprobs, want->logprobs + at, n_new * sizeof(got.logprobs[0]));
    assert_memory_equal(got.top, want->top + at, n_new * sizeof(got.top[0]));
}

static void what_comes_next_is_a_new_requests(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_REQUESTS; i += 2) {
        struct request *r = make_request(i);
        const uint32_t from = r->n_keep + r->n_discard;
        int32_t ids[KNOWN];
        uint32_t n = r->n_prompt, n_compared = 0;

        memcpy(ids, r->ids, n * sizeof(*ids));
        for (uint32_t t = 0; t < MAX_NEW; t++) {
            ids[n++] = shared.want[i].tokens[t];
            if (n < KNOWN || t + 1 == MAX_NEW)
                continue;
            memmove(ids + r->n_keep, ids + from, (n - from) * sizeof(*ids));
            n -= r->n_discard;
            if (n_compared++ < 3)
                compare_fresh(ids, n, i, t + 1);
        }
        assert_true(n_compared > 0);
        request_destroy(&r);
    }
}

/* ---- whatever happens around it ---- */

static void with_others(void **state)
{
    struct setup s = quiet();
    (void)state;

    s.alone = false;
    run(&s, shared.got);
    compare("all at once");
    s.chunk = 7;
    s.threads = 1;
    s.prefix_cache = true;
    run(&s, shared.got);
    compare("with a prefix cache");
}

static void under_pressure(void **state)
{
    struct setup s = quiet();
    (void)state;

    s.alone = false;
    s.n_blocks = 12 * kv_groups_n(&shared.model->groups);
    run(&s, shared.got);
    compare("preempted");
    assert_true(shared.stats.preemptions_recompute > 0);
    s.prefix_cache = true;
    s.preemption = SCHED_SWAP;
    s.n_ram = s.n_blocks;
    s.n_file = 4 * s.n_blocks;
    run(&s, shared.got);
    compare("swapped");
    assert_true(shared.stats.preemptions_swap > 0);
}

static int set_up_with(uint32_t window, const int32_t *pattern)
{
    const struct setup s = quiet();

    shared.model = build_model(window, pattern);
    run(&s, shared.want);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(0, NULL);
}

static int set_up_windows(void **state)
{
    static const int32_t pattern[LAYERS] = {1, 0, 1, 1};
    (void)state;

    return set_up_with(WINDOW, pattern);
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
        cmocka_unit_test(what_comes_next_is_a_new_requests),
        cmocka_unit_test(with_others),
        cmocka_unit_test(under_pressure),
    };

    return cmocka_run_group_tests_name("no window", tests, set_up, finish) +
           cmocka_run_group_tests_name("windows", tests, set_up_windows, finish);
}
