/* kernels/attention/attn_q4_neon.c - attention on 8-bit keys and 4-bit values.
 *
 * attn_codes_body.inc for the Q4_0 store on ARMv8.0 (A_DOTPROD 0), tiles of up to 5 queries:
 * products of bytes are added in pairs in 16 bits, and these in 32 (attn_codes_neon.inc).
 */
#define A_DOTPROD 0
#include "kernels/attention/attn_codes_neon.inc"

#define NAME(op) kern_##op##_neon
#define A_KERNEL kern_attn_q4_0_neon
#define A_VALUE_BITS 4
#include "kernels/attention/attn_codes_body.inc"
