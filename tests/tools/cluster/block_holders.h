/* tests/tools/cluster/block_holders.h - which replicas hold a block, as a router knows it from KV
 * events.
 *
 * A block is identified by the hash of its chain (prefix_index.h). Most blocks have one or two
 * holders and take 32 bytes; with a third holder the block also gets a bit for each replica.
 *
 * Thread: the owner's.
 * Memory: grows with the number of blocks that are held.
 */
#ifndef TESTS_TOOLS_CLUSTER_BLOCK_HOLDERS_H
#define TESTS_TOOLS_CLUSTER_BLOCK_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/scheduler.h"

struct block_holders;

int block_holders_create(struct block_holders **out, uint32_t n_replicas);
void block_holders_destroy(struct block_holders **h);

/* Add a holder to a block. ERR_NOMEM. */
int block_holders_add(struct block_holders *h, struct prefix_hash hash, uint32_t replica);
/* Remove a holder from a block; ignored if it was none. */
void block_holders_remove(struct block_holders *h, struct prefix_hash hash, uint32_t replica);

/* Words of a set of replicas; replica r is bit r % 64 of word r / 64. */
uint32_t block_holders_words(const struct block_holders *h);
/* Remove the replicas that do not hold the block from the set. False, with the set unchanged: none
 * would be left. */
bool block_holders_narrow(const struct block_holders *h, struct prefix_hash hash, uint64_t *set);

size_t block_holders_n(const struct block_holders *h); /* blocks with a holder */

#endif
