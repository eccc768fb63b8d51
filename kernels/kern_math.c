/* kernels/kern_math.c - the shared arithmetic that code outside of kernels/ uses; see kernels.h.
 *
 * Bodies inline kern_math.h with their own compiler flags; this file gives kern_exp() and
 * kern_lanes_sum() addresses for the sampler and others. kern_log() is an explicit series in
 * double, because the last bits of libm's logarithm differ between systems.
 */
#include "kernels/kern_math.h"

float kern_exp(float x)
{
    return kern_exp_inline(x);
}

double kern_log(double x)
{
    const double ln2_hi = 0x1.62e42fefa38p-1; /* 42 bits: times an exponent is exact */
    const double ln2_lo = 0x1.ef35793c7673p-45;
    int e = 0;
    uint64_t u;

    if (x < 0x1p-1022) { /* subnormal */
        x *= 0x1p54;
        e = -54;
    }
    memcpy(&u, &x, sizeof u);
    e += (int)(u >> 52) - 1023;
    u = (u & 0xfffffffffffffu) | 0x3ff0000000000000u;
    memcpy(&x, &u, sizeof x);
    if (x > 0x1.6a09e667f3bcdp0) { /* above sqrt(2): keep the mantissa around 1 */
        x *= 0.5;
        e++;
    }

    /* log x = 2 atanh(f), f = (x - 1) / (x + 1), |f| < 0.1716; odd terms up to f^23. */
    const double f = (x - 1) / (x + 1);
    const double f2 = f * f;
    double p = 1.0 / 23;
    for (int n = 21; n >= 3; n -= 2)
        p = p * f2 + 1.0 / n;
    return e * ln2_hi + (2 * f + (2 * f * f2 * p + e * ln2_lo));
}

float kern_lanes_sum(const float l[KERN_LANES])
{
    return kern_lanes_sum_inline(l);
}
