/* kernels/attention/attn_q8_avx2.c - attention on 8-bit keys and values.
 *
 * attn_codes_body.inc for the Q8_0 store on AVX2, tiles of up to 6 queries (attn_codes_avx2.inc).
 * All dimensions of a value share a scale, so a query's softmax weights are coded once.
 */
#include "kernels/attention/attn_codes_avx2.inc"

#define A_KERNEL kern_attn_q8_0_avx2
#define A_VALUE_BITS 8
#include "kernels/attention/attn_codes_body.inc"
