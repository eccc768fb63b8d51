/* kernels/lora/lora_avx512.c - the second half of LoRA. */
#include "kernels/simd/v16_avx512.inc"

#define NAME(op) kern_##op##_avx512
#define LORA_ROWS 8
#define LORA_PANELS(T) ((T) == 1 ? 8 : (T) == 2 ? 6 : 2)
#include "kernels/lora/lora_body.inc"
