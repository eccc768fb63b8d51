/* kernels/gemm/gemm_iq_avx512.c - products with quantised weights on AVX-512 VNNI: all types but
 * those of gemm_q_avx512.c.
 *
 * The same body as gemm_q_avx512.c, compiled for the types whose codes are looked up. They are a
 * file of their own because a type with a tile for each number of rows takes the compiler more than
 * a second: two files compile on two cores, and rare types get fewer tiles (VNNI_KIND_RARE).
 */
#include "kernels/gemm/gemm_q_avx512_body.inc"

VNNI_KINDS_IQ4(VNNI_KIND)
VNNI_KINDS_RARE(VNNI_KIND_RARE)

/* Types with other files but the same panels. */
GEMM_SAME(NAME(gemm_tq1_0), NAME(gemm_tq2_0))
GEMM_SAME(NAME(gemm_iq2_s), NAME(gemm_iq2_xs))
