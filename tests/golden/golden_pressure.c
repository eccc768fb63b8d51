/* tests/golden/golden_pressure.c - 32 streams at once in a pool for 8, in every way to get by.
 *
 * Random lengths, mixed priorities, seeded sampling, shared prefixes and parallel choices. In
 * recompute mode, with a RAM tier, with a file behind a small RAM tier, and with a file on a
 * disk that gets full, every token and every log-probability equals the undisturbed run (P1),
 * nobody gets an error (P2), and the scheduler's whole state is checked after every step (P3: the
 * loop asserts it in this build). T3, T4, T5, T9; S2.29, S3.7. The same with a model of which half
 * of the layers have a window, and drop what is past, with one of which three in four have one,
 * with one of which all have, and with one whose other layers keep a state; in an emulator with the
 * first, the third and the fifth of these.
 */
#include "tests/fixtures/emulated.h"
#include "tests/fixtures/random.h"
#include "tests/golden/machine.h"

#define N_REQUESTS 32
#define N_BLOCKS 88 /* 8 sequences of 11 blocks, the mean of what these need at their ends */
#define WINDOW 37   /* tokens: 3 or 4 blocks between two steps */
#define SHARED 70   /* tokens that every fourth prompt begins with */
#define CHOICES 4   /* requests 8 .. 8 + CHOICES - 1 have one and the same prompt */

static bool is_choice(uint32_t i)
{
    return i >= 8 && i < 8 + CHOICES;
}

static struct request *make_request(uint32_t i)
{
    uint64_t rng = is_choice(i) ? 8 : i, shared = 99;
    const struct request_size size = {.n_prompt = 20 + random_below(&rng, 180),
                                      .max_tokens = 16 + random_below(&rng, MAX_NEW - 15),
                                      .penalties = i % 6 == 5};
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = i + 1;
    r->arrival_us = clock_us();
    for (uint32_t t = 0; t < size.n_prompt; t++) {
        const bool is_shared = !is_choice(i) && i % 4 == 1 && t < SHARED;

        r->ids[t] = (int32_t)random_below(is_shared ? &shared : &rng, VOCAB);
    }
    r->priority = (enum priority)(i < N_REQUESTS / 2 ? i % 2 : i * 7 % PRIORITY_COUNT);
    r->prefix_owner = is_choice(i) && i > 8 ? 9 : 0;
    r->sampling.n_top = N_TOP;
    r->sampling.seed = 5 + i;
    r->sampling.temperature = i % 3 == 0 ? 0.0f : 0.9f;
    r->sampling.repetition_penalty = i % 6 == 5 ? 1.2f : 1.0f;
    r->ignore_eos = true;
    r->score_prompt = i % 11 == 3;
    return r;
}

/* The models, and blocks for 8 sequences of each. */
static const struct kind {
    const char *name;
    uint32_t window;
    int32_t pattern[LAYERS];
    uint32_t n_groups, n_window, n_blocks;
    uint32_t n_swap; /* blocks' bytes of a copy, for each block of a group */
    bool is_hybrid;
} kinds[] = {
    {"no window", 0, {0}, 1, 0, N_BLOCKS, 1, false},
    {"a window in half of the layers", WINDOW, {1, 0, 1, 0}, 2, 1, 8 * (11 + 5), 2, false},
    {"a window in most layers", WINDOW, {1, 1, 0, 1}, 4, 3, 8 * (11 + 3 * 5), 4, false},
    {"a window in all layers", WINDOW, {1, 1, 1, 1}, 1, 1, 8 * 5, 1, false},
    {"delta nets beside attention", 0, {0}, 1, 0, N_BLOCKS, 4, true},
};

static struct {
    const struct kind *kind; /* the next group's, before it begins */
    struct model *model;
    struct response_writer want[N_REQUESTS], got[N_REQUESTS], plain[N_REQUESTS];
    struct engine_stats stats;
} shared;

static void run(const struct setup *s, struct response_writer *answers)
{
    struct machine m;

    memset(answers, 0, N_REQUESTS * sizeof(*answers));
    build_machine(&m, shared.model, s, answers);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        assert_int_equal(queue_post(m.queue, make_request(i)), 0);
        if (s->alone)
            wait_for(&m, i + 1, UINT32_MAX);
        else if (i == N_REQUESTS / 2)
            wait_for(&m, i, 8); /* the rest comes when these are decoding */
    }
    wait_for(&m, N_REQUESTS, UINT32_MAX);
    queue_get_stats(m.queue, &shared.stats);
    tear_down(&m);
}

static void compare(const char *what)
{
    const struct engine_stats *s = &shared.stats;
    const uint64_t all = s->prompt_tokens + s->generation_tokens;

    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        struct response_writer *a = &shared.want[i], *b = &shared.got[i];

        assert_int_equal(b->n_ends, 1);
        a->n_cached = b->n_cached; /* the one thing that may differ */
        if (memcmp(a, b, sizeof(*a)) != 0)
            fail_msg("%s: request %u differs (%u and %u tokens, %u and %u scores)", what, i,
                     a->n_tokens, b->n_tokens, a->n_scores, b->n_scores);
    }
    printf("note: %-32s preempted %2u by recompute, %2u by swap; %4.1f %% recomputed; "
           "file blocks %u out, %u in; %u failed writes\n",
           what, (unsigned)s->preemptions_recompute, (unsigned)s->preemptions_swap,
           100.0 * (double)s->recomputed_tokens / (double)all, (unsigned)s->swap.blocks_out[1],
           (unsigned)s->swap.blocks_in[1], (unsigned)s->swap.n_write_errors);
}

