/* tests/unit/kvcache/test_kv_manager.c - sequences, sharing and copy on write, without bytes. */
#include "tests/fixtures/failing_memory.h"
#include "tests/unit/kvcache/kv_seqs.h"

/* ---- sharing ---- */

/* T9, S4.8, S5.6, D5.2: two equal prompts share whole blocks and never the unfinished one. */
static void equal_prompts_share_full_blocks(void **state)
{
    struct kv_manager *m = new_manager(8, 0, 0);
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    assert_int_equal(attach(m, &a, 39), 0);
    compute(m, &a, 40);
    assert_int_equal(kv_manager_match(m, &b.key, 39).n_held, 2);
    assert_int_equal(attach(m, &b, 39), 32);
    assert_memory_equal(a.blocks, b.blocks, 2 * sizeof(block_id));
    compute(m, &b, 40);
    assert_int_not_equal(a.blocks[2], b.blocks[2]);
    assert_int_equal(kv_manager_stats(m).pool.n_held, 4);
    assert_int_equal(kv_manager_stats(m).query_tokens, 78);
    assert_int_equal(kv_manager_stats(m).hit_tokens, 32);
    assert_int_equal(kv_manager_n_exclusive(m, &a.kv), 1);
    expect_moves(m, 0, NULL);
    release(m, &a);
    assert_int_equal(kv_manager_n_exclusive(m, &b.kv), 3);
    release(m, &b);
    assert_int_equal(kv_manager_stats(m).pool.n_cached, 2);
    assert_int_equal(kv_manager_n_available(m), 8);
    kv_manager_destroy(&m);
}

/* T9, D5.2: of a prompt that is there as a whole, the last token is still to be computed. */
static void last_token_is_always_computed(void **state)
{
    struct kv_manager *m = new_manager(8, 0, 0);
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    compute(m, &a, 32);
    assert_int_equal(attach(m, &b, 31), 31);
    assert_int_equal(b.kv.n_indexed, 1);
    assert_int_equal(b.blocks[0], a.blocks[0]);
    expect_moves(m, 1, MOVES({KV_COPY, a.blocks[1], b.blocks[1], 0}));
    assert_int_equal(kv_manager_missing(m, &b.kv, 31, 32), 0); /* the copy is its own */
    compute(m, &b, 32);
    assert_int_equal(b.blocks[1], a.blocks[1]); /* equal now: shared, the copy given back */
    assert_int_equal(kv_manager_stats(m).pool.n_held, 2);
    release(m, &a);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* What two prompts have in common beyond whole blocks is copied; `limit` cuts it. */
static void parts_are_copied(void **state)
{
    struct kv_manager *m = new_manager(8, 0, 0);
    struct seq a, b, c;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 16 + 5, 99);
    seq_init(&c, MAX_TOKENS, 0);
    compute(m, &a, 48);
    assert_int_equal(attach(m, &b, 40), 21);
    assert_int_equal(attach(m, &c, 19), 19);
    expect_moves(m, 2, MOVES({KV_COPY, a.blocks[1], b.blocks[1], 0},
                             {KV_COPY, a.blocks[1], c.blocks[1], 0}));
    assert_int_equal(kv_manager_stats(m).n_copied, 2);
    release(m, &a);
    release(m, &b);
    release(m, &c);
    kv_manager_destroy(&m);
}

/* The room for the copy is made by forgetting another block, though the source is older. */
static void source_of_a_copy_is_not_evicted(void **state)
{
    struct kv_manager *m = new_manager(3, 0, 0);
    struct seq a, b, c;
    block_id source, other;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 0, 99);
    seq_init(&c, 10, 99);
    compute(m, &a, 16);
    source = a.blocks[0];
    release(m, &a);
    compute(m, &b, 32);
    other = b.blocks[1];
    release(m, &b);
    assert_int_equal(block_pool_oldest(kv_manager_pool(m)), source);
    assert_int_equal(attach(m, &c, 20), 10);
    expect_moves(m, 1, MOVES({KV_COPY, source, other, 0}));
    assert_int_equal(block_pool_stats(kv_manager_pool(m)).n_pinned, 0);
    release(m, &c);
    kv_manager_destroy(&m);
}

