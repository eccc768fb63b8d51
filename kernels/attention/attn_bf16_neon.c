/* kernels/attention/attn_bf16_neon.c - attention on keys and values in bf16. */
#include "kernels/attention/attn_tiles_neon.inc"

#define A_KERNEL kern_attn_bf16_neon
#define A_LOAD v16_load_bf16
#define A_LOAD_N v16_load_bf16_n
#include "kernels/attention/attn_body.inc"
