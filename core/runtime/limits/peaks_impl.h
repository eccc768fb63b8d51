/* core/runtime/limits/peaks_impl.h - the loops that every architecture's levels are made of.
 *
 * A loop of integers repeats a group of 32 columns: eight quads for each sum, then the conversion
 * of the sum to a float, as the tiles in kernels/gemm/ do it. Sums are not reset: integers wrap,
 * and no instruction here takes longer for great numbers. Loading and unpacking weights is left
 * out, since a tile of many rows does it once for all of them.
 *
 * IN_VECTOR is the constraint of inline assembly for a vector register.
 *
 * Thread: any. Memory: none.
 */
#ifndef CORE_RUNTIME_LIMITS_PEAKS_IMPL_H
#define CORE_RUNTIME_LIMITS_PEAKS_IMPL_H

#include "kernels/kernels.h"

struct peak_level {
    const char *isa;
    void (*run[KERN_N_PRODUCT])(void); /* by enum kern_product */
    double lanes;
};

/* Return the loops of a level; a level without loops of its own has those of "scalar". */
const struct peak_level *peak_level_of(enum kern_isa isa);

#if defined(__x86_64__)
#define IN_VECTOR "v"
#else
#define IN_VECTOR "w"
#endif

#define N_GROUPS 8192 /* groups in a run: a fifth of a millisecond or more */
#define N_FMAS 65536
#define GROUP_SUMS 10 /* sums that fill sixteen registers together with a group's other operands */
#define FMA_SUMS 12   /* sums that hide the latency of any fused multiply-add */

/* Hide the value of v from the compiler, so that it neither folds nor moves the code that uses
 * v. */
#define OPAQUE(v) __asm__ volatile("" : "+" IN_VECTOR(v))

#define EACH_SUM _Pragma("GCC unroll 10") for (int j = 0; j < GROUP_SUMS; j++)
#define EACH_FMA _Pragma("GCC unroll 12") for (int j = 0; j < FMA_SUMS; j++)

/* Define a loop that measures products in groups. `add`: an expression, the integer sum a plus the
 * products of w and x of one step. `finish`: a statement that converts a to float and adds it to
 * s. */
#define GROUPS(name, isa, int_vector, ones, float_vector, half, n_steps, add, finish)              \
    __attribute__((target(isa))) static void name(void)                                            \
    {                                                                                              \
        int_vector w = ones, x = ones, sums[GROUP_SUMS];                                           \
        float_vector d = half, scale = half, out[2] = {half, half};                                \
                                                                                                   \
        EACH_SUM sums[j] = x;                                                                      \
        for (int i = 0; i < N_GROUPS; i++) {                                                       \
            _Pragma("GCC unroll 16") for (int q = 0; q < n_steps; q++) EACH_SUM                    \
            {                                                                                      \
                int_vector a = sums[j];                                                            \
                OPAQUE(w);                                                                         \
                a = add;                                                                           \
                OPAQUE(a);                                                                         \
                sums[j] = a;                                                                       \
            }                                                                                      \
            EACH_SUM                                                                               \
            {                                                                                      \
                int_vector a = sums[j];                                                            \
                float_vector s = out[j % 2];                                                       \
                OPAQUE(scale);                                                                     \
                finish;                                                                            \
                OPAQUE(s);                                                                         \
                out[j % 2] = s;                                                                    \
            }                                                                                      \
        }                                                                                          \
    }

#define FMAS(name, isa, vector, start, step)                                                       \
    __attribute__((target(isa))) static void name(void)                                            \
    {                                                                                              \
        const vector x = start;                                                                    \
        vector a[FMA_SUMS];                                                                        \
                                                                                                   \
        EACH_FMA a[j] = x;                                                                         \
        for (int i = 0; i < N_FMAS; i++)                                                           \
            EACH_FMA                                                                               \
            {                                                                                      \
                OPAQUE(a[j]);                                                                      \
                a[j] = step;                                                                       \
            }                                                                                      \
        EACH_FMA __asm__ volatile("" : : IN_VECTOR(a[j]));                                         \
    }

#endif
