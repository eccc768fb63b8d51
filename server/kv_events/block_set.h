/* server/kv_events/block_set.h - a copy of the prefix index, built from its events.
 *
 * A hash table. A block for which there is no room, or that the set has already, is not added;
 * neither happens if the set has as many places as the cache has blocks.
 *
 * Thread: one.
 * Memory: taken in block_set_create(): about 140 bytes a place.
 */
#ifndef SERVER_KV_EVENTS_BLOCK_SET_H
#define SERVER_KV_EVENTS_BLOCK_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvcache/kv_events.h"

struct block_set;

int block_set_create(struct block_set **out, uint32_t n_places); /* ERR_INVAL, ERR_NOMEM */
void block_set_destroy(struct block_set **s);
size_t block_set_bytes(uint32_t n_places); /* memory of a set with so many places */

void block_set_clear(struct block_set *s);
void block_set_add(struct block_set *s, const struct kv_event *stored); /* copies */
void block_set_remove(struct block_set *s, struct prefix_hash hash);
bool block_set_has(const struct block_set *s, struct prefix_hash hash);
uint32_t block_set_n(const struct block_set *s);

/* List all blocks, each after its parent, and directly after it where possible; *n is their number.
 * Valid until the set changes. */
const struct kv_event *const *block_set_list(struct block_set *s, uint32_t *n);

#endif
