/* core/model/rope.h - the angles of rotary positions, as tables.
 *
 * Pair j of n_rot/2 turns at position p by p / (factor * divisor[j] * base^(2j / n_rot)). Computed
 * in double and rounded once, so that no step ever calls libm.
 *
 * Thread: any.
 * Memory: the caller's.
 */
#ifndef CORE_MODEL_ROPE_H
#define CORE_MODEL_ROPE_H

#include <stdint.h>

struct rope_options {
    uint32_t n_ctx;        /* positions 0 .. n_ctx - 1 */
    uint32_t n_rot;        /* dimensions turned; even */
    double base;           /* > 0 */
    double factor;         /* linear scaling, > 0; 1 = none */
    const float *divisors; /* [n_rot/2] all > 0 (llama 3 scaling), or NULL */
};

/* cos_out, sin_out: [n_ctx][n_rot/2] */
void rope_tables(const struct rope_options *o, float *cos_out, float *sin_out);

#endif
