/* tests/unit/kvcache/test_kv_windows.c - sequences in groups of which some have a window, without
 * bytes.
 *
 * The window is 20 tokens: behind 32 tokens groups with it keep all blocks, behind 48 they have
 * dropped the first, behind 96 the first four.
 */
#include "tests/unit/kvcache/kv_seqs.h"

#define WINDOW 20

static struct kv_manager *window_manager(uint32_t n_blocks, uint32_t n, uint32_t n_window,
                                         uint32_t window, bool prefix_cache)
{
    const struct kv_manager_options o = {
        .n_blocks = n_blocks,
        .prefix_cache = prefix_cache,
        .n_ram = 40,
        .max_sequences = 4,
        .max_table = CAP,
        .max_chunk = 32,
        .groups = {.n = n, .n_window = n_window, .window = n_window > 0 ? window : 0},
    };
    struct kv_manager *m;

    assert_int_equal(kv_manager_create(&m, &o), 0);
    return m;
}

static struct kv_manager *groups_manager(uint32_t n_blocks, uint32_t n, uint32_t n_window,
                                         bool prefix_cache)
{
    return window_manager(n_blocks, n, n_window, WINDOW, prefix_cache);
}

static void groups_init(const struct kv_manager *m, struct seq *s, uint32_t at, int32_t other)
{
    seq_init(s, at, other);
    kv_seq_init(&s->kv, s->blocks, CAP, kv_manager_n_groups(m));
}

static block_id at(const struct seq *s, uint32_t group, uint32_t b)
{
    return *block_table_at(&s->kv.table, group, b);
}

static void compute_in_chunks(struct kv_manager *m, struct seq *s, uint32_t to)
{
    while (s->n_done < to)
        compute(m, s, s->n_done + 16 < to ? s->n_done + 16 : to);
}

static uint32_t n_held(const struct kv_manager *m)
{
    return kv_manager_stats(m).pool.n_held;
}

/* ---- dropping ---- */

static void blocks_out_of_sight_are_given_back(void **state)
{
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        struct kv_manager *m = groups_manager(30, 3, 2, cache);
        struct kv_kind kinds[2];
        struct seq a;

        groups_init(m, &a, MAX_TOKENS, 0);
        compute_in_chunks(m, &a, 32);
        assert_int_equal(n_held(m), 6);
        compute_in_chunks(m, &a, 100);
        assert_int_equal(a.kv.first, 4);
        for (uint32_t b = 0; b < 7; b++) {
            assert_int_not_equal(at(&a, 0, b), BLOCK_NONE);
            assert_int_equal(at(&a, 1, b) == BLOCK_NONE, b < 4);
            assert_int_equal(at(&a, 2, b) == BLOCK_NONE, b < 4);
        }
        assert_int_equal(n_held(m), 7 + 3 + 3);
        assert_int_equal(kv_manager_n_swapped(m, &a.kv, 100), 13);
        assert_int_equal(kv_manager_n_mapped(m, &a.kv), 13);
        assert_int_equal(kv_manager_n_exclusive(m, &a.kv), 13);
        assert_int_equal(kv_manager_n_alone(m, &a.kv), 7 * 16);
        kv_manager_kinds(m, kinds);
        assert_int_equal(kinds[0].n_groups, 1);
        assert_int_equal(kinds[1].n_groups, 2);
        assert_int_equal(kinds[0].n_held, 7);
        assert_int_equal(kinds[1].n_held, 3 + 3);
        assert_int_equal(kinds[0].n_cached, 0);
        assert_int_equal(kinds[1].n_cached, cache ? 8 : 0);
        assert_int_equal(kv_manager_stats(m).pool.n_cached, cache ? 8 : 0);
        release(m, &a);
        assert_int_equal(a.kv.first, 0);
        assert_int_equal(kv_manager_stats(m).pool.n_cached, cache ? 18 : 0);
        kv_manager_destroy(&m);
    }
}

/* A sequence that nobody is to find drops them, too. */
static void dropping_indexes_nothing(void **state)
{
    struct kv_manager *m = groups_manager(30, 2, 1, true);
    struct seq a;
    (void)state;

    groups_init(m, &a, MAX_TOKENS, 0);
    assert_int_equal(grow(m, &a, 96), 0);
    kv_manager_free_out_of_window(m, &a.kv, 96);
    check(m);
    assert_int_equal(n_held(m), 6 + 2);
    assert_int_equal(kv_manager_stats(m).n_indexed, 0);
    assert_int_equal(kv_manager_n_available(m), 22);
    release(m, &a);
    kv_manager_destroy(&m);
}

