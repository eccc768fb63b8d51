/* kvcache/block_pool.h - who holds which KV block, and how many hold it.
 *
 * A block is an index, never a pointer: its bytes live in kv_store, and a sequence's list of
 * indices is all that the scheduler passes around. Blocks are counted so that sequences can
 * share them. Id 0 is never handed out: it means "unmapped", so zeroed tables are safe.
 *
 * Invariant (P3): n_free + n_held == n_blocks after every call.
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

struct block_pool;

struct block_pool_stats {
    uint32_t n_blocks, n_free, n_held;
    uint32_t peak_held;
    uint64_t n_taken, n_given; /* blocks handed out and returned since creation */
};

/* A pool of n_blocks free blocks, ids 1..n_blocks. ERR_INVAL for 0, ERR_NOMEM. */
int block_pool_create(struct block_pool **out, uint32_t n_blocks);

/* Blocks still held are the caller's leak: debug builds assert. NULL is allowed. */
void block_pool_destroy(struct block_pool **pool);

/* Take n blocks, one holder each, into ids[0..n-1]: all or nothing; the longest-free ones first.
 * 0, or ERR_AGAIN with pool and ids[] untouched. Running out is an answer, not a fault. */
int block_pool_take(struct block_pool *pool, uint32_t n, block_id *ids);

/* Add a holder to each of n held blocks. ERR_INVAL (id 0, out of range, or free). */
int block_pool_ref(struct block_pool *pool, const block_id *ids, uint32_t n);

/* Remove a holder from each of n blocks; at the last one the block is free. ERR_INVAL when any id
 * is 0, out of range or free, or stands twice in the list: nothing has changed then. */
int block_pool_give(struct block_pool *pool, const block_id *ids, uint32_t n);

/* Holders of a block; 0 when free or no such id. */
uint32_t block_pool_holders(const struct block_pool *pool, block_id id);

uint32_t block_pool_n_free(const struct block_pool *pool);
struct block_pool_stats block_pool_stats(const struct block_pool *pool);

/* free + held == total and the free list holds each free block once. O(n). */
bool block_pool_check(const struct block_pool *pool);

#endif
