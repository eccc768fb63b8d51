/* tests/unit/scheduler/test_cluster.c - replicas behind a router: nothing is lost, one replica is
 * a simulation as it is, and each policy on traffic that says where it must go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "tests/tools/cluster/block_holders.h"
#include "tests/tools/cluster/cluster.h"
#include "tests/tools/cluster/workload.h"
#include "tests/fixtures/random.h"

#define MANY 400

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
    return random_below(&rng, n);
}

/* Too few blocks for what runs: preemption both ways, transfers, evictions. */
static struct simulate_options crowded(void)
{
    struct simulate_options o = {.target_us = 100000, .noise_percent = 10, .seed = 5,
                                 .check_every = 50};

    sched_options_default(&o.sched);
    o.sched.max_sequences = 8;
    o.sched.max_requests = 60;
    o.sched.max_context = 512;
    o.sched.max_tenants = 3;
    o.sched.max_batch_tokens = 128;
    o.sched.prefill_chunk = 96;
    o.kv = (struct kv_manager_options){.n_blocks = 40, .prefix_cache = true, .n_ram = 24,
        .n_file = 60, .max_sequences = 64, .max_table = 32, .max_chunk = 96};
    o.truth = (struct step_costs){.is_known = true, .step_ns = 15000000, .prefill_ns = 1400000,
        .decode_ns = 2000000, .kv_decode_ps = 1000, .kv_prefill_ps = 400, .swap_ns = 50000,
        .file_ns = 500000};
    return o;
}

/* Deadlines, clients that leave, shared beginnings, parallel choices, tenants. */
static void fill(struct simulate_arrival *all, size_t n, uint32_t most_gap_us)
{
    uint64_t at = 1000000;

    rng = 7;
    for (size_t i = 0; i < n; i++) {
        struct simulate_arrival *a = &all[i];
        const bool is_choice = i > 0 && rnd(8) == 0 && all[i - 1].prefix_owner == 0;

        *a = (struct simulate_arrival){.n_prompt = 1 + rnd(200), .max_tokens = 80,
            .n_output = 1 + rnd(60), .seed = i, .shared_seed = rnd(6), .n_shared = rnd(100),
            .priority = (enum priority)rnd(PRIORITY_COUNT), .tenant = rnd(3)};
        if (is_choice) {
            *a = all[i - 1];
            a->prefix_owner = i;
            continue;
        }
        a->at_us = at += rnd(most_gap_us);
        if (rnd(10) == 0)
            a->leave_us = at + rnd(3000000);
        if (rnd(10) == 0)
            a->queue_until_us = at + rnd(2000000);
        if (rnd(10) == 0)
            a->deadline_us = at + rnd(4000000);
    }
}

static struct workload *workload_of(const struct simulate_arrival *all, size_t n,
                                    struct workload_options o)
{
    struct workload *w;

    o.speed = o.speed > 0 ? o.speed : 1;
    assert_int_equal(workload_create(&w, &o), 0);
    assert_int_equal(workload_add(w, all, n, 0), 0);
    assert_int_equal(workload_begin(w), 0);
    return w;
}

static struct cluster *cluster_of(const struct simulate_options *kind, uint32_t n,
                                  enum router_policy router)
{
    const struct cluster_options o = {.kinds = kind, .n_kinds = 1, .n_replicas = n,
                                      .router = router};
    struct cluster *c;

    assert_int_equal(cluster_create(&c, &o), 0);
    return c;
}

static struct cluster *run(const struct simulate_options *kind, uint32_t n,
                           enum router_policy router, const struct simulate_arrival *all, size_t m)
{
    struct workload *w = workload_of(all, m, (struct workload_options){0});
    struct cluster *c = cluster_of(kind, n, router);

    assert_int_equal(cluster_run(c, w), 0);
    workload_destroy(&w);
    return c;
}

static void assert_same_results(const struct simulate *a, const struct simulate *b)
{
    assert_int_equal(simulate_n(a), simulate_n(b));
    for (size_t i = 0; i < simulate_n(a); i++)
        assert_memory_equal(simulate_result(a, i), simulate_result(b, i),
                            sizeof(struct simulate_result));
}

/* ---- whole runs ---- */

