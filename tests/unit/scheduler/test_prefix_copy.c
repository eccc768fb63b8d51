/* tests/unit/scheduler/test_prefix_copy.c - blocks of a prefix out of the cache, and back in. */
#include "core/base/err.h"
#include "kvcache/kv_store.h"
#include "scheduler/prefix_copy.h"
#include "tests/unit/kvcache/kv_seqs.h"

#include <stdlib.h>

#define N_BLOCKS 8

static struct kv_store *store;

static size_t block_bytes(void)
{
    return kv_store_block_bytes(&store->shape);
}

/* A sequence is computed and ends; each block holds its number and the mark. */
static void compute_and_end(struct kv_manager *m, struct seq *s, uint32_t n, uint8_t mark)
{
    compute(m, s, n);
    for (uint32_t i = 0; i < n / BLOCK_TOKENS; i++)
        memset(kv_store_block(store, s->blocks[i]), (int)(mark + i), block_bytes());
    release(m, s);
}

static uint32_t copy(struct kv_manager *m, struct seq *s, bool is_in, uint32_t first, uint32_t n,
                     uint8_t *bytes)
{
    block_id table[N_BLOCKS];
    struct prefix_copy c = {
        .is_in = is_in, .first = first, .n = n, .bytes = bytes, .table = table};

    prefix_copy_run(&c, m, store, &s->key);
    assert_true(kv_manager_check(m));
    assert_int_equal(kv_manager_stats(m).pool.n_held, 0);
    return c.n_there;
}

static void what_is_cached_comes_out(void **state)
{
    struct kv_manager *m = new_manager(N_BLOCKS, 0, 0);
    uint8_t *bytes = calloc(N_BLOCKS, block_bytes());
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    compute_and_end(m, &a, 3 * BLOCK_TOKENS + 5, 10);
    assert_int_equal(copy(m, &b, false, 5, 0, NULL), 3);
    assert_int_equal(copy(m, &b, false, 1, 2, bytes), 3);
    assert_int_equal(bytes[0], 11);
    assert_int_equal(bytes[2 * block_bytes() - 1], 12);
    bytes[0] = 99;
    assert_int_equal(copy(m, &b, false, 1, 3, bytes), 3); /* the last one is not there */
    assert_int_equal(bytes[0], 99);
    free(bytes);
    kv_manager_destroy(&m);
}

static void what_comes_in_is_found(void **state)
{
    struct kv_manager *m = new_manager(N_BLOCKS, 0, 0);
    uint8_t *bytes = malloc(N_BLOCKS * block_bytes());
    struct seq a;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        memset(bytes + i * block_bytes(), (int)(30 + i), block_bytes());
    assert_int_equal(copy(m, &a, true, 0, 2, bytes), 2);
    assert_int_equal(copy(m, &a, true, 3, 1, bytes), 2); /* there would be a hole */
    assert_int_equal(copy(m, &a, true, 1, 3, bytes + block_bytes()), 4);
    assert_int_equal(attach(m, &a, 4 * BLOCK_TOKENS), 4 * BLOCK_TOKENS);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(*(uint8_t *)kv_store_block(store, a.blocks[i]), 30 + i);
    assert_int_equal(kv_manager_alloc(m, &a.kv, 64, 5 * BLOCK_TOKENS), 0);
    release(m, &a);
    free(bytes);
    kv_manager_destroy(&m);
}

/* What is there stays: it has the same bytes. Blocks that others hold are not taken away. */
static void it_takes_no_more_than_there_is(void **state)
{
    struct kv_manager *m = new_manager(4, 0, 0);
    uint8_t *bytes = calloc(N_BLOCKS, block_bytes());
    struct seq a, other;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&other, 0, 7);
    compute(m, &other, 2 * BLOCK_TOKENS);
    {
        block_id table[N_BLOCKS];
        struct prefix_copy c = {.is_in = true, .n = 3, .bytes = bytes, .table = table};

        prefix_copy_run(&c, m, store, &a.key);
        assert_int_equal(c.n_there, 0);
        c.n = 2;
        prefix_copy_run(&c, m, store, &a.key);
        assert_int_equal(c.n_there, 2);
    }
    assert_int_equal(kv_manager_stats(m).pool.n_held, 2);
    release(m, &other);
    assert_int_equal(copy(m, &a, true, 2, 2, bytes), 4); /* the other one's are evicted */
    free(bytes);
    kv_manager_destroy(&m);
}

static int set_up(void **state)
{
    const struct kv_shape shape = {2, 1, 256, 256};
    (void)state;

    return kv_store_create(&store, &shape, N_BLOCKS);
}

static int tear_down(void **state)
{
    (void)state;
    kv_store_destroy(&store);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_cached_comes_out),
        cmocka_unit_test(what_comes_in_is_found),
        cmocka_unit_test(it_takes_no_more_than_there_is),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
