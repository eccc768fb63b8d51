/* tests/unit/kvcache/test_block_pool.c - states, counts and placement of KV blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/block_pool.h"
#include "tests/fixtures/failing_memory.h"

static struct block_pool *new_pool(uint32_t n, enum block_placement placement)
{
    struct block_pool *p;

    assert_int_equal(block_pool_create(&p, n, placement), 0);
    return p;
}

static void give(struct block_pool *p, uint32_t n, const block_id *ids)
{
    assert_int_equal(block_pool_give(p, ids, n), 0);
    assert_true(block_pool_check(p));
}

static void expect_take(struct block_pool *p, uint32_t n, block_id after, const block_id *want)
{
    block_id ids[32];

    assert_int_equal(block_pool_take(p, n, after, ids), 0);
    assert_memory_equal(ids, want, n * sizeof(*want));
    assert_true(block_pool_check(p));
}

#define IDS(...) (const block_id[]){__VA_ARGS__}

/* ---- placement ---- */

/* One script for all three: only the last three answers differ. */
static void play(enum block_placement placement, const block_id *two, const block_id *three,
                 block_id one)
{
    struct block_pool *p = new_pool(12, placement);

    expect_take(p, 4, BLOCK_NONE, IDS(1, 2, 3, 4));
    expect_take(p, 4, 4, IDS(5, 6, 7, 8));
    give(p, 3, IDS(2, 3, 6));
    expect_take(p, 2, 5, two);
    expect_take(p, 3, 8, three);
    give(p, 1, IDS(1));
    expect_take(p, 1, BLOCK_NONE, &one);
    for (block_id id = 1; id <= 12; id++)
        if (block_pool_holders(p, id) > 0)
            give(p, 1, &id);
    block_pool_destroy(&p);
}

/* S1.2, T10, D1.1: the lowest free ids. */
static void first_fit_takes_the_lowest(void **state)
{
    (void)state;
    play(BLOCK_FIRST_FIT, IDS(2, 3), IDS(6, 9, 10), 1);
}

/* S1.2, T10, D1.1: on from the one handed out last, wrapping. */
static void round_robin_goes_round(void **state)
{
    (void)state;
    play(BLOCK_ROUND_ROBIN, IDS(9, 10), IDS(11, 12, 2), 3);
}

/* S1.2, T10, D1.1: behind the sequence's last block, then the smallest run that is enough. */
static void best_fit_extends_the_run(void **state)
{
    (void)state;
    play(BLOCK_BEST_FIT, IDS(6, 2), IDS(9, 10, 11), 1);
}

/* S1.2: runs of 2, 3 and 4. The smallest that holds the request; none does: the largest first. */
static void best_fit_chooses_among_runs(void **state)
{
    struct block_pool *p = new_pool(12, BLOCK_BEST_FIT);
    block_id all[12];
    (void)state;

    assert_int_equal(block_pool_take(p, 12, BLOCK_NONE, all), 0);
    give(p, 9, IDS(1, 2, 4, 5, 6, 8, 9, 10, 11));
    expect_take(p, 3, BLOCK_NONE, IDS(4, 5, 6));
    give(p, 3, IDS(4, 5, 6));
    expect_take(p, 2, 3, IDS(4, 5)); /* `after` comes first, though 1 and 2 fit better */
    give(p, 2, IDS(4, 5));
    expect_take(p, 2, 6, IDS(1, 2)); /* 7 is held: nothing to extend */
    give(p, 2, IDS(1, 2));
    expect_take(p, 9, 12, IDS(8, 9, 10, 11, 4, 5, 6, 1, 2));
    give(p, 12, all);
    block_pool_destroy(&p);
}

/* S1.2: equal runs: the lowest; `after` at the end of the pool. */
static void best_fit_breaks_ties_low(void **state)
{
    struct block_pool *p = new_pool(9, BLOCK_BEST_FIT);
    block_id all[9];
    (void)state;

    assert_int_equal(block_pool_take(p, 9, BLOCK_NONE, all), 0);
    give(p, 4, IDS(2, 3, 6, 7));
    expect_take(p, 2, 9, IDS(2, 3));
    give(p, 2, IDS(2, 3));
    expect_take(p, 3, 9, IDS(2, 3, 6));
    give(p, 8, IDS(1, 2, 3, 4, 5, 6, 8, 9));
    block_pool_destroy(&p);
}

