/* tests/unit/test_block_pool.c - pool, table and store of the KV cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/block_pool.h"
#include "kvcache/block_table.h"
#include "kvcache/kv_store.h"

static struct block_pool *new_pool(uint32_t n)
{
    struct block_pool *p;

    assert_int_equal(block_pool_create(&p, n), 0);
    return p;
}

/* S4.1, S5.3: ids start at 1, come in order, and the longest free one is reused first. */
static void takes_in_order_all_or_nothing(void **state)
{
    struct block_pool *p = new_pool(10);
    block_id a[5], b[5], c[3], one;
    (void)state;

    assert_int_equal(block_pool_take(p, 5, a), 0);
    assert_int_equal(block_pool_take(p, 5, b), 0);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(a[i], i + 1);
        assert_int_equal(b[i], i + 6);
    }
    one = 77;
    assert_int_equal(block_pool_take(p, 1, &one), ERR_AGAIN);
    assert_int_equal(one, 77);
    assert_int_equal(block_pool_take(p, 0, &one), 0);
    assert_int_equal(block_pool_give(p, a, 3), 0);
    assert_int_equal(block_pool_take(p, 4, c), ERR_AGAIN);
    assert_int_equal(block_pool_take(p, 3, c), 0);
    assert_int_equal(c[0], 1);
    assert_int_equal(c[2], 3);
    assert_true(block_pool_check(p));
    assert_int_equal(block_pool_give(p, b, 5), 0);
    assert_int_equal(block_pool_give(p, c, 3), 0);
    assert_int_equal(block_pool_give(p, a + 3, 2), 0);
    assert_int_equal(block_pool_stats(p).n_free, 10);
    assert_int_equal(block_pool_stats(p).peak_held, 10);
    assert_int_equal(block_pool_stats(p).n_taken, 13);
    assert_int_equal(block_pool_stats(p).n_given, 13);
    block_pool_destroy(&p);
    assert_null(p);
}

/* T11: double free, bad ids and duplicates in one call change nothing. */
static void refuses_bad_ids(void **state)
{
    struct block_pool *p = new_pool(4);
    block_id a[2], bad[][2] = {{0, 1}, {1, 5}, {1, 1}, {2, 3}, {UINT32_MAX, 1}};
    (void)state;

    assert_int_equal(block_pool_take(p, 2, a), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(block_pool_give(p, bad[i], 2), ERR_INVAL);
        assert_int_equal(block_pool_n_free(p), 2);
        assert_true(block_pool_check(p));
    }
    assert_int_equal(block_pool_ref(p, bad[1], 2), ERR_INVAL);
    assert_int_equal(block_pool_holders(p, 1), 1);
    assert_int_equal(block_pool_give(p, a, 2), 0);
    assert_int_equal(block_pool_give(p, a, 1), ERR_INVAL);
    block_pool_destroy(&p);
    assert_int_equal(block_pool_create(&p, 0), ERR_INVAL);
    assert_null(p);
}

/* S3.1: shared blocks come back with their last holder. */
static void counts_holders(void **state)
{
    struct block_pool *p = new_pool(2);
    block_id id;
    (void)state;

    assert_int_equal(block_pool_take(p, 1, &id), 0);
    assert_int_equal(block_pool_ref(p, &id, 1), 0);
    assert_int_equal(block_pool_holders(p, id), 2);
    assert_int_equal(block_pool_give(p, &id, 1), 0);
    assert_int_equal(block_pool_holders(p, id), 1);
    assert_int_equal(block_pool_n_free(p), 1);
    assert_int_equal(block_pool_give(p, &id, 1), 0);
    assert_int_equal(block_pool_n_free(p), 2);
    block_pool_destroy(&p);
}

/* Random calls against a naive model: an array of counters. */
static void agrees_with_a_naive_model(void **state)
{
    enum { N = 37 };
    struct block_pool *p = new_pool(N);
    uint32_t model[N + 2] = {0}, n_free = N;
    (void)state;

    srandom(3);
    for (int op = 0; op < 200000; op++) {
        block_id ids[8];
        const uint32_t n = (uint32_t)random() % 8;
        bool legal = true;

        if (random() % 2 == 0) {
            const int rc = block_pool_take(p, n, ids);

            assert_int_equal(rc, n <= n_free ? 0 : ERR_AGAIN);
            for (uint32_t i = 0; rc == 0 && i < n; i++)
                assert_int_equal(model[ids[i]]++, 0);
            n_free -= rc == 0 ? n : 0;
        } else {
            const bool ref = random() % 4 == 0;

            for (uint32_t i = 0; i < n; i++) {
                ids[i] = (uint32_t)random() % (N + 2);
                legal = legal && ids[i] >= 1 && ids[i] <= N && model[ids[i]] > 0;
                for (uint32_t j = 0; j < i && !ref; j++)
                    legal = legal && ids[j] != ids[i];
            }
            assert_int_equal(ref ? block_pool_ref(p, ids, n) : block_pool_give(p, ids, n),
                             legal ? 0 : ERR_INVAL);
            for (uint32_t i = 0; legal && i < n; i++) {
                model[ids[i]] += ref ? 1 : (uint32_t)-1;
                n_free += model[ids[i]] == 0;
            }
        }
        assert_int_equal(block_pool_n_free(p), n_free);
        if (op % 64 == 0)
            assert_true(block_pool_check(p));
    }
    for (block_id id = 1; id <= N; id++)
        while (model[id]-- > 0)
            assert_int_equal(block_pool_give(p, &id, 1), 0);
    block_pool_destroy(&p);
}

