/* kernels/elem_avx512.c - everything between the products. */
#include "kernels/v16_avx512.inc"

#define NAME(op) kern_##op##_avx512
#include "kernels/elem_body.inc"
