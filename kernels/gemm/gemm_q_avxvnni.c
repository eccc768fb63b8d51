/* kernels/gemm/gemm_q_avxvnni.c - products with quantised weights on AVX-VNNI: 256 bits, no
 * AVX-512.
 *
 * The Makefile assembles the compiler's output a second time as kern_..._avx512vl, for CPUs that
 * have the same instruction in AVX-512's encoding only. They have the avx512 level too, which is at
 * least as fast: this makes the AVX-VNNI level testable there.
 */
#include "kernels/gemm/vnni_256.inc"

#define NAME(op) kern_##op##_avxvnni
#define ROWS 6 /* twelve integer sums, a quad of weights, one of activations: 15 of 16 registers */
#define IN_REGISTERS 3
#define BLOCK(type) ROWS
#define TILES CUT_TILES_6
#define NAMES CUT_NAMES_6
#include "kernels/gemm/gemm_q_vnni_body.inc"

VNNI_KINDS_Q(VNNI_KIND)
VNNI_KINDS_IQ4(VNNI_KIND)
VNNI_KINDS_RARE(VNNI_KIND)

/* Types with other files but the same panels. */
GEMM_SAME(NAME(gemm_tq1_0), NAME(gemm_tq2_0))
GEMM_SAME(NAME(gemm_iq2_s), NAME(gemm_iq2_xs))
