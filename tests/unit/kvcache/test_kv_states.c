/* tests/unit/kvcache/test_kv_states.c - slots of recurrent states, their snapshots and their bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "kvcache/kv_move.h"
#include "kvcache/kv_states.h"
#include "kvcache/state_store.h"
#include "kvcache/swap_store.h"

static struct kv_states *new_states(uint32_t n_slots, uint32_t n_blocks)
{
    struct kv_states *s;

    assert_int_equal(kv_states_create(&s, n_slots, n_blocks), 0);
    assert_true(kv_states_check(s));
    return s;
}

static void nothing_is_refused(void **state)
{
    struct kv_states *s;
    (void)state;

    assert_int_equal(kv_states_create(&s, 0, 4), ERR_INVAL);
    assert_null(s);
    assert_int_equal(kv_states_create(&s, 4, 0), ERR_INVAL);
    assert_null(s);
}

static void slots_are_counted(void **state)
{
    struct kv_states *s = new_states(2, 4);
    const state_id a = kv_states_take(s), b = kv_states_take(s);
    (void)state;

    assert_int_equal(a, 1);
    assert_int_equal(b, 2);
    assert_false(kv_states_can_take(s));
    assert_int_equal(kv_states_take(s), STATE_NONE);
    kv_states_ref(s, a);
    assert_int_equal(kv_states_holders(s, a), 2);
    kv_states_give(s, a);
    assert_false(kv_states_can_take(s));
    kv_states_give(s, a);
    assert_int_equal(kv_states_take(s), a);
    kv_states_give(s, a);
    kv_states_give(s, b);
    assert_true(kv_states_check(s));
    kv_states_destroy(&s);
}

/* Snapshots that nobody holds are taken, the one that was given back first first. */
static void the_oldest_snapshot_is_evicted(void **state)
{
    struct kv_states *s = new_states(3, 9);
    (void)state;

    for (block_id entry = 7; entry <= 9; entry++)
        kv_states_put(s, prefix_id_of(entry), kv_states_take(s));
    assert_int_equal(kv_states_stats(s).n_snapshots, 3);
    kv_states_give(s, 2);
    kv_states_give(s, 1);
    assert_int_equal(kv_states_stats(s).slots.n_cached, 2);
    assert_true(kv_states_check(s));
    assert_int_equal(kv_states_take(s), 2);
    assert_int_equal(kv_states_at(s, prefix_id_of(8)), STATE_NONE);
    assert_int_equal(kv_states_entry_of(s, 2).n, BLOCK_NONE);
    assert_int_equal(kv_states_take(s), 1);
    assert_int_equal(kv_states_take(s), STATE_NONE); /* the third is held */
    assert_int_equal(kv_states_at(s, prefix_id_of(9)), 3);
    assert_true(kv_states_check(s));
    for (state_id slot = 1; slot <= 3; slot++)
        kv_states_give(s, slot);
    kv_states_destroy(&s);
}

/* A snapshot whose entry goes is free, or only its holders'. */
static void snapshots_end_with_their_entry(void **state)
{
    struct kv_states *s = new_states(2, 4);
    (void)state;

    kv_states_put(s, prefix_id_of(3), kv_states_take(s));
    kv_states_put(s, prefix_id_of(4), kv_states_take(s));
    kv_states_give(s, 1);
    kv_states_forget(s, prefix_id_of(3));
    kv_states_forget(s, prefix_id_of(4));
    kv_states_forget(s, prefix_id_of(2)); /* which has none */
    assert_int_equal(kv_states_stats(s).n_snapshots, 0);
    assert_int_equal(kv_states_stats(s).slots.n_free, 1);
    assert_int_equal(kv_states_holders(s, 2), 1);
    assert_true(kv_states_check(s));
    kv_states_give(s, 2);
    assert_int_equal(kv_states_stats(s).slots.n_free, 2);
    kv_states_destroy(&s);
}

/* ---- bytes ---- */

enum { PART = 256, N_PARTS = 3, SLOT = N_PARTS * PART };

static void fill(struct state_store *s, uint32_t slot, uint8_t with)
{
    uint8_t *bytes = state_store_at(s, slot);

    for (size_t i = 0; i < SLOT; i++)
        bytes[i] = (uint8_t)(with + i % 251);
}

static void slots_are_apart(void **state)
{
    struct state_store *s;
    (void)state;

    assert_int_equal(state_store_create(&s, 0, 1), ERR_INVAL);
    assert_int_equal(state_store_create(&s, 1, 0), ERR_INVAL);
    assert_int_equal(state_store_create(&s, SIZE_MAX - 10, 4), ERR_NOMEM);
    assert_null(s);
    assert_int_equal(state_store_create(&s, 100, 2), 0);
    assert_int_equal(state_store_slot_bytes(s), 100);
    for (uint32_t slot = 1; slot <= 2; slot++)
        assert_int_equal((uintptr_t)state_store_at(s, slot) % 64, 0);
    assert_true((uint8_t *)state_store_at(s, 2) - (uint8_t *)state_store_at(s, 1) >= 100);
    state_store_destroy(&s);
    assert_null(s);
}

/* Out into RAM slots in any order, and back into another slot; copies between slots. */
static void states_move_in_parts(void **state)
{
    static const struct kv_move moves[] = {
        {KV_SAVE_STATE, 1, 5, 0}, {KV_SAVE_STATE, 1, 0, 1}, {KV_SAVE_STATE, 1, 3, 2},
        {KV_LOAD_STATE, 3, 2, 2}, {KV_LOAD_STATE, 5, 2, 0}, {KV_LOAD_STATE, 0, 2, 1},
        {KV_COPY_STATE, 2, 3, 0},
    };
    const struct swap_store_options o = {.block_bytes = PART, .n_ram = 6};
    struct state_store *s;
    struct swap_store *swap;
    char err[200];
    (void)state;

    assert_int_equal(state_store_create(&s, SLOT, 3), 0);
    assert_int_equal(swap_store_open(&swap, &o, err, sizeof(err)), 0);
    fill(s, 1, 7);
    fill(s, 2, 99);
    kv_move_run(moves, 7, &(struct kv_bytes){.swap = swap, .states = s});
    assert_memory_equal(state_store_at(s, 2), state_store_at(s, 1), SLOT);
    assert_memory_equal(state_store_at(s, 3), state_store_at(s, 1), SLOT);
    assert_int_equal(kv_move_blocks(moves, 7, N_PARTS), 6 + N_PARTS);
    swap_store_close(&swap);
    state_store_destroy(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_refused),
        cmocka_unit_test(slots_are_counted),
        cmocka_unit_test(the_oldest_snapshot_is_evicted),
        cmocka_unit_test(snapshots_end_with_their_entry),
        cmocka_unit_test(slots_are_apart),
        cmocka_unit_test(states_move_in_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
