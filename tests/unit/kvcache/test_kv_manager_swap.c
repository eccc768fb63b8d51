/* tests/unit/kvcache/test_kv_manager_swap.c - swapping sequences out and in, and moves, without
 * bytes. */
#include "tests/unit/kvcache/kv_seqs.h"

/* S2.29, D2.4, D2.5: out and in again; the counts move both ways. */
static void swaps_out_and_in(void **state)
{
    struct kv_manager *m = new_manager(4, 3, 0);
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 0, 99);
    compute(m, &a, 40);
    assert_true(kv_manager_can_swap_out(m, &a.kv, 3 * BLOCK_TOKENS));
    assert_false(kv_manager_can_swap_out(m, &a.kv, 4 * BLOCK_TOKENS));
    assert_int_equal(kv_manager_swap_out(m, &a.kv, 40), 0);
    check(m);
    expect_moves(m, 3, MOVES({KV_SAVE, 1, 0, 0}, {KV_SAVE, 2, 1, 0}, {KV_SAVE, 3, 2, 0}));
    assert_int_equal(a.kv.table.n, 0);
    assert_int_equal(kv_manager_where(m, &a.kv), SWAP_RAM);
    assert_int_equal(kv_manager_stats(m).pool.n_cached, 2);
    assert_int_equal(kv_manager_stats(m).swap.ram_used, 3);
    compute(m, &b, 64); /* everything else is forgotten */
    assert_int_equal(kv_manager_swap_in(m, &a.kv, &a.key, 40), ERR_AGAIN); /* D2.5: still whole */
    assert_int_equal(kv_manager_where(m, &a.kv), SWAP_RAM);
    check(m);
    release(m, &b);
    assert_int_equal(kv_manager_swap_in(m, &a.kv, &a.key, 40), 0);
    check(m);
    expect_moves(m, 3, MOVES({KV_LOAD, 0, a.blocks[0], 0}, {KV_LOAD, 1, a.blocks[1], 0},
                             {KV_LOAD, 2, a.blocks[2], 0}));
    assert_int_equal(a.kv.swap, SWAP_NONE);
    assert_int_equal(kv_manager_stats(m).swap.ram_used, 0);
    assert_int_equal(kv_manager_stats(m).swap.blocks_out[0], 3);
    assert_int_equal(kv_manager_stats(m).swap.blocks_in[0], 3);
    assert_int_equal(kv_manager_swap_out(m, &a.kv, 0), ERR_AGAIN); /* nothing to save */
    release(m, &a);
    kv_manager_destroy(&m);
}

/* Blocks that are still in the index are shared, only the rest is loaded, and making room for the
 * rest forgets others, even younger ones. */
static void swap_in_shares_first(void **state)
{
    struct kv_manager *m = new_manager(6, 4, 0);
    struct seq a, b;
    block_id before[2];
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 0, 99);
    compute(m, &a, 56);
    memcpy(before, a.blocks, sizeof(before));
    assert_int_equal(kv_manager_swap_out(m, &a.kv, 56), 0);
    kv_manager_moves_done(m);
    compute(m, &b, 64); /* two of its four come from the end of a's cached three */
    release(m, &b);
    assert_int_equal(kv_manager_match(m, &a.key, 56).n_blocks, 2);
    assert_int_equal(kv_manager_swap_in(m, &a.kv, &a.key, 56), 0);
    check(m);
    assert_memory_equal(a.blocks, before, sizeof(before));
    expect_moves(m, 2, MOVES({KV_LOAD, 2, a.blocks[2], 0}, {KV_LOAD, 3, a.blocks[3], 0}));
    assert_int_equal(a.kv.n_indexed, 2);
    kv_manager_commit(m, &a.kv, &a.key, 56);
    assert_int_equal(a.kv.n_indexed, 3);
    release(m, &a);
    kv_manager_destroy(&m);
}

/* Too little room although some of it is there already: refused, and not even the order of use has
 * changed. */
static void failed_swap_in_changes_nothing(void **state)
{
    struct kv_manager *m = new_manager(4, 4, 0);
    struct seq a, b;
    block_id oldest;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 0, 99);
    compute(m, &a, 40);
    assert_int_equal(kv_manager_swap_out(m, &a.kv, 40), 0);
    kv_manager_moves_done(m);
    compute(m, &b, 32);
    compute(m, &b, 33); /* takes one of the two cached */
    oldest = block_pool_oldest(kv_manager_pool(m));
    assert_int_equal(kv_manager_match(m, &a.key, 40).n_blocks, 1);
    assert_int_equal(kv_manager_swap_in(m, &a.kv, &a.key, 40), ERR_AGAIN);
    assert_int_equal(block_pool_oldest(kv_manager_pool(m)), oldest);
    assert_int_equal(block_pool_state(kv_manager_pool(m), oldest), BLOCK_CACHED);
    expect_moves(m, 0, NULL);
    check(m);
    release(m, &b);
    release(m, &a); /* S2.29, D2.5: frees its swap space and nothing else */
    assert_int_equal(kv_manager_stats(m).swap.ram_used, 0);
    assert_int_equal(kv_manager_n_available(m), 4);
    kv_manager_destroy(&m);
}

