/* kernels/gemm/gemm_iq_i8mm.c - products with quantised weights on matrix products: all types but
 * those of gemm_q_i8mm.c.
 *
 * The same body as gemm_q_i8mm.c, compiled for the types whose codes are looked up; a file of its
 * own so that two cores share the compile time. Rare types get tiles of up to 8 rows only.
 */
#include "kernels/gemm/gemm_q_i8mm_body.inc"

VNNI_KINDS_IQ4(NEON_KIND)
VNNI_KINDS_RARE(NEON_KIND_RARE)

/* Types with other files but the same panels. */
GEMM_SAME(NAME(gemm_tq1_0), NAME(gemm_tq2_0))
GEMM_SAME(NAME(gemm_iq2_s), NAME(gemm_iq2_xs))
