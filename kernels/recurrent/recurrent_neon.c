/* kernels/recurrent/recurrent_neon.c - recurrent layers on NEON; recurrent_scalar.c defines
 * them.
 *
 * Three bodies on v16 as four NEON registers. Lanes are channels or columns of the state, and no
 * sum has two of them, so vectors need no reduction. A v16 takes four of 32 registers, so tiles are
 * as small as AVX2's.
 */
#include "kernels/simd/v16_neon.inc"

#define NAME(op) kern_##op##_neon
#include "kernels/recurrent/recurrent_body.inc"

/* A vector takes four of 32 registers: as with AVX2, two rows of one vector of columns, or two
 * vectors of one row. */
#define M2_KERNEL kern_mamba2_neon
#define M2_COLS 1
#define M2_ROWS 2
#include "kernels/recurrent/mamba2_body.inc"

#define DELTA_KERNEL kern_delta_neon
#define DELTA_COLS 1
#include "kernels/recurrent/delta_body.inc"
