/* kernels/attention/attn_bf16_neon.c - attention on keys and values in bf16.
 *
 * attn_body.inc with bf16 loads on NEON: tiles of up to 6 queries, 24 registers of accumulators and
 * four for a block's keys. Widening bf16 is a shift, exact as in the definition.
 */
#include "kernels/attention/attn_tiles_neon.inc"

#define A_KERNEL kern_attn_bf16_neon
#define A_KV KERN_KV_BF16
#define A_STORED uint16_t
#define A_LOAD v16_load_bf16
#define A_LOAD_N v16_load_bf16_n
#include "kernels/attention/attn_body.inc"
