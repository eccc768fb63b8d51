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
    float depth, deepest; /* depth of the next band below the largest logit; depth of the last band
                           * but one */
    float floor;          /* lower bound of the last band, a logit */
    struct candidate *at;
    uint32_t base;        /* number of ranked tokens of earlier bands: at[0 .. base), best first */
    uint32_t n, n_popped; /* tokens of this band: a heap, and behind it the popped ones, best
                           * last */
};

void ranking_init(struct ranking *r, const struct kern_table *kern, struct candidate *at,
                  const float *x, uint32_t n_vocab);

/* Set the depth of the next band below the largest logit, before a rank is asked for; the order
 * does not depend on it. */
void ranking_reach(struct ranking *r, float depth);

/* The candidate of that rank; 0 is the best; NULL: there are fewer. It is valid until another rank
 * is asked for. */
const struct candidate *ranking_at(struct ranking *r, uint32_t rank);

/* Whether all tokens from that logit on have been gathered, and are no more than `rank`. */
bool ranking_ends(const struct ranking *r, uint32_t rank, float logit);

/* Number of tokens that have a rank. */
uint32_t ranking_count(const struct ranking *r);

#endif
