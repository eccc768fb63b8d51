/* kernels/attention/attn_q4_avx2.c - attention on 8-bit keys and 4-bit values. */
#include "kernels/attention/attn_codes_avx2.inc"

#define A_KERNEL kern_attn_q4_0_avx2
#define A_VALUE_BITS 4
#include "kernels/attention/attn_codes_body.inc"
