/* kernels/recurrent/recurrent_avx512.c - see recurrent_scalar.c. */
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
