/* kernels/attn_avx512.c - attention: tiles of 12 queries. */
#include "kernels/v16_avx512.inc"

#define NAME(op) kern_##op##_avx512
#define A_TILE 12
#define A_ACC 12
#define A_TILES                                                                                    \
    ATTN_TILE(1, 4)                                                                                \
    ATTN_TILE(2, 4)                                                                                \
    ATTN_TILE(3, 4)                                                                                \
    ATTN_TILE(4, 3)                                                                                \
    ATTN_TILE(5, 2)                                                                                \
    ATTN_TILE(6, 2)                                                                                \
    ATTN_TILE(7, 1)                                                                                \
    ATTN_TILE(8, 1) ATTN_TILE(9, 1) ATTN_TILE(10, 1) ATTN_TILE(11, 1) ATTN_TILE(12, 1)
#define A_NAMES(f) f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12)
#include "kernels/attn_body.inc"
