/* kernels/attention/attn_q8_avx2.c - attention on 8-bit keys and values. */
#include "kernels/attention/attn_codes_avx2.inc"

#define A_KERNEL kern_attn_q8_0_avx2
#define A_VALUE_BITS 8
#include "kernels/attention/attn_codes_body.inc"
