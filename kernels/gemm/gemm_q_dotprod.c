/* kernels/gemm/gemm_q_dotprod.c - products with quantised weights on dot products: codes that are
 * numbers. The other types are in gemm_iq_dotprod.c.
 *
 * gemm_q_neon_body.inc with sdot, which adds four products of signed bytes to each lane: tiles of
 * up to 12 rows by one column of four lanes at a time, whose float sums stay in registers.
 */
#include "kernels/gemm/gemm_q_dotprod_body.inc"

VNNI_KINDS_Q(NEON_KIND)