static void test_one_replica_is_a_simulation(void **state)
{
    static struct simulate_arrival all[MANY];
    const struct simulate_options o = crowded();

    (void)state;
    fill(all, MANY, 400000);
    for (int p = ROUTER_ROUND_ROBIN; p <= ROUTER_LEAST_LOADED; p++) {
        struct cluster *c = run(&o, 1, (enum router_policy)p, all, MANY);
        struct simulate_summary expected;
        struct cluster_summary got;
        struct simulate *s;

        assert_int_equal(simulate_create(&s, &o), 0);
        for (size_t i = 0; i < MANY; i++)
            assert_int_equal(simulate_add(s, &all[i]), i);
        assert_int_equal(simulate_run(s, UINT64_MAX), 0);
        assert_same_results(s, cluster_replica(c, 0));
        assert_int_equal(simulate_summarise(s, &expected), 0);
        assert_int_equal(cluster_summarise(c, &got), 0);
        assert_int_equal(got.ttft_p50_us, expected.ttft_p50_us);
        assert_int_equal(got.ttft_p99_us, expected.ttft_p99_us);
        assert_int_equal(got.itl_p50_us, expected.itl_p50_us);
        assert_int_equal(got.n_timeout, expected.n_timeout);
        assert_int_equal(got.span_us, expected.finish_us);
        assert_true(got.n_timeout > 0 && got.n_preempted > 0);
        simulate_destroy(&s);
        cluster_destroy(&c);
    }
}

static void test_everything_ends_once(void **state)
{
    static struct simulate_arrival all[MANY];
    const struct simulate_options o = crowded();

    (void)state;
    fill(all, MANY, 100000);
    for (int p = ROUTER_ROUND_ROBIN; p <= ROUTER_LEAST_LOADED; p++) {
        struct cluster *c = run(&o, 3, (enum router_policy)p, all, MANY);
        struct cluster *again = run(&o, 3, (enum router_policy)p, all, MANY);
        struct cluster_summary sum, one;
        uint64_t n = 0, tokens = 0;

        for (uint32_t r = 0; r < 3; r++) {
            const struct simulate *s = cluster_replica(c, r);

            for (size_t i = 0; i < simulate_n(s); i++)
                assert_int_equal(simulate_result(s, i)->n_ends, 1);
            assert_same_results(s, cluster_replica(again, r));
            assert_int_equal(cluster_summarise_replica(c, r, &one), 0);
            n += one.n_requests;
            tokens += one.generated_tokens;
        }
        assert_int_equal(cluster_summarise(c, &sum), 0);
        assert_int_equal(n, MANY);
        assert_int_equal(sum.n_requests, MANY);
        assert_int_equal(sum.n_ended, MANY);
        assert_int_equal(sum.generated_tokens, tokens);
        assert_true(sum.busy_us <= 3 * sum.span_us);
        cluster_destroy(&c);
        cluster_destroy(&again);
    }
}

/* The cluster leaves a replica alone while nothing can end there. Here every event is made in its
 * turn instead, and the loads are counted anew for each request. */
static uint32_t in_flight(const struct simulate *s)
{
    uint32_t n = 0;

    for (size_t i = 0; i < simulate_n(s); i++)
        n += simulate_result(s, i)->n_ends == 0;
    return n;
}

static void advance_all(struct simulate **s, uint32_t n, uint64_t at_us)
{
    struct simulate_event e;

    for (uint32_t r = 0; r < n; r++)
        while (simulate_next(s[r], &e) && (e.at_us < at_us || (e.at_us == at_us && e.ends_step)))
            assert_int_equal(simulate_advance(s[r]), 0);
}

static void test_least_loaded_step_by_step(void **state)
{
    enum { N = 5 };
    static struct simulate_arrival all[MANY];
    struct simulate_options o = crowded();
    struct simulate *s[N];
    struct cluster *c;
    uint64_t chosen[N] = {0};

    (void)state;
    fill(all, MANY, 60000);
    for (size_t i = 0; i < MANY; i++)
        all[i].prefix_owner = 0;
    c = run(&o, N, ROUTER_LEAST_LOADED, all, MANY);
    for (uint32_t r = 0; r < N; r++, o.seed++)
        assert_int_equal(simulate_create(&s[r], &o), 0);
    for (size_t i = 0; i < MANY; i++) {
        uint32_t best = 0;

        advance_all(s, N, all[i].at_us);
        for (uint32_t r = 1; r < N; r++)
            if (in_flight(s[r]) < in_flight(s[best]) ||
                (in_flight(s[r]) == in_flight(s[best]) && chosen[r] < chosen[best]))
                best = r;
        chosen[best] = i + 1;
        assert_true(simulate_add(s[best], &all[i]) >= 0);
    }
    for (uint32_t r = 0; r < N; r++) {
        assert_int_equal(simulate_run(s[r], UINT64_MAX), 0);
        assert_same_results(s[r], cluster_replica(c, r));
        simulate_destroy(&s[r]);
    }
    cluster_destroy(&c);
}