/* No block left but the source itself: then the part is computed again. */
static void no_room_for_a_copy(void **state)
{
    struct kv_manager *m = new_manager(2, 0, 0);
    struct seq a, b, c;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 0, 99);
    seq_init(&c, 10, 99);
    compute(m, &a, 16);
    release(m, &a);
    compute(m, &b, 10);
    assert_int_equal(kv_manager_match(m, &c.key, 20).n_tokens, 10);
    assert_int_equal(attach(m, &c, 20), 0);
    expect_moves(m, 0, NULL);
    compute(m, &c, 3); /* evicts it */
    assert_int_equal(kv_manager_match(m, &a.key, 20).n_tokens, 0);
    release(m, &b);
    release(m, &c);
    kv_manager_destroy(&m);
}

/* Tenants with different salts do not see each other's blocks. */
static void salts_do_not_share(void **state)
{
    struct kv_manager *m = new_manager(8, 0, 0);
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    a.key.salt = 1;
    b.key.salt = 2;
    compute(m, &a, 48);
    assert_int_equal(attach(m, &b, 47), 0);
    compute(m, &b, 48);
    assert_int_equal(kv_manager_stats(m).pool.n_held, 6);
    release(m, &a);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* Two that computed the same at the same time end up with one copy of it. */
static void equal_blocks_become_one(void **state)
{
    struct kv_manager *m = new_manager(8, 0, 0);
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 40, 99);
    assert_int_equal(grow(m, &a, 48), 0);
    assert_int_equal(grow(m, &b, 48), 0);
    assert_int_equal(kv_manager_stats(m).pool.n_held, 6);
    compute(m, &a, 48);
    compute(m, &b, 48);
    assert_memory_equal(a.blocks, b.blocks, 2 * sizeof(block_id));
    assert_int_not_equal(a.blocks[2], b.blocks[2]);
    assert_int_equal(kv_manager_stats(m).pool.n_held, 4);
    assert_int_equal(kv_manager_stats(m).n_indexed, 4);
    release(m, &a);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* Without the prefix cache nothing is kept, nothing shared. */
static void prefix_cache_can_be_off(void **state)
{
    const struct kv_manager_options o = {.n_blocks = 4, .max_table = CAP};
    struct kv_manager *m;
    struct seq a, b;
    (void)state;

    assert_int_equal(kv_manager_create(&m, &o), 0);
    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    compute(m, &a, 32);
    assert_int_equal(attach(m, &b, 31), 0);
    assert_int_equal(kv_manager_swap_out(m, &a.kv, 32), ERR_AGAIN);
    assert_false(kv_manager_can_swap_out(m, &a.kv, 32));
    assert_false(kv_manager_is_freeing(m));
    assert_int_equal(kv_manager_n_io(m), 0);
    assert_int_equal(a.kv.table.n, 2);
    release(m, &a);
    assert_int_equal(kv_manager_stats(m).pool.n_free, 4);
    kv_manager_destroy(&m);
}

/* ---- copy on write ---- */

/* S3.7, S3 copy_on_write, T9: the first of two that writes into a shared block gets a copy. */
static void fork_copies_on_write(void **state)
{
    struct kv_manager *m = new_manager(8, 0, 0);
    struct seq a, b;
    block_id shared;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 20, 99);
    compute(m, &a, 20);
    shared = a.blocks[1];
    kv_manager_fork(m, &b.kv, &a.kv, 20);
    b.n_done = 20;
    assert_int_equal(block_pool_holders(kv_manager_pool(m), shared), 2);
    assert_int_equal(kv_manager_missing(m, &a.kv, 20, 21), 1);
    assert_int_equal(grow(m, &b, 21), 0);
    assert_int_equal(a.blocks[1], shared);
    assert_int_not_equal(b.blocks[1], shared);
    expect_moves(m, 1, MOVES({KV_COPY, shared, b.blocks[1], 0}));
    assert_int_equal(kv_manager_missing(m, &a.kv, 20, 21), 0); /* alone again */
    assert_int_equal(grow(m, &a, 21), 0);
    assert_int_equal(a.blocks[1], shared);
    assert_int_equal(a.blocks[0], b.blocks[0]);
    expect_moves(m, 0, NULL);
    release(m, &a);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* A fork in the middle of a finished block writes a copy too, even when it is the last holder: the
 * block stays in the index as it is. */
static void indexed_blocks_are_never_written(void **state)
{
    struct kv_manager *m = new_manager(8, 0, 0);
    struct seq a, b;
    block_id indexed;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 20, 99);
    compute(m, &a, 48);
    indexed = a.blocks[1];
    kv_manager_fork(m, &b.kv, &a.kv, 20);
    b.n_done = 20;
    assert_int_equal(b.kv.n_indexed, 1);
    release(m, &a);
    assert_int_equal(block_pool_holders(kv_manager_pool(m), indexed), 1);
    assert_int_equal(grow(m, &b, 21), 0);
    expect_moves(m, 1, MOVES({KV_COPY, indexed, b.blocks[1], 0}));
    assert_int_equal(block_pool_state(kv_manager_pool(m), indexed), BLOCK_CACHED);
    assert_int_equal(kv_manager_match(m, &a.key, 48).n_blocks, 3);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* No room for the copy: refused, and the two still share. */
static void copy_on_write_needs_a_block(void **state)
{
    struct kv_manager *m = new_manager(2, 0, 0);
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    compute(m, &a, 20);
    kv_manager_fork(m, &b.kv, &a.kv, 20);
    b.n_done = 20;
    assert_int_equal(grow(m, &b, 21), ERR_AGAIN);
    assert_memory_equal(a.blocks, b.blocks, 2 * sizeof(block_id));
    expect_moves(m, 0, NULL);
    release(m, &a);
    assert_int_equal(grow(m, &b, 21), 0);
    expect_moves(m, 0, NULL);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* While a fork holds the own block, an equal one in the index does not replace it. */
static void forks_keep_their_blocks(void **state)
{
    struct kv_manager *m = new_manager(12, 0, 0);
    struct seq a, b, c;
    block_id first;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    seq_init(&c, MAX_TOKENS, 0);
    assert_int_equal(grow(m, &a, 32), 0);
    a.n_done = 32; /* computed, and not entered yet */
    kv_manager_fork(m, &b.kv, &a.kv, 32);
    compute(m, &c, 32);
    first = a.blocks[0];
    kv_manager_commit(m, &a.kv, &a.key, 32);
    assert_int_equal(a.kv.n_indexed, 0);
    assert_int_equal(a.blocks[0], first);
    check(m);
    release(m, &b);
    kv_manager_commit(m, &a.kv, &a.key, 32);
    assert_int_equal(a.kv.n_indexed, 2);
    assert_memory_equal(a.blocks, c.blocks, 2 * sizeof(block_id));
    release(m, &a);
    release(m, &c);
    kv_manager_destroy(&m);
}

/* Blocks that a fork shared before they were entered count as entered for both. */
static void forks_enter_together(void **state)
{
    struct kv_manager *m = new_manager(8, 0, 0);
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    assert_int_equal(grow(m, &a, 32), 0);
    kv_manager_fork(m, &b.kv, &a.kv, 32);
    kv_manager_commit(m, &a.kv, &a.key, 32);
    assert_int_equal(a.kv.n_indexed, 2);
    kv_manager_commit(m, &b.kv, &b.key, 32);
    assert_int_equal(b.kv.n_indexed, 2);
    assert_memory_equal(a.blocks, b.blocks, 2 * sizeof(block_id));
    assert_int_equal(kv_manager_stats(m).n_indexed, 2);
    release(m, &a);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* Going back behind what is in the index: everything from there on is replaced. */
static void writing_may_go_back(void **state)
{
    struct kv_manager *m = new_manager(8, 0, 0);
    struct seq a;
    block_id old[3];
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    compute(m, &a, 48);
    memcpy(old, a.blocks, sizeof(old));
    a.n_done = 20;
    a.ids[20] = 99;
    a.key.n_hashed = 1;
    assert_int_equal(grow(m, &a, 21), 0);
    assert_int_equal(a.kv.n_indexed, 1);
    expect_moves(m, 2, MOVES({KV_COPY, old[1], a.blocks[1], 0}, {KV_COPY, old[2], a.blocks[2], 0}));
    assert_int_equal(block_pool_oldest(kv_manager_pool(m)), old[2]);
    compute(m, &a, 48);
    assert_int_equal(kv_manager_stats(m).n_indexed, 5);
    release(m, &a);
    kv_manager_destroy(&m);
}

/* ---- growth ---- */

/* S1.11, S1.12, S2.27, S3.4, S4.8, S5.5, D1.2, D2.2: only what is needed, all or nothing. */
static void grows_all_or_nothing(void **state)
{
    struct kv_manager *m = new_manager(4, 0, 0);
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 0, 99);
    compute(m, &a, 1);
    assert_int_equal(a.kv.table.n, 1);
    compute(m, &a, 16);
    assert_int_equal(a.kv.table.n, 1); /* from the first block on, none wasted */
    compute(m, &a, 17);
    assert_int_equal(a.kv.table.n, 2);
    assert_int_equal(grow(m, &b, 33), ERR_AGAIN);
    assert_int_equal(b.kv.table.n, 0);
    assert_int_equal(kv_manager_n_available(m), 2);
    assert_int_equal(grow(m, &b, 32), 0);
    assert_int_equal(grow(m, &a, 33), ERR_AGAIN);
    assert_int_equal(a.kv.table.n, 2);
    assert_int_equal(kv_manager_alloc(m, &a.kv, 17, MAX_TOKENS + 1), ERR_RANGE);
    assert_int_equal(kv_manager_alloc(m, &a.kv, 17, 17), 0);
    release(m, &a);
    release(m, &a); /* S1.10, S2.28: empty already: no-op */
    release(m, &b);
    kv_manager_destroy(&m);
}

/* What was made writable for tokens that then did not come is given back. */
static void gives_back_behind_the_end(void **state)
{
    struct kv_manager *m = new_manager(6, 0, 0);
    struct seq a;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    compute(m, &a, 30);
    assert_int_equal(kv_manager_alloc(m, &a.kv, 30, 65), 0);
    assert_int_equal(a.kv.table.n, 5);
    kv_manager_truncate(m, &a.kv, 33);
    assert_int_equal(a.kv.table.n, 3);
    assert_int_equal(kv_manager_n_available(m), 3);
    kv_manager_truncate(m, &a.kv, 33);
    assert_int_equal(a.kv.table.n, 3);
    assert_true(kv_manager_check(m));
    compute(m, &a, 64);
    assert_int_equal(kv_manager_stats(m).n_indexed, 4);
    release(m, &a);
    kv_manager_destroy(&m);
}

/* S4.6, D4.1: the least recently used go first, a prefix after what follows it. */
static void evicts_tails_first(void **state)
{
    struct kv_manager *m = new_manager(4, 0, 0);
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 0, 99);
    compute(m, &a, 64);
    release(m, &a);
    for (uint32_t n = 1; n <= 4; n++) {
        assert_int_equal(kv_manager_match(m, &a.key, 64).n_blocks, 5 - n);
        compute(m, &b, n * BLOCK_TOKENS);
        assert_int_equal(kv_manager_match(m, &a.key, 64).n_blocks, 4 - n);
    }
    assert_int_equal(kv_manager_stats(m).pool.n_evicted, 4);
    assert_int_equal(kv_manager_stats(m).n_indexed, 4);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* What was used again outlives what was not, whenever it was first computed. */
static void use_keeps_blocks(void **state)
{
    struct kv_manager *m = new_manager(4, 0, 0);
    struct seq a, b, c;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 0, 99);
    seq_init(&c, 0, 98);
    compute(m, &a, 32);
    release(m, &a);
    compute(m, &b, 32);
    release(m, &b);
    assert_int_equal(attach(m, &a, 32), 32);
    release(m, &a);
    compute(m, &c, 32);
    assert_int_equal(kv_manager_match(m, &a.key, 32).n_blocks, 2);
    assert_int_equal(kv_manager_match(m, &b.key, 32).n_blocks, 0);
    release(m, &c);
    kv_manager_destroy(&m);
}

/* S4.8, D4.3: by what can be taken; a fresh pool is relaxed, and one full of cached blocks too. */
static void pressure_follows_what_is_available(void **state)
{
    struct kv_manager *m = new_manager(8, 0, 0);
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    assert_int_equal(kv_manager_pressure(m), KV_RELAXED);
    compute(m, &a, 80); /* 3 of 8 left: 37 % */
    assert_int_equal(kv_manager_pressure(m), KV_RELAXED);
    compute(m, &a, 96); /* 25 % */
    assert_int_equal(kv_manager_pressure(m), KV_LOW);
    compute(m, &a, 112); /* 12 % */
    assert_int_equal(kv_manager_pressure(m), KV_LOW);
    compute(m, &a, 128);
    assert_int_equal(kv_manager_pressure(m), KV_CRITICAL);
    release(m, &a);
    assert_int_equal(kv_manager_stats(m).pool.n_cached, 8);
    assert_int_equal(kv_manager_pressure(m), KV_RELAXED);
    kv_manager_destroy(&m);
}

/* One letter a block. */
static void maps_states(void **state)
{
    struct kv_manager *m = new_manager(5, 0, 0);
    struct seq a, b;
    char map[6] = {0};
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 16, 99);
    compute(m, &a, 48);
    assert_int_equal(attach(m, &b, 47), 16);
    release(m, &a);
    compute(m, &b, 17);
    kv_manager_map(m, map);
    assert_string_equal(map, "hcchf");
    assert_int_equal(attach(m, &a, 32), 32);
    kv_manager_map(m, map);
    assert_string_equal(map, "shchf");
    release(m, &a);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* P5: nothing below kv_manager_create() allocates; in a debug build the guard would abort. */
static void steps_allocate_nothing(void **state)
{
    struct kv_manager *m = new_manager(6, 4, 4);
    struct seq a, b;
    struct swap_io io;
    int rc[4];
    bool has_io;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, 20, 99);
    mem_guard_begin("kvcache");
    rc[0] = kv_manager_alloc(m, &a.kv, 0, 48);
    kv_manager_commit(m, &a.kv, &a.key, 48);
    b.n_done = kv_manager_attach(m, &b.kv, &b.key, 40);
    rc[1] = kv_manager_swap_out(m, &a.kv, 48);
    rc[2] = kv_manager_alloc(m, &b.kv, b.n_done, 96);
    kv_manager_moves_done(m);
    has_io = kv_manager_next_io(m, &io);
    kv_manager_io_done(m, io.copy, 0);
    kv_manager_release(m, &b.kv);
    kv_manager_fetch(m, &a.kv);
    has_io = has_io && kv_manager_next_io(m, &io);
    kv_manager_io_done(m, io.copy, 0);
    rc[3] = kv_manager_swap_in(m, &a.kv, &a.key, 48);
    kv_manager_fork(m, &b.kv, &a.kv, 40);
    kv_manager_release(m, &a.kv);
    kv_manager_release(m, &b.kv);
    mem_guard_end();
    assert_true(has_io);
    for (int i = 0; i < 4; i++)
        assert_int_equal(rc[i], 0);
    check(m);
    kv_manager_destroy(&m);
}

