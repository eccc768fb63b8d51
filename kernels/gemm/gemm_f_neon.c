/* kernels/gemm/gemm_f_neon.c - products with float weights: six rows are 24 registers of sums, a
 * column of a panel is four. */
#include "kernels/simd/v16_neon.inc"

#define NAME(op) kern_##op##_neon
#define F_ROWS 6
#define F_TILES CUT_TILES_6
#define F_NAMES CUT_NAMES_6
#include "kernels/gemm/gemm_f_body.inc"
