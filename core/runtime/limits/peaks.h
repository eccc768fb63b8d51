/* core/runtime/limits/peaks.h - loops over registers with only the work that a kind of product must
 * do for each of its sums: no product of that kind is faster.
 *
 * Float weights: fused multiply-adds. Integers: with VNNI eight vpdpbusd a group of 32 columns;
 * with AMX one tdpbssd for sixteen groups; on arm64 eight sdot, or four usmmla for two rows and two
 * lanes a register, or sixteen smull; without, eight vpmaddubsw and vpaddw for narrow codes,
 * sixteen vpmaddwd and vpaddd for wide ones; then the conversion to float, the scale, and the sum.
 * Minima are left out, since only some types of a kind have them.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_RUNTIME_LIMITS_PEAKS_H
#define CORE_RUNTIME_LIMITS_PEAKS_H

#include "kernels/kernels.h"

/* Run the loop on the calling thread, for less than a millisecond. Returns the number of
 * operations; a multiplication and an addition count as two. */
double limits_run_peak(enum kern_isa isa, enum kern_product product);

#endif
