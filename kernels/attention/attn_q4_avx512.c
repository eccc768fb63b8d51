/* kernels/attention/attn_q4_avx512.c - attention on 8-bit keys and 4-bit values.
 *
 * attn_codes_body.inc for the Q4_0 store on AVX-512 VNNI, tiles of up to 12 queries
 * (attn_codes_avx512.inc). Values share a scale per 32 dimensions, so each such group gets codes of
 * the softmax weights of its own.
 */
#include "kernels/attention/attn_codes_avx512.inc"

#define A_KERNEL kern_attn_q4_0_avx512
#define A_VALUE_BITS 4
#include "kernels/attention/attn_codes_body.inc"
