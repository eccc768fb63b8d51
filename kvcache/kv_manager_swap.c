/* kvcache/kv_manager_swap.c - swaps sequences out to the tiers and back in, and hands out moves and
 * I/O; see kv_manager.h.
 *
 * Swapping out saves every block, shared ones too, because others may release theirs while the
 * sequence is away. Swapping in loads only what the index lacks by then: enter_shared() writes the
 * found blocks into the table without holding them, so that the call can still be refused without a
 * trace, and hold_shared() takes the references once everything is known to fit.
 */
#include "kvcache/kv_manager_impl.h"

#include "core/base/err.h"

#include <string.h>

bool kv_manager_can_swap_out(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done)
{
    const uint32_t n = kv_manager_n_swapped(m, kv, n_done);

    return m->swap != NULL && swap_can_add(m->swap, n) && kv_manager_can_note(m, n);
}

/* A copy has the blocks of the first group, then of the next, if blocks have bytes: in groups with
 * the window from kv->first on, which keeps its value. The state follows them. */
int kv_manager_swap_out(struct kv_manager *m, struct kv_seq *kv, uint32_t n_done)
{
    const uint32_t n = block_table_needed(n_done), n_copy = kv_manager_n_swapped(m, kv, n_done);
    const uint32_t first = kv->first;
    const uint32_t *ram;
    int64_t copy;

    assert(kv->swap == SWAP_NONE && n <= kv->table.n);
    assert(first >= kv_groups_first(&m->opt.groups, n_done));
    assert(first <= kv_groups_seen(&m->opt.groups, n_done));
    if (m->swap == NULL || !kv_manager_can_note(m, n_copy))
        return ERR_AGAIN;
    copy = swap_add(m->swap, n_copy, &ram);
    if (copy < 0)
        return ERR_AGAIN;
    for (uint32_t group = 0; group < m->n_groups && !m->opt.states.is_alone; group++)
        for (uint32_t b = kv_group_from(m, kv, group); b < n; b++)
            kv_manager_note(m, KV_SAVE, *block_table_at(&kv->table, group, b), *ram++);
    kv_state_save(m, kv, ram);
    kv->swap = (uint32_t)copy;
    kv_manager_give(m, kv);
    kv->first = first;
    return 0;
}

/* Write the blocks that the index has of a swapped sequence, of the first n_entries entries of
 * m->entries, into its empty table. They are not held yet. Returns how many blocks these are;
 * *n_cached of them have no holder. */
static uint32_t enter_shared(struct kv_manager *m, struct kv_seq *kv, uint32_t n_entries,
                             uint32_t *n_cached)
{
    uint32_t n = 0;

    *n_cached = 0;
    for (uint32_t group = 0; group < m->n_groups; group++)
        for (uint32_t b = kv_group_from(m, kv, group); b < n_entries; b++) {
            const block_id there = prefix_index_at(m->index, m->entries[b], group);

            *block_table_at(&kv->table, group, b) = there;
            n += there != BLOCK_NONE;
            *n_cached += block_pool_state(m->pool, there) == BLOCK_CACHED;
        }
    return n;
}

/* Undo enter_shared(), because the sequence stays swapped out. */
static void clear_shared(struct kv_manager *m, struct kv_seq *kv, uint32_t n_entries)
{
    for (uint32_t group = 0; group < m->n_groups; group++)
        memset(block_table_at(&kv->table, group, 0), 0, n_entries * sizeof(block_id));
}

/* Hold the blocks that enter_shared() found, so that they are not evicted. */
static void hold_shared(struct kv_manager *m, struct kv_seq *kv, uint32_t n_entries)
{
    for (uint32_t group = 0; group < m->n_groups; group++)
        for (uint32_t b = kv_group_from(m, kv, group); b < n_entries; b++)
            if (*block_table_at(&kv->table, group, b) != BLOCK_NONE)
                kv_must(block_pool_ref(m->pool, block_table_at(&kv->table, group, b), 1));
    kv->table.n = kv->n_indexed = n_entries;
}

