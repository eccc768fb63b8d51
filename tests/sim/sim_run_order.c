/* tests/sim/sim_run_order.c - who goes first, and who has to go; see sim.h. */
#include "tests/sim/sim.h"

/* Order in which requests that all wait get their first step. */
static void assert_order(struct sim *s, const uint64_t *ids, size_t n)
{
    for (size_t i = 1; i < n; i++)
        assert_true(s->rec[ids[i - 1]].first_step < s->rec[ids[i]].first_step);
}

/* S2.19, T6: high before low; within a level first come, first served. */
static void priorities_order_admission(void **state)
{
    struct sim *s = sim_new(100, 1, 64, 32, SCHED_PRIORITY);
    (void)state;

    add(s, 8, 2, PRIORITY_NORMAL); /* 1 runs first: nothing else is there */
    assert_true(step(s, NO_BUDGET));
    add(s, 8, 2, PRIORITY_LOW);    /* 2 */
    add(s, 8, 2, PRIORITY_NORMAL); /* 3 */
    add(s, 8, 2, PRIORITY_NORMAL); /* 4 */
    run_dry(s, 100);
    assert_true(s->rec[1].end_step < s->rec[3].end_step);
    assert_true(s->rec[3].end_step < s->rec[4].end_step);
    assert_true(s->rec[4].end_step < s->rec[2].end_step);
    sim_free(s);
}

static void fcfs_ignores_priorities(void **state)
{
    struct sim *s = sim_new(100, 1, 64, 32, SCHED_FCFS);
    (void)state;

    add(s, 8, 2, PRIORITY_LOW);
    add(s, 8, 2, PRIORITY_CRITICAL);
    run_dry(s, 100);
    assert_true(s->rec[1].end_step < s->rec[2].end_step);
    assert_int_equal(s->rec[1].n_preempted, 0);
    sim_free(s);
}

/* S2.21: a strictly higher priority takes the slot of a lower one, which comes back. */
static void critical_preempts_low(void **state)
{
    struct sim *s = sim_new(100, 1, 64, 32, SCHED_PRIORITY);
    (void)state;

    add(s, 8, 50, PRIORITY_LOW);
    for (int i = 0; i < 10; i++)
        assert_true(step(s, NO_BUDGET));
    add(s, 8, 5, PRIORITY_CRITICAL);
    assert_true(step(s, NO_BUDGET));
    assert_int_equal(s->rec[1].n_preempted, 1);
    assert_int_equal(s->rec[2].n_tokens, 1);
    run_dry(s, 200);
    assert_int_equal(s->rec[1].n_tokens, 50);
    assert_int_equal(s->rec[1].n_preempted, 1);
    sim_free(s);
}

/* D2.6, T6: equal priorities never push each other out for a slot; all finish. */
static void equals_wait_for_slots(void **state)
{
    struct sim *s = sim_new(1000, 4, 64, 32, SCHED_PRIORITY);
    (void)state;

    for (int i = 0; i < 40; i++)
        add(s, 20, 30, PRIORITY_NORMAL);
    run_dry(s, 2000);
    for (uint64_t id = 1; id <= 40; id++)
        assert_int_equal(s->rec[id].n_preempted, 0);
    sim_free(s);
}

/* T5, D2.7: the pool holds a quarter of what runs; everybody finishes with all tokens, victims
 * longer than the prefill budget included, and the oldest is never a victim. */
static void small_pool_preempts_and_finishes(void **state)
{
    struct sim *s = sim_new(20, 8, 40, 16, SCHED_PRIORITY);
    uint32_t n_preempted = 0;
    (void)state;

    for (int i = 0; i < 8; i++)
        add(s, 20 + (uint32_t)i, 200, PRIORITY_NORMAL);
    run_dry(s, 20000);
    for (uint64_t id = 1; id <= 8; id++) {
        assert_int_equal(s->rec[id].n_tokens, 200);
        n_preempted += s->rec[id].n_preempted;
    }
    assert_true(n_preempted > 0);
    assert_int_equal(s->rec[1].n_preempted, 0);
    sim_free(s);
}

/* S2.14: shortest prompt + max_tokens first, equals by arrival. */
static void sjf_takes_the_shortest(void **state)
{
    struct sim *s = sim_new(100, 1, 64, 64, SCHED_SJF);
    (void)state;

    add(s, 30, 30, PRIORITY_NORMAL);
    add(s, 8, 20, PRIORITY_LOW);
    add(s, 20, 4, PRIORITY_NORMAL);
    add(s, 4, 20, PRIORITY_CRITICAL);
    run_dry(s, 200);
    assert_order(s, (const uint64_t[]){3, 4, 2, 1}, 4);
    sim_free(s);
}

/* S2.14, D2.9: adaptive is neither fcfs nor priority: length counts too. */
static void adaptive_weighs_length(void **state)
{
    struct sim *s = sim_new(300, 1, 64, 64, SCHED_ADAPTIVE);
    (void)state;

    add(s, 30, 3000, PRIORITY_NORMAL); /* one level and a half */
    add(s, 10, 5, PRIORITY_NORMAL);
    add(s, 10, 5, PRIORITY_HIGH);
    run_dry(s, 4000);
    assert_order(s, (const uint64_t[]){3, 2, 1}, 3);
    sim_free(s);
}

