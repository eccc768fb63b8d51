/* kernels/attention/attn_q4_dotprod.c - attention on 8-bit keys and 4-bit values.
 *
 * attn_codes_body.inc for the Q4_0 store with sdot (A_DOTPROD 1), tiles of up to 5 queries. Only
 * the integer products need ARMv8.2; the queries are quantised by NEON's kernel (NAME).
 */
#define A_DOTPROD 1
#include "kernels/attention/attn_codes_neon.inc"

#define NAME(op) kern_##op##_neon
#define A_KERNEL kern_attn_q4_0_dotprod
#define A_VALUE_BITS 4
#include "kernels/attention/attn_codes_body.inc"