/* With all layers in one group a sequence of any length needs a handful of blocks. */
static void a_window_in_all_layers_bounds_a_sequence(void **state)
{
    struct kv_manager *m = groups_manager(4, 1, 1, true);
    struct seq a;
    (void)state;

    groups_init(m, &a, MAX_TOKENS, 0);
    assert_true(kv_manager_can_hold(m, UINT32_MAX));
    compute_in_chunks(m, &a, MAX_TOKENS);
    assert_int_equal(n_held(m), 2);
    assert_int_equal(kv_manager_n_alone(m, &a.kv), MAX_TOKENS);
    release(m, &a);
    kv_manager_destroy(&m);
}

/* ---- how many blocks ---- */

static void blocks_are_counted_over_groups(void **state)
{
    struct kv_manager *m = groups_manager(30, 3, 2, false);
    struct seq a;
    (void)state;

    groups_init(m, &a, MAX_TOKENS, 0);
    /* 3 groups; a window takes 2 blocks behind a boundary and up to 3 for a chunk of 32 */
    assert_int_equal(kv_manager_needed(m, 80), 15);
    assert_int_equal(kv_manager_needed(m, 128), 8 + 2 * 5);
    assert_int_equal(kv_manager_missing(m, &a.kv, 0, 128), 24);
    assert_int_equal(kv_manager_owed(m, &a.kv, 0, 128), 18);
    assert_int_equal(kv_manager_room(m, &a.kv, 0), 160);
    compute_in_chunks(m, &a, 96);
    assert_int_equal(n_held(m), 6 + 2 * 2);
    assert_int_equal(kv_manager_owed(m, &a.kv, 96, 128), 6);
    assert_int_equal(kv_manager_owed(m, &a.kv, 96, 96), 0);
    assert_int_equal(kv_manager_room(m, &a.kv, 96), 20 / 3 * 16);
    assert_true(kv_manager_can_hold(m, (30 - 2 * 3) * 16));
    assert_false(kv_manager_can_hold(m, (30 - 2 * 3) * 16 + 1));
    release(m, &a);
    kv_manager_destroy(&m);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    static const struct kv_groups groups[] = {{.n = 2, .n_window = 2, .window = 5},
                                              {.n = 1, .n_window = 2, .window = 5},
                                              {.n = 2, .n_window = 1},
                                              {.n = 2, .window = 5}};
    struct kv_manager *m;
    (void)state;

    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        const struct kv_manager_options o = {.n_blocks = 4, .max_table = 4, .groups = groups[i]};

        assert_int_equal(kv_manager_create(&m, &o), ERR_INVAL);
        assert_null(m);
    }
}

/* ---- sharing ---- */

