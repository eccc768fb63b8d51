/* tests/sim/sim_share.c - what sequences have in common is computed once; see sim.h. */
#include "tests/sim/sim.h"

static struct sim *sim_shared(uint32_t n_blocks, uint32_t max_sequences)
{
    return sim_open(&(struct sim_options){.n_blocks = n_blocks, .max_sequences = max_sequences,
                                          .batch = 600, .chunk = 512, .prefix_cache = true,
                                          .policy = SCHED_PRIORITY});
}

/* T9: equal prompts share full blocks and never the last token; a part of a block is copied. The
 * number of cached tokens is exact for every length. */
static void cached_tokens_are_exact(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= 100; n++) {
        struct sim *s = sim_shared(200, 4);
        uint64_t id;

        post(s, make_like(s, 1, 100, 100, 8)); /* 107 tokens are computed, 96 in full blocks */
        run_dry(s, 100);
        id = post(s, make_like(s, 1, n, 101, 2));
        run_dry(s, 100);
        assert_int_equal(s->rec[id].n_cached, n < 96 ? n : 96);
        id = post(s, make_like(s, 1, n, n > 0 ? n : 1, 2)); /* nothing but what is cached */
        run_dry(s, 100);
        assert_int_equal(s->rec[id].n_cached, n <= 1 ? 0 : n - 1 < 96 ? n - 1 : 96);
        sim_free(s);
    }
}

/* Other salts (tenants) do not see it. */
static void salts_keep_apart(void **state)
{
    struct sim *s = sim_shared(200, 4);
    struct request *r;
    uint64_t id;
    (void)state;

    post(s, make_like(s, 1, 100, 100, 2));
    run_dry(s, 100);
    r = make_like(s, 1, 100, 100, 2);
    r->key.salt = 5;
    id = post(s, r);
    run_dry(s, 100);
    assert_int_equal(s->rec[id].n_cached, 0);
    sim_free(s);
}

/* A cancelled prefill leaves its complete blocks and nothing else. */
static void cancelled_prefill_leaves_full_blocks(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 200, .max_sequences = 4,
                                                   .batch = 64, .chunk = 40, .prefix_cache = true});
    uint64_t id;
    (void)state;

    id = post(s, make_like(s, 1, 300, 300, 2));
    assert_true(step(s, NO_BUDGET)); /* 40 tokens: two blocks and a half */
    sched_cancel(s->sched, id, FINISH_CANCELLED, s->now);
    take_ends(s);
    assert_int_equal(n_held(s), 0);
    assert_int_equal(kv_manager_stats(s->kv).pool.n_cached, 2);
    id = post(s, make_like(s, 1, 300, 300, 2));
    run_dry(s, 100);
    assert_int_equal(s->rec[id].n_cached, 32);
    sim_free(s);
}

/* Choices of one prompt, that of text 3; the id of the first, which the others wait for. */
static uint64_t post_choices(struct sim *s, uint32_t n, uint32_t n_prompt, uint32_t max_tokens)
{
    const uint64_t first = post(s, make_like(s, 3, n_prompt, n_prompt, max_tokens));

    for (uint32_t i = 1; i < n; i++) {
        struct request *r = make_like(s, 3, n_prompt, n_prompt, max_tokens);

        r->prefix_owner = first;
        post(s, r);
    }
    return first;
}

/* Parallel choices: the first computes the prompt, the others take over its blocks, the partial one
 * too, and part from it at the first write (S3.7, T9). */
static void choices_fork(void **state)
{
    struct sim *s = sim_shared(200, 8);
    uint64_t first;
    (void)state;

    first = post_choices(s, 4, 100, 20);
    assert_true(step(s, NO_BUDGET));
    assert_int_equal(n_held(s), 7);
    assert_true(step(s, NO_BUDGET)); /* the others: six shared blocks, one of their own each */
    assert_int_equal(n_held(s), 6 + 4);
    run_dry(s, 100);
    for (uint64_t id = first + 1; id <= first + 3; id++)
        assert_int_equal(s->rec[id].n_cached, 99);
    sim_free(s);
}

/* The prompt is computed once, and then its last token by each choice but the first; nobody takes
 * more than a block of each group for that. */
static void check_choices(uint32_t n_prompt, const struct kv_groups *groups, bool prefix_cache)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 200, .max_sequences = 8,
                                                   .batch = 64, .chunk = 32, .groups = *groups,
                                                   .prefix_cache = prefix_cache});
    struct engine_stats stats = {0};
    uint32_t held;

    post_choices(s, 4, n_prompt, 20);
    while (s->rec[1].n_tokens == 0)
        assert_true(step(s, NO_BUDGET));
    held = n_held(s);
    assert_true(step(s, NO_BUDGET));
    assert_true(n_held(s) <= held + 4 * kv_groups_n(groups));
    run_dry(s, 100);
    sched_fill_stats(s->sched, &stats);
    assert_int_equal(stats.prompt_tokens, n_prompt + 3);
    assert_int_equal(stats.cached_tokens, 3 * (n_prompt - 1));
    assert_int_equal(stats.generation_tokens, 4 * 20);
    sim_free(s);
}