/* One request: a step for the prompt, then five for tokens, which go through three paces. */
static void test_recorded_paces(void **state)
{
    static const uint32_t prompts[] = {3000}, tokens[] = {500, 1000, 4000};
    const struct simulate_arrival a = {.n_prompt = 10, .max_tokens = 6, .n_output = 6};
    struct simulate_options o = crowded();
    struct simulate *s;

    (void)state;
    o.seed = 0;
    o.truth = (struct step_costs){.is_known = true, .step_ns = 1000000};
    o.paces[0] = (struct simulate_paces){tokens, 3};
    o.paces[1] = (struct simulate_paces){prompts, 1};
    assert_int_equal(simulate_create(&s, &o), 0);
    assert_int_equal(simulate_add(s, &a), 0);
    assert_int_equal(simulate_run(s, UINT64_MAX), 0);
    assert_int_equal(simulate_result(s, 0)->first_us, 3001);
    assert_int_equal(simulate_result(s, 0)->finish_us, 3001 + 501 + 1001 + 4001 + 501 + 1001);
    assert_int_equal(simulate_result(s, 0)->itl_max_us, 4001);
    simulate_destroy(&s);
}

/* ---- policies ---- */

static struct simulate_arrival at(uint64_t at_us, uint64_t shared_seed, uint32_t n_output)
{
    static uint64_t seed;

    return (struct simulate_arrival){.at_us = at_us, .n_prompt = 100, .n_shared = 96,
        .shared_seed = shared_seed, .seed = ++seed, .max_tokens = 400, .n_output = n_output};
}

static void assert_sizes(const struct cluster *c, size_t a, size_t b, size_t d)
{
    assert_int_equal(simulate_n(cluster_replica(c, 0)), a);
    assert_int_equal(simulate_n(cluster_replica(c, 1)), b);
    assert_int_equal(simulate_n(cluster_replica(c, 2)), d);
}

static void test_round_robin_counts_calls(void **state)
{
    struct simulate_arrival all[] = {at(0, 1, 9), at(1, 2, 9), at(1, 2, 9), at(1, 2, 9),
                                     at(2, 3, 9), at(3, 4, 9)};
    const struct simulate_options o = crowded();
    struct cluster *c;

    (void)state;
    all[2] = all[3] = all[1]; /* two more choices of the second call */
    all[2].prefix_owner = all[3].prefix_owner = 2;
    c = run(&o, 3, ROUTER_ROUND_ROBIN, all, 6);
    assert_sizes(c, 2, 3, 1);
    assert_int_equal(simulate_arrival(cluster_replica(c, 0), 1)->shared_seed, 4);
    assert_int_equal(simulate_arrival(cluster_replica(c, 1), 2)->prefix_owner, 1);
    cluster_destroy(&c);
}

static void test_least_loaded_goes_where_nothing_is(void **state)
{
    /* Two long ones take replicas 0 and 1; a short one comes and ends on 2, and so do others. */
    const struct simulate_arrival all[] = {at(0, 1, 300), at(1, 2, 300), at(2, 3, 1),
                                           at(1500000, 4, 1), at(3000000, 5, 1)};
    const struct simulate_options o = crowded();
    struct cluster *c = run(&o, 3, ROUTER_LEAST_LOADED, all, 5);

    (void)state;
    assert_sizes(c, 1, 1, 3);
    cluster_destroy(&c);
}