/* S3.2, S5.4: positions to (block, slot). */
static void table_locates_positions(void **state)
{
    struct block_pool *p = new_pool(8);
    struct block_table t;
    block_id blocks[4], block;
    uint32_t slot;
    (void)state;

    block_table_init(&t, blocks, 4);
    assert_false(block_table_locate(&t, 0, &block, &slot));
    assert_int_equal(block_table_grow(&t, p, 17), 0);
    assert_int_equal(t.n, 2);
    assert_true(block_table_locate(&t, 15, &block, &slot));
    assert_int_equal(block, 1);
    assert_int_equal(slot, 15);
    assert_true(block_table_locate(&t, 16, &block, &slot));
    assert_int_equal(block, 2);
    assert_int_equal(slot, 0);
    assert_false(block_table_locate(&t, 32, &block, &slot));
    assert_int_equal(block_table_missing(&t, 32), 0);
    assert_int_equal(block_table_missing(&t, 33), 1);
    assert_int_equal(block_table_grow(&t, p, 65), ERR_RANGE);
    assert_int_equal(t.n, 2);
    block_table_clear(&t, p);
    assert_int_equal(t.n, 0);
    assert_int_equal(blocks[0], BLOCK_NONE);
    block_pool_destroy(&p);
}

static void table_grows_all_or_nothing(void **state)
{
    struct block_pool *p = new_pool(3);
    struct block_table t, u;
    block_id tb[8], ub[8];
    (void)state;

    block_table_init(&t, tb, 8);
    block_table_init(&u, ub, 8);
    assert_int_equal(block_table_grow(&t, p, 20), 0);
    assert_int_equal(block_table_grow(&u, p, 20), ERR_AGAIN);
    assert_int_equal(u.n, 0);
    assert_int_equal(block_table_grow(&u, p, 16), 0);
    block_table_clear(&t, p);
    block_table_clear(&u, p);
    block_pool_destroy(&p);
}

/* S3.5, S5.1: blocks and layers do not overlap, and a copy carries every layer. */
static void store_keeps_blocks_apart(void **state)
{
    const struct kv_shape shape = {3, 2, 8};
    struct kv_store *s;
    const size_t half = 2 * 8 * 16;
    (void)state;

    assert_int_equal(kv_store_block_bytes(&shape), 2 * 3 * half * 2);
    assert_int_equal(kv_store_blocks_for(&shape, 10 * kv_store_block_bytes(&shape) + 5), 10);
    assert_int_equal(kv_store_blocks_for(&shape, 5), 0);
    assert_int_equal(kv_store_create(&s, &shape, 4), 0);
    for (block_id b = 1; b <= 4; b++)
        for (uint32_t l = 0; l < 3; l++)
            for (size_t i = 0; i < half; i++) {
                kv_store_keys(s, b, l)[i] = (uint16_t)(b * 1000 + l * 10);
                kv_store_values(s, b, l)[i] = (uint16_t)(b * 1000 + l * 10 + 1);
            }
    kv_store_copy_block(s, 2, 4);
    for (block_id b = 1; b <= 4; b++)
        for (uint32_t l = 0; l < 3; l++)
            for (size_t i = 0; i < half; i++) {
                const block_id from = b == 4 ? 2 : b;

                assert_int_equal(kv_store_keys(s, b, l)[i], from * 1000 + l * 10);
                assert_int_equal(kv_store_values(s, b, l)[i], from * 1000 + l * 10 + 1);
            }
    kv_store_destroy(&s);
    assert_null(s);
}

static void creation_survives_lack_of_memory(void **state)
{
    const struct kv_shape shape = {1, 1, 8};
    struct block_pool *p;
    struct kv_store *s;
    int64_t n = 0;
    (void)state;

    do {
        mem_fail_after(n++);
        if (block_pool_create(&p, 5) == 0)
            block_pool_destroy(&p);
        assert_null(p);
        if (kv_store_create(&s, &shape, 5) == 0)
            kv_store_destroy(&s);
        assert_null(s);
    } while (mem_has_failed());
    mem_fail_after(-1);
    assert_true(n > 4);
    assert_int_equal(kv_store_create(&s, &shape, 0), ERR_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_in_order_all_or_nothing),
        cmocka_unit_test(refuses_bad_ids),
        cmocka_unit_test(counts_holders),
        cmocka_unit_test(agrees_with_a_naive_model),
        cmocka_unit_test(table_locates_positions),
        cmocka_unit_test(table_grows_all_or_nothing),
        cmocka_unit_test(store_keeps_blocks_apart),
        cmocka_unit_test(creation_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