/* T6: with a level worth ten seconds, a low request that has waited thirty goes before a fresh
 * critical one; with ageing off it never does. */
static void ageing_lifts_the_low(void **state)
{
    (void)state;
    for (int aging = 0; aging < 2; aging++) {
        struct sim *s = sim_new(100, 1, 64, 64, SCHED_PRIORITY);

        sched_destroy(&s->sched);
        s->opt.aging_milli = aging ? 100 : 0;
        assert_int_equal(sched_create(&s->sched, &s->opt), 0);
        add(s, 8, 4, PRIORITY_CRITICAL); /* has the slot */
        assert_true(step(s, NO_BUDGET));
        add(s, 8, 2, PRIORITY_LOW);
        s->now += 31 * 1000000;
        add(s, 8, 2, PRIORITY_CRITICAL);
        run_dry(s, 100);
        assert_int_equal(s->rec[2].first_step < s->rec[3].first_step, aging);
        sim_free(s);
    }
}

/* A priority moves a request by max_wait at most, also before those of another tenant: here a level
 * would be worth 1,000 seconds, and a low one has waited 31. */
static void no_level_is_worth_more_than_max_wait(void **state)
{
    (void)state;
    for (uint32_t tenant = 0; tenant < 2; tenant++) {
        struct sim *s = sim_new(100, 1, 64, 64, SCHED_PRIORITY);
        struct request *low;

        sched_destroy(&s->sched);
        s->opt.aging_milli = 1;
        s->opt.max_wait_ms = 30000;
        s->opt.max_tenants = 2;
        assert_int_equal(sched_create(&s->sched, &s->opt), 0);
        add(s, 8, 4, PRIORITY_CRITICAL); /* has the slot */
        assert_true(step(s, NO_BUDGET));
        low = make(s, 8, 2, PRIORITY_LOW);
        low->tenant = tenant;
        post(s, low);
        s->now += 31 * 1000000;
        add(s, 8, 2, PRIORITY_CRITICAL);
        run_dry(s, 100);
        assert_true(s->rec[2].first_step < s->rec[3].first_step);
        sim_free(s);
    }
}

/* Among equals the earliest deadline goes first; without one, max_wait after the arrival. */
static void earliest_deadline_first(void **state)
{
    static const uint64_t seconds[] = {0, 20, 5, 10, 0, 100};
    struct sim *s = sim_new(100, 1, 64, 64, SCHED_PRIORITY);
    (void)state;

    for (int i = 0; i < 6; i++) {
        struct request *r = make(s, 8, 2, PRIORITY_NORMAL);

        r->deadline_us = seconds[i] != 0 ? s->now + seconds[i] * 1000000 : 0;
        post(s, r);
    }
    run_dry(s, 100);
    assert_order(s, (const uint64_t[]){3, 4, 2, 1, 5, 6}, 6);
    sim_free(s);
}

/* max_queue_ms: only the wait counts. */
static void queue_limit_ends_the_waiting(void **state)
{
    struct sim *s = sim_new(100, 1, 64, 64, SCHED_PRIORITY);
    (void)state;

    for (int i = 0; i < 2; i++) {
        struct request *r = make(s, 8, 50, PRIORITY_NORMAL);

        r->queue_until_us = s->now + 10000;
        post(s, r);
    }
    run_dry(s, 100);
    assert_int_equal(s->rec[1].n_tokens, 50);
    assert_int_equal(s->rec[2].finish, FINISH_QUEUE_TIMEOUT);
    assert_int_equal(s->rec[2].n_tokens, 0);
    sim_free(s);
}

/* Two tenants, one slot: turns by tokens served over weight, not by who asks more. */
static void tenants_take_turns(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 100, .max_sequences = 1,
                                                   .batch = 64, .chunk = 64, .max_tenants = 2,
                                                   .policy = SCHED_PRIORITY});
    uint32_t n[2] = {0, 0};
    (void)state;

    for (uint32_t i = 0; i < 100; i++) {
        struct request *r = make(s, 10, 10, PRIORITY_NORMAL);

        r->tenant = i < 80 ? 0 : 1;
        r->weight = i < 80 ? 1 : 3;
        post(s, r);
    }
    while (s->n_ended < 24)
        assert_true(step(s, NO_BUDGET));
    for (uint64_t id = 1; id <= 100; id++)
        n[id > 80] += s->rec[id].ends;
    assert_in_range(n[0], 5, 7);
    assert_in_range(n[1], 17, 19);
    run_dry(s, 4000);
    sim_free(s);
}

