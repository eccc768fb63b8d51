/* kvcache/kv_states.h - the slots of recurrent states: which are in use, and which are snapshots.
 *
 * A sequence of a recurrent model has one slot, which each step overwrites: keys of single tokens
 * can be found again at any of them, a state only where somebody has kept it. So that a prefix can
 * be taken up again, the state behind some of its blocks is kept as a snapshot of the prefix
 * index's entry that ends there. Sequences hold slots as they hold blocks: counted, one that
 * several hold or that is a snapshot is not written, snapshots that nobody holds are evicted, the
 * least recently used first. A snapshot ends with its entry.
 *
 * Only ids; the bytes are in state_store.
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
#define STATE_NONE 0u /* zeroed sequences have none */

struct kv_states;

/* Slots 1 .. n_slots, for snapshots of entries 1 .. n_blocks. ERR_INVAL for 0, ERR_NOMEM. */
int kv_states_create(struct kv_states **out, uint32_t n_slots, uint32_t n_blocks);
/* Slots still held are the caller's leak: debug builds assert. NULL is allowed. */
void kv_states_destroy(struct kv_states **s);

/* A free slot with one holder; if there is none the oldest snapshot that nobody holds is evicted.
 * STATE_NONE: all are held. */
state_id kv_states_take(struct kv_states *s);
bool kv_states_can_take(const struct kv_states *s);
void kv_states_ref(struct kv_states *s, state_id slot);
void kv_states_give(struct kv_states *s, state_id slot);

/* The snapshot of an entry, or STATE_NONE. */
state_id kv_states_at(const struct kv_states *s, struct prefix_id entry);
/* A held slot that is none becomes the snapshot of an entry that has none. */
void kv_states_put(struct kv_states *s, struct prefix_id entry, state_id slot);
/* The entry has no snapshot any more, if it had one. */
void kv_states_forget(struct kv_states *s, struct prefix_id entry);
/* Whose snapshot a slot is, or PREFIX_NONE. */
struct prefix_id kv_states_entry_of(const struct kv_states *s, state_id slot);

uint32_t kv_states_holders(const struct kv_states *s, state_id slot);

struct kv_states_stats {
    struct block_pool_stats slots; /* cached: snapshots that nobody holds */
    uint32_t n_snapshots;
};
struct kv_states_stats kv_states_stats(const struct kv_states *s);
/* Slots and entries agree. O(both). */
bool kv_states_check(const struct kv_states *s);

#endif
