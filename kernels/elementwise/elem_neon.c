/* kernels/elementwise/elem_neon.c - norms, rotation, activations, softmax, quantising. */
#include "kernels/simd/v16_neon.inc"

#define NAME(op) kern_##op##_neon
#include "kernels/elementwise/elem_body.inc"
