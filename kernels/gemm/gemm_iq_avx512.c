/* kernels/gemm/gemm_iq_avx512.c - products with quantised weights on AVX-512 VNNI: all types but those
 * of gemm_q_avx512.c. */
#include "kernels/gemm/gemm_q_avx512_body.inc"

VNNI_KINDS_IQ4(VNNI_KIND)
VNNI_KINDS_RARE(VNNI_KIND_RARE)

/* Other files, the same panels. */
GEMM_SAME(NAME(gemm_tq1_0), NAME(gemm_tq2_0))
GEMM_SAME(NAME(gemm_iq2_s), NAME(gemm_iq2_xs))
