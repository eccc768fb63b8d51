/* kernels/gemm/gemm_f_neon.c - products with float weights.
 *
 * gemm_f_body.inc on v16 as four NEON registers: tiles of up to 6 rows by one panel. Six rows take
 * 24 registers of sums and a column of the panel four, so nothing is spilled of the 32.
 */
#include "kernels/simd/v16_neon.inc"

#define NAME(op) kern_##op##_neon
#define F_ROWS 6
#define F_TILES CUT_TILES_6
#define F_NAMES CUT_NAMES_6
#include "kernels/gemm/gemm_f_body.inc"
