/* kernels/attention/attn_bf16_avx512.c - attention on keys and values in bf16.
 *
 * attn_body.inc with bf16 loads on AVX-512: tiles of up to 16 queries, whose 16 accumulators are
 * half of the registers; fewer queries take up to four key blocks at once, so that enough chains of
 * FMAs run side by side. Widening bf16 is a shift, exact as in the definition.
 */
#include "kernels/attention/attn_tiles_avx512.inc"

#define A_KERNEL kern_attn_bf16_avx512
#define A_KV KERN_KV_BF16
#define A_STORED uint16_t
#define A_LOAD v16_load_bf16
#define A_LOAD_N v16_load_bf16_n
#include "kernels/attention/attn_body.inc"
