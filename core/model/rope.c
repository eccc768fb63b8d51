/* core/model/rope.c - see rope.h. */
#include "core/model/rope.h"

#include "kernels/kernels.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

void rope_tables(const struct rope_options *o, float *cos_out, float *sin_out)
{
    const uint32_t n = o->n_rot / 2;
    double turn[KERN_MAX_HEAD / 2]; /* radians a position */

    assert(n <= KERN_MAX_HEAD / 2);
    for (uint32_t j = 0; j < n; j++) {
        const double divisor = o->divisors != NULL ? (double)o->divisors[j] : 1.0;

        turn[j] = pow(o->base, -2.0 * j / o->n_rot) / (o->factor * divisor);
    }
    for (uint32_t p = 0; p < o->n_ctx; p++)
        for (uint32_t j = 0; j < n; j++) {
            const double angle = p * turn[j];

            cos_out[(size_t)p * n + j] = (float)cos(angle);
            sin_out[(size_t)p * n + j] = (float)sin(angle);
        }
}
