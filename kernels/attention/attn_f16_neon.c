/* kernels/attention/attn_f16_neon.c - attention on keys and values in f16; the merge. */
#include "kernels/attention/attn_tiles_neon.inc"

#define A_KERNEL kern_attn_f16_neon
#define A_LOAD v16_load_f16
#define A_LOAD_N v16_load_f16_n
#include "kernels/attention/attn_body.inc"

#define NAME(op) kern_##op##_neon
#include "kernels/attention/attn_merge.inc"
