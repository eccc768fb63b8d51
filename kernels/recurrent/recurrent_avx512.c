/* kernels/recurrent/recurrent_avx512.c - recurrent layers on AVX-512; recurrent_scalar.c defines
 * them.
 *
 * Three bodies on v16 as one zmm register. Lanes are channels or columns of the state, and no sum
 * has two of them, so vectors need no reduction. With 32 registers Mamba-2 loads a vector of the
 * state once for four rows and two vectors of columns.
 */
#include "kernels/simd/v16_avx512.inc"

#define NAME(op) kern_##op##_avx512
#include "kernels/recurrent/recurrent_body.inc"

#define M2_KERNEL kern_mamba2_avx512
#define M2_COLS 2
#define M2_ROWS 4
#include "kernels/recurrent/mamba2_body.inc"

#define DELTA_KERNEL kern_delta_avx512
#define DELTA_COLS 2
#include "kernels/recurrent/delta_body.inc"