/* With room for copies nothing is computed twice (S2.29). */
static void swapping_recomputes_nothing(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 20, .max_sequences = 8, .batch = 40,
                                                   .chunk = 16, .preemption = SCHED_SWAP,
                                                   .policy = SCHED_PRIORITY, .n_ram = 200});
    struct engine_stats stats = {0};
    (void)state;

    for (int i = 0; i < 8; i++)
        add(s, 20 + (uint32_t)i, 200, PRIORITY_NORMAL);
    run_dry(s, 20000);
    sched_fill_stats(s->sched, &stats);
    assert_true(stats.preemptions_swap > 0);
    assert_int_equal(stats.preemptions_recompute, 0);
    assert_int_equal(stats.recomputed_tokens, 0);
    assert_int_equal(stats.swap.ram_used, 0);
    sim_free(s);
}

/* The way back that costs less is taken: computing again when the tier is slow. */
static void mode_follows_cost(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct sim *s = sim_open(&(struct sim_options){.n_blocks = 40, .max_sequences = 8,
                                                       .batch = 64, .chunk = 64, .n_ram = 200,
                                                       .policy = SCHED_PRIORITY});
        const struct sched_limits limits = {
            .costs = {.is_known = true, .prefill_ns = 1000, .swap_ns = slow ? 1000000 : 1000}};
        const struct plan *p;

        add(s, 300, 10, PRIORITY_LOW);
        while (s->rec[1].n_tokens == 0)
            assert_true(step(s, NO_BUDGET));
        add(s, 600, 10, PRIORITY_HIGH); /* needs nearly all blocks */
        p = sched_plan(s->sched, s->now += 1000, &limits);
        assert_int_equal(p->n_preempted, 1);
        assert_int_equal(p->n_swapped_out, slow ? 0 : 1);
        check_preempted(s, p);
        run_moves(s, p);
        for (uint32_t i = 0; i < p->n_items; i++) {
            check_item(s, &p->items[i]);
            compute(s, &p->items[i]);
            s->tokens[i] = 11;
        }
        account(s, p);
        sched_commit(s->sched, s->tokens, NULL, NULL, NULL, s->now);
        run_dry(s, 200);
        sim_free(s);
    }
}

/* D2.6, T6: equal priorities, a pool that holds one and a half: everybody ends, nobody is thrown
 * out more often than the bound says. */
static void preemptions_are_bounded(void **state)
{
    (void)state;
    for (int swap = 0; swap < 2; swap++) {
        struct sim *s = sim_open(&(struct sim_options){
            .n_blocks = 30, .max_sequences = 16, .batch = 64, .chunk = 32, .n_ram = swap ? 400 : 0,
            .preemption = swap ? SCHED_SWAP : SCHED_RECOMPUTE, .policy = SCHED_PRIORITY});

        for (int i = 0; i < 60; i++)
            add(s, 10 + rnd(s, 60), 100 + rnd(s, 200), PRIORITY_NORMAL);
        run_dry(s, 40000);
        for (uint64_t id = 1; id <= 60; id++)
            assert_in_range(s->rec[id].n_preempted, 0, s->opt.max_preemptions);
        assert_int_equal(s->rec[1].n_preempted, 0);
        sim_free(s);
    }
}

/* Low requests are pushed out to the file by high ones and come back later; what the disk does not
 * take stays in RAM, and what it does not give back is computed again. */
static void lost_copies_are_recomputed(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){
        .n_blocks = 120, .max_sequences = 16, .batch = 64, .chunk = 64, .n_ram = 22, .n_file = 400,
        .preemption = SCHED_SWAP, .policy = SCHED_PRIORITY});
    struct engine_stats stats = {0};
    (void)state;

    s->io_fail_percent = 40;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 8; i++)
            add(s, 100, 60, PRIORITY_LOW);
        for (int i = 0; i < 30; i++)
            step(s, NO_BUDGET);
        for (int i = 0; i < 8; i++)
            add(s, 150, 60, PRIORITY_HIGH);
        run_dry(s, 4000);
    }
    sched_fill_stats(s->sched, &stats);
    assert_true(stats.swap.n_write_errors > 0 && stats.swap.n_read_errors > 0);
    assert_true(stats.swap_fallbacks > 0 && stats.recomputed_tokens > 0);
    sim_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(priorities_order_admission),
        cmocka_unit_test(fcfs_ignores_priorities),
        cmocka_unit_test(critical_preempts_low),
        cmocka_unit_test(equals_wait_for_slots),
        cmocka_unit_test(small_pool_preempts_and_finishes),
        cmocka_unit_test(sjf_takes_the_shortest),
        cmocka_unit_test(adaptive_weighs_length),
        cmocka_unit_test(ageing_lifts_the_low),
        cmocka_unit_test(no_level_is_worth_more_than_max_wait),
        cmocka_unit_test(earliest_deadline_first),
        cmocka_unit_test(queue_limit_ends_the_waiting),
        cmocka_unit_test(tenants_take_turns),
        cmocka_unit_test(swapping_recomputes_nothing),
        cmocka_unit_test(mode_follows_cost),
        cmocka_unit_test(preemptions_are_bounded),
        cmocka_unit_test(lost_copies_are_recomputed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
