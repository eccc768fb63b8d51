/* kernels/gemm/gemm_q_avx512.c - products with quantised weights on AVX-512 VNNI: codes that are
 * numbers. The other types are in gemm_iq_avx512.c.
 *
 * gemm_q_vnni_body.inc with 512-bit registers: a panel's 16 lanes are one zmm register, and
 * vpdpbusd adds four products of bytes to each lane. Tiles have up to 16 rows; their float sums
 * stay in registers.
 */
#include "kernels/gemm/gemm_q_avx512_body.inc"

VNNI_KINDS_Q(VNNI_KIND)
