/* tests/unit/kvcache/test_kv_manager_bytes.c - the manager's decisions carried out on real
 * bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/kv_manager.h"
#include "kvcache/kv_store.h"
#include "kvcache/swap_store.h"
#include "tests/fixtures/failing_memory.h"

enum { CAP = 6, N_BLOCKS = 6, N_RAM = 6, N_FILE = 8 };

enum { HEAD_DIM = 8, HALF = HEAD_DIM * BLOCK_TOKENS }; /* of a head: elements of 2 bytes */

static const struct kv_shape shape = {3, 2, HALF * sizeof(uint16_t), HALF * sizeof(uint16_t)};

struct seq {
    struct kv_seq kv;
    struct kv_key key;
    block_id blocks[CAP];
    int32_t ids[CAP * BLOCK_TOKENS];
    struct prefix_hash hashes[CAP];
    uint32_t n_done;
};

struct cache {
    struct kv_manager *m;
    struct kv_store *kv;
    struct swap_store *swap;
    char folder[64], path[96];
};

static void cache_open(struct cache *c)
{
    const struct kv_manager_options o = {.n_blocks = N_BLOCKS, .prefix_cache = true,
                                         .n_ram = N_RAM, .n_file = N_FILE,
                                         .max_sequences = 4, .max_table = CAP};
    struct swap_store_options so = {kv_store_block_bytes(&shape), N_RAM, N_FILE, c->path};
    char err[256];

    snprintf(c->folder, sizeof(c->folder), "/tmp/quire-kv-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    snprintf(c->path, sizeof(c->path), "%s/swap", c->folder);
    assert_int_equal(kv_manager_create(&c->m, &o), 0);
    assert_int_equal(kv_store_create(&c->kv, &shape, N_BLOCKS), 0);
    assert_int_equal(swap_store_open(&c->swap, &so, err, sizeof(err)), 0);
}

static void cache_close(struct cache *c)
{
    assert_true(kv_manager_check(c->m));
    kv_manager_destroy(&c->m);
    kv_store_destroy(&c->kv);
    swap_store_close(&c->swap);
    assert_int_equal(rmdir(c->folder), 0);
}

static void seq_init(struct seq *s, int32_t first)
{
    kv_seq_init(&s->kv, s->blocks, CAP, 1);
    s->key = (struct kv_key){.ids = s->ids, .hashes = s->hashes};
    s->n_done = 0;
    for (int32_t i = 0; i < CAP * BLOCK_TOKENS; i++)
        s->ids[i] = first + i;
}

static void run_moves(struct cache *c)
{
    uint32_t n;
    const struct kv_move *moves = kv_manager_moves(c->m, &n);

    kv_move_run(moves, n, &(struct kv_bytes){.kv = c->kv, .swap = c->swap});
    kv_manager_moves_done(c->m);
}

/* What the runner would write for a token: a value that depends on token, layer, head and half. */
static uint16_t value_of(int32_t token, uint32_t layer, uint32_t i, uint32_t half)
{
    return (uint16_t)(token * 977 + (int32_t)(layer * 131 + i * 7 + half));
}

static uint16_t *keys(const struct kv_store *s, block_id block, uint32_t layer)
{
    return (uint16_t *)(void *)kv_store_keys(s, block, layer);
}

static uint16_t *values(const struct kv_store *s, block_id block, uint32_t layer)
{
    return (uint16_t *)(void *)kv_store_values(s, block, layer);
}

/* Element i of a token's keys (dimension-major) or values (token-major) in a layer. */
static uint16_t *at(const struct cache *c, const struct seq *s, uint32_t pos, uint32_t layer,
                    uint32_t i, uint32_t half)
{
    const uint32_t head = i / HEAD_DIM, dim = i % HEAD_DIM;
    block_id block;
    uint32_t slot;

    assert_true(block_table_locate(&s->kv.table, 0, pos, &block, &slot));
    if (half == 0)
        return keys(c->kv, block, layer) + (head * HEAD_DIM + dim) * BLOCK_TOKENS + slot;
    return values(c->kv, block, layer) + (head * BLOCK_TOKENS + slot) * HEAD_DIM + dim;
}

static void each_element(const struct cache *c, const struct seq *s, uint32_t from, uint32_t to,
                         bool write)
{
    for (uint32_t pos = from; pos < to; pos++)
        for (uint32_t layer = 0; layer < shape.n_layer; layer++)
            for (uint32_t i = 0; i < 2 * shape.n_kv_head * HEAD_DIM; i++) {
                const uint32_t half = i % 2;
                uint16_t *p = at(c, s, pos, layer, i / 2, half);

                if (write)
                    *p = value_of(s->ids[pos], layer, i / 2, half);
                else
                    assert_int_equal(*p, value_of(s->ids[pos], layer, i / 2, half));
            }
}

static void compute(struct cache *c, struct seq *s, uint32_t to)
{
    assert_int_equal(kv_manager_alloc(c->m, &s->kv, s->n_done, to), 0);
    run_moves(c);
    each_element(c, s, s->n_done, to, true);
    s->n_done = to;
    kv_manager_commit(c->m, &s->kv, &s->key, to);
}

static void expect_own_bytes(const struct cache *c, const struct seq *s)
{
    each_element(c, s, 0, s->n_done, false);
}

/* ---- the store ---- */

/* S1.3, S3.3, S3.5, S4.7, S5.1: blocks and layers do not overlap; a copy carries every layer. */
static void store_keeps_blocks_apart(void **state)
{
    struct kv_store *s;
    const size_t half = 2 * 8 * 16;
    (void)state;

    assert_int_equal(kv_store_create(&s, &shape, 4), 0);
    for (block_id b = 1; b <= 4; b++) {
        assert_ptr_equal(kv_store_block(s, b), kv_store_keys(s, b, 0));
        for (size_t i = 0; i < 3 * half * 2; i++) /* S1.3, S4.7: zeroed */
            assert_int_equal(keys(s, b, 0)[i], 0);
    }
    for (block_id b = 1; b <= 4; b++)
        for (uint32_t l = 0; l < 3; l++)
            for (size_t i = 0; i < half; i++) {
                keys(s, b, l)[i] = (uint16_t)(b * 1000 + l * 10);
                values(s, b, l)[i] = (uint16_t)(b * 1000 + l * 10 + 1);
            }
    kv_store_copy_block(s, 2, 4);
    for (block_id b = 1; b <= 4; b++)
        for (uint32_t l = 0; l < 3; l++)
            for (size_t i = 0; i < half; i++) {
                const block_id from = b == 4 ? 2 : b;

                assert_int_equal(keys(s, b, l)[i], from * 1000 + l * 10);
                assert_int_equal(values(s, b, l)[i], from * 1000 + l * 10 + 1);
            }
    kv_store_destroy(&s);
    assert_null(s);
}

/* Keys and values of different lengths: each layer's halves side by side, nothing between. */
static void halves_may_differ(void **state)
{
    const struct kv_shape s8 = {3, 2, 544, 48};
    struct kv_store *s;
    (void)state;

    assert_int_equal(kv_store_block_bytes(&s8), 3 * 2 * (544 + 48));
    assert_int_equal(kv_store_create(&s, &s8, 2), 0);
    assert_int_equal(kv_store_values(s, 1, 0) - kv_store_keys(s, 1, 0), 2 * 544);
    assert_int_equal(kv_store_keys(s, 1, 1) - kv_store_values(s, 1, 0), 2 * 48);
    assert_int_equal(kv_store_keys(s, 2, 0) - kv_store_values(s, 1, 2), 2 * 48);
    kv_store_destroy(&s);
}

/* Blocks behind those of the pool, and one layer copied into one. */
static void some_blocks_are_private(void **state)
{
    const size_t half = 2 * 8 * 16;
    struct kv_store *s;
    (void)state;

    assert_int_equal(kv_store_create_private(&s, &shape, 4, 2), 0);
    assert_int_equal(s->n_blocks, 4);
    assert_int_equal(s->n_private, 2);
    for (uint32_t l = 0; l < 3; l++)
        for (size_t i = 0; i < half; i++) {
            keys(s, 3, l)[i] = (uint16_t)(7 + l);
            values(s, 3, l)[i] = (uint16_t)(70 + l);
        }
    kv_store_copy_layer(s, 3, 6, 1);
    for (uint32_t l = 0; l < 3; l++)
        for (size_t i = 0; i < half; i++) {
            assert_int_equal(keys(s, 6, l)[i], l == 1 ? 8 : 0);
            assert_int_equal(values(s, 6, l)[i], l == 1 ? 71 : 0);
            assert_int_equal(keys(s, 5, l)[i], 0);
        }
    kv_store_destroy(&s);
}

/* S2.24, S3.5, S5.3: bytes of a block, blocks of a budget. */
static void budgets_become_blocks(void **state)
{
    const size_t bytes = kv_store_block_bytes(&shape);
    struct kv_store *s;
    int64_t n = 0;
    (void)state;

    assert_int_equal(bytes, 2 * 3 * 2 * 8 * 16 * sizeof(uint16_t));
    assert_int_equal(kv_store_blocks_for(&shape, 10 * bytes + 5), 10);
    assert_int_equal(kv_store_blocks_for(&shape, bytes - 1), 0);
    assert_int_equal(kv_store_create(&s, &shape, 0), ERR_INVAL);
    while (each_failure(&n)) {
        if (kv_store_create(&s, &shape, 5) == 0)
            kv_store_destroy(&s);
        assert_null(s);
    }
    assert_true(n > 2);
}

/* ---- sharing ---- */

/* S3.7, S3.5, S3 copy_on_write, T9: equal after the copy, and different once both have written. */
static void copies_diverge(void **state)
{
    struct cache c;
    struct seq a, b;
    (void)state;

    cache_open(&c);
    seq_init(&a, 1);
    seq_init(&b, 1);
    compute(&c, &a, 20);
    kv_manager_fork(c.m, &b.kv, &a.kv, 20);
    b.n_done = 20;
    assert_int_equal(kv_manager_alloc(c.m, &b.kv, 20, 21), 0);
    run_moves(&c);
    assert_int_not_equal(a.blocks[1], b.blocks[1]);
    assert_memory_equal(kv_store_block(c.kv, a.blocks[1]), kv_store_block(c.kv, b.blocks[1]),
                        kv_store_block_bytes(&shape));
    for (int i = 20; i < 30; i++)
        b.ids[i] = 5000 + i;
    compute(&c, &b, 30);
    compute(&c, &a, 30);
    expect_own_bytes(&c, &a);
    expect_own_bytes(&c, &b);
    kv_manager_release(c.m, &a.kv);
    expect_own_bytes(&c, &b);
    kv_manager_release(c.m, &b.kv);
    cache_close(&c);
}

/* T9: whole blocks shared and a part copied, and what is read is what the prompt says. */
static void prefix_hits_read_the_same(void **state)
{
    struct cache c;
    struct seq a, b;
    (void)state;

    cache_open(&c);
    seq_init(&a, 1);
    seq_init(&b, 1);
    b.ids[25] = 77;
    compute(&c, &a, 48);
    kv_manager_release(c.m, &a.kv);
    b.n_done = kv_manager_attach(c.m, &b.kv, &b.key, 40);
    assert_int_equal(b.n_done, 25);
    run_moves(&c);
    expect_own_bytes(&c, &b);
    compute(&c, &b, 48);
    expect_own_bytes(&c, &b);
    kv_manager_release(c.m, &b.kv);
    cache_close(&c);
}

/* ---- swapping ---- */

/* All blocks of the pool, in somebody else's hands and overwritten. */
static void fill_pool(struct cache *c, struct seq *s)
{
    seq_init(s, 900);
    compute(c, s, N_BLOCKS * BLOCK_TOKENS);
    assert_int_equal(kv_manager_n_available(c->m), 0);
}

/* T4, S2.29, D2.5, D4.2: out, the pool filled, a swap in that fails and leaves the copy, a later
 * one that works: the bytes are the same. */
static void bytes_survive_ram(void **state)
{
    struct cache c;
    struct seq a, b;
    (void)state;

    cache_open(&c);
    seq_init(&a, 1);
    compute(&c, &a, 40);
    assert_int_equal(kv_manager_swap_out(c.m, &a.kv, 40), 0);
    fill_pool(&c, &b);
    assert_int_equal(kv_manager_swap_in(c.m, &a.kv, &a.key, 40), ERR_AGAIN);
    kv_manager_release(c.m, &b.kv);
    assert_int_equal(kv_manager_swap_in(c.m, &a.kv, &a.key, 40), 0);
    run_moves(&c);
    expect_own_bytes(&c, &a);
    compute(&c, &a, 50);
    expect_own_bytes(&c, &a);
    kv_manager_release(c.m, &a.kv);
    cache_close(&c);
}

/* Start the next I/O, carry it out, tell how it went. */
static int do_io(struct cache *c, bool is_write)
{
    struct swap_io io;
    int rc;

    assert_true(kv_manager_next_io(c->m, &io));
    assert_int_equal(io.is_write, is_write);
    rc = is_write ? swap_store_write(c->swap, io.n, io.ram, io.file)
                  : swap_store_read(c->swap, io.n, io.ram, io.file);
    kv_manager_io_done(c->m, io.copy, rc);
    return rc;
}

/* T4: the same through the file; meanwhile the RAM slots serve another sequence. */
static void bytes_survive_the_file(void **state)
{
    struct cache c;
    struct seq a, b, other;
    (void)state;

    cache_open(&c);
    seq_init(&a, 1);
    seq_init(&b, 300);
    compute(&c, &a, 60);
    assert_int_equal(kv_manager_swap_out(c.m, &a.kv, 60), 0);
    run_moves(&c);
    assert_int_equal(do_io(&c, true), 0);
    assert_int_equal(kv_manager_where(c.m, &a.kv), SWAP_FILE);
    compute(&c, &b, 60);
    assert_int_equal(kv_manager_swap_out(c.m, &b.kv, 60), 0);
    fill_pool(&c, &other);
    assert_int_equal(do_io(&c, true), 0);
    assert_int_equal(kv_manager_swap_in(c.m, &a.kv, &a.key, 60), ERR_BUSY);
    assert_int_equal(kv_manager_fetch(c.m, &a.kv), 0);
    assert_int_equal(do_io(&c, false), 0);
    assert_int_equal(kv_manager_swap_in(c.m, &a.kv, &a.key, 60), ERR_AGAIN);
    kv_manager_release(c.m, &other.kv);
    assert_int_equal(kv_manager_swap_in(c.m, &a.kv, &a.key, 60), 0);
    run_moves(&c);
    expect_own_bytes(&c, &a);
    kv_manager_release(c.m, &a.kv);
    assert_int_equal(kv_manager_fetch(c.m, &b.kv), 0);
    assert_int_equal(do_io(&c, false), 0);
    assert_int_equal(kv_manager_swap_in(c.m, &b.kv, &b.key, 60), 0);
    run_moves(&c);
    expect_own_bytes(&c, &b);
    kv_manager_release(c.m, &b.kv);
    cache_close(&c);
}

/* T4: out, in and a copy in one round, through the same blocks and slots: the order of the moves
 * keeps the bytes apart. */
static void blocks_change_hands_in_a_round(void **state)
{
    struct cache c;
    struct seq a, b;
    (void)state;

    cache_open(&c);
    seq_init(&a, 1);
    seq_init(&b, 300);
    compute(&c, &a, 40);
    assert_int_equal(kv_manager_swap_out(c.m, &a.kv, 40), 0);
    run_moves(&c);
    compute(&c, &b, 96); /* all six blocks */
    assert_int_equal(kv_manager_swap_out(c.m, &b.kv, 40), 0); /* and its last three are lost */
    assert_int_equal(kv_manager_swap_in(c.m, &a.kv, &a.key, 40), 0);
    b.n_done = 40;
    assert_int_equal(kv_manager_swap_in(c.m, &b.kv, &b.key, 40), 0);
    run_moves(&c);
    expect_own_bytes(&c, &a);
    expect_own_bytes(&c, &b);
    kv_manager_release(c.m, &a.kv);
    kv_manager_release(c.m, &b.kv);
    cache_close(&c);
}

/* Damage in the file is a lost copy, not wrong bytes; the sequence is computed again. */
static void damage_loses_the_copy(void **state)
{
    struct cache c;
    struct seq a;
    FILE *f;
    (void)state;

    cache_open(&c);
    seq_init(&a, 1);
    compute(&c, &a, 60);
    assert_int_equal(kv_manager_swap_out(c.m, &a.kv, 60), 0);
    run_moves(&c);
    assert_int_equal(do_io(&c, true), 0);
    f = fopen(c.path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 6000, SEEK_SET), 0);
    assert_int_equal(fwrite("oops", 1, 4, f), 4);
    fclose(f);
    assert_int_equal(kv_manager_fetch(c.m, &a.kv), 0);
    assert_int_equal(do_io(&c, false), ERR_IO);
    assert_int_equal(kv_manager_swap_in(c.m, &a.kv, &a.key, 60), ERR_IO);
    assert_int_equal(kv_manager_stats(c.m).swap.n_read_errors, 1);
    kv_manager_forget(c.m, &a.kv);
    a.n_done = kv_manager_attach(c.m, &a.kv, &a.key, 59);
    compute(&c, &a, 60);
    expect_own_bytes(&c, &a);
    kv_manager_release(c.m, &a.kv);
    cache_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_keeps_blocks_apart),
        cmocka_unit_test(halves_may_differ),
        cmocka_unit_test(some_blocks_are_private),
        cmocka_unit_test(budgets_become_blocks),
        cmocka_unit_test(copies_diverge),
        cmocka_unit_test(prefix_hits_read_the_same),
        cmocka_unit_test(bytes_survive_ram),
        cmocka_unit_test(bytes_survive_the_file),
        cmocka_unit_test(blocks_change_hands_in_a_round),
        cmocka_unit_test(damage_loses_the_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
