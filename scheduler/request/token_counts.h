/* scheduler/request/token_counts.h - counts how often each token occurs in a request's prompt and
 * in its answer, for the penalties.
 *
 * The counted tokens are a dense list, in the order of their first appearance: reading it takes as
 * much work as there are different tokens. An open-addressed index finds a token in it; it doubles
 * as the list grows. Each size has its own part of the memory, so that nothing is allocated after
 * the start and only pages that are in use are ever touched.
 *
 * Thread: one owner.
 * Memory: token_counts_bytes() of the owner's, zeroed, aligned to 4.
 */
#ifndef SCHEDULER_REQUEST_TOKEN_COUNTS_H
#define SCHEDULER_REQUEST_TOKEN_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "core/runtime/batch.h"

struct token_counts { /* zero counts nothing */
    struct token_count *list; /* [n] */
    uint32_t n;
    /* private */
    uint32_t *index; /* [2 * capacity at most]: the table of size c lies at c; 0 = free, else a
                      * position in the list + 1 */
    uint32_t capacity; /* of the table in use: a power of two >= 2 * n */
};

/* Bytes for at most `max` different tokens. */
size_t token_counts_bytes(uint32_t max);
/* `memory` is borrowed until the counts are not used any more. */
void token_counts_init(struct token_counts *c, void *memory, uint32_t max);
/* Reset all counts. */
void token_counts_clear(struct token_counts *c);
/* Return the token's count, which is zero if the token is new. Amortised O(1); the pointer is valid
 * until the next call. */
struct token_count *token_counts_at(struct token_counts *c, int32_t token);

#endif
