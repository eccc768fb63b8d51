/* kernels/elementwise/elem_avx2.c - norms, rotation, activations, softmax, quantising. */
#include "kernels/simd/v16_avx2.inc"

#define NAME(op) kern_##op##_avx2
#include "kernels/elementwise/elem_body.inc"