/* Put blocks of m->scratch where the table has none, and log the moves that load them and then the
 * state. */
static void load_rest(struct kv_manager *m, struct kv_seq *kv, uint32_t n_done,
                      const uint32_t *ram)
{
    const uint32_t n = block_table_needed(n_done), step = m->opt.states.is_alone ? 0 : 1;
    const block_id *id = m->scratch;

    for (uint32_t group = 0; group < m->n_groups; group++)
        for (uint32_t b = kv_group_from(m, kv, group); b < n; b++, ram += step) {
            if (*block_table_at(&kv->table, group, b) != BLOCK_NONE)
                continue;
            if (step > 0)
                kv_manager_note(m, KV_LOAD, *ram, *id);
            kv_manager_place(m, kv, group, b, *id++);
        }
    kv->table.n = n;
    kv_state_load(m, kv, ram, n_done);
}

int kv_manager_swap_in(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key,
                       uint32_t n_done)
{
    const uint32_t n = block_table_needed(n_done);
    uint32_t n_copy, n_entries, n_shared, n_cached, n_new, n_load;
    const uint32_t *ram;

    assert(kv->swap != SWAP_NONE && kv->table.n == 0 && n <= kv->table.cap);
    ram = swap_slots(m->swap, kv->swap, &n_copy);
    if (ram == NULL)
        return kv_manager_where(m, kv) == SWAP_LOST ? ERR_IO : ERR_BUSY;
    assert(n_copy == kv_manager_n_swapped(m, kv, n_done));
    n_entries = kv_manager_find_entries(m, key, n_done);
    n_shared = enter_shared(m, kv, n_entries, &n_cached);
    n_new = kv_manager_over_groups(m, kv, n) - n_shared;
    n_load = n_copy - (m->opt.states.is_alone ? 0 : n_shared);
    if (n_new > kv_manager_n_available(m) - n_cached || !kv_manager_can_note(m, n_load) ||
        !kv_state_can_grow(m, kv)) {
        clear_shared(m, kv, n_entries);
        return ERR_AGAIN;
    }
    hold_shared(m, kv, n_entries);
    kv_manager_take(m, n_new, kv_manager_last(kv), m->scratch);
    load_rest(m, kv, n_done, ram);
    swap_used(m->swap, kv->swap, n_load);
    kv->swap = SWAP_NONE;
    return 0;
}

int kv_manager_fetch(struct kv_manager *m, struct kv_seq *kv)
{
    assert(kv->swap != SWAP_NONE);
    return swap_fetch(m->swap, kv->swap);
}

enum swap_state kv_manager_where(const struct kv_manager *m, const struct kv_seq *kv)
{
    assert(kv->swap != SWAP_NONE);
    return swap_where(m->swap, kv->swap);
}

void kv_manager_forget(struct kv_manager *m, struct kv_seq *kv)
{
    if (kv->swap == SWAP_NONE)
        return;
    swap_drop(m->swap, kv->swap);
    kv->swap = SWAP_NONE;
    kv->first = 0;
}

bool kv_manager_is_freeing(const struct kv_manager *m)
{
    return m->swap != NULL && swap_is_freeing(m->swap);
}

/* ---- for the owner of the bytes ---- */

const struct kv_move *kv_manager_moves(const struct kv_manager *m, uint32_t *n)
{
    *n = m->n_moves;
    return m->moves;
}

void kv_manager_moves_done(struct kv_manager *m)
{
    m->n_moves = 0;
}

bool kv_manager_next_io(struct kv_manager *m, struct swap_io *out)
{
    assert(m->n_moves == 0); /* a write would read slots into which moves are still to be saved */
    return m->swap != NULL && swap_next_io(m->swap, out);
}

void kv_manager_io_done(struct kv_manager *m, uint32_t copy, int rc)
{
    swap_io_done(m->swap, copy, rc);
}

uint32_t kv_manager_n_io(const struct kv_manager *m)
{
    return m->swap != NULL ? swap_n_io(m->swap) : 0;
}
