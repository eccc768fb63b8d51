/* tests/unit/scheduler/test_cost_model.c - the cost model against machines whose costs are
 * known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "scheduler/cost_model.h"
#include "tests/fixtures/random.h"

__extension__ typedef unsigned __int128 u128;

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
    return random_below(&rng, n);
}

/* A machine: 15 ms for the weights, 1.4 ms a prompt row, 2 ms a stream, 1 us and 0.4 us a key. */
static const struct step_costs truth = {
    .is_known = true,
    .step_ns = 15000000,
    .prefill_ns = 1400000,
    .decode_ns = 2000000,
    .kv_decode_ps = 1000000,
    .kv_prefill_ps = 400000,
};

static struct step_work make_work(uint32_t n_prefill, uint32_t n_decode, uint32_t pos)
{
    return (struct step_work){
        .n_prefill = n_prefill,
        .n_decode = n_decode,
        .kv_decode = (uint64_t)n_decode * (pos + 1),
        .kv_prefill = (uint64_t)n_prefill * pos / 2,
    };
}

static struct step_work random_work(void)
{
    const uint32_t n_prefill = rnd(3) == 0 ? 1 + rnd(512) : 0;
    uint32_t n_decode = rnd(33);

    if (n_prefill == 0 && n_decode == 0)
        n_decode = 1;
    return make_work(n_prefill, n_decode, rnd(2000));
}

