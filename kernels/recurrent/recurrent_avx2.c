/* kernels/recurrent/recurrent_avx2.c - recurrent layers on AVX2; recurrent_scalar.c defines
 * them.
 *
 * Three bodies on v16 as two ymm registers. Lanes are channels or columns of the state, and no sum
 * has two of them, so vectors need no reduction. Tiles are small, because a v16 takes two of 16
 * registers: the delta rule passes over one vector of columns at a time.
 */
#include "kernels/simd/v16_avx2.inc"

#define NAME(op) kern_##op##_avx2
#include "kernels/recurrent/recurrent_body.inc"

/* A vector takes two of 16 registers: enough for two rows of one vector of columns, or two vectors
 * of one row. */
#define M2_KERNEL kern_mamba2_avx2
#define M2_COLS 1
#define M2_ROWS 2
#include "kernels/recurrent/mamba2_body.inc"

#define DELTA_KERNEL kern_delta_avx2
#define DELTA_COLS 1
#include "kernels/recurrent/delta_body.inc"