/* Of any length, with windows of any size beside layers without one or in all of them. */
static void choices_fork_at_any_length(void **state)
{
    (void)state;
    for (uint32_t window = 1; window <= 70; window += 1 + window % 3)
        for (uint32_t n = 1; n <= 100; n++) {
            check_choices(n, &(struct kv_groups){.n = 1, .n_window = 1, .window = window}, n % 3);
            check_choices(n, &(struct kv_groups){.n = 3, .n_window = 2, .window = window}, n % 5);
        }
}

/* The prefix owner goes while its prompt is computed: the next one leads. */
static void waiters_outlive_their_prefix_owner(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 200, .max_sequences = 8,
                                                   .batch = 64, .chunk = 32, .prefix_cache = true});
    uint64_t first;
    (void)state;

    first = post_choices(s, 4, 100, 5);
    assert_true(step(s, NO_BUDGET));
    sched_cancel(s->sched, first + 2, FINISH_CANCELLED, s->now); /* one that is held back */
    sched_cancel(s->sched, first, FINISH_CANCELLED, s->now);
    take_ends(s);
    assert_true(sched_check(s->sched));
    run_dry(s, 100);
    assert_int_equal(s->rec[first + 1].n_tokens, 5);
    assert_int_equal(s->rec[first + 3].n_tokens, 5);
    assert_int_equal(s->rec[first + 3].n_cached, 99);
    sim_free(s);
}

/* Eight requests at once, with 512 tokens in common and 32 of their own. */
static struct sim *sim_stampede(void)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 400, .max_sequences = 16,
                                                   .batch = 300, .chunk = 256,
                                                   .prefix_cache = true});

    for (int i = 0; i < 8; i++)
        post(s, make_like(s, 5, 512, 544, 4));
    return s;
}

/* What they have in common is computed once. */
static void a_stampede_computes_once(void **state)
{
    struct sim *s = sim_stampede();
    struct engine_stats stats = {0};
    (void)state;

    assert_true(step(s, NO_BUDGET));
    assert_true(step(s, NO_BUDGET)); /* the 512 are there, and nobody else has any */
    assert_int_equal(n_held(s), 32);
    run_dry(s, 100);
    sched_fill_stats(s->sched, &stats);
    assert_int_equal(stats.prompt_tokens, 512 + 8 * 32);
    assert_int_equal(stats.cached_tokens, 7 * 512);
    sim_free(s);
}

/* The one that computes it leaves half way: another one goes on from there. */
static void a_stampede_outlives_its_first(void **state)
{
    struct sim *s = sim_stampede();
    struct engine_stats stats = {0};
    (void)state;

    assert_true(step(s, NO_BUDGET));
    sched_cancel(s->sched, 1, FINISH_CANCELLED, s->now);
    take_ends(s);
    run_dry(s, 100);
    sched_fill_stats(s->sched, &stats);
    assert_int_equal(stats.prompt_tokens, 512 + 7 * 32);
    sim_free(s);
}

/* ---- recurrent states ---- */

static struct sim *sim_states(uint32_t n_slots, uint32_t interval, uint32_t chunk)
{
    return sim_open(&(struct sim_options){
        .n_blocks = 400, .max_sequences = 8, .batch = 600, .chunk = chunk, .prefix_cache = true,
        .states = {.n_slots = n_slots, .interval = interval, .n_parts = 2}});
}

/* A prompt is taken up at the last snapshot before it parts from an earlier one. */
static void snapshots_are_taken_up(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 200; n++) {
        struct sim *s = sim_states(40, 2, 512);
        const uint64_t first = post(s, make_like(s, 1, 200, 200, 8));
        uint64_t id;

        run_dry(s, 100);
        id = post(s, make_like(s, 1, n, 201, 2));
        run_dry(s, 100);
        assert_int_equal(s->rec[first].n_cached, 0);
        assert_int_equal(s->rec[id].n_cached, n / 32 * 32);
        sim_free(s);
    }
}

