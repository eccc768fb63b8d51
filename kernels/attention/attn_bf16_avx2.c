/* kernels/attention/attn_bf16_avx2.c - attention on keys and values in bf16.
 *
 * attn_body.inc with bf16 loads on AVX2: tiles of up to 6 queries. A key block of 16 tokens is one
 * v16, two ymm registers, so the 12 registers of a tile's accumulators leave four for keys and
 * query. Widening bf16 is a shift, exact as in the definition.
 */
#include "kernels/attention/attn_tiles_avx2.inc"

#define A_KERNEL kern_attn_bf16_avx2
#define A_KV KERN_KV_BF16
#define A_STORED uint16_t
#define A_LOAD v16_load_bf16
#define A_LOAD_N v16_load_bf16_n
#include "kernels/attention/attn_body.inc"
