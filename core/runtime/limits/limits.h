/* core/runtime/limits/limits.h - measures the peaks of this machine, which the benches compare
 * kernels with.
 *
 * Each kind of product has a peak of its own (peaks.h), which no product of that kind exceeds. The
 * memory rate is that of loads, with prefetching as products do it, over a region that fits in no
 * cache. The best of many short runs counts, since a peak is what a quiet machine reaches. Takes
 * about a second.
 *
 * Thread: limits_measure() computes on the calling thread and on a thread pool of its own; the
 *         single loops: any.
 * Memory: a region of 1 GiB (or 512 MiB when `quick`) for the duration of limits_measure().
 */
#ifndef CORE_RUNTIME_LIMITS_LIMITS_H
#define CORE_RUNTIME_LIMITS_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct numa;

struct limits {
    double gops[KERN_N_PRODUCT]; /* 10^9 operations a second, as limits_run_peak() counts them */
    double read_gbps;            /* 10^9 bytes a second from memory */
};

/* Measure with all `threads` working at once, and with the region placed as weights are; numa may
 * be NULL. ERR_NOMEM, or an error of thread_pool_create(). */
int limits_measure(struct limits *l, enum kern_isa isa, uint32_t threads, const struct numa *numa,
                   bool quick);

/* Measure reading alone, n_bytes in every run. */
int limits_measure_reading(double *gbps, uint32_t threads, const struct numa *numa, size_t n_bytes,
                           int n_runs);

/* Read the bytes once on the calling thread, for a bench that reads memory while it measures
 * something else. `bytes` is 64-byte aligned, n_bytes a multiple of 64. */
void limits_run_read(const void *bytes, size_t n_bytes);

#endif
