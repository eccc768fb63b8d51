/* kernels/gemm_f_avx2.c - products with float weights. */
#include "kernels/v16_avx2.inc"

#define NAME(op) kern_##op##_avx2
#define F_ROWS 6
#define F_TILES CUT_TILES_6
#define F_NAMES CUT_NAMES_6
#include "kernels/gemm_f_body.inc"
