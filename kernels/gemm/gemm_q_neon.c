/* kernels/gemm/gemm_q_neon.c - products with quantised weights on ARMv8.0.
 *
 * gemm_q_neon_body.inc without dot products: smull multiplies bytes in 16 bits, and products are
 * added there as long as they fit (gemm_q_smull_body.inc). One file has all types, because its
 * tiles are fewer.
 */
#include "kernels/gemm/gemm_q_smull_body.inc"

VNNI_KINDS_Q(NEON_KIND)
VNNI_KINDS_IQ4(NEON_KIND)
VNNI_KINDS_RARE(NEON_KIND)

/* Types with other files but the same panels. */
GEMM_SAME(NAME(gemm_tq1_0), NAME(gemm_tq2_0))
GEMM_SAME(NAME(gemm_iq2_s), NAME(gemm_iq2_xs))
