/* core/model/rope.h - the tables of rotary position embeddings (RoPE).
 *
 * The angle of pair j of n_rot/2 at position p is p / (factor * divisor[j] * base^(2j / n_rot)).
 * With YaRN (arXiv 2309.00071) only angles of pairs of low frequency are divided by the factor,
 * those of high frequency are not, and those in between in part. Computed in double
 * (core/base/maths.h: the same everywhere) and rounded once.
 *
 * Thread: any.
 * Memory: the caller's.
 */
#ifndef CORE_MODEL_ROPE_H
#define CORE_MODEL_ROPE_H

#include <stdbool.h>
#include <stdint.h>

struct rope_options {
    uint32_t n_ctx;        /* positions 0 .. n_ctx - 1 */
    uint32_t n_rot;        /* dimensions that are rotated; even */
    double base;           /* > 0, and not 1 with yarn */
    double factor;         /* scaling, > 0; 1 = none */
    const float *divisors; /* [n_rot/2] all > 0 (llama 3, longrope), or NULL */
    double magnitude;      /* factor of the rotated vectors; 1: unchanged */
    bool is_yarn;
    /* Pairs that rotate more often than beta_fast within n_ctx_orig positions are not scaled, those
     * that rotate less often than beta_slow are scaled in full; unless is_exact, the bounds are
     * rounded to whole pairs. */
    double n_ctx_orig, beta_fast, beta_slow;
    bool is_exact;
};

/* Compute cos_out and sin_out, [n_ctx][n_rot/2] each, multiplied by magnitude. */
void rope_tables(const struct rope_options *o, float *cos_out, float *sin_out);

#endif