static void creation_survives_lack_of_memory(void **state)
{
    struct kv_manager_options o = {.n_blocks = 4, .prefix_cache = true, .n_ram = 2,
                                   .n_file = 2, .max_sequences = 2, .max_table = 4};
    struct kv_manager *m;
    int64_t n = 0;
    (void)state;

    while (each_failure(&n)) {
        if (kv_manager_create(&m, &o) == 0)
            kv_manager_destroy(&m);
        assert_null(m);
    }
    assert_true(n > 10);
    o.n_ram = 0;
    assert_int_equal(kv_manager_create(&m, &o), ERR_INVAL); /* a file needs RAM to pass through */
    o.n_file = o.max_table = 0;
    assert_int_equal(kv_manager_create(&m, &o), ERR_INVAL);
    o.max_table = 4;
    o.n_blocks = 0;
    assert_int_equal(kv_manager_create(&m, &o), ERR_INVAL);
    assert_null(m);
    kv_manager_destroy(&m);
    kv_manager_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_prompts_share_full_blocks),
        cmocka_unit_test(last_token_is_always_computed),
        cmocka_unit_test(parts_are_copied),
        cmocka_unit_test(source_of_a_copy_is_not_evicted),
        cmocka_unit_test(no_room_for_a_copy),
        cmocka_unit_test(salts_do_not_share),
        cmocka_unit_test(equal_blocks_become_one),
        cmocka_unit_test(prefix_cache_can_be_off),
        cmocka_unit_test(fork_copies_on_write),
        cmocka_unit_test(indexed_blocks_are_never_written),
        cmocka_unit_test(copy_on_write_needs_a_block),
        cmocka_unit_test(forks_keep_their_blocks),
        cmocka_unit_test(forks_enter_together),
        cmocka_unit_test(writing_may_go_back),
        cmocka_unit_test(grows_all_or_nothing),
        cmocka_unit_test(gives_back_behind_the_end),
        cmocka_unit_test(evicts_tails_first),
        cmocka_unit_test(use_keeps_blocks),
        cmocka_unit_test(pressure_follows_what_is_available),
        cmocka_unit_test(maps_states),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(creation_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
