/* kernels/lora/lora_avx2.c - the second half of LoRA: adds B times the rank's activations.
 *
 * lora_body.inc on v16 as two ymm registers: tiles of up to 4 rows; a single row takes four panels
 * at once, so that four chains of FMAs hide each other's latency.
 */
#include "kernels/simd/v16_avx2.inc"

#define NAME(op) kern_##op##_avx2
#define LORA_ROWS 4
#define LORA_PANELS(T) ((T) == 1 ? 4 : (T) == 2 ? 2 : 1)
#include "kernels/lora/lora_body.inc"
