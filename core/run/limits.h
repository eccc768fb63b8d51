/* core/run/limits.h - what this machine can do at most, measured: the yardstick of the benches.
 *
 * The integer and float peaks are loops over registers only, of the instruction that a product of
 * the instruction set uses (vpdpbusd where there is VNNI, three AVX2 instructions where not); the
 * reading rate is plain loads over a region that no cache holds. The best of many short runs
 * counts, since a limit is what a quiet machine reaches. Takes about a second.
 *
 * Thread: the caller works too; the others are a team that ends with the call.
 * Memory: a region of 1 GiB (or 128 MiB when `quick`) for the duration of the call.
 */
#ifndef CORE_RUN_LIMITS_H
#define CORE_RUN_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct limits {
    double int8_gops;   /* of int8 products, a multiplication and an addition counting two */
    double fp32_gflops; /* of fused multiply-adds, counting two */
    double read_gbps;   /* 10^9 bytes a second from memory */
};

/* All `threads` at work at once. ERR_NOMEM, or what team_create() says. */
int limits_measure(struct limits *l, enum kern_isa isa, uint32_t threads, bool quick);

/* The processor's own name, "" when it has none. */
void limits_cpu_name(char name[49]);

#endif
