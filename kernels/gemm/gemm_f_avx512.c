/* kernels/gemm/gemm_f_avx512.c - products with float weights. */
#include "kernels/simd/v16_avx512.inc"

#define NAME(op) kern_##op##_avx512
#define F_ROWS 12
#define F_TILES CUT_TILES_12
#define F_NAMES CUT_NAMES_12
#include "kernels/gemm/gemm_f_body.inc"
