/* kernels/attention/attn_f32_avx2.c - attention on keys and values in f32.
 *
 * attn_body.inc with float loads on AVX2: tiles of up to 6 queries. A key block of 16 tokens is one
 * v16, two ymm registers, so the 12 registers of a tile's accumulators leave four for keys and
 * query.
 */
#include "kernels/attention/attn_tiles_avx2.inc"

#define A_KERNEL kern_attn_f32_avx2
#define A_KV KERN_KV_F32
#define A_STORED float
#define A_LOAD v16_load
#define A_LOAD_N v16_load_n
#include "kernels/attention/attn_body.inc"