/* ---- all or nothing ---- */

/* S1.7, S1.8, S4.1, S4.4, S5.3: ids start at 1; too many: refused, nothing touched. */
static void takes_all_or_nothing(void **state)
{
    struct block_pool *p = new_pool(10, BLOCK_FIRST_FIT);
    block_id one = 77;
    (void)state;

    expect_take(p, 5, BLOCK_NONE, IDS(1, 2, 3, 4, 5));
    expect_take(p, 5, BLOCK_NONE, IDS(6, 7, 8, 9, 10));
    assert_int_equal(block_pool_take(p, 1, BLOCK_NONE, &one), ERR_AGAIN);
    assert_int_equal(one, 77);
    assert_int_equal(block_pool_take(p, 0, BLOCK_NONE, &one), 0);
    give(p, 3, IDS(1, 2, 3));
    assert_int_equal(block_pool_take(p, 4, BLOCK_NONE, &one), ERR_AGAIN);
    assert_int_equal(block_pool_n_free(p), 3);
    expect_take(p, 3, BLOCK_NONE, IDS(1, 2, 3)); /* S4: the same ids again */
    give(p, 10, IDS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    assert_int_equal(block_pool_stats(p).peak_held, 10);
    assert_int_equal(block_pool_stats(p).n_taken, 13);
    assert_int_equal(block_pool_stats(p).n_given, 13);
    block_pool_destroy(&p);
    assert_null(p);
}

/* S3 memory_fragmentation: ten out, the eleventh not; every other one back, as many out again. */
static void survives_fragmentation(void **state)
{
    struct block_pool *p = new_pool(10, BLOCK_ROUND_ROBIN);
    block_id ids[10], one;
    (void)state;

    assert_int_equal(block_pool_take(p, 10, BLOCK_NONE, ids), 0);
    assert_int_equal(block_pool_take(p, 1, BLOCK_NONE, &one), ERR_AGAIN);
    give(p, 5, IDS(1, 3, 5, 7, 9));
    expect_take(p, 5, BLOCK_NONE, IDS(1, 3, 5, 7, 9));
    give(p, 10, ids);
    assert_int_equal(block_pool_n_free(p), 10);
    block_pool_destroy(&p);
}

/* S4.5, D4.3: all of a fresh pool can be handed out. */
static void fresh_pool_is_free(void **state)
{
    struct block_pool *p = new_pool(7, BLOCK_FIRST_FIT);
    const struct block_pool_stats s = block_pool_stats(p);
    (void)state;

    assert_int_equal(s.n_blocks, 7);
    assert_int_equal(s.n_free, 7);
    assert_int_equal(s.n_held + s.n_cached + s.n_pinned + s.peak_held, 0);
    block_pool_destroy(&p);
}

/* T11, S1.9, S3.1, S4.3, S4.4, S5.3, D1.1, D3.2: refused, and nothing has changed. */
static void refuses_bad_ids(void **state)
{
    static const block_id bad[][3] = {{0, 1, 2}, {1, 2, 5}, {1, 2, 1}, {1, 1, 2},
                                      {2, 1, 3}, {1, UINT32_MAX, 2}};
    struct block_pool *p = new_pool(4, BLOCK_FIRST_FIT);
    (void)state;

    expect_take(p, 2, BLOCK_NONE, IDS(1, 2));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(block_pool_give(p, bad[i], 3), ERR_INVAL);
        assert_int_equal(block_pool_n_free(p), 2);
        assert_int_equal(block_pool_holders(p, 1), 1);
        assert_int_equal(block_pool_holders(p, 2), 1);
        assert_true(block_pool_check(p));
    }
    assert_int_equal(block_pool_ref(p, IDS(1, 2, 3), 3), ERR_INVAL); /* 3 is free */
    assert_int_equal(block_pool_ref(p, IDS(1, 0), 2), ERR_INVAL);
    assert_int_equal(block_pool_ref(p, IDS(2, 5), 2), ERR_INVAL);
    assert_int_equal(block_pool_holders(p, 1) + block_pool_holders(p, 2), 2);
    give(p, 2, IDS(1, 2));
    assert_int_equal(block_pool_give(p, IDS(1), 1), ERR_INVAL); /* twice */
    assert_int_equal(block_pool_keep(p, 1, true), ERR_INVAL);
    assert_int_equal(block_pool_keep(p, 0, true), ERR_INVAL);
    assert_int_equal(block_pool_pin(p, 1), ERR_INVAL);
    assert_int_equal(block_pool_unpin(p, 1), ERR_INVAL);
    assert_int_equal(block_pool_holders(p, 99), 0);
    assert_int_equal(block_pool_state(p, 99), BLOCK_FREE);
    assert_false(block_pool_is_pinned(p, 99));
    assert_true(block_pool_check(p));
    block_pool_destroy(&p);
}

