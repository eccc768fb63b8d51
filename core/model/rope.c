/* core/model/rope.c - see rope.h.
 *
 * The table is computed once at load: a cosine and a sine for each position and pair, so that a
 * step only multiplies. YaRN blends two frequencies of a pair by the share that its speed gives:
 * pairs that turn more than beta_fast times in the original context keep their frequency, slow ones
 * are divided by the factor.
 */
#include "core/model/rope.h"

#include "core/base/maths.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#define PI 3.14159265358979323846

/* Return the pair, as a real number, that rotates `beta` times within the original context. */
static double pair_turning(const struct rope_options *o, double beta)
{
    return o->n_rot * maths_log(o->n_ctx_orig / (beta * 2.0 * PI)) / (2.0 * maths_log(o->base));
}

/* Return the share of pair j that is scaled: 0 for fast pairs, 1 for slow ones. */
static double yarn_share(const struct rope_options *o, uint32_t j)
{
    double low = pair_turning(o, o->beta_fast), high = pair_turning(o, o->beta_slow), share;

    if (!o->is_exact) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, o->n_rot - 1.0);
    share = (j - low) / fmax(high - low, 0.001);
    return fmin(fmax(share, 0.0), 1.0);
}

static double radians_a_position(const struct rope_options *o, uint32_t j)
{
    const double divisor = o->divisors != NULL ? (double)o->divisors[j] : 1.0;
    const double plain = maths_pow(o->base, -2.0 * j / o->n_rot) / divisor;
    const double share = o->is_yarn ? yarn_share(o, j) : 1.0;

    return plain / o->factor * share + plain * (1.0 - share);
}

void rope_tables(const struct rope_options *o, float *cos_out, float *sin_out)
{
    const uint32_t n = o->n_rot / 2;
    double frequency[KERN_MAX_HEAD / 2];

    assert(n <= KERN_MAX_HEAD / 2);
    for (uint32_t j = 0; j < n; j++)
        frequency[j] = radians_a_position(o, j);
    for (uint32_t p = 0; p < o->n_ctx; p++)
        for (uint32_t j = 0; j < n; j++) {
            double sine, cosine;

            maths_sin_cos(p * frequency[j], &sine, &cosine);
            cos_out[(size_t)p * n + j] = (float)(cosine * o->magnitude);
            sin_out[(size_t)p * n + j] = (float)(sine * o->magnitude);
        }
}
