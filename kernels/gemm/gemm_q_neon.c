/* kernels/gemm/gemm_q_neon.c - products with quantised weights on ARMv8.0. */
#include "kernels/gemm/gemm_q_smull_body.inc"

VNNI_KINDS_Q(NEON_KIND)
VNNI_KINDS_IQ4(NEON_KIND)
VNNI_KINDS_RARE(NEON_KIND)

/* Other files, the same panels. */
GEMM_SAME(NAME(gemm_tq1_0), NAME(gemm_tq2_0))
GEMM_SAME(NAME(gemm_iq2_s), NAME(gemm_iq2_xs))