/* A hit takes over what is seen from its end; a part of a block is copied in every group. */
static void hits_leave_the_beginning_behind(void **state)
{
    struct kv_manager *m = groups_manager(40, 2, 1, true);
    struct seq a, b;
    (void)state;

    groups_init(m, &a, MAX_TOKENS, 0);
    groups_init(m, &b, MAX_TOKENS, 0);
    compute_in_chunks(m, &a, 96);
    assert_int_equal(attach(m, &b, 95), 95);
    assert_int_equal(b.kv.first, 3);
    assert_memory_equal(a.blocks, b.blocks, 5 * sizeof(block_id));
    assert_int_equal(at(&b, 1, 2), BLOCK_NONE);
    assert_int_equal(at(&b, 1, 4), at(&a, 1, 4));
    expect_moves(m, 2, MOVES({KV_COPY, at(&a, 0, 5), at(&b, 0, 5), 0},
                             {KV_COPY, at(&a, 1, 5), at(&b, 1, 5), 0}));
    assert_int_equal(kv_manager_match(m, &b.key, 95).n_held, 5);
    compute(m, &b, 96); /* equal: the copies are given back, and the window moves on */
    assert_memory_equal(a.blocks, b.blocks, 2 * CAP * sizeof(block_id));
    assert_int_equal(n_held(m), 6 + 2);
    release(m, &a);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* Take n blocks away from what is cached. */
static void press(struct kv_manager *m, struct seq *s, uint32_t n_tokens)
{
    groups_init(m, s, 0, 99);
    compute(m, s, n_tokens);
}

/* The blocks that were dropped go first. What ends within them is not found any more; what ends
 * where their window has passed is, and a sequence that computes them again gives them back. */
static void window_blocks_go_alone(void **state)
{
    struct kv_manager *m = groups_manager(13, 2, 1, true);
    struct seq a, b, c;
    (void)state;

    groups_init(m, &a, MAX_TOKENS, 0);
    groups_init(m, &c, MAX_TOKENS, 0);
    compute_in_chunks(m, &a, 96); /* 6 + 2 held, 4 cached */
    assert_int_equal(kv_manager_match(m, &a.key, 50).n_blocks, 3);
    press(m, &b, 20); /* 4 blocks: one was free */
    assert_int_equal(kv_manager_stats(m).pool.n_evicted, 3);
    assert_int_equal(kv_manager_stats(m).n_indexed, 6 + 1);
    assert_int_equal(kv_manager_match(m, &a.key, 50).n_tokens, 0);
    assert_int_equal(kv_manager_match(m, &a.key, 95).n_blocks, 5);
    release(m, &b);
    assert_int_equal(grow(m, &c, 48), ERR_AGAIN); /* 6 blocks, 5 are available */
    compute_in_chunks(m, &c, 32);
    assert_int_equal(at(&c, 0, 0), at(&a, 0, 0));
    assert_int_equal(kv_manager_match(m, &a.key, 32).n_blocks, 2); /* and both are taken in */
    release(m, &a);
    release(m, &c);
    kv_manager_destroy(&m);
}

/* A block of a group without the window ends its entry; the last tokens go first. */
static void other_blocks_end_their_entry(void **state)
{
    struct kv_manager *m = groups_manager(12, 3, 1, true);
    struct seq a, b;
    (void)state;

    groups_init(m, &a, MAX_TOKENS, 0);
    compute_in_chunks(m, &a, 48); /* 3 + 3 + 2 held, 1 cached */
    release(m, &a);
    assert_int_equal(kv_manager_stats(m).pool.n_cached, 9);
    press(m, &b, 17); /* 6 blocks: 3 free, the dropped one, and then the last entry's three */
    assert_int_equal(kv_manager_stats(m).pool.n_evicted, 4);
    assert_int_equal(kv_manager_stats(m).n_indexed, 2 + 1);
    assert_int_equal(kv_manager_match(m, &a.key, 48).n_blocks, 0); /* block 0 is seen from 32 */
    release(m, &b);
    kv_manager_destroy(&m);
}

/* Where all layers have the window, the beginning goes first, and all that follows with it. */
static void a_chain_without_its_beginning_goes(void **state)
{
    struct kv_manager *m = groups_manager(7, 1, 1, true);
    struct seq a, b;
    (void)state;

    groups_init(m, &a, MAX_TOKENS, 0);
    compute_in_chunks(m, &a, 96);
    assert_int_equal(kv_manager_match(m, &a.key, 96).n_blocks, 6);
    press(m, &b, 32); /* one was free */
    assert_int_equal(kv_manager_stats(m).n_indexed, 2);
    assert_int_equal(kv_manager_match(m, &a.key, 96).n_tokens, 0);
    assert_int_equal(kv_manager_stats(m).pool.n_free, 3); /* and cached ones were no use */
    compute_in_chunks(m, &a, 128);                        /* it goes on, unknown to others */
    assert_int_equal(kv_manager_stats(m).n_indexed, 2);
    release(m, &a);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* ---- forks ---- */

static void forks_need_what_is_seen(void **state)
{
    struct kv_manager *m = groups_manager(40, 2, 1, true);
    struct seq a, b;
    (void)state;

    groups_init(m, &a, MAX_TOKENS, 0);
    groups_init(m, &b, 70, 99);
    compute_in_chunks(m, &a, 70);
    assert_int_equal(a.kv.first, 2);
    assert_false(kv_manager_can_fork(m, &a.kv, 50)); /* sees 31, the end of the second block */
    assert_true(kv_manager_can_fork(m, &a.kv, 51));
    assert_false(kv_manager_can_fork(m, &a.kv, 81));
    assert_int_equal(kv_manager_n_forked(m, 70), 4);
    kv_manager_fork(m, &b.kv, &a.kv, 70);
    b.n_done = 70;
    check(m);
    assert_int_equal(n_held(m), 5 + 3);
    assert_int_equal(kv_manager_n_exclusive(m, &a.kv), 0);
    assert_int_equal(kv_manager_missing(m, &b.kv, 70, 71), 2); /* both groups are copied */
    assert_int_equal(grow(m, &b, 71), 0);
    expect_moves(m, 2, MOVES({KV_COPY, at(&a, 0, 4), at(&b, 0, 4), 0},
                             {KV_COPY, at(&a, 1, 4), at(&b, 1, 4), 0}));
    compute_in_chunks(m, &a, 100); /* the child still sees what the parent drops */
    assert_int_equal(block_pool_holders(kv_manager_pool(m), at(&b, 1, 2)), 1);
    release(m, &a);
    compute(m, &b, 80);
    release(m, &b);
    kv_manager_destroy(&m);
}

/* Whatever the window and the length: from all that a sequence has computed, and from all but the
 * last token of it, another one can go on, and holds no block that it does not need. */
static void forks_go_on_from_any_length(void **state)
{
    (void)state;
    for (uint32_t window = 1; window <= 40; window++)
        for (uint32_t n = 1; n <= 64; n++) {
            struct kv_manager *m = window_manager(40, 2, 1, window, n % 2 == 0);
            struct seq a, b;

            groups_init(m, &a, MAX_TOKENS, 0);
            groups_init(m, &b, n - 1, 99);
            compute_in_chunks(m, &a, n);
            assert_true(kv_manager_can_fork(m, &a.kv, n));
            assert_true(kv_manager_can_fork(m, &a.kv, n - 1));
            kv_manager_fork(m, &b.kv, &a.kv, n - 1);
            b.n_done = n - 1;
            check(m);
            assert_int_equal(n_held(m), kv_manager_n_mapped(m, &a.kv));
            assert_int_equal(b.kv.first, a.kv.first);
            compute(m, &b, n);
            assert_int_equal(b.kv.first, a.kv.first);
            compute_in_chunks(m, &b, 80);
            release(m, &a);
            release(m, &b);
            kv_manager_destroy(&m);
        }
}

/* Room is made by forgetting the chain whose last block is to be replaced by a copy: it need not be
 * any more, and the block for the copy is given back. */
static void what_is_forgotten_on_the_way_is_written(void **state)
{
    struct kv_manager *m = groups_manager(4, 1, 1, true);
    struct seq a;
    (void)state;

    groups_init(m, &a, MAX_TOKENS, 0);
    compute_in_chunks(m, &a, 64); /* two held, two cached */
    a.n_done = 63;
    a.ids[63] = 99;
    assert_int_equal(kv_manager_missing(m, &a.kv, 63, 80), 2);
    assert_int_equal(grow(m, &a, 80), 0);
    expect_moves(m, 0, NULL);
    assert_int_equal(kv_manager_stats(m).n_indexed, 0);
    assert_int_equal(n_held(m), 3);
    assert_int_equal(kv_manager_n_available(m), 1);
    release(m, &a);
    kv_manager_destroy(&m);
}

/* Between its fork and its first step a sequence may have fewer blocks than its tokens would leave
 * it: so has its copy. */
static void a_fork_is_copied_as_it_is(void **state)
{
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        struct kv_manager *m = groups_manager(40, 2, 1, cache);
        struct seq a, b;
        uint32_t n;

        groups_init(m, &a, MAX_TOKENS, 0);
        groups_init(m, &b, MAX_TOKENS, 0);
        compute_in_chunks(m, &a, 80);
        kv_manager_fork(m, &b.kv, &a.kv, 79);
        b.n_done = 79;
        assert_int_equal(b.kv.first, 3); /* 79 tokens of its own would have left two behind */
        assert_int_equal(kv_manager_n_swapped(m, &b.kv, 79), 5 + 2);
        assert_int_equal(grow(m, &b, 80), 0);
        assert_true(kv_manager_can_swap_out(m, &b.kv, 79));
        assert_int_equal(kv_manager_swap_out(m, &b.kv, 79), 0);
        check(m);
        assert_int_equal(kv_manager_stats(m).swap.ram_used, 5 + 2);
        assert_int_equal(kv_manager_n_mapped(m, &b.kv), 0);
        assert_int_equal(kv_manager_swap_in(m, &b.kv, &b.key, 79), 0);
        check(m);
        (void)kv_manager_moves(m, &n);
        assert_int_equal(n, 2 + 7 + (cache ? 2 : 7)); /* copies, saves, and loads of what is full */
        kv_manager_moves_done(m);
        assert_int_equal(kv_manager_n_mapped(m, &b.kv), 5 + 2);
        compute_in_chunks(m, &b, 128);
        assert_int_equal(kv_manager_swap_out(m, &b.kv, 128), 0);
        release(m, &b); /* forgotten: empty again */
        assert_int_equal(b.kv.first, 0);
        release(m, &a);
        kv_manager_destroy(&m);
    }
}

/* Going back within what is there: what was indexed is replaced in every group. */
static void writing_goes_back_within_the_window(void **state)
{
    struct kv_manager *m = groups_manager(40, 2, 1, true);
    struct seq a;
    block_id old[2];
    (void)state;

    groups_init(m, &a, MAX_TOKENS, 0);
    compute_in_chunks(m, &a, 78);
    old[0] = at(&a, 0, 4);
    old[1] = at(&a, 1, 4);
    a.n_done = 65;
    a.ids[65] = 99;
    assert_int_equal(grow(m, &a, 80), 0);
    expect_moves(m, 0, NULL); /* a block that is not full is its own */
    compute(m, &a, 80);
    assert_int_equal(at(&a, 0, 4), old[0]);
    a.n_done = 80;
    assert_true(kv_manager_can_fork(m, &a.kv, 80));
    assert_true(kv_manager_can_fork(m, &a.kv, 67));
    assert_false(kv_manager_can_fork(m, &a.kv, 66)); /* sees 47, in the block before its first */
    release(m, &a);
    kv_manager_destroy(&m);
}

/* ---- swapping ---- */

static void copies_have_what_is_left(void **state)
{
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        struct kv_manager *m = groups_manager(30, 2, 1, cache);
        struct seq a;
        uint32_t n;

        groups_init(m, &a, MAX_TOKENS, 0);
        compute_in_chunks(m, &a, 100);
        assert_true(kv_manager_can_swap_out(m, &a.kv, 100));
        assert_int_equal(kv_manager_swap_out(m, &a.kv, 100), 0);
        check(m);
        assert_int_equal(kv_manager_stats(m).swap.ram_used, 7 + 3);
        assert_int_equal(n_held(m), 0);
        assert_int_equal(a.kv.first, 4);
        assert_int_equal(kv_manager_n_mapped(m, &a.kv), 0);
        assert_int_equal(kv_manager_swap_in(m, &a.kv, &a.key, 100), 0);
        check(m);
        (void)kv_manager_moves(m, &n);
        assert_int_equal(n, 10 + (cache ? 2 : 10)); /* full blocks are still in the index */
        kv_manager_moves_done(m);
        assert_int_equal(a.kv.first, 4);
        assert_int_equal(kv_manager_n_mapped(m, &a.kv), 10);
        compute_in_chunks(m, &a, 128);
        release(m, &a);
        kv_manager_destroy(&m);
    }
}

