/* scheduler/request/token_counts.c - see token_counts.h.
 *
 * The index of capacity c lies at offset c of one array: growing moves on to the next, still zeroed
 * region instead of allocating, and enters the list again. The list is never sorted or thinned out;
 * a slot of the index holds 1 + the position in the list, so zeroed memory is an empty table.
 */
#include "scheduler/request/token_counts.h"

#include <string.h>

#define SMALLEST 16u

static uint32_t capacity_for(uint32_t n)
{
    uint32_t capacity = SMALLEST;

    while (capacity < 2 * n)
        capacity *= 2;
    return capacity;
}

size_t token_counts_bytes(uint32_t max)
{
    return max * sizeof(struct token_count) + 2 * (size_t)capacity_for(max) * sizeof(uint32_t);
}

void token_counts_init(struct token_counts *c, void *memory, uint32_t max)
{
    struct token_count *list = memory;

    *c = (struct token_counts){
        .list = list, .index = (uint32_t *)(void *)(list + max), .capacity = SMALLEST};
}

/* Empty the counts. Every table up to the one in use was written to, so all of them are zeroed. */
void token_counts_clear(struct token_counts *c)
{
    memset(c->index + SMALLEST, 0, (2 * (size_t)c->capacity - SMALLEST) * sizeof(*c->index));
    c->n = 0;
    c->capacity = SMALLEST;
}

/* Return the token's slot in the table in use, or the free slot where it belongs. */
static uint32_t *find_slot(const struct token_counts *c, int32_t token)
{
    uint32_t *table = c->index + c->capacity;
    const uint32_t mask = c->capacity - 1;
    uint32_t i = ((uint32_t)token * 2654435761u) & mask; /* Knuth's multiplicative hash */

    while (table[i] != 0 && c->list[table[i] - 1].id != token)
        i = (i + 1) & mask;
    return &table[i];
}

static void grow_counts(struct token_counts *c)
{
    c->capacity *= 2;
    for (uint32_t i = 0; i < c->n; i++)
        *find_slot(c, c->list[i].id) = i + 1;
}

struct token_count *token_counts_at(struct token_counts *c, int32_t token)
{
    uint32_t *slot = find_slot(c, token);

    if (*slot == 0 && 2 * (c->n + 1) > c->capacity) {
        grow_counts(c);
        slot = find_slot(c, token);
    }
    if (*slot == 0) {
        c->list[c->n] = (struct token_count){.id = token};
        *slot = ++c->n;
    }
    return &c->list[*slot - 1];
}
