/* kernels/gemm/gemm_q_avx512.c - products with quantised weights on AVX-512 VNNI. */
#include "kernels/gemm/vnni_512.inc"

#define NAME(op) kern_##op##_avx512
#define ROWS 16
#define IN_REGISTERS 16 /* 32 registers: the compiler finds a few rows to rest itself */
/* Halves have two integer sums and Q2_K is dear to unpack: with the group's codes in registers a
 * few rows at a time do. */
#define BLOCK(type) (VNNI_TYPE[type].finish == VNNI_HALVES ? 2 : (type) == KERN_Q2_K ? 4 : ROWS)
#define TILES CUT_TILES_16
#define NAMES CUT_NAMES_16
#include "kernels/gemm/gemm_q_vnni_body.inc"
