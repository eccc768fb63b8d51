/* kvcache/kv_states.h - the slots of recurrent states: which are in use, and which are snapshots.
 *
 * A sequence of a recurrent model has one slot, which each step overwrites: keys exist for every
 * token, but a state only for the sequence up to its latest token. So that another sequence can
 * continue a prefix, the state after some of its blocks is kept as a snapshot of the prefix index's
 * entry that ends there. Sequences hold slots as they hold blocks: holders are counted, a slot with
 * several holders or that is a snapshot is not written, and snapshots without a holder are evicted,
 * the least recently used first, unless they are pinned (prefix_pins.h). A snapshot is dropped with
 * its entry.
 *
 * This file only handles ids; the bytes are in state_store.
 *
 * Thread: engine thread only.
 * Memory: taken in kv_states_create(); 4 bytes a block and some 40 a slot.
 */
#ifndef KVCACHE_KV_STATES_H
#define KVCACHE_KV_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "kvcache/block_pool.h"
#include "kvcache/prefix_index.h"

typedef uint32_t state_id;
#define STATE_NONE 0u /* a zeroed sequence has no state */

struct kv_states;

/* Create slots 1 .. n_slots, for snapshots of entries 1 .. n_blocks. ERR_INVAL: one of them is 0;
 * ERR_NOMEM. */
int kv_states_create(struct kv_states **out, uint32_t n_slots, uint32_t n_blocks);
/* No slot may be held any more (debug builds assert). *s may be NULL. */
void kv_states_destroy(struct kv_states **s);

/* Take a free slot, with one holder; if none is free, the oldest snapshot without a holder is
 * evicted. STATE_NONE: all are held. */
state_id kv_states_take(struct kv_states *s);
bool kv_states_can_take(const struct kv_states *s);
void kv_states_ref(struct kv_states *s, state_id slot);
void kv_states_give(struct kv_states *s, state_id slot);

/* The snapshot of an entry, or STATE_NONE. */
state_id kv_states_at(const struct kv_states *s, struct prefix_id entry);
/* Make a held slot that is not a snapshot the snapshot of an entry that has none. */
void kv_states_put(struct kv_states *s, struct prefix_id entry, state_id slot);
/* Drop the entry's snapshot, if it has one. */
void kv_states_forget(struct kv_states *s, struct prefix_id entry);
/* Pin or unpin the snapshot that the entry has: while it is pinned it is neither evicted nor
 * written over. */
void kv_states_pin(struct kv_states *s, struct prefix_id entry);
void kv_states_unpin(struct kv_states *s, struct prefix_id entry);
bool kv_states_is_pinned(const struct kv_states *s, state_id slot);
/* The entry whose snapshot the slot is, or PREFIX_NONE. */
struct prefix_id kv_states_entry_of(const struct kv_states *s, state_id slot);

uint32_t kv_states_holders(const struct kv_states *s, state_id slot);

struct kv_states_stats {
    struct block_pool_stats slots; /* cached and pinned: snapshots without a holder */
    uint32_t n_snapshots;
};
struct kv_states_stats kv_states_stats(const struct kv_states *s);
/* Check that slots and entries agree. O(slots and entries). */
bool kv_states_check(const struct kv_states *s);

#endif
