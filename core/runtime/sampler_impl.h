/* core/runtime/sampler_impl.h - functions that the files of the sampler share.
 *
 * Thread: any; everything is in the arguments.
 * Memory: none.
 */
#ifndef CORE_RUNTIME_SAMPLER_IMPL_H
#define CORE_RUNTIME_SAMPLER_IMPL_H

#include "core/runtime/sampler.h"
#include "core/runtime/sampler_ranking.h"

#define SAMPLER_GREEDY_BELOW 1e-6f /* lower temperatures count as 0, so that 1/temperature stays
                                    * finite */

/* Apply DRY ("don't repeat yourself") to the logits: a token that would make the end of the text
 * repeat an earlier run of n >= dry_allowed_length tokens loses dry_multiplier * dry_base^(n -
 * dry_allowed_length). Runs are looked for in the last dry_last_n tokens, end at a breaker, and
 * count up to SAMPLER_MAX_REPEAT. A breaker itself loses nothing.
 * repeats: [n_vocab], all zero before and after. */
#define SAMPLER_MAX_REPEAT 50
void sampler_dry(uint32_t *repeats, const struct batch_output *o, float *logits);

/* Apply repetition, frequency and presence penalties to the logits. counts: [n_vocab], all zero
 * before and after. */
void sampler_penalties(uint32_t *counts, const struct batch_output *o, float *logits);
bool sampler_has_penalties(const struct batch_output *o);
/* Set the logits of banned tokens to -infinity: those not in `allowed`, and the last token of each
 * bad word whose other tokens the text ends with. */
void sampler_bans(const struct batch_output *o, float *logits, uint32_t n_vocab);

/* The tokens of a row that the stages so far have left: all tokens, or a run of ranks. */
struct sampler_chain {
    const struct kern_table *kern;
    struct sampler_scratch *s;
    const struct sampling *p;
    const float *x; /* [n_vocab] the logits; tokens that XTC removed are -infinity */
    uint32_t n_vocab;
    float best, scale; /* best: logit of the best token left; scale: 1 / temperature of the stages
                        * so far */
    struct ranking ranking;
    uint32_t from, to; /* ranks from .. to - 1 are left */
    bool is_whole;     /* nothing was cut yet: from and to are 0 */
};

/* Run the request's stages over logits x, which may be s->logits. False: the largest logit is not
 * finite. */
bool sampler_chain_cut(struct sampler_chain *c, const struct kern_table *kern,
                       struct sampler_scratch *s, const float *x, const struct batch_output *o);
/* Draw one of the tokens left by u in [0, 1); with wants_shares also fill o's shares. */
void sampler_chain_draw(struct sampler_chain *c, struct batch_output *o, double u);

/* Weight and id of the i-th token left (0 is the best), relative to the best token's weight; a
 * weight below 0: there are fewer tokens. sampler_chain_total() is the sum of all weights. */
float sampler_chain_weight(struct sampler_chain *c, uint32_t i);
int32_t sampler_chain_id(struct sampler_chain *c, uint32_t i);
double sampler_chain_total(struct sampler_chain *c);

/* Draw a token of the whole row by weights exp((x - max) * scale) and u in [0, 1). */
int32_t sampler_draw_from_all(const struct kern_table *kern, struct sampler_scratch *s,
                              const float *x, float max, float scale, double u);

#endif
