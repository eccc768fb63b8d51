/* kernels/elementwise/elem_avx2.c - norms, rotation, activations, softmax, quantising.
 *
 * elem_body.inc on v16 as two ymm registers. The definition's sums run in 16 virtual lanes that are
 * added by a fixed tree, so a vector of 16 lanes, in any number of registers, gives the same bits.
 */
#include "kernels/simd/v16_avx2.inc"

#define NAME(op) kern_##op##_avx2
#include "kernels/elementwise/elem_body.inc"
