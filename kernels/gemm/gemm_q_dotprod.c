/* kernels/gemm/gemm_q_dotprod.c - products with quantised weights on dot products: codes that are
 * numbers. The other types are in gemm_iq_dotprod.c. */
#include "kernels/gemm/gemm_q_dotprod_body.inc"

VNNI_KINDS_Q(NEON_KIND)
