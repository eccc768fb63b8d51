/* kernels/attention/attn_q4_neon.c - attention on 8-bit keys and 4-bit values. */
#include "kernels/attention/attn_codes_neon.inc"

#define A_KERNEL kern_attn_q4_0_neon
#define A_VALUE_BITS 4
#include "kernels/attention/attn_codes_body.inc"
