/* core/runtime/limits.h - the peaks of this machine, measured: what the benches compare kernels
 * with.
 *
 * The integer and float peaks are loops over registers only, of the instruction that a product of
 * the instruction set uses: vpdpbusd where there is VNNI, else vpmaddubsw, vpmaddwd and vpaddd.
 * Products of codes of few bits may be faster than that, since they need the second once for many
 * of the first. The memory rate is plain loads over a region that fits in no cache; products that
 * prefetch may be faster. The best of many short runs counts, since a peak is what a quiet machine
 * reaches. Takes about a second.
 *
 * Thread: limits_measure() computes on the calling thread and on a thread pool of its own; the
 *         single loops: any.
 * Memory: a region of 1 GiB (or 512 MiB when `quick`) for the duration of limits_measure().
 */
#ifndef CORE_RUNTIME_LIMITS_H
#define CORE_RUNTIME_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct limits {
    double int8_gops;   /* of int8 products, a multiplication and an addition counting two */
    double fp32_gflops; /* of fused multiply-adds, counting two */
    double read_gbps;   /* 10^9 bytes a second from memory */
};

/* All `threads` at work at once. ERR_NOMEM, or what thread_pool_create() says. */
int limits_measure(struct limits *l, enum kern_isa isa, uint32_t threads, bool quick);

/* The single loops, on the calling thread, for a bench that runs them beside what it measures.
 * Of a peak: the answer is how many operations were done (in less than a millisecond). Of reading:
 * bytes 64-byte aligned, n_bytes a multiple of 64. */
enum limits_peak { LIMITS_INT8 = 0, LIMITS_FP32 };
double limits_run_peak(enum kern_isa isa, enum limits_peak which);
void limits_run_read(const void *bytes, size_t n_bytes);

/* The processor's own name, "" when it has none. */
void limits_cpu_name(char name[49]);

#endif
