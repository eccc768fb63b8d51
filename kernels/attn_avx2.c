/* kernels/attn_avx2.c - attention: tiles of 6 queries.
 *
 * Three queries by two blocks would be 12 accumulators, 4 registers of keys and one of the query:
 * one too many, and a spilled accumulator costs half the speed.
 */
#include "kernels/v16_avx2.inc"

#define NAME(op) kern_##op##_avx2
#define A_TILE 6
#define A_ACC 6
#define A_TILES                                                                                    \
    ATTN_TILE(1, 3) ATTN_TILE(2, 2) ATTN_TILE(3, 1) ATTN_TILE(4, 1) ATTN_TILE(5, 1) ATTN_TILE(6, 1)
#define A_NAMES(f) f(1), f(2), f(3), f(4), f(5), f(6)
#include "kernels/attn_body.inc"
