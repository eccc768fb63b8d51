/* kernels/gemm/gemm_q_avxvnni.c - products with quantised weights on AVX-VNNI: 256 bits, no
 * AVX-512. */
#define DPBUSD _mm256_dpbusd_avx_epi32
#define NAME(op) kern_##op##_avxvnni
#include "kernels/gemm/gemm_q_vnni_ymm.inc"
