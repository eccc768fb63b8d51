/* core/runtime/sampler_impl.h - what the files of sampler.c share.
 *
 * Thread: any; everything is in the arguments.
 * Memory: none.
 */
#ifndef CORE_RUNTIME_SAMPLER_IMPL_H
#define CORE_RUNTIME_SAMPLER_IMPL_H

#include "core/runtime/sampler.h"

#define SAMPLER_GREEDY_BELOW 1e-6f /* 1/temperature stays finite and exact enough above */

/* DRY ("don't repeat yourself"): a token that would make the end of the text repeat an earlier run
 * of n >= dry_allowed_length tokens loses dry_multiplier * dry_base^(n - dry_allowed_length). Runs
 * are looked for in the last dry_last_n tokens, end at a breaker, and count up to
 * SAMPLER_MAX_REPEAT.
 * repeats: [n_vocab], all zero before and after. */
#define SAMPLER_MAX_REPEAT 50
void sampler_dry(uint32_t *repeats, const struct batch_output *o, float *logits);

/* Repetition, frequency and presence penalties; counts: [n_vocab], all zero before and after. */
void sampler_penalties(uint32_t *counts, const struct batch_output *o, float *logits);
bool sampler_has_penalties(const struct batch_output *o);
/* What may not come is -infinity: all that is not allowed, and the last token of a bad word that
 * the text ends with but for that. */
void sampler_bans(const struct batch_output *o, float *logits, uint32_t n_vocab);

static inline bool sampler_is_typical(const struct sampling *p)
{
    return p->typical_p > 0.0f && p->typical_p < 1.0f;
}

/* The `most` likeliest tokens, at most SAMPLER_PICKS, as s->picks, best first, with weights
 * exp(logit - max). Returns how many. */
uint32_t sampler_best(const struct kern_table *kern, struct sampler_scratch *s, const float *x,
                      float max, uint32_t most);

/* Draw one of picks[0..n), best first, after typical_p and XTC, or by mirostat; picks[0 .. 2n) is
 * scratch. */
int32_t sampler_draw_picks(struct pick *picks, uint32_t n, const struct batch_output *o, double u);
/* Index of the pick at u of the sum. */
uint32_t sampler_draw_one(const struct pick *picks, uint32_t n, double u);
/* The cuts by themselves: how many stay, at least min_keep; p are shares of 1. picks[0 .. 2n) is
 * scratch. */
uint32_t sampler_cut_typical(struct pick *picks, uint32_t n, float share, uint32_t min_keep);
uint32_t sampler_cut_xtc(struct pick *picks, uint32_t n, float threshold, uint32_t min_keep);

/* Draw a token by the chain; with wants_shares the outputs of `o` are filled, too. */
int32_t sampler_chain(const struct kern_table *kern, struct sampler_scratch *s, const float *x,
                      struct batch_output *o, double u);

#endif