/* Through the file: not before it has been fetched. A lost copy says so. */
static void swap_in_waits_for_the_file(void **state)
{
    struct kv_manager *m = new_manager(4, 2, 2);
    struct seq a;
    struct swap_io io;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    compute(m, &a, 20);
    assert_int_equal(kv_manager_swap_out(m, &a.kv, 20), 0);
    kv_manager_moves_done(m);
    assert_true(kv_manager_is_freeing(m));
    assert_true(kv_manager_next_io(m, &io));
    assert_true(io.is_write);
    assert_int_equal(kv_manager_n_io(m), 1);
    kv_manager_io_done(m, io.copy, 0);
    assert_int_equal(kv_manager_where(m, &a.kv), SWAP_FILE);
    assert_int_equal(kv_manager_swap_in(m, &a.kv, &a.key, 20), ERR_BUSY);
    assert_int_equal(kv_manager_fetch(m, &a.kv), 0);
    assert_int_equal(kv_manager_swap_in(m, &a.kv, &a.key, 20), ERR_BUSY);
    assert_true(kv_manager_next_io(m, &io));
    assert_false(io.is_write);
    kv_manager_io_done(m, io.copy, ERR_IO);
    assert_int_equal(kv_manager_where(m, &a.kv), SWAP_LOST);
    assert_int_equal(kv_manager_fetch(m, &a.kv), ERR_IO);
    assert_int_equal(kv_manager_swap_in(m, &a.kv, &a.key, 20), ERR_IO);
    kv_manager_forget(m, &a.kv);
    kv_manager_forget(m, &a.kv);
    check(m);
    assert_int_equal(kv_manager_stats(m).swap.n_copies, 0);
    release(m, &a);
    kv_manager_destroy(&m);
}

/* The log has an end: ERR_AGAIN instead of an overflow, and nothing has changed. Out is two moves,
 * in is one for the long sequence, whose first block is shared; one and one for the short one. */
static void moves_have_a_limit(void **state)
{
    struct kv_manager *m = new_manager(4, 2, 0); /* twelve */
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 0, 99);
    compute(m, &a, 20);
    compute(m, &b, 10);
    assert_int_equal(kv_manager_swap_out(m, &a.kv, 20), 0);
    assert_int_equal(kv_manager_swap_in(m, &a.kv, &a.key, 20), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(kv_manager_swap_out(m, &b.kv, 10), 0);
        assert_int_equal(kv_manager_swap_in(m, &b.kv, &b.key, 10), 0);
    }
    assert_false(kv_manager_can_swap_out(m, &a.kv, 2 * BLOCK_TOKENS)); /* eleven */
    assert_int_equal(kv_manager_swap_out(m, &a.kv, 20), ERR_AGAIN);
    assert_int_equal(a.kv.table.n, 2);
    assert_int_equal(kv_manager_swap_out(m, &b.kv, 10), 0);
    assert_int_equal(kv_manager_swap_in(m, &b.kv, &b.key, 10), ERR_AGAIN);
    assert_int_equal(kv_manager_where(m, &b.kv), SWAP_RAM);
    assert_int_equal(b.kv.table.n, 0);
    check(m);
    kv_manager_moves_done(m);
    assert_int_equal(kv_manager_swap_in(m, &b.kv, &b.key, 10), 0);
    release(m, &a);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* A full log: copies have to wait as well, and parts are computed instead. */
static void copies_need_a_move(void **state)
{
    struct kv_manager *m = new_manager(2, 0, 0); /* four */
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    compute(m, &a, 16);
    release(m, &a);
    for (int i = 0; i < 4; i++) {
        compute(m, &b, 1);
        release(m, &b);
        assert_int_equal(attach(m, &a, 10), 10);
        release(m, &a);
    }
    assert_int_equal(attach(m, &a, 10), 0);
    compute(m, &a, 5);
    kv_manager_fork(m, &b.kv, &a.kv, 5);
    b.n_done = 5;
    assert_int_equal(grow(m, &b, 6), ERR_AGAIN);
    kv_manager_moves_done(m);
    assert_int_equal(grow(m, &b, 6), 0);
    release(m, &a);
    release(m, &b);
    kv_manager_destroy(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swaps_out_and_in),
        cmocka_unit_test(swap_in_shares_first),
        cmocka_unit_test(failed_swap_in_changes_nothing),
        cmocka_unit_test(swap_in_waits_for_the_file),
        cmocka_unit_test(moves_have_a_limit),
        cmocka_unit_test(copies_need_a_move),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
