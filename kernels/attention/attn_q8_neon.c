/* kernels/attention/attn_q8_neon.c - attention on 8-bit keys and values. */
#include "kernels/attention/attn_codes_neon.inc"

#define A_KERNEL kern_attn_q8_0_neon
#define A_VALUE_BITS 8
#include "kernels/attention/attn_codes_body.inc"
