/* kvcache/block_table.c - see block_table.h.
 *
 * Zero is BLOCK_NONE, so a cleared array is a table without blocks. The kernels read the array
 * itself (plan_item.table); positions are split into block and slot by dividing by 16.
 */
#include "kvcache/block_table.h"

#include <string.h>

void block_table_init(struct block_table *t, block_id *blocks, uint32_t cap, uint32_t n_groups)
{
    *t = (struct block_table){.blocks = blocks, .cap = cap, .n_groups = n_groups};
    if (cap > 0) /* a table of cap 0 may have no array */
        memset(blocks, 0, (size_t)n_groups * cap * sizeof(*blocks));
}

uint32_t block_table_missing(const struct block_table *t, uint32_t n_tokens)
{
    const uint32_t needed = block_table_needed(n_tokens);

    return needed > t->n ? needed - t->n : 0;
}

bool block_table_locate(const struct block_table *t, uint32_t group, uint32_t pos, block_id *block,
                        uint32_t *slot)
{
    if (pos / BLOCK_TOKENS >= t->n)
        return false;
    *block = *block_table_at(t, group, pos / BLOCK_TOKENS);
    *slot = pos % BLOCK_TOKENS;
    return *block != BLOCK_NONE;
}
