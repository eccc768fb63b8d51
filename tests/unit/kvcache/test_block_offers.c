/* tests/unit/kvcache/test_block_offers.c - what is offered to the block store, what comes back from
 * it, and a reader beside an engine that reuses blocks. */
#include "kvcache/block_offers.h"
#include "kvcache/kv_store.h"
#include "tests/unit/kvcache/kv_seqs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { EACH = 2, N_BLOCKS = 12 };

static struct block_offers *new_offers(struct kv_manager *m, uint32_t n)
{
    struct block_offers *o;

    assert_int_equal(block_offers_create(&o, N_BLOCKS, EACH, n), 0);
    kv_manager_set_offers(m, o);
    return o;
}

static void destroy(struct kv_manager **m, struct block_offers **o)
{
    kv_manager_destroy(m);
    block_offers_destroy(o);
}

/* Each record once, when its last block is in the index, with all that names it. */
static void full_records_are_offered_once(void **state)
{
    struct kv_manager *m = new_manager(N_BLOCKS, 0, 0);
    struct block_offers *o = new_offers(m, 8);
    struct block_offer offer;
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    compute(m, &a, 31);
    assert_false(block_offers_take(o, &offer));
    compute(m, &a, 5 * BLOCK_TOKENS);
    assert_int_equal(block_offers_n(o), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(block_offers_take(o, &offer));
        assert_memory_equal(offer.blocks, a.blocks + EACH * i, EACH * sizeof(block_id));
        assert_memory_equal(offer.ids, a.ids + EACH * i * BLOCK_TOKENS,
                            EACH * BLOCK_TOKENS * sizeof(int32_t));
        assert_memory_equal(&offer.last, &a.hashes[EACH * i + 1], sizeof(offer.last));
        if (i > 0)
            assert_memory_equal(&offer.before, &a.hashes[EACH * i - 1], sizeof(offer.before));
        else
            assert_int_equal(offer.before.lo, prefix_hash_root(0).lo);
    }
    assert_false(block_offers_take(o, &offer));
    seq_init(&b, MAX_TOKENS, 0);
    assert_int_equal(attach(m, &b, 4 * BLOCK_TOKENS), 4 * BLOCK_TOKENS);
    assert_false(block_offers_take(o, &offer)); /* it is known */
    release(m, &b);
    block_offers_renew(o);
    attach(m, &b, 4 * BLOCK_TOKENS);
    assert_int_equal(block_offers_n(o), 2); /* and not any more */
    release(m, &a);
    release(m, &b);
    destroy(&m, &o);
}

/* A full ring drops, counts, and what it dropped is offered when it is found the next time. */
static void what_is_dropped_comes_again(void **state)
{
    struct kv_manager *m = new_manager(N_BLOCKS, 0, 0);
    struct block_offers *o = new_offers(m, 1);
    struct block_offer offer;
    struct seq a, b;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    compute(m, &a, 4 * BLOCK_TOKENS);
    assert_int_equal(block_offers_n_dropped(o), 1);
    assert_true(block_offers_take(o, &offer));
    assert_int_equal(offer.blocks[0], a.blocks[0]);
    attach(m, &b, 4 * BLOCK_TOKENS);
    assert_true(block_offers_take(o, &offer));
    assert_int_equal(offer.blocks[0], a.blocks[2]);
    assert_false(block_offers_take(o, &offer));
    release(m, &a);
    release(m, &b);
    destroy(&m, &o);
}

/* Out of the index, an offer is worth nothing; nothing was pinned for it. */
static void what_has_left_is_not_copied(void **state)
{
    const struct kv_shape shape = {1, 1, 32, 32};
    struct kv_manager *m = new_manager(N_BLOCKS, 0, 0);
    struct block_offers *o = new_offers(m, 8);
    uint8_t bytes[EACH * 64];
    struct block_offer offer;
    struct kv_store *kv;
    struct seq a, b;
    (void)state;

    assert_int_equal(kv_store_create(&kv, &shape, N_BLOCKS), 0);
    seq_init(&a, MAX_TOKENS, 0);
    compute(m, &a, EACH * BLOCK_TOKENS);
    for (uint32_t i = 0; i < EACH; i++)
        memset(kv_store_block(kv, a.blocks[i]), (int)i + 1, 64);
    assert_true(block_offers_take(o, &offer));
    assert_true(block_offers_copy(o, &offer, kv, bytes));
    assert_int_equal(bytes[0], 1);
    assert_int_equal(bytes[EACH * 64 - 1], 2);
    release(m, &a);
    assert_true(block_offers_copy(o, &offer, kv, bytes)); /* it is still cached */
    assert_int_equal(kv_manager_stats(m).pool.n_pinned, 0);
    seq_init(&a, 0, 99);
    seq_init(&b, 0, 98);
    compute(m, &a, MAX_TOKENS);
    compute(m, &b, 4 * BLOCK_TOKENS); /* takes all there is */
    assert_false(block_offers_copy(o, &offer, kv, bytes));
    release(m, &a);
    release(m, &b);
    kv_store_destroy(&kv);
    destroy(&m, &o);
}

/* ---- what comes in ---- */

