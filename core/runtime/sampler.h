/* core/runtime/sampler.h - turns a row of logits into a token and its log-probabilities.
 *
 * Order: log-probabilities are those of the raw logits. Then logit_bias, penalties and bans change
 * the logits, and tokens that a constraint forbids are removed, whatever their bias; if the
 * constraint allows the text to end, end-of-generation tokens are allowed unless they are banned.
 * Temperature 0 (or below 1e-6) takes the largest, ties to the lowest id; otherwise weights are
 * exp((logit - max) / temperature) and are cut by top_k, then top_p of what is left, then min_p of
 * the largest, then typical_p, then XTC; one token is drawn with random_uniform(seed, pos).
 * Mirostat replaces all these cuts. A request may have a chain instead, which gives the order of
 * cuts and temperature. Every stage computes shares among the tokens that the stage before it left.
 * Every sum is taken in one fixed order, so the answer depends only on the logits and the request.
 *
 * Thread: any; a struct sampler_scratch belongs to one thread.
 * Memory: the scratch is taken at creation.
 */
#ifndef CORE_RUNTIME_SAMPLER_H
#define CORE_RUNTIME_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "core/runtime/batch.h"
#include "kernels/kernels.h"

struct candidate {
    float logit;
    int32_t id;
};

struct sampler_share {
    int32_t id;
    float p;
};

struct sampler_scratch {
    uint32_t n_vocab;
    float *logits;          /* [n_vocab] copy of the row, if logits must be changed */
    struct candidate *heap; /* [n_vocab] */
    float *weights;         /* sums of the weights of each block of 1,024 tokens */
    uint32_t *repeats;      /* [n_vocab] for DRY and penalties; zero between calls */
    uint32_t *mask;         /* [n_vocab / 32 + 1] tokens that a constraint allows */
    struct constraint_scratch *walk;
};

int sampler_scratch_create(struct sampler_scratch *s, uint32_t n_vocab);
void sampler_scratch_release(struct sampler_scratch *s);

/* Fill the outputs of `o` from its row of logits [n_vocab]; o->ban_eog bans the ids in eog. The
 * chosen token advances the constraint. */
void sampler_pick(const struct kern_table *kern, struct sampler_scratch *s, const float *logits,
                  const int32_t *eog, size_t n_eog, struct batch_output *o);

/* For tests: the distribution that sampler_pick() would draw from, as ids and their shares of 1,
 * best first, in out[n_vocab]. Returns their number. */
uint32_t sampler_shares(const struct kern_table *kern, struct sampler_scratch *s,
                        const float *logits, const int32_t *eog, size_t n_eog,
                        const struct batch_output *o, struct sampler_share *out);

#endif
