/* kernels/gemm/gemm_q_avx512.c - products with quantised weights on AVX-512 VNNI: codes that are
 * numbers. The other types are in gemm_iq_avx512.c. */
#include "kernels/gemm/gemm_q_avx512_body.inc"

VNNI_KINDS_Q(VNNI_KIND)
