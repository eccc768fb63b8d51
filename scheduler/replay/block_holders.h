/* scheduler/replay/block_holders.h - which replicas hold a block, as a router knows it from KV
 * events.
 *
 * A block is known by the hash of its chain (prefix_index.h). Most blocks have one holder or two,
 * and cost 32 bytes; from the third on there is a bit for each replica.
 *
 * Thread: the owner's.
 * Memory: grows with the number of blocks that are held.
 */
#ifndef SCHEDULER_REPLAY_BLOCK_HOLDERS_H
#define SCHEDULER_REPLAY_BLOCK_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/scheduler.h"

struct block_holders;

int block_holders_create(struct block_holders **out, uint32_t n_replicas);
void block_holders_destroy(struct block_holders **h);

/* The replica holds the block from now on. ERR_NOMEM. */
int block_holders_add(struct block_holders *h, struct prefix_hash hash, uint32_t replica);
/* It holds it no more; nothing when it did not. */
void block_holders_remove(struct block_holders *h, struct prefix_hash hash, uint32_t replica);

/* Words of a set of replicas: bit r % 64 of word r / 64. */
uint32_t block_holders_words(const struct block_holders *h);
/* Take the replicas out of the set that do not hold the block. False, and the set stays as it is:
 * none would be left. */
bool block_holders_narrow(const struct block_holders *h, struct prefix_hash hash, uint64_t *set);

size_t block_holders_n(const struct block_holders *h); /* blocks that are held */

#endif