static void blocks_enter_as_if_computed(void **state)
{
    struct kv_manager *m = new_manager(N_BLOCKS, 0, 0);
    struct block_offers *o = new_offers(m, 8);
    struct seq a, b;
    const block_id *ids;
    uint32_t from;
    (void)state;

    seq_init(&a, MAX_TOKENS, 0);
    seq_init(&b, MAX_TOKENS, 0);
    assert_int_equal(kv_manager_enter(m, &a.key, 2, 2, &from, &ids), 0); /* what is before lacks */
    assert_int_equal(kv_manager_enter(m, &a.key, 0, 2, &from, &ids), 2);
    assert_int_equal(from, 0);
    assert_int_not_equal(ids[0], ids[1]);
    check(m);
    assert_int_equal(kv_manager_stats(m).pool.n_cached, 2);
    assert_int_equal(kv_manager_enter(m, &a.key, 0, 2, &from, &ids), 0); /* it is there */
    assert_int_equal(kv_manager_enter(m, &a.key, 0, 4, &from, &ids), 2);
    assert_int_equal(from, 2);
    assert_int_equal(kv_manager_enter(m, &a.key, 4, 2, &from, &ids), 2);
    assert_int_equal(attach(m, &b, MAX_TOKENS - 1), 6 * BLOCK_TOKENS);
    assert_memory_equal(b.blocks + 4, ids, 2 * sizeof(*ids));
    assert_int_equal(block_offers_n(o), 0); /* they came from where they would go */
    expect_moves(m, 0, NULL);
    release(m, &b);
    check(m);
    destroy(&m, &o);
}

/* Cached blocks make room; held ones do not, and then nothing has changed. */
static void too_few_blocks_change_nothing(void **state)
{
    struct kv_manager *m = new_manager(N_BLOCKS, 0, 0);
    struct seq a, b, c;
    const block_id *ids;
    uint32_t from;
    (void)state;

    seq_init(&a, 0, 99);
    seq_init(&b, 0, 98);
    seq_init(&c, MAX_TOKENS, 0);
    compute(m, &a, MAX_TOKENS);
    compute(m, &b, 3 * BLOCK_TOKENS);
    assert_int_equal(kv_manager_enter(m, &c.key, 0, 2, &from, &ids), 0);
    check(m);
    assert_int_equal(kv_manager_enter(m, &c.key, 0, 1, &from, &ids), 1);
    release(m, &a);
    assert_int_equal(kv_manager_enter(m, &c.key, 0, 8, &from, &ids), 7);
    check(m);
    release(m, &b);
    kv_manager_destroy(&m);
}

static void only_where_all_layers_see_everything(void **state)
{
    const struct kv_manager_options window = {.n_blocks = 8, .prefix_cache = true, .max_table = CAP,
                                              .groups = {2, 1, 64, 1}};
    struct kv_manager_options o = {.n_blocks = 8, .max_table = CAP};
    struct kv_manager *m;
    (void)state;

    assert_int_equal(kv_manager_create(&m, &window), 0);
    assert_false(kv_manager_can_enter(m));
    kv_manager_destroy(&m);
    assert_int_equal(kv_manager_create(&m, &o), 0);
    assert_false(kv_manager_can_enter(m)); /* no index */
    kv_manager_destroy(&m);
    o.prefix_cache = true;
    assert_int_equal(kv_manager_create(&m, &o), 0);
    assert_true(kv_manager_can_enter(m));
    kv_manager_destroy(&m);
}

/* ---- two threads ---- */

enum { RACE_BLOCKS = 4, RACE_BYTES = 4096, RACES = 20000 };

struct race {
    struct block_offers *o;
    struct kv_store *kv;
    atomic_bool is_over;
    uint32_t n_good, n_bad;
};

static void *read_all(void *ud)
{
    struct race *r = ud;
    struct block_offer offer;
    uint8_t bytes[RACE_BYTES];

    for (;;) {
        const bool is_over = atomic_load(&r->is_over);

        while (block_offers_take(r->o, &offer)) {
            const bool is_good = block_offers_copy(r->o, &offer, r->kv, bytes);

            r->n_good += is_good;
            r->n_bad += !is_good;
            for (int i = 0; is_good && i < RACE_BYTES; i++)
                assert_int_equal(bytes[i], (uint8_t)offer.ids[0]); /* all of one time */
        }
        if (is_over)
            return NULL;
        block_offers_wait(r->o, 1);
    }
}

/* Blocks are offered, leave, and are written again while the reader copies: what it keeps is what
 * was offered. */
static void a_copy_is_of_one_time(void **state)
{
    const struct kv_shape shape = {1, 1, RACE_BYTES / 2, RACE_BYTES / 2};
    const struct prefix_hash hash = {1, 2};
    struct race r = {0};
    pthread_t thread;
    (void)state;

    assert_int_equal(block_offers_create(&r.o, RACE_BLOCKS, 1, 16), 0);
    assert_int_equal(kv_store_create(&r.kv, &shape, RACE_BLOCKS), 0);
    assert_int_equal(pthread_create(&thread, NULL, read_all, &r), 0);
    for (uint32_t i = 0; i < RACES; i++) {
        const block_id block = 1 + i % RACE_BLOCKS;
        int32_t ids[BLOCK_TOKENS] = {(int32_t)(i % 251)};

        if (i >= RACE_BLOCKS)
            block_offers_forget(r.o, block);
        memset(kv_store_block(r.kv, block), (int)(i % 251), RACE_BYTES);
        block_offers_add(r.o, &block, hash, hash, ids);
        if (i % 16 == 0) /* the reader keeps up for a while */
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    atomic_store(&r.is_over, true);
    block_offers_wake(r.o);
    pthread_join(thread, NULL);
    assert_true(r.n_good > 0);
    assert_int_equal(r.n_good + r.n_bad + block_offers_n_dropped(r.o), RACES);
    kv_store_destroy(&r.kv);
    block_offers_destroy(&r.o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_records_are_offered_once),
        cmocka_unit_test(what_is_dropped_comes_again),
        cmocka_unit_test(what_has_left_is_not_copied),
        cmocka_unit_test(blocks_enter_as_if_computed),
        cmocka_unit_test(too_few_blocks_change_nothing),
        cmocka_unit_test(only_where_all_layers_see_everything),
        cmocka_unit_test(a_copy_is_of_one_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
