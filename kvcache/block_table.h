/* kvcache/block_table.h - a sequence's list of blocks: logical position -> physical block.
 *
 * One table serves all layers. Position p lies in blocks[p / 16], slot p % 16. The table never
 * holds a block that the pool does not count it for: kv_manager alone fills and empties it.
 *
 * Thread: engine thread only.
 * Memory: `blocks` is the caller's array of `cap` entries (block_table_init borrows it).
 */
#ifndef KVCACHE_BLOCK_TABLE_H
#define KVCACHE_BLOCK_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "kvcache/block_pool.h"

struct block_table {
    block_id *blocks;
    uint32_t n;   /* blocks in use */
    uint32_t cap; /* blocks that fit */
};

/* With cap 0 `blocks` may be NULL. */
void block_table_init(struct block_table *t, block_id *blocks, uint32_t cap);

/* Blocks that n tokens need: ceil(n / 16). */
static inline uint32_t block_table_needed(uint32_t n_tokens)
{
    return (n_tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
}

/* Blocks to be taken before n_tokens fit; 0 when they do. */
uint32_t block_table_missing(const struct block_table *t, uint32_t n_tokens);

/* Block and slot of a position; false when it is unmapped. */
bool block_table_locate(const struct block_table *t, uint32_t pos, block_id *block,
                        uint32_t *slot);

#endif
