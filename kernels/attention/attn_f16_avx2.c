/* kernels/attention/attn_f16_avx2.c - attention on keys and values in f16; the merge.
 *
 * attn_body.inc with f16 loads on AVX2: tiles of up to 6 queries, 12 ymm registers of accumulators.
 * It also compiles this level's attn_merge: the states that it merges are floats, whatever the
 * store, so one copy serves all stores.
 */
#include "kernels/attention/attn_tiles_avx2.inc"

#define A_KERNEL kern_attn_f16_avx2
#define A_KV KERN_KV_F16
#define A_STORED uint16_t
#define A_LOAD v16_load_f16
#define A_LOAD_N v16_load_f16_n
#include "kernels/attention/attn_body.inc"

#define NAME(op) kern_##op##_avx2
#include "kernels/attention/attn_merge.inc"
