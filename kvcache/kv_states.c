/* kvcache/kv_states.c - see kv_states.h.
 *
 * Slots are blocks of a second block_pool, which counts holders, keeps snapshots without a holder
 * in LRU order and finds the oldest. Two arrays map entries to their snapshots and back; a slot is
 * marked as kept in the pool exactly while it is a snapshot.
 */
#include "kvcache/kv_states.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>

struct kv_states {
    struct block_pool *pool; /* pool of slots */
    uint32_t n_slots, n_blocks, n_snapshots;
    state_id *snapshots;       /* [n_blocks + 1] snapshot of each entry */
    struct prefix_id *entries; /* [n_slots + 1] entry of each snapshot */
};

static void must(int rc)
{
    assert(rc == 0);
    (void)rc;
}

int kv_states_create(struct kv_states **out, uint32_t n_slots, uint32_t n_blocks)
{
    struct kv_states *s;
    int rc;

    *out = NULL;
    if (n_blocks == 0 || n_blocks > UINT32_MAX / 2)
        return ERR_INVAL;
    s = mem_calloc(1, sizeof(*s));
    if (s == NULL)
        return ERR_NOMEM;
    s->n_slots = n_slots;
    s->n_blocks = n_blocks;
    rc = block_pool_create(&s->pool, n_slots, BLOCK_FIRST_FIT);
    if (rc == 0) {
        s->snapshots = mem_calloc((size_t)n_blocks + 1, sizeof(*s->snapshots));
        s->entries = mem_calloc((size_t)n_slots + 1, sizeof(*s->entries));
        rc = s->snapshots != NULL && s->entries != NULL ? 0 : ERR_NOMEM;
    }
    if (rc < 0)
        kv_states_destroy(&s);
    *out = s;
    return rc;
}

void kv_states_destroy(struct kv_states **states)
{
    struct kv_states *s = states != NULL ? *states : NULL;

    if (s == NULL)
        return;
    block_pool_destroy(&s->pool);
    mem_free(s->snapshots);
    mem_free(s->entries);
    mem_free(s);
    *states = NULL;
}

bool kv_states_can_take(const struct kv_states *s)
{
    return block_pool_n_free(s->pool) > 0 || block_pool_oldest(s->pool) != BLOCK_NONE;
}

state_id kv_states_take(struct kv_states *s)
{
    state_id slot = STATE_NONE;

    if (block_pool_n_free(s->pool) == 0 && kv_states_can_take(s))
        kv_states_forget(s, s->entries[block_pool_oldest(s->pool)]);
    if (block_pool_n_free(s->pool) > 0)
        must(block_pool_take(s->pool, 1, BLOCK_NONE, &slot));
    return slot;
}

void kv_states_ref(struct kv_states *s, state_id slot)
{
    must(block_pool_ref(s->pool, &slot, 1));
}

void kv_states_give(struct kv_states *s, state_id slot)
{
    must(block_pool_give(s->pool, &slot, 1));
}

/* ---- snapshots ---- */

state_id kv_states_at(const struct kv_states *s, struct prefix_id entry)
{
    assert(entry.n <= s->n_blocks);
    return s->snapshots[entry.n];
}

void kv_states_put(struct kv_states *s, struct prefix_id entry, state_id slot)
{
    assert(!prefix_id_is_none(entry) && entry.n <= s->n_blocks);
    assert(s->snapshots[entry.n] == STATE_NONE && prefix_id_is_none(s->entries[slot]));
    must(block_pool_keep(s->pool, slot, true));
    s->snapshots[entry.n] = slot;
    s->entries[slot] = entry;
    s->n_snapshots++;
}

void kv_states_forget(struct kv_states *s, struct prefix_id entry)
{
    const state_id slot = kv_states_at(s, entry);

    if (slot == STATE_NONE)
        return;
    s->snapshots[entry.n] = STATE_NONE;
    s->entries[slot] = PREFIX_NONE;
    s->n_snapshots--;
    must(block_pool_keep(s->pool, slot, false));
}

void kv_states_pin(struct kv_states *s, struct prefix_id entry)
{
    must(block_pool_pin(s->pool, kv_states_at(s, entry)));
}

void kv_states_unpin(struct kv_states *s, struct prefix_id entry)
{
    must(block_pool_unpin(s->pool, kv_states_at(s, entry)));
}

bool kv_states_is_pinned(const struct kv_states *s, state_id slot)
{
    return block_pool_is_pinned(s->pool, slot);
}

struct prefix_id kv_states_entry_of(const struct kv_states *s, state_id slot)
{
    assert(slot <= s->n_slots);
    return s->entries[slot];
}

/* ---- inspection ---- */

uint32_t kv_states_holders(const struct kv_states *s, state_id slot)
{
    return block_pool_holders(s->pool, slot);
}

struct kv_states_stats kv_states_stats(const struct kv_states *s)
{
    return (struct kv_states_stats){block_pool_stats(s->pool), s->n_snapshots};
}

bool kv_states_check(const struct kv_states *s)
{
    uint32_t n = 0;

    for (state_id slot = 1; slot <= s->n_slots; slot++) {
        const struct prefix_id entry = s->entries[slot];
        const enum block_state state = block_pool_state(s->pool, slot);

        if (prefix_id_is_none(entry) ? state == BLOCK_CACHED
                                     : s->snapshots[entry.n] != slot || state == BLOCK_FREE)
            return false;
        n += !prefix_id_is_none(entry);
    }
    for (uint32_t i = 0; i <= s->n_blocks; i++)
        n -= s->snapshots[i] != STATE_NONE;
    return n == 0 && block_pool_check(s->pool);
}
