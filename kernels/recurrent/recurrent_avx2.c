/* kernels/recurrent/recurrent_avx2.c - see recurrent_scalar.c. */
#include "kernels/simd/v16_avx2.inc"

#define NAME(op) kern_##op##_avx2
#include "kernels/recurrent/recurrent_body.inc"

/* A vector is two registers of 16: two rows of one, or two of one row. */
#define M2_KERNEL kern_mamba2_avx2
#define M2_COLS 1
#define M2_ROWS 2
#include "kernels/recurrent/mamba2_body.inc"

#define DELTA_KERNEL kern_delta_avx2
#define DELTA_COLS 1
#include "kernels/recurrent/delta_body.inc"
