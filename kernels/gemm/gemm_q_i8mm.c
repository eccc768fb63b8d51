/* kernels/gemm/gemm_q_i8mm.c - products with quantised weights on matrix products: codes that are
 * numbers. The other types are in gemm_iq_i8mm.c. */
#include "kernels/gemm/gemm_q_i8mm_body.inc"

VNNI_KINDS_Q(NEON_KIND)
