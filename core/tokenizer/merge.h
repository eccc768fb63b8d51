/* core/tokenizer/merge.h - joins neighbouring symbols, best pair first, until no pair can be
 * joined.
 *
 * BPE and SentencePiece are both this loop; they differ in which pairs may be joined and in the
 * order: by merge rank (BPE) or by the joined piece's score (SentencePiece). Equal ranks go left to
 * right. A binary heap keeps it at O(n log n) for any text.
 *
 * Thread: one owner.
 * Memory: two arrays that grow with the longest run and are kept between runs.
 */
#ifndef CORE_TOKENIZER_MERGE_H
#define CORE_TOKENIZER_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/budget.h"

#define SYMBOL_NONE UINT32_MAX
#define RANK_NONE UINT32_MAX

struct symbol {
    uint32_t at, len;    /* bytes of the text that the symbol covers */
    uint32_t prev, next; /* neighbours, or SYMBOL_NONE */
    int32_t id;          /* token of these bytes, or TOKEN_NONE */
    uint32_t rank;       /* rank of joining it with `next`, lowest first, or RANK_NONE */
    int32_t joined;      /* token of the join with `next` */
};

struct merge { /* all zero: valid and empty */
    struct symbol *symbols;
    uint64_t *heap; /* rank << 32 | left symbol */
    size_t n_heap;
    size_t cap;     /* symbols; the heap has room for twice as many */
    uint64_t steps; /* pairs looked up so far */
    struct budget *budget; /* borrowed, or NULL */
};

/* Return the rank of joining `left` and `right` and set *joined to the joined token, or return
 * RANK_NONE. */
typedef uint32_t (*merge_rank_fn)(const void *model, const char *text, const struct symbol *left,
                                  const struct symbol *right, int32_t *joined);

/* Make room for a run of n symbols; the old contents are lost. 0 or ERR_NOMEM. */
int merge_reserve(struct merge *m, size_t n);
void merge_release(struct merge *m);

/* Join symbols[0..n), n >= 1, of which at, len and id are set. The remaining symbols are linked by
 * `next` from symbols[0] on. When the budget is used up it stops early; the caller then checks
 * budget_error(). */
void merge_run(struct merge *m, size_t n, const char *text, merge_rank_fn rank_of,
               const void *model);

#endif
