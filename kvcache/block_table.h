/* kvcache/block_table.h - a sequence's lists of blocks: logical position -> physical block.
 *
 * There is a list for each group of layers (kv_groups.h), `cap` entries apart: position p of a
 * group lies in blocks[group * cap + p / 16], slot p % 16; BLOCK_NONE: it is not mapped. The pool
 * counts the sequence as a holder of every block in its table: only kv_manager fills and empties
 * tables.
 *
 * Thread: engine thread only.
 * Memory: `blocks` is the caller's array of n_groups * cap entries (block_table_init borrows it).
 */
#ifndef KVCACHE_BLOCK_TABLE_H
#define KVCACHE_BLOCK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvcache/block_pool.h"

struct block_table {
    block_id *blocks;
    uint32_t n;   /* blocks in use in each group; the first of them may be BLOCK_NONE */
    uint32_t cap; /* blocks that fit in each group */
    uint32_t n_groups;
};

/* Set up an empty table that borrows `blocks`; with cap 0 `blocks` may be NULL. */
void block_table_init(struct block_table *t, block_id *blocks, uint32_t cap, uint32_t n_groups);

/* Return the table entry of block number `block` (position / 16) of a group. */
static inline block_id *block_table_at(const struct block_table *t, uint32_t group, uint32_t block)
{
    return &t->blocks[(size_t)group * t->cap + block];
}

/* Blocks of a group that n tokens need: ceil(n / 16). */
static inline uint32_t block_table_needed(uint32_t n_tokens)
{
    return n_tokens / BLOCK_TOKENS + (n_tokens % BLOCK_TOKENS > 0);
}

/* Blocks that each group lacks before n_tokens fit; 0 when they fit. */
uint32_t block_table_missing(const struct block_table *t, uint32_t n_tokens);

/* Find the block and the slot of position `pos` in a group. False: `pos` is not mapped. */
bool block_table_locate(const struct block_table *t, uint32_t group, uint32_t pos, block_id *block,
                        uint32_t *slot);

#endif
