/* core/runtime/sampler_ranking.h - the tokens of a row in descending order, sorted only as far as
 * they are asked for.
 *
 * Larger logits come first, equal ones by ascending id. Tokens are gathered in bands below the
 * largest logit, each band twice as deep as the one before it, and a band is sorted token by token,
 * so that the few best tokens of a vocabulary cost little. Tokens with logit -infinity or NaN have
 * no rank.
 *
 * Thread: one, that of the scratch.
 * Memory: `at`, [n_vocab], belongs to the caller and must live as long as the ranking.
 */
#ifndef CORE_RUNTIME_SAMPLER_RANKING_H
#define CORE_RUNTIME_SAMPLER_RANKING_H

#include <stdbool.h>

#include "core/runtime/sampler.h"

struct ranking {
    const struct kern_table *kern;
    const float *x; /* [n_vocab] logits; the largest is finite */
    uint32_t n_vocab;
    float max;
    float depth, deepest; /* depth: of the next band below the largest logit; deepest: of the last
                           * band but one */
    float floor;          /* lower bound of the last band, a logit */
    struct candidate *at;
    uint32_t base;        /* number of ranked tokens of earlier bands: at[0 .. base), best first */
    uint32_t n, n_popped; /* tokens of this band: first a heap of n, then the n_popped popped ones,
                           * best last */
};

void ranking_init(struct ranking *r, const struct kern_table *kern, struct candidate *at,
                  const float *x, uint32_t n_vocab);

/* Set the depth of the next band below the largest logit, before a rank is asked for; the order
 * does not depend on it. */
void ranking_reach(struct ranking *r, float depth);

/* Return the candidate of that rank (0 is the best), or NULL if there are fewer. It is valid until
 * the next call. */
const struct candidate *ranking_at(struct ranking *r, uint32_t rank);

/* True: all tokens with at least that logit have been gathered, and they are `rank` or fewer. */
bool ranking_ends(const struct ranking *r, uint32_t rank, float logit);

/* Return the number of tokens that have a rank. */
uint32_t ranking_count(const struct ranking *r);

#endif
