/* kernels/gemm/gemm_q_i8mm.c - products with quantised weights on matrix products: codes that are
 * numbers. The other types are in gemm_iq_i8mm.c.
 *
 * gemm_q_neon_body.inc with usmmla, whose 2 x 2 result is two rows by two lanes with eight products
 * each, twice what sdot does; tiles of few rows use usdot instead (gemm_q_i8mm_body.inc).
 */
#include "kernels/gemm/gemm_q_i8mm_body.inc"

VNNI_KINDS_Q(NEON_KIND)
