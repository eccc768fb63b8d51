/* kernels/recurrent/recurrent_neon.c - see recurrent_scalar.c. */
#include "kernels/simd/v16_neon.inc"

#define NAME(op) kern_##op##_neon
#include "kernels/recurrent/recurrent_body.inc"

/* A vector is four registers of 32: as with AVX2, two rows of one, or two of one row. */
#define M2_KERNEL kern_mamba2_neon
#define M2_COLS 1
#define M2_ROWS 2
#include "kernels/recurrent/mamba2_body.inc"

#define DELTA_KERNEL kern_delta_neon
#define DELTA_COLS 1
#include "kernels/recurrent/delta_body.inc"
