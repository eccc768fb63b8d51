/* core/runtime/limits/numa_choice.c - see numa_choice.h.
 *
 * Both placements are planned and measured in turn with limits_measure_reading(), on a region of 32
 * MiB for each thread (NUMA_CHOICE_BYTES at most). Runs once at start, and only where
 * numa_can_be_local() says that there is a choice. A failed measurement is a rate of 0, so
 * interleaving wins.
 */
#include "core/runtime/limits/numa_choice.h"

#include "core/base/cpus.h"
#include "core/runtime/limits/limits.h"

#define BYTES_EACH ((size_t)32 << 20) /* bytes for each thread: more than its share of a last-level
                                       * cache */
#define RUNS 6                        /* the best counts */

/* Return the reading rate with this placement; 0: it cannot be measured. */
static double rate_of(enum numa_mode mode, const struct cpus *cpus, uint32_t n_threads)
{
    const size_t wanted = n_threads * BYTES_EACH;
    struct numa numa;
    double gbps = 0;

    numa_plan(&numa, cpus, n_threads, mode);
    (void)limits_measure_reading(&gbps, n_threads, &numa,
                                 wanted < NUMA_CHOICE_BYTES ? wanted : NUMA_CHOICE_BYTES, RUNS);
    return gbps;
}

void numa_choose(struct numa *numa, const struct cpus *cpus, uint32_t n_threads)
{
    double local, interleaved;

    if (!numa_can_be_local(cpus, n_threads)) {
        numa_plan(numa, cpus, n_threads, NUMA_INTERLEAVE);
        return;
    }
    local = rate_of(NUMA_LOCAL, cpus, n_threads);
    interleaved = rate_of(NUMA_INTERLEAVE, cpus, n_threads);
    numa_plan(numa, cpus, n_threads,
              local > NUMA_CHOICE_GAIN * interleaved ? NUMA_LOCAL : NUMA_INTERLEAVE);
    numa->local_gbps = local;
    numa->interleaved_gbps = interleaved;
}
