/* core/runtime/limits/numa_choice.c - see numa_choice.h. */
#include "core/runtime/limits/numa_choice.h"

#include "core/base/cpus.h"
#include "core/runtime/limits/limits.h"

#define BYTES_EACH ((size_t)32 << 20) /* of a thread: more than its share of a last-level cache */
#define RUNS 6                        /* the best counts */

/* 0: it cannot be measured. */
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