/* The farther from the beginning, the farther apart: at most an eighth of what is before. */
static void snapshots_grow_rarer(void **state)
{
    struct sim *s = sim_states(120, 1, 512);
    (void)state;

    post(s, make_like(s, 1, 2100, 2100, 1));
    run_dry(s, 100);
    for (uint32_t n = 1; n <= 2100; n += 37) {
        const uint32_t blocks = n / BLOCK_TOKENS;
        const uint32_t step = blocks < 16 ? 1 : blocks < 32 ? 2 : blocks < 64 ? 4
                              : blocks < 128 ? 8 : 16;
        const uint64_t id = post(s, make_like(s, 1, n, n + 1, 1));

        run_dry(s, 100);
        assert_int_equal(s->rec[id].n_cached, blocks / step * step * BLOCK_TOKENS);
    }
    sim_free(s);
}

/* Those that were used last stay; a slot that holds one is taken when no other is left. */
static void snapshots_are_evicted(void **state)
{
    struct sim *s = sim_states(8, 1, 512);
    uint64_t id;
    (void)state;

    post(s, make_like(s, 1, 320, 320, 1)); /* 20 boundaries, 8 slots */
    run_dry(s, 100);
    assert_int_equal(kv_manager_stats(s->kv).states.n_snapshots, 8);
    id = post(s, make_like(s, 1, 100, 100, 1)); /* these have gone */
    run_dry(s, 100);
    assert_int_equal(s->rec[id].n_cached, 0);
    id = post(s, make_like(s, 1, 320, 330, 1)); /* the newest one has not */
    run_dry(s, 100);
    assert_int_equal(s->rec[id].n_cached, 320);
    sim_free(s);
}

/* Without a prefix cache nobody looks for them, and chunks are not cut. */
static void no_cache_no_snapshots(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){
        .n_blocks = 100, .max_sequences = 4, .batch = 600, .chunk = 512,
        .states = {.n_slots = 4, .interval = 1, .n_parts = 1}});
    (void)state;

    post(s, make(s, 300, 2, PRIORITY_NORMAL));
    run_dry(s, 100);
    assert_int_equal(s->steps, 2);
    assert_int_equal(kv_manager_stats(s->kv).states.n_snapshots, 0);
    sim_free(s);
}

/* Choices copy the state in front of the prompt's last token, which each computes itself. */
static void choices_copy_the_state(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 100; n++) {
        struct sim *s = sim_states(16, 1 + n % 4, 64);
        struct engine_stats stats = {0};

        post_choices(s, 8, n, 20);
        run_dry(s, 200);
        sched_fill_stats(s->sched, &stats);
        assert_int_equal(stats.prompt_tokens, n + 7);
        assert_int_equal(stats.cached_tokens, 7 * (n - 1));
        assert_int_equal(stats.generation_tokens, 8 * 20);
        sim_free(s);
    }
}

/* Many come at once: the first computes what they have in common, up to a snapshot. */
static void a_stampede_waits_for_a_snapshot(void **state)
{
    struct sim *s = sim_states(20, 4, 256);
    struct engine_stats stats = {0};
    (void)state;

    for (int i = 0; i < 8; i++)
        post(s, make_like(s, 5, 500, 544, 4));
    run_dry(s, 100);
    sched_fill_stats(s->sched, &stats);
    assert_int_equal(stats.cached_tokens, 7 * 448);
    assert_int_equal(stats.prompt_tokens, 448 + 8 * 96);
    sim_free(s);
}

/* More sequences than slots could all stand still. */
static void too_few_slots_are_refused(void **state)
{
    struct kv_manager_options ko = {.n_blocks = 10, .max_table = 10, .max_sequences = 1,
                                    .states = {.n_slots = 3, .interval = 1, .n_parts = 1}};
    struct sched_options so;
    struct sched *sched;
    (void)state;

    sched_options_default(&so);
    assert_int_equal(kv_manager_create(&so.kv, &ko), 0);
    so.max_sequences = 4;
    assert_int_equal(sched_create(&sched, &so), ERR_INVAL);
    so.max_sequences = 3;
    assert_int_equal(sched_create(&sched, &so), 0);
    sched_destroy(&sched);
    kv_manager_destroy(&so.kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_tokens_are_exact),
        cmocka_unit_test(salts_keep_apart),
        cmocka_unit_test(cancelled_prefill_leaves_full_blocks),
        cmocka_unit_test(choices_fork),
        cmocka_unit_test(choices_fork_at_any_length),
        cmocka_unit_test(waiters_outlive_their_prefix_owner),
        cmocka_unit_test(a_stampede_computes_once),
        cmocka_unit_test(a_stampede_outlives_its_first),
        cmocka_unit_test(snapshots_are_taken_up),
        cmocka_unit_test(snapshots_grow_rarer),
        cmocka_unit_test(snapshots_are_evicted),
        cmocka_unit_test(no_cache_no_snapshots),
        cmocka_unit_test(choices_copy_the_state),
        cmocka_unit_test(a_stampede_waits_for_a_snapshot),
        cmocka_unit_test(too_few_slots_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
