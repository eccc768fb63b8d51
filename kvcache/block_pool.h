/* kvcache/block_pool.h - the KV blocks: which are free, held or cached, and their reference counts.
 *
 * A block is an index, never a pointer: its bytes live in kv_store, and a sequence's list of
 * indices is all that the scheduler passes around. Blocks are counted so that sequences can
 * share them. Id 0 is never handed out: it means "unmapped", so zeroed tables are safe.
 *
 * A block is in one of four states:
 *
 *   FREE --take--> HELD --give of the last holder--> FREE, or CACHED if it was marked with keep
 *   CACHED --ref--> HELD,  CACHED --evict--> FREE
 *   CACHED --pin--> PINNED --unpin--> CACHED,  PINNED --ref--> HELD
 *
 * Cached blocks have no holder, but content that a later prefix lookup may find; they are in LRU
 * order. A block that is not free can be pinned: without a holder it is PINNED then, and is not
 * evicted until it is unpinned (the blocks of a prefix that shall stay; the source of a copy, while
 * room for the copy is made). Unpinned, it is the most recently used cached block, or free if it is
 * not kept.
 *
 * Placement, that is, which of the free blocks are handed out (the tests check the exact ids):
 *   first fit    the lowest free ids
 *   round robin  the next free ids after the last one handed out, wrapping at the end
 *   best fit     the blocks right after `after` while they are free; for the rest the smallest
 *                run of free blocks that holds it all, the lowest among equals; when there is
 *                none the largest run first
 *
 * Invariant (P3): n_free + n_held + n_cached + n_pinned == n_blocks after every call.
 *
 * Thread: engine thread only; there are no locks inside.
 * Memory: everything is taken in block_pool_create(); nothing below allocates.
 * Errors: a refused call changes nothing.
 */
#ifndef KVCACHE_BLOCK_POOL_H
#define KVCACHE_BLOCK_POOL_H

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t block_id;
#define BLOCK_NONE 0u   /* "unmapped" */
#define BLOCK_TOKENS 16 /* tokens in a block; KERN_BLOCK of the kernels */

enum block_state { BLOCK_FREE = 0, BLOCK_HELD, BLOCK_CACHED, BLOCK_PINNED };
enum block_placement { BLOCK_FIRST_FIT = 0, BLOCK_BEST_FIT, BLOCK_ROUND_ROBIN };

struct block_pool;

struct block_pool_stats {
    uint32_t n_blocks, n_free, n_held, n_cached;
    uint32_t n_pinned; /* pinned blocks without a holder; the four add up to n_blocks */
    uint32_t peak_held;
    /* Blocks since creation: handed out, given back by their last holder, evicted. */
    uint64_t n_taken, n_given, n_evicted;
};

/* Create a pool of n_blocks free blocks, ids 1..n_blocks. ERR_INVAL: n_blocks is 0; ERR_NOMEM. */
int block_pool_create(struct block_pool **out, uint32_t n_blocks, enum block_placement placement);

/* No block may be held any more (debug builds assert). *pool may be NULL. */
void block_pool_destroy(struct block_pool **pool);

/* Take n free blocks, one holder each, into ids[0..n-1]: all or nothing. `after` is the last block
 * of the sequence that gets them, or BLOCK_NONE; only best fit reads it. ERR_AGAIN: fewer than n
 * are free. Cost: first fit and round robin O(n) amortised, best fit O(n_blocks / 64) for each run
 * of neighbours. */
int block_pool_take(struct block_pool *pool, uint32_t n, block_id after, block_id *ids);

/* Add a holder to each of n blocks that are not free. ERR_INVAL (id 0, out of range, or free). */
int block_pool_ref(struct block_pool *pool, const block_id *ids, uint32_t n);

/* Remove a holder from each of n blocks; a block without holders is pinned, or cached if it is
 * kept, or free. Of several that become cached at once, the last in the list is evicted first, so
 * that a prefix stays longer than the blocks after it. ERR_INVAL: an id is 0, out of range, not
 * held, or twice in the list. */
int block_pool_give(struct block_pool *pool, const block_id *ids, uint32_t n);

/* keep: the block becomes cached, not free, when its last holder gives it back. !keep undoes that;
 * a cached block becomes free then, and counts as evicted. ERR_INVAL: the block is free, or (!keep)
 * pinned without a holder. */
int block_pool_keep(struct block_pool *pool, block_id id, bool keep);

/* Return the least recently used cached block, or BLOCK_NONE. O(1). */
block_id block_pool_oldest(const struct block_pool *pool);

/* Pin or unpin a block; pins are counted. ERR_INVAL: the block is free or does not exist, or
 * (unpin) is not pinned. */
int block_pool_pin(struct block_pool *pool, block_id id);
int block_pool_unpin(struct block_pool *pool, block_id id);

/* Holders of a block; 0 when free, cached, pinned, or no such id. */
uint32_t block_pool_holders(const struct block_pool *pool, block_id id);
enum block_state block_pool_state(const struct block_pool *pool, block_id id); /* FREE: no such
                                                                                * id */
bool block_pool_is_pinned(const struct block_pool *pool, block_id id);

uint32_t block_pool_n_free(const struct block_pool *pool);
struct block_pool_stats block_pool_stats(const struct block_pool *pool);

/* Check that the sums, the free set, the cached list and the counts agree with each other.
 * O(n_blocks). */
bool block_pool_check(const struct block_pool *pool);

#endif
