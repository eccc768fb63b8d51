/* core/runtime/sampler_ranking.h - the tokens of a row in descending order, as far as they are
 * asked for.
 *
 * The order is that of the logits, equals by their ids. Tokens are gathered in bands below the
 * largest logit, each band twice as deep as the one before it, and a band is sorted token by
 * token: the few best of a vocabulary cost little, and all of them can be had. Tokens of logit
 * -infinity or NaN have no rank.
 *
 * Thread: one, that of the scratch.
 * Memory: `at` is the caller's, of n_vocab candidates, until the ranking is no longer used.
 */
#ifndef CORE_RUNTIME_SAMPLER_RANKING_H
#define CORE_RUNTIME_SAMPLER_RANKING_H

#include <stdbool.h>

#include "core/runtime/sampler.h"

struct ranking {
    const struct kern_table *kern;
    const float *x; /* [n_vocab], of which the largest is finite */
    uint32_t n_vocab;
    float max;
    float depth, deepest; /* of the next band below the largest logit, and of the last but one */
    float floor;          /* of the last band, a logit */
    struct candidate *at;
    uint32_t base;        /* ranks of earlier bands: at[0 .. base), best first */
    uint32_t n, n_popped; /* of this band: a heap, behind which those taken off lie, best last */
};

void ranking_init(struct ranking *r, const struct kern_table *kern, struct candidate *at,
                  const float *x, uint32_t n_vocab);

/* The next band reaches so far below the largest logit. To be said before a rank is asked for; the
 * order does not depend on it. */
void ranking_reach(struct ranking *r, float depth);

/* The candidate of that rank, 0 is the best; NULL: there are not so many. It stands until another
 * rank is asked for. */
const struct candidate *ranking_at(struct ranking *r, uint32_t rank);

/* Have all tokens from that logit on been gathered, and are there not so many? */
bool ranking_ends(const struct ranking *r, uint32_t rank, float logit);

/* How many tokens have a rank. */
uint32_t ranking_count(const struct ranking *r);

#endif