/* ---- states ---- */

/* S3.1 allocator_basic: shared blocks come back with their last holder. */
static void counts_holders(void **state)
{
    struct block_pool *p = new_pool(4, BLOCK_FIRST_FIT);
    (void)state;

    expect_take(p, 2, BLOCK_NONE, IDS(1, 2));
    assert_int_equal(block_pool_ref(p, IDS(1), 1), 0);
    assert_int_equal(block_pool_holders(p, 1), 2);
    give(p, 1, IDS(1));
    assert_int_equal(block_pool_holders(p, 1), 1);
    assert_int_equal(block_pool_n_free(p), 2);
    give(p, 1, IDS(1));
    assert_int_equal(block_pool_n_free(p), 3);
    give(p, 1, IDS(2));
    block_pool_destroy(&p);
}

/* S4.6, D4.1: kept blocks without a holder are cached; the ones used longest ago go first. */
static void evicts_the_oldest(void **state)
{
    struct block_pool *p = new_pool(4, BLOCK_FIRST_FIT);
    block_id one;
    (void)state;

    expect_take(p, 4, BLOCK_NONE, IDS(1, 2, 3, 4));
    for (block_id id = 1; id <= 3; id++)
        assert_int_equal(block_pool_keep(p, id, true), 0);
    give(p, 1, IDS(2));
    give(p, 1, IDS(1));
    give(p, 1, IDS(3));
    give(p, 1, IDS(4));
    assert_int_equal(block_pool_state(p, 2), BLOCK_CACHED);
    assert_int_equal(block_pool_state(p, 4), BLOCK_FREE);
    assert_int_equal(block_pool_stats(p).n_cached, 3);
    assert_int_equal(block_pool_oldest(p), 2);
    assert_int_equal(block_pool_ref(p, IDS(2), 1), 0); /* used again */
    assert_int_equal(block_pool_state(p, 2), BLOCK_HELD);
    assert_int_equal(block_pool_oldest(p), 1);
    give(p, 1, IDS(2));
    assert_int_equal(block_pool_keep(p, 1, false), 0);
    assert_int_equal(block_pool_oldest(p), 3);
    assert_int_equal(block_pool_n_free(p), 2);
    assert_int_equal(block_pool_stats(p).n_evicted, 1);
    assert_int_equal(block_pool_stats(p).peak_held, 4);
    assert_int_equal(block_pool_take(p, 3, BLOCK_NONE, &one), ERR_AGAIN); /* cached is not free */
    assert_int_equal(block_pool_keep(p, 3, false), 0);
    assert_int_equal(block_pool_keep(p, 2, false), 0);
    assert_int_equal(block_pool_oldest(p), BLOCK_NONE);
    assert_true(block_pool_check(p));
    block_pool_destroy(&p);
}