/* Entries have lost their blocks of the window: those are loaded, the others shared. */
static void lost_window_blocks_are_loaded(void **state)
{
    struct kv_manager *m = groups_manager(12, 2, 1, true);
    struct seq a, b;
    uint32_t n;
    (void)state;

    groups_init(m, &a, MAX_TOKENS, 0);
    compute_in_chunks(m, &a, 64); /* 4 + 2 */
    assert_int_equal(kv_manager_swap_out(m, &a.kv, 64), 0);
    kv_manager_moves_done(m);
    press(m, &b, 66); /* 10 blocks: 4 free, 2 dropped, then of the last two entries 4 */
    release(m, &b);
    assert_int_equal(kv_manager_match(m, &a.key, 64).n_tokens, 0);
    assert_int_equal(kv_manager_swap_in(m, &a.kv, &a.key, 64), 0);
    check(m);
    (void)kv_manager_moves(m, &n);
    assert_int_equal(n, 4); /* two entries are there, without a block of the window */
    assert_int_equal(a.kv.n_indexed, 2);
    kv_manager_moves_done(m);
    compute_in_chunks(m, &a, 80);
    assert_int_equal(kv_manager_match(m, &a.key, 80).n_blocks, 5);
    release(m, &a);
    kv_manager_destroy(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_out_of_sight_are_given_back),
        cmocka_unit_test(dropping_indexes_nothing),
        cmocka_unit_test(a_window_in_all_layers_bounds_a_sequence),
        cmocka_unit_test(blocks_are_counted_over_groups),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(hits_leave_the_beginning_behind),
        cmocka_unit_test(window_blocks_go_alone),
        cmocka_unit_test(other_blocks_end_their_entry),
        cmocka_unit_test(a_chain_without_its_beginning_goes),
        cmocka_unit_test(forks_need_what_is_seen),
        cmocka_unit_test(forks_go_on_from_any_length),
        cmocka_unit_test(what_is_forgotten_on_the_way_is_written),
        cmocka_unit_test(a_fork_is_copied_as_it_is),
        cmocka_unit_test(writing_goes_back_within_the_window),
        cmocka_unit_test(copies_have_what_is_left),
        cmocka_unit_test(lost_window_blocks_are_loaded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
