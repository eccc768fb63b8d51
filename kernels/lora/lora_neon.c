/* kernels/lora/lora_neon.c - the second half of LoRA. */
#include "kernels/simd/v16_neon.inc"

#define NAME(op) kern_##op##_neon
#define LORA_ROWS 4
#define LORA_PANELS(T) ((T) == 1 ? 4 : (T) == 2 ? 2 : 1)
#include "kernels/lora/lora_body.inc"
