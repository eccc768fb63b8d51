/* server/kv_events/block_set.h - the entries of a prefix index, as the events have told of them.
 *
 * A table by hash. What has no room or is there already is left out: with as many places as the
 * cache has blocks neither happens.
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
size_t block_set_bytes(uint32_t n_places); /* that one of so many takes */

void block_set_clear(struct block_set *s);
void block_set_add(struct block_set *s, const struct kv_event *stored); /* copies */
void block_set_remove(struct block_set *s, struct prefix_hash hash);
bool block_set_has(const struct block_set *s, struct prefix_hash hash);
uint32_t block_set_n(const struct block_set *s);

/* All of them, each behind the one that it follows and as often as can be right behind; *n of them.
 * Valid until the set changes. */
const struct kv_event *const *block_set_list(struct block_set *s, uint32_t *n);

#endif
