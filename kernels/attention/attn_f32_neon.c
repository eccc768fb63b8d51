/* kernels/attention/attn_f32_neon.c - attention on keys and values in f32.
 *
 * attn_body.inc with float loads on NEON: tiles of up to 6 queries. A key block of 16 tokens is
 * four registers.
 */
#include "kernels/attention/attn_tiles_neon.inc"

#define A_KERNEL kern_attn_f32_neon
#define A_KV KERN_KV_F32
#define A_STORED float
#define A_LOAD v16_load
#define A_LOAD_N v16_load_n
#include "kernels/attention/attn_body.inc"