static void test_prefix_goes_where_the_blocks_are(void **state)
{
    /* 1, 2 and 3 spread over the idle replicas; then 2 and 3 find theirs, though they are busy. */
    const struct simulate_arrival all[] = {at(0, 1, 1), at(1, 2, 300), at(2, 3, 300),
                                           at(3000000, 2, 1), at(3000001, 3, 1),
                                           at(3000002, 3, 1), at(3000003, 9, 1)};
    const struct simulate_options o = crowded();
    struct cluster *c = run(&o, 3, ROUTER_PREFIX, all, 7);

    (void)state;
    assert_sizes(c, 2, 2, 3);
    assert_int_equal(simulate_result(cluster_replica(c, 1), 1)->n_cached, 96);
    assert_int_equal(simulate_result(cluster_replica(c, 2), 1)->n_cached, 96);
    assert_int_equal(simulate_result(cluster_replica(c, 2), 2)->n_cached, 96);
    assert_int_equal(simulate_arrival(cluster_replica(c, 0), 1)->shared_seed, 9);
    cluster_destroy(&c);
}

static void test_prefix_forgets_what_is_evicted(void **state)
{
    /* Beginning 1 is on replica 0, until other prompts have taken its blocks there; replica 1 does
     * one long request all the time, so that they all go to 0. */
    struct simulate_arrival all[10] = {at(0, 1, 1), at(1, 2, 400)};
    struct simulate_options o = crowded();
    struct cluster *c;

    (void)state;
    o.sched.max_context = 600;
    o.kv.max_table = 38;
    for (size_t i = 2; i < 9; i++)
        all[i] = at(500000 * i, 10 + i, 1);
    all[9] = at(4500000, 1, 1);
    c = run(&o, 2, ROUTER_PREFIX, all, 10);
    assert_int_equal(simulate_n(cluster_replica(c, 0)), 9);
    assert_int_equal(simulate_result(cluster_replica(c, 0), 8)->n_cached, 0);
    cluster_destroy(&c);
}

static void test_block_holders(void **state)
{
    enum { BLOCKS = 700, REPLICAS = 130 };
    static bool holds[BLOCKS][REPLICAS];
    struct block_holders *h;

    (void)state;
    rng = 3;
    memset(holds, 0, sizeof(holds));
    assert_int_equal(block_holders_create(&h, REPLICAS), 0);
    for (uint32_t i = 0; i < 200000; i++) {
        const uint32_t b = rnd(BLOCKS), r = rnd(b % 4 == 0 ? REPLICAS : 4);
        /* some share a slot, so that chains are closed behind those that leave */
        const struct prefix_hash hash = {.lo = b / 3 * 977, .hi = b};
        uint64_t set[3] = {0, 0, 0}, expected[3] = {0, 0, 0};
        bool any = false;

        holds[b][r] = rnd(9) < 4;
        if (holds[b][r])
            assert_int_equal(block_holders_add(h, hash, r), 0);
        else
            block_holders_remove(h, hash, r);
        for (uint32_t k = 0; k < REPLICAS; k += 1 + rnd(3)) {
            set[k / 64] |= (uint64_t)1 << k % 64;
            any |= holds[b][k];
            expected[k / 64] |= (uint64_t)holds[b][k] << k % 64;
        }
        if (!any)
            memcpy(expected, set, sizeof(set));
        assert_int_equal(block_holders_narrow(h, hash, set), any);
        assert_memory_equal(set, expected, sizeof(set));
    }
    for (uint32_t b = 0; b < BLOCKS; b++)
        for (uint32_t r = 0; r < REPLICAS; r++)
            block_holders_remove(h, (struct prefix_hash){.lo = b / 3 * 977, .hi = b}, r);
    assert_int_equal(block_holders_n(h), 0);
    block_holders_destroy(&h);
}

/* ---- workloads ---- */

static void test_recorded_runs_are_merged(void **state)
{
    struct simulate_arrival one[] = {at(100, 1, 1), at(300, 2, 1), at(300, 2, 1)};
    const struct simulate_arrival two[] = {at(5200, 3, 1)};
    const struct workload_options o = {.speed = 2};
    struct simulate_arrival a[4];
    struct workload *w;

    (void)state;
    one[0].deadline_us = 160;
    one[2].prefix_owner = 2;
    assert_int_equal(workload_create(&w, &o), 0);
    assert_int_equal(workload_add(w, one, 3, 1000), 0);
    assert_int_equal(workload_add(w, two, 1, UINT64_MAX - 4000 + 1), 0); /* 4,000 us earlier */
    for (int again = 0; again < 2; again++) {
        assert_int_equal(workload_begin(w), 0);
        for (size_t i = 0; i < 4; i++)
            assert_true(workload_next(w, &a[i]));
        assert_false(workload_next(w, &a[0]));
        assert_int_equal(a[0].at_us, 1100);
        assert_int_equal(a[0].deadline_us, 1160); /* as long as before */
        assert_int_equal(a[1].at_us, 1150);
        assert_int_equal(a[1].shared_seed, 3);
        assert_int_equal(a[2].at_us, 1200);
        assert_int_equal(a[3].prefix_owner, 3);
    }
    workload_destroy(&w);
}

