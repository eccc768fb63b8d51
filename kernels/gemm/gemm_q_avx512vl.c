/* kernels/gemm/gemm_q_avx512vl.c - the AVX-VNNI products for CPUs that have the same instruction in
 * AVX-512's encoding only. They have the avx512 level too, which is at least as fast: this makes
 * the level below testable there. */
#define DPBUSD _mm256_dpbusd_epi32
#define NAME(op) kern_##op##_avx512vl
#include "kernels/gemm/gemm_q_vnni_ymm.inc"
