/* kernels/elem_avx2.c - everything between the products. */
#include "kernels/v16_avx2.inc"

#define NAME(op) kern_##op##_avx2
#include "kernels/elem_body.inc"
