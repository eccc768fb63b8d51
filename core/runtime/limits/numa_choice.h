/* core/runtime/limits/numa_choice.h - chooses interleaved or local memory by measuring both.
 *
 * Local memory (core/base/numa.h) reads faster where a node's own memory is nearer. It also ties
 * threads to their nodes, and other nodes can help a late thread only by remote reads. So it is
 * chosen where it reads a tenth faster, both modes measured as a step reads weights: all threads at
 * once, over more memory than caches hold. Virtual machines may report nodes that differ in
 * nothing.
 *
 * Thread: the one that starts the program; makes threads of its own for the call.
 * Memory: NUMA_CHOICE_BYTES at most, for the call.
 */
#ifndef CORE_RUNTIME_LIMITS_NUMA_CHOICE_H
#define CORE_RUNTIME_LIMITS_NUMA_CHOICE_H

#include <stdint.h>

#include "core/base/numa.h"

#define NUMA_CHOICE_BYTES ((size_t)1 << 30)
#define NUMA_CHOICE_GAIN 1.1 /* local memory must be faster by this factor */

/* Plan the placement for threads on these CPUs, with both rates in the plan. Where there is no
 * choice nothing is measured; where there is no memory to measure with, the plan is interleaved. */
void numa_choose(struct numa *numa, const struct cpus *cpus, uint32_t n_threads);

#endif
