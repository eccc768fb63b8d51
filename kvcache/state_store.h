/* kvcache/state_store.h - the bytes of recurrent states: one arena of slots, sized once.
 *
 * A recurrent layer summarises all tokens of a sequence in one state of fixed size. A slot holds
 * the states of all layers of one sequence, as they are after one of its tokens. Slot 0 exists in
 * the address space and is never touched. kv_states.h knows which slot holds what.
 *
 * Thread: the runner's threads write disjoint slots; everything else is the engine thread's.
 * Memory: one huge-page advised mapping, taken at creation; pages cost RAM when first written.
 */
#ifndef KVCACHE_STATE_STORE_H
#define KVCACHE_STATE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "kvcache/kv_states.h"

struct numa;
struct state_store; /* opaque */

/* Create slots 1 .. n_slots of slot_bytes each, each at a multiple of 64 bytes. ERR_INVAL: a size
 * or number is 0; ERR_NOMEM. */
int state_store_create(struct state_store **out, size_t slot_bytes, uint32_t n_slots);
/* Lay the slots out over memory nodes (core/base/numa.h). Called before a slot is written. */
void state_store_spread(struct state_store *s, const struct numa *numa);
void state_store_destroy(struct state_store **s);

size_t state_store_slot_bytes(const struct state_store *s);

void *state_store_at(const struct state_store *s, uint32_t slot);

void state_store_copy(struct state_store *s, uint32_t from, uint32_t to);

#endif
