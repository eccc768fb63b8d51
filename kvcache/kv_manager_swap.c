/* kvcache/kv_manager_swap.c - out to the tiers and in again; moves and I/O; see kv_manager.h. */
#include "kvcache/kv_manager_impl.h"

#include "core/base/err.h"

#include <string.h>

bool kv_manager_can_swap_out(const struct kv_manager *m, uint32_t n_blocks)
{
    return m->swap != NULL && swap_can_add(m->swap, n_blocks) && kv_manager_can_note(m, n_blocks);
}

int kv_manager_swap_out(struct kv_manager *m, struct kv_seq *kv, uint32_t n_done)
{
    const uint32_t n = block_table_needed(n_done);
    const uint32_t *ram;
    int64_t copy;

    assert(kv->swap == SWAP_NONE && n <= kv->table.n);
    if (m->swap == NULL || !kv_manager_can_note(m, n))
        return ERR_AGAIN;
    copy = swap_add(m->swap, n, &ram);
    if (copy < 0)
        return ERR_AGAIN;
    for (uint32_t b = 0; b < n; b++)
        kv_manager_note(m, KV_SAVE, kv->table.blocks[b], ram[b]);
    kv->swap = (uint32_t)copy;
    kv_manager_give(m, kv);
    return 0;
}

int kv_manager_swap_in(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key,
                       uint32_t n_done)
{
    struct block_table *t = &kv->table;
    uint32_t n, n_shared, n_cached, n_load;
    const uint32_t *ram;

    assert(kv->swap != SWAP_NONE && t->n == 0 && block_table_needed(n_done) <= t->cap);
    ram = swap_slots(m->swap, kv->swap, &n);
    if (ram == NULL)
        return kv_manager_where(m, kv) == SWAP_LOST ? ERR_IO : ERR_BUSY;
    assert(n == block_table_needed(n_done));
    n_shared = kv_manager_find_shared(m, key, n_done, m->scratch, &n_cached);
    n_load = n - n_shared;
    if (n_load > kv_manager_n_available(m) - n_cached || !kv_manager_can_note(m, n_load))
        return ERR_AGAIN;
    kv_must(block_pool_ref(m->pool, m->scratch, n_shared)); /* so that they are not evicted now */
    memcpy(t->blocks, m->scratch, n_shared * sizeof(*t->blocks));
    t->n = kv->n_indexed = n_shared;
    kv_manager_take(m, n_load, kv_manager_last(kv), t->blocks + n_shared);
    t->n = n;
    for (uint32_t b = n_shared; b < n; b++)
        kv_manager_note(m, KV_LOAD, ram[b], t->blocks[b]);
    swap_used(m->swap, kv->swap, n_load);
    kv->swap = SWAP_NONE;
    return 0;
}

int kv_manager_fetch(struct kv_manager *m, struct kv_seq *kv)
{
    assert(kv->swap != SWAP_NONE);
    return swap_fetch(m->swap, kv->swap);
}

enum swap_place kv_manager_where(const struct kv_manager *m, const struct kv_seq *kv)
{
    assert(kv->swap != SWAP_NONE);
    return swap_where(m->swap, kv->swap);
}

void kv_manager_forget(struct kv_manager *m, struct kv_seq *kv)
{
    if (kv->swap != SWAP_NONE)
        swap_drop(m->swap, kv->swap);
    kv->swap = SWAP_NONE;
}

bool kv_manager_is_freeing(const struct kv_manager *m)
{
    return m->swap != NULL && swap_is_freeing(m->swap);
}

/* ---- for whoever owns the bytes ---- */

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
    assert(m->n_moves == 0); /* a write would read slots that are still to be saved into */
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
