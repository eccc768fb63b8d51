/* kernels/elementwise/elem_avx512.c - norms, rotation, activations, softmax, quantising. */
#include "kernels/simd/v16_avx512.inc"

#define NAME(op) kern_##op##_avx512
#include "kernels/elementwise/elem_body.inc"
