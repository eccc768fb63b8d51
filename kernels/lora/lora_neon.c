/* kernels/lora/lora_neon.c - the second half of LoRA: adds B times the rank's activations.
 *
 * lora_body.inc on v16 as four NEON registers: tiles of up to 4 rows; a single row takes four
 * panels at once, so that several chains of FMAs hide each other's latency.
 */
#include "kernels/simd/v16_neon.inc"

#define NAME(op) kern_##op##_neon
#define LORA_ROWS 4
#define LORA_PANELS(T) ((T) == 1 ? 4 : (T) == 2 ? 2 : 1)
#include "kernels/lora/lora_body.inc"