static void test_drawn_are_like_the_recorded(void **state)
{
    static int32_t prompts[4][64];
    struct simulate_arrival all[4], a;
    struct workload *w;
    size_t n = 0, n_shared = 0, n_long = 0;
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 64; k++)
            prompts[i][k] = i < 2 && k < 40 ? k : 1000 * (i + 1) + k;
        all[i] = at((uint64_t)i * 1000000, 0, 7);
        all[i].n_prompt = 64;
        all[i].prompt = prompts[i];
        all[i].salt = i == 3;
    }
    w = workload_of(all, 4, (struct workload_options){.n_requests = 20000, .rate = 50, .seed = 1});
    for (; workload_next(w, &a); n++, last = a.at_us) {
        int32_t ids[64];

        assert_true(a.at_us >= last);
        simulate_make_prompt(&a, ids);
        n_shared += a.n_given == 40;
        n_long += a.salt == 1;
        assert_true(a.n_given == 40 || (a.n_given == 0 && a.prompt == NULL));
        assert_int_equal(memcmp(ids, prompts[0], 40 * sizeof(*ids)) == 0, a.n_given == 40);
        assert_int_not_equal(ids[63], prompts[0][63]);
    }
    assert_int_equal(n, 20000);
    assert_in_range(n_shared, 9600, 10400); /* two of four; sigma is 71 */
    assert_in_range(n_long, 4700, 5300);
    assert_in_range(last, 388000000, 412000000); /* 400 s; sigma is 2.8 s */
    workload_destroy(&w);
}

/* ---- failures ---- */

static void test_no_memory(void **state)
{
    static struct simulate_arrival all[30];
    const struct simulate_options o = crowded();
    const struct cluster_options options = {.kinds = &o, .n_kinds = 1, .n_replicas = 2,
                                            .router = ROUTER_PREFIX};
    int rc = ERR_NOMEM;

    (void)state;
    fill(all, 30, 200000);
    for (int64_t n = 0; rc == ERR_NOMEM; n += 1 + n / 50) {
        struct workload *w = workload_of(all, 30, (struct workload_options){0});
        struct cluster_summary sum;
        struct cluster *c;

        mem_fail_after(n);
        rc = cluster_create(&c, &options);
        if (rc == 0)
            rc = cluster_run(c, w);
        if (rc == 0)
            rc = cluster_summarise(c, &sum);
        mem_fail_after(-1);
        assert_true(rc == 0 || rc == ERR_NOMEM);
        cluster_destroy(&c);
        workload_destroy(&w);
    }
    assert_int_equal(rc, 0);
}

static void test_settings_that_do_not_go_together(void **state)
{
    struct simulate_options o = crowded();
    const struct cluster_options options = {.kinds = &o, .n_kinds = 1, .n_replicas = 2};
    struct cluster *c;

    (void)state;
    o.sched.max_batch_tokens = 1;
    assert_int_equal(cluster_create(&c, &options), ERR_INVAL);
    assert_null(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_replica_is_a_simulation),
        cmocka_unit_test(test_everything_ends_once),
        cmocka_unit_test(test_least_loaded_step_by_step),
        cmocka_unit_test(test_recorded_paces),
        cmocka_unit_test(test_round_robin_counts_calls),
        cmocka_unit_test(test_least_loaded_goes_where_nothing_is),
        cmocka_unit_test(test_prefix_goes_where_the_blocks_are),
        cmocka_unit_test(test_prefix_forgets_what_is_evicted),
        cmocka_unit_test(test_block_holders),
        cmocka_unit_test(test_recorded_runs_are_merged),
        cmocka_unit_test(test_drawn_are_like_the_recorded),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_settings_that_do_not_go_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
