/* kernels/gemm/gemm_f_avx512.c - products with float weights.
 *
 * gemm_f_body.inc on v16 as one zmm register: tiles of up to 12 rows by one panel, one accumulator
 * a row. A weight column is loaded and widened once for all rows of the tile, and each row adds its
 * broadcast activation with one FMA.
 */
#include "kernels/simd/v16_avx512.inc"

#define NAME(op) kern_##op##_avx512
#define F_ROWS 12
#define F_TILES CUT_TILES_12
#define F_NAMES CUT_NAMES_12
#include "kernels/gemm/gemm_f_body.inc"
