/* scheduler/request/token_lookup.c - see token_lookup.h.
 *
 * A hash table of chains: `heads` has the latest position of each hash of two tokens, and `before`
 * links a position to the one before it with the same hash. Different pairs may share a chain,
 * which is why a match is compared token by token and one of fewer than two tokens is none. A text
 * only grows (until a clear), so positions are entered once and never removed.
 */
#include "scheduler/request/token_lookup.h"

#include <assert.h>
#include <string.h>

#define FEWEST_HEADS 16u

/* Return a power of two between max / 2 and max. */
static uint32_t n_heads_for(uint32_t max)
{
    uint32_t n = FEWEST_HEADS;

    while (n < max / 2)
        n *= 2;
    return n;
}

size_t token_lookup_bytes(uint32_t max)
{
    return ((size_t)n_heads_for(max) + max) * sizeof(uint32_t);
}

void token_lookup_init(struct token_lookup *l, void *memory, uint32_t max)
{
    *l = (struct token_lookup){.heads = memory, .n_heads = n_heads_for(max), .max = max};
    l->before = l->heads + l->n_heads;
}

void token_lookup_clear(struct token_lookup *l)
{
    if (l->heads != NULL)
        memset(l->heads, 0, l->n_heads * sizeof(*l->heads));
    l->n = 0;
}

/* Return the chain of the pair of tokens that ends at *last. */
static uint32_t *head_of(const struct token_lookup *l, const int32_t *last)
{
    const uint64_t pair = (uint64_t)(uint32_t)last[-1] << 32 | (uint32_t)last[0];

    return &l->heads[(pair * 0x9e3779b97f4a7c15u >> 32) & (l->n_heads - 1)]; /* Fibonacci hashing */
}

void token_lookup_extend(struct token_lookup *l, const int32_t *text, uint32_t n)
{
    assert(n <= l->max);
    for (uint32_t i = l->n > 0 ? l->n : 1; i < n; i++) {
        uint32_t *head = head_of(l, text + i);

        l->before[i] = *head;
        *head = i;
    }
    if (n > l->n)
        l->n = n;
}

struct lookup_match token_lookup_match(const int32_t *text, uint32_t next, const int32_t *tail,
                                       uint32_t n_tail)
{
    uint32_t most = next < n_tail ? next : n_tail, n = 0;

    if (most > LOOKUP_MAX_MATCH)
        most = LOOKUP_MAX_MATCH;
    while (n < most && text[next - 1 - n] == tail[n_tail - 1 - n])
        n++;
    return (struct lookup_match){next, n};
}

struct lookup_match token_lookup_find(const struct token_lookup *l, const int32_t *text,
                                      const int32_t *tail, uint32_t n_tail)
{
    struct lookup_match best = {0};
    uint32_t at, n_looked = 0;

    if (n_tail < 2 || l->n < 2)
        return best;
    for (at = *head_of(l, tail + n_tail - 1); at != 0 && n_looked < LOOKUP_CHAIN;
         at = l->before[at], n_looked++) {
        const struct lookup_match m = token_lookup_match(text, at + 1, tail, n_tail);

        if (m.n_match > best.n_match)
            best = m;
    }
    return best.n_match >= 2 ? best : (struct lookup_match){0}; /* shorter: only hashes are equal */
}