/* The time with +-10 % of noise, and one step in `outliers` interrupted for ten times as long. */
static uint64_t noisy_us(const struct step_work *w, uint32_t percent, uint32_t outliers)
{
    const uint64_t ns = step_costs_ns(&truth, w) * percent / 100;

    if (outliers > 0 && rnd(outliers) == 0)
        return ns / 100;
    return ns * (900 + rnd(201)) / 1000000;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* The median relative error over 500 works without noise. */
static double median_error(const struct cost_model *m, uint32_t percent)
{
    const struct step_costs c = cost_get(m);
    double e[500];

    for (int i = 0; i < 500; i++) {
        const struct step_work w = random_work();
        const double ns = (double)step_costs_ns(&truth, &w) * percent / 100;

        e[i] = ((double)step_costs_ns(&c, &w) - ns) / ns;
        e[i] = e[i] < 0 ? -e[i] : e[i];
    }
    qsort(e, 500, sizeof(*e), by_size);
    return e[250];
}

static void learn(struct cost_model *m, int n, uint32_t percent, uint32_t outliers)
{
    for (int i = 0; i < n; i++) {
        const struct step_work w = random_work();

        cost_observe(m, &w, noisy_us(&w, percent, outliers));
    }
}

static void coefficients_are_recovered(void **state)
{
    (void)state;
    for (rng = 1; rng < 6; rng++) {
        const uint64_t seed = rng;
        struct cost_model m;
        struct step_costs c;

        cost_init(&m);
        learn(&m, 1000, 100, 0);
        c = cost_get(&m);
        assert_true(c.is_known);
        assert_in_range(c.step_ns, truth.step_ns * 8 / 10, truth.step_ns * 12 / 10);
        assert_in_range(c.prefill_ns, truth.prefill_ns * 9 / 10, truth.prefill_ns * 11 / 10);
        assert_in_range(c.decode_ns, truth.decode_ns * 85 / 100, truth.decode_ns * 115 / 100);
        assert_in_range(c.kv_decode_ps, truth.kv_decode_ps * 85 / 100,
                        truth.kv_decode_ps * 115 / 100);
        assert_true(median_error(&m, 100) < 0.02);
        rng = seed;
    }
}

static void outliers_hardly_move_it(void **state)
{
    (void)state;
    for (rng = 1; rng < 6; rng++) {
        const uint64_t seed = rng;
        struct cost_model m;

        cost_init(&m);
        learn(&m, 1000, 100, 20);
        assert_true(median_error(&m, 100) < 0.05);
        rng = seed;
    }
}

/* One step of ten times the time moves the next prediction by a few percent at most. */
static void a_single_outlier_is_clipped(void **state)
{
    const struct step_work w = make_work(0, 8, 500);
    struct cost_model m;
    struct step_costs c;
    uint64_t before, after;
    (void)state;

    rng = 7;
    cost_init(&m);
    learn(&m, 500, 100, 0);
    c = cost_get(&m);
    before = step_costs_ns(&c, &w);
    cost_observe(&m, &w, before / 100);
    c = cost_get(&m);
    after = step_costs_ns(&c, &w);
    assert_in_range(after, before, before * 103 / 100);
}

/* The machine becomes twice as slow, then as fast as it was. */
static void it_follows_the_machine(void **state)
{
    (void)state;
    for (rng = 1; rng < 6; rng++) {
        const uint64_t seed = rng;
        struct cost_model m;

        cost_init(&m);
        learn(&m, 1000, 100, 0);
        assert_true(median_error(&m, 200) > 0.4);
        learn(&m, 100, 200, 0);
        assert_true(median_error(&m, 200) < 0.08);
        learn(&m, 100, 100, 0);
        assert_true(median_error(&m, 100) < 0.1);
        rng = seed;
    }
}

/* A thousand decode steps of one size, then mixed ones: prompt rows still cost what they did. */
static void one_kind_of_step_does_not_wipe_out_the_rest(void **state)
{
    struct cost_model m;
    struct step_costs before, after;
    (void)state;

    rng = 3;
    cost_init(&m);
    learn(&m, 500, 100, 0);
    before = cost_get(&m);
    for (int i = 0; i < 5000; i++) {
        const struct step_work w = make_work(0, 4, 100);

        cost_observe(&m, &w, noisy_us(&w, 100, 0));
    }
    after = cost_get(&m);
    assert_in_range(after.prefill_ns, before.prefill_ns * 95 / 100, before.prefill_ns * 105 / 100);
    learn(&m, 20, 100, 0);
    assert_true(median_error(&m, 100) < 0.1);
}

/* Nothing but the same step: the prediction of that step is right, the numbers are sane, and other
 * steps are learnt quickly afterwards. */
static void degenerate_steps_are_harmless(void **state)
{
    const struct step_work w = make_work(0, 4, 100);
    struct cost_model m;
    struct step_costs c;
    (void)state;

    rng = 4;
    cost_init(&m);
    for (int i = 0; i < 3000; i++)
        cost_observe(&m, &w, noisy_us(&w, 100, 0));
    for (int i = 0; i < COST_TERMS; i++)
        assert_true(m.coef[i] >= 0 && m.coef[i] < 1e9);
    assert_false(cost_get(&m).is_known); /* no prompt row was ever seen */
    learn(&m, 100, 100, 0);
    c = cost_get(&m);
    assert_in_range(step_costs_ns(&c, &w), step_costs_ns(&truth, &w) * 93 / 100,
                    step_costs_ns(&truth, &w) * 107 / 100);
    assert_true(median_error(&m, 100) < 0.05);
}

/* A step that took no time at all, and one that took an hour. */
static void absurd_times_are_survived(void **state)
{
    const struct step_work w = make_work(64, 4, 100);
    struct cost_model m;
    (void)state;

    rng = 5;
    cost_init(&m);
    for (int i = 0; i < 50; i++)
        cost_observe(&m, &w, 0);
    cost_observe(&m, &w, (uint64_t)3600 * 1000000);
    learn(&m, 500, 100, 0);
    assert_true(median_error(&m, 100) < 0.05);
}

/* When it answers, and how cautiously. */
static void known_after_both_kinds(void **state)
{
    const struct step_work prompt = make_work(100, 0, 0), stream = make_work(0, 1, 100),
                           both = make_work(16, 1, 100);
    struct cost_model m;
    struct step_costs alone, mixed;
    (void)state;

    rng = 6;
    cost_init(&m);
    assert_false(cost_get(&m).is_known);
    assert_true(cost_observe(&m, &prompt, 155000) < 0);
    for (int i = 0; i < 3; i++) {
        assert_false(cost_get(&m).is_known);
        assert_int_equal(cost_get(&m).prefill_ns, 0);
        assert_true(cost_observe(&m, &stream, 17000) < 0);
    }
    alone = cost_get(&m);
    assert_true(alone.is_known);
    assert_in_range(alone.prefill_ns, 1380000 * 14 / 10, 1550000 * 16 / 10); /* with caution */
    assert_true(cost_observe(&m, &both, 17000 + 16 * 1400) >= 0);
    mixed = cost_get(&m);
    assert_in_range(mixed.prefill_ns, 1300000, 1600000);
}

/* A model that could make streams and never does is known after a while, with the usual caution. */
static void known_where_no_stream_comes(void **state)
{
    const struct step_work prompt = make_work(100, 0, 0), stream = make_work(0, 1, 100);
    struct cost_model m;
    struct step_costs c;
    (void)state;

    cost_init(&m);
    for (int i = 0; i < 32; i++) {
        assert_false(cost_get(&m).is_known);
        assert_true(cost_observe(&m, &prompt, 155000) < 0);
    }
    c = cost_get(&m);
    assert_true(c.is_known && c.decode_ns == 0);
    assert_in_range(step_costs_ns(&c, &prompt), 150000000, 155000000 * 3 / 2);
    for (int i = 0; i < 4; i++)
        assert_true(cost_observe(&m, &stream, 17000) >= 0);
    c = cost_get(&m);
    assert_in_range(step_costs_ns(&c, &stream), 12000000, 22000000);
}

/* Where there are no streams, prompts are all there is to know. */
static void known_without_streams(void **state)
{
    const struct step_work prompt = make_work(100, 0, 0), one = make_work(1, 0, 0);
    struct cost_model m;
    struct step_costs c;
    (void)state;

    cost_init(&m);
    cost_expect_no_streams(&m);
    for (int i = 0; i < 3; i++)
        assert_true(cost_observe(&m, i > 0 ? &prompt : &one, i > 0 ? 155000 : 3000) < 0);
    assert_false(cost_get(&m).is_known);
    assert_true(cost_observe(&m, &prompt, 155000) < 0);
    c = cost_get(&m);
    assert_true(c.is_known && c.decode_ns == 0);
    assert_in_range(step_costs_ns(&c, &prompt), 150000000, 160000000);
    assert_true(cost_observe(&m, &prompt, 155000) >= 0);
}

static void swap_times_are_averaged(void **state)
{
    struct cost_model m;
    (void)state;

    cost_init(&m);
    assert_int_equal(cost_get(&m).swap_ns, 0);
    cost_observe_swap(&m, 0, 500, false);
    assert_int_equal(cost_get(&m).swap_ns, 0);
    cost_observe_swap(&m, 10, 500, false);
    assert_int_equal(cost_get(&m).swap_ns, 50000);
    cost_observe_swap(&m, 10, 500000, false); /* interrupted: counts as four times */
    assert_in_range(cost_get(&m).swap_ns, 50000, 70000);
    for (int i = 0; i < 60; i++)
        cost_observe_swap(&m, 4, 400, false);
    assert_in_range(cost_get(&m).swap_ns, 99000, 101000);
    assert_int_equal(cost_get(&m).file_ns, 0);
    cost_observe_swap(&m, 1, 3000, true);
    assert_int_equal(cost_get(&m).file_ns, 3000000);
}

/* The largest chunk, against counting up. */
static void chunks_are_exact(void **state)
{
    (void)state;
    rng = 8;
    for (int i = 0; i < 2000; i++) {
        const struct step_costs c = {.prefill_ns = rnd(4) == 0 ? 0 : rnd(2000),
                                     .kv_prefill_ps = rnd(3) == 0 ? 0 : rnd(5000)};
        const uint32_t pos = rnd(3000), max = rnd(700);
        const uint64_t room = rnd(2000000);
        uint32_t n = 0;

        while (n < max && step_costs_chunk_ns(&c, pos, n + 1) <= room)
            n++;
        assert_int_equal(step_costs_chunk(&c, pos, max, room), n);
    }
}

/* A chunk costs what a step with it costs more; at a million positions nothing overflows. */
static void large_numbers_do_not_overflow(void **state)
{
    const struct step_costs c = {.prefill_ns = 100000000000, .kv_prefill_ps = 10000000000};
    const uint32_t n = 1 << 20;
    const struct step_work w = {.n_prefill = n, .kv_prefill = (uint64_t)n * (n + 1) / 2};
    const u128 kv = (u128)w.kv_prefill * c.kv_prefill_ps / 1000;
    const uint64_t exact = (uint64_t)n * c.prefill_ns + (uint64_t)kv;
    (void)state;

    assert_true(step_costs_chunk_ns(&c, 0, n) == exact);
    assert_true(step_costs_ns(&c, &w) == exact);
    assert_int_equal(step_costs_chunk(&c, 0, n, exact), n);
    assert_int_equal(step_costs_chunk(&c, 0, n, exact - 1), n - 1);
    assert_int_equal(step_costs_chunk(&c, n - 1, 1, 0), 0);
    assert_int_equal(step_costs_chunk(&c, n - 1, 0, 5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coefficients_are_recovered),
        cmocka_unit_test(outliers_hardly_move_it),
        cmocka_unit_test(a_single_outlier_is_clipped),
        cmocka_unit_test(it_follows_the_machine),
        cmocka_unit_test(one_kind_of_step_does_not_wipe_out_the_rest),
        cmocka_unit_test(degenerate_steps_are_harmless),
        cmocka_unit_test(absurd_times_are_survived),
        cmocka_unit_test(known_after_both_kinds),
        cmocka_unit_test(known_without_streams),
        cmocka_unit_test(known_where_no_stream_comes),
        cmocka_unit_test(swap_times_are_averaged),
        cmocka_unit_test(chunks_are_exact),
        cmocka_unit_test(large_numbers_do_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
