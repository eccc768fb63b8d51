/* kernels/lora/lora_avx512.c - the second half of LoRA: adds B times the rank's activations.
 *
 * lora_body.inc on v16 as one zmm register: tiles of up to 8 rows; a single row takes eight panels
 * at once, so that eight chains of FMAs hide each other's latency.
 */
#include "kernels/simd/v16_avx512.inc"

#define NAME(op) kern_##op##_avx512
#define LORA_ROWS 8
#define LORA_PANELS(T) ((T) == 1 ? 8 : (T) == 2 ? 6 : 2)
#include "kernels/lora/lora_body.inc"