static struct setup pressed(bool prefix_cache)
{
    return (struct setup){.chunk = 64, .threads = 2, .n_blocks = shared.kind->n_blocks,
                          .max_sequences = 32,
                          .isa = kern_isa_best(), .prefix_cache = prefix_cache,
                          .n_writes_ok = UINT32_MAX};
}

/* RAM slots for two to three sequences. */
static uint32_t staging(void)
{
    return shared.kind->n_blocks * 26 / N_BLOCKS * (shared.kind->is_hybrid ? 3 : 1);
}

static bool is_mostly_swapped(void)
{
    const struct engine_stats *s = &shared.stats;

    return s->recomputed_tokens * 20 <= s->prompt_tokens + s->generation_tokens;
}

static void check_swapped(void)
{
    assert_true(shared.stats.preemptions_swap > 0);
    assert_true(is_mostly_swapped());
}

static void by_recompute(void **state)
{
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        struct setup s = pressed(cache);

        s.preemption = SCHED_RECOMPUTE;
        run(&s, shared.got);
        compare(cache ? "recompute, prefix cache" : "recompute");
        assert_true(shared.stats.preemptions_recompute > 0);
        assert_int_equal(shared.stats.preemptions_swap, 0);
    }
}

static void by_swap_to_ram(void **state)
{
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        struct setup s = pressed(cache);

        s.preemption = SCHED_SWAP;
        s.n_ram = 400 * shared.kind->n_swap;
        run(&s, shared.got);
        compare(cache ? "RAM, prefix cache" : "RAM");
        check_swapped();
    }
}

#define TRIES 10 /* where the disk is slow for a while, sequences are computed again meanwhile */

static void by_swap_to_file(void **state)
{
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        struct setup s = pressed(cache);

        s.preemption = SCHED_SWAP;
        s.n_ram = staging();
        s.n_file = 400 * shared.kind->n_swap;
        for (int i = 0; i < TRIES && (i == 0 || !is_mostly_swapped()); i++) {
            run(&s, shared.got);
            compare(cache ? "file, prefix cache" : "file");
        }
        check_swapped();
        assert_true(shared.stats.swap.blocks_out[1] > 0 && shared.stats.swap.blocks_in[1] > 0);
    }
}

/* After one transfer the disk takes no more: the RAM tier fills up, the rest is recomputed. */
static void by_file_on_a_full_disk(void **state)
{
    struct setup s = pressed(false);
    (void)state;

    s.preemption = SCHED_SWAP;
    s.n_ram = staging();
    s.n_file = 400 * shared.kind->n_swap;
    s.n_writes_ok = 1;
    run(&s, shared.got);
    compare("file on a disk that gets full");
    assert_true(shared.stats.swap.n_write_errors > 0);
}

static void choices_share_their_prompt(void **state)
{
    struct setup s = pressed(true);
    struct request *first = make_request(8);
    const uint32_t n = first->n_prompt;
    (void)state;

    request_destroy(&first);
    s.n_blocks = 600 * shared.kind->n_groups;
    run(&s, shared.got);
    compare("roomy, parallel choices");
    for (uint32_t i = 9; i < 8 + CHOICES; i++)
        assert_int_equal(shared.got[i].n_cached, n - 1);
    assert_true(shared.stats.blocks_copied >= (CHOICES - 1) * shared.kind->n_groups);
}

static int set_up(void **state)
{
    struct setup s = pressed(false);
    (void)state;

    s.alone = true;
    s.n_blocks = 600 * shared.kind->n_groups;
    shared.model = shared.kind->is_hybrid
                       ? build_hybrid()
                       : build_model(shared.kind->window,
                                     shared.kind->window > 0 ? shared.kind->pattern : NULL);
    assert_int_equal(shared.model->groups.n, shared.kind->n_groups);
    assert_int_equal(shared.model->groups.n_window, shared.kind->n_window);
    run(&s, shared.want);
    if (shared.kind == kinds)
        memcpy(shared.plain, shared.want, sizeof(shared.plain));
    else
        assert_memory_not_equal(shared.plain, shared.want, sizeof(shared.plain));
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
        cmocka_unit_test(by_recompute),
        cmocka_unit_test(by_swap_to_ram),
        cmocka_unit_test(by_swap_to_file),
        cmocka_unit_test(by_file_on_a_full_disk),
        cmocka_unit_test(choices_share_their_prompt),
    };

    const ptrdiff_t step = is_emulated() ? 2 : 1;
    int failed = 0;

    if (is_emulated())
        puts("note: three of five models, in an emulator");
    for (shared.kind = kinds; shared.kind < kinds + sizeof(kinds) / sizeof(kinds[0]);
         shared.kind += step)
        failed += cmocka_run_group_tests_name(shared.kind->name, tests, set_up, finish);
    return failed;
}
