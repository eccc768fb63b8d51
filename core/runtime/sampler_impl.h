/* core/runtime/sampler_impl.h - what the files of sampler.c share.
 *
 * Thread: any; everything is in the arguments.
 * Memory: none.
 */
#ifndef CORE_RUNTIME_SAMPLER_IMPL_H
#define CORE_RUNTIME_SAMPLER_IMPL_H

#include "core/runtime/sampler.h"

/* DRY ("don't repeat yourself"): a token that would make the end of the text repeat an earlier run
 * of n >= dry_allowed_length tokens loses dry_multiplier * dry_base^(n - dry_allowed_length). Runs
 * are looked for in the last dry_last_n tokens, end at a breaker, and count up to
 * SAMPLER_MAX_REPEAT.
 * repeats: [n_vocab], all zero before and after. */
#define SAMPLER_MAX_REPEAT 50
void sampler_dry(uint16_t *repeats, const struct batch_output *o, float *logits);

static inline bool sampler_is_typical(const struct sampling *p)
{
    return p->typical_p > 0.0f && p->typical_p < 1.0f;
}

/* Draw one of picks[0..n), best first, after typical_p and XTC, or by mirostat; picks[0 .. 2n) is
 * scratch. */
int32_t sampler_draw_picks(struct pick *picks, uint32_t n, const struct batch_output *o, double u);

#endif