/* A cached block that is used again counts as held, in the peak too. */
static void used_again_is_held(void **state)
{
    struct block_pool *p = new_pool(3, BLOCK_FIRST_FIT);
    (void)state;

    expect_take(p, 1, BLOCK_NONE, IDS(1));
    assert_int_equal(block_pool_keep(p, 1, true), 0);
    give(p, 1, IDS(1));
    expect_take(p, 1, BLOCK_NONE, IDS(2));
    assert_int_equal(block_pool_stats(p).peak_held, 1);
    assert_int_equal(block_pool_ref(p, IDS(1), 1), 0);
    assert_int_equal(block_pool_stats(p).n_held, 2);
    assert_int_equal(block_pool_stats(p).peak_held, 2);
    give(p, 2, IDS(1, 2));
    block_pool_destroy(&p);
}

/* Of a table given back at once the end goes first, the beginning last. */
static void a_prefix_outlives_its_tail(void **state)
{
    struct block_pool *p = new_pool(4, BLOCK_FIRST_FIT);
    (void)state;

    expect_take(p, 3, BLOCK_NONE, IDS(1, 2, 3));
    for (block_id id = 1; id <= 3; id++)
        assert_int_equal(block_pool_keep(p, id, true), 0);
    give(p, 3, IDS(1, 2, 3));
    for (block_id id = 3; id >= 1; id--) {
        assert_int_equal(block_pool_oldest(p), id);
        assert_int_equal(block_pool_keep(p, id, false), 0);
    }
    block_pool_destroy(&p);
}

/* A held block that is no longer kept becomes free with its last holder; a new one is not kept. */
static void keeping_can_be_revoked(void **state)
{
    struct block_pool *p = new_pool(1, BLOCK_FIRST_FIT);
    (void)state;

    expect_take(p, 1, BLOCK_NONE, IDS(1));
    assert_int_equal(block_pool_keep(p, 1, true), 0);
    assert_int_equal(block_pool_keep(p, 1, false), 0);
    give(p, 1, IDS(1));
    assert_int_equal(block_pool_state(p, 1), BLOCK_FREE);
    expect_take(p, 1, BLOCK_NONE, IDS(1));
    assert_int_equal(block_pool_keep(p, 1, true), 0);
    give(p, 1, IDS(1));
    assert_int_equal(block_pool_keep(p, 1, false), 0);
    expect_take(p, 1, BLOCK_NONE, IDS(1));
    give(p, 1, IDS(1));
    assert_int_equal(block_pool_state(p, 1), BLOCK_FREE);
    assert_int_equal(block_pool_stats(p).n_evicted, 1);
    block_pool_destroy(&p);
}

/* S4.2: a pinned block is not evicted, nor free when its last holder gives it back. */
static void pinned_blocks_stay(void **state)
{
    struct block_pool *p = new_pool(3, BLOCK_FIRST_FIT);
    (void)state;

    expect_take(p, 3, BLOCK_NONE, IDS(1, 2, 3));
    assert_int_equal(block_pool_keep(p, 1, true), 0);
    assert_int_equal(block_pool_keep(p, 2, true), 0);
    give(p, 2, IDS(2, 1));
    assert_int_equal(block_pool_pin(p, 1), 0);
    assert_int_equal(block_pool_pin(p, 1), 0);
    assert_int_equal(block_pool_state(p, 1), BLOCK_PINNED);
    assert_int_equal(block_pool_oldest(p), 2); /* 1 is older, and pinned */
    assert_int_equal(block_pool_keep(p, 1, false), ERR_INVAL);
    assert_int_equal(block_pool_keep(p, 1, true), 0);
    assert_int_equal(block_pool_stats(p).n_pinned, 1);
    assert_int_equal(block_pool_stats(p).n_cached, 1);
    assert_int_equal(block_pool_unpin(p, 1), 0);
    assert_true(block_pool_is_pinned(p, 1));
    assert_int_equal(block_pool_ref(p, IDS(1), 1), 0);
    assert_int_equal(block_pool_stats(p).n_pinned, 0); /* it has a holder */
    give(p, 1, IDS(1));
    assert_int_equal(block_pool_state(p, 1), BLOCK_PINNED);
    assert_int_equal(block_pool_unpin(p, 1), 0);
    assert_int_equal(block_pool_unpin(p, 1), ERR_INVAL);
    assert_int_equal(block_pool_state(p, 1), BLOCK_CACHED);
    assert_int_equal(block_pool_oldest(p), 2); /* 1 counts as used just now */
    give(p, 1, IDS(3));
    assert_true(block_pool_check(p));
    block_pool_destroy(&p);
}

