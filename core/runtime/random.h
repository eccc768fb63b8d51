/* core/runtime/random.h - counter-based random numbers (Philox 4x32-10).
 *
 * A number is a function of (seed, position) and of nothing else, so batching, preemption and
 * recomputation cannot shift a sampled stream (P1).
 *
 * Thread: any.
 * Memory: none.
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
#ifndef CORE_RUNTIME_RANDOM_H
#define CORE_RUNTIME_RANDOM_H

#include <stdint.h>

/* One block of the generator: 10 rounds on `counter` under `key`. */
void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Uniform in [0, 1) with 53 bits, for the token at `pos` of a sequence with this seed. */
double random_uniform(uint64_t seed, uint32_t pos);
/* Uniform in [0, 1) for the same token, independent of random_uniform(). */
double random_uniform_second(uint64_t seed, uint32_t pos);

#endif
