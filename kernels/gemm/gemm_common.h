/* kernels/gemm/gemm_common.h - macros and helpers of the vector bodies of products and attention.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef KERNELS_GEMM_GEMM_COMMON_H
#define KERNELS_GEMM_GEMM_COMMON_H

#include "kernels/gemm/codebook.h"
#include "kernels/kernels_impl.h"

#define GEMM_INLINE static inline __attribute__((always_inline))
#ifdef __SANITIZE_ADDRESS__ /* unrolled bodies with every access checked compile for minutes */
#define GEMM_UNROLL
#else
#define GEMM_UNROLL _Pragma("GCC unroll 32")
#endif

/* Define a product as an alias of `other`, which reads the same panels. */
#define GEMM_SAME(name, other)                                                                     \
    void name KERN_GEMM_PARAMS                                                                     \
    {                                                                                              \
        other(out, out_stride, x, x_stride, m, panels, n_panels, k, next);                         \
    }

/* Activation rows of a product, and the chunk of their columns to repack. */
struct gemm_rows {
    const uint8_t *x;
    size_t stride; /* bytes */
    size_t m;
    size_t k;
    size_t c0; /* first column of the chunk */
    size_t cols;
};

/* Prefetch `bytes` bytes at `at`, and at the same place in each of the P - 1 panels after it. */
GEMM_INLINE void gemm_fetch(uintptr_t at, size_t panel_bytes, size_t bytes, const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < P; i++)
        GEMM_UNROLL
    for (size_t j = 0; j < (bytes + 63) / 64; j++)
        __builtin_prefetch((const void *)(at + i * panel_bytes + 64 * j), 0, 2);
}

/* True: the sums of codes do not fit 16 bits, because values exceed 16 (one scale a group) or 32
 * (one a half). Without VNNI such codes are widened. */
GEMM_INLINE bool gemm_is_wide(const enum kern_weight w)
{
    return w == KERN_Q8_0 || w == KERN_IQ4_NL || w == KERN_IQ4_XS || w == KERN_IQ3_XXS ||
           w == KERN_IQ2_S || w == KERN_IQ2_XS || w == KERN_IQ2_XXS ||
           (kern_values_shift(w) > 0 && w != KERN_IQ2_K);
}

/* True: each half of a group has its own scale. */
GEMM_INLINE bool gemm_has_halves(const enum kern_weight w)
{
    return w == KERN_Q6_K || w == KERN_Q3_K || w == KERN_Q2_K || w == KERN_IQ2_S ||
           w == KERN_IQ2_XS || w == KERN_IQ1_M || w == KERN_NVFP4 ||
           (kern_values_shift(w) > 0 && !kern_has_row_scale(w));
}

static inline size_t gemm_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