/* A pinned block that is not kept is free once it has neither holders nor pins. */
static void pins_outlive_holders(void **state)
{
    struct block_pool *p = new_pool(3, BLOCK_FIRST_FIT);
    (void)state;

    expect_take(p, 3, BLOCK_NONE, IDS(1, 2, 3));
    assert_int_equal(block_pool_pin(p, 3), 0);
    give(p, 1, IDS(3));
    assert_int_equal(block_pool_n_free(p), 0);
    assert_int_equal(block_pool_unpin(p, 3), 0);
    assert_int_equal(block_pool_state(p, 3), BLOCK_FREE);
    assert_int_equal(block_pool_pin(p, 2), 0);
    assert_int_equal(block_pool_unpin(p, 2), 0); /* while it is held */
    assert_int_equal(block_pool_state(p, 2), BLOCK_HELD);
    give(p, 2, IDS(1, 2));
    assert_int_equal(block_pool_n_free(p), 3);
    assert_true(block_pool_check(p));
    block_pool_destroy(&p);
}

/* A million blocks: full, and half of them scattered. */
static void large_pools_work(void **state)
{
    enum { N = 1 << 20 };
    struct block_pool *p = new_pool(N, BLOCK_ROUND_ROBIN);
    block_id *ids = mem_calloc(N, sizeof(*ids)), id;
    (void)state;

    assert_int_equal(block_pool_take(p, N, BLOCK_NONE, ids), 0);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(ids[i], i + 1);
    for (id = 2; id <= N; id += 2)
        assert_int_equal(block_pool_give(p, &id, 1), 0);
    assert_int_equal(block_pool_take(p, N / 2, BLOCK_NONE, ids), 0);
    assert_int_equal(ids[0], 2);
    assert_int_equal(ids[N / 2 - 1], N);
    assert_true(block_pool_check(p));
    for (id = 1; id <= N; id++)
        assert_int_equal(block_pool_give(p, &id, 1), 0);
    mem_free(ids);
    block_pool_destroy(&p);
}

static void creation_survives_lack_of_memory(void **state)
{
    struct block_pool *p;
    int64_t n = 0;
    (void)state;

    while (each_failure(&n)) {
        if (block_pool_create(&p, 5, BLOCK_FIRST_FIT) == 0)
            block_pool_destroy(&p);
        assert_null(p);
    }
    assert_true(n > 3);
    assert_int_equal(block_pool_create(&p, 0, BLOCK_FIRST_FIT), ERR_INVAL); /* S4.4 */
    assert_int_equal(block_pool_create(&p, 1, (enum block_placement)3), ERR_INVAL);
    assert_null(p);
    block_pool_destroy(&p);
    block_pool_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_fit_takes_the_lowest),
        cmocka_unit_test(round_robin_goes_round),
        cmocka_unit_test(best_fit_extends_the_run),
        cmocka_unit_test(best_fit_chooses_among_runs),
        cmocka_unit_test(best_fit_breaks_ties_low),
        cmocka_unit_test(takes_all_or_nothing),
        cmocka_unit_test(survives_fragmentation),
        cmocka_unit_test(fresh_pool_is_free),
        cmocka_unit_test(refuses_bad_ids),
        cmocka_unit_test(counts_holders),
        cmocka_unit_test(evicts_the_oldest),
        cmocka_unit_test(used_again_is_held),
        cmocka_unit_test(a_prefix_outlives_its_tail),
        cmocka_unit_test(keeping_can_be_revoked),
        cmocka_unit_test(pinned_blocks_stay),
        cmocka_unit_test(pins_outlive_holders),
        cmocka_unit_test(large_pools_work),
        cmocka_unit_test(creation_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
