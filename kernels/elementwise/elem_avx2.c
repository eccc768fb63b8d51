/* kernels/elementwise/elem_avx2.c - everything between the products. */
#include "kernels/simd/v16_avx2.inc"

#define NAME(op) kern_##op##_avx2
#include "kernels/elementwise/elem_body.inc"
