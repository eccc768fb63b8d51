/* core/runtime/topology.c - see topology.h.
 *
 * CPUs are ordered by node and cache, so groups are runs of neighbouring threads: each run of one
 * cache is cut into equal parts of at most TOPOLOGY_GROUP threads. Caches count only where they
 * have FEW threads or more on average; else runs are those of a node.
 */
#include "core/runtime/topology.h"

#include <stdbool.h>

#define FEW 4 /* least threads of a cache, on average, for groups by cache: each group costs a
               * barrier one word more */

/* Return the CPU of a thread; threads beyond the last CPU count as there. */
static const struct cpu *cpu_of(const struct cpus *c, uint32_t thread)
{
    return &c->cpu[thread < c->n ? thread : c->n - 1];
}

static bool is_together(const struct cpus *c, uint32_t a, uint32_t b, bool by_cache)
{
    const struct cpu *x = cpu_of(c, a), *y = cpu_of(c, b);

    return x->node == y->node && (!by_cache || x->cache == y->cache);
}

/* Return the end of the run of threads that are on the same node (and cache) as `first`. */
static uint32_t end_of_run(const struct cpus *c, uint32_t first, uint32_t n_threads, bool by_cache)
{
    uint32_t end = first + 1;

    while (end < n_threads && is_together(c, first, end, by_cache))
        end++;
    return end;
}

static bool caches_are_shared(const struct cpus *c, uint32_t n_threads)
{
    uint32_t n_runs = 0;

    for (uint32_t i = 0; i < n_threads; i = end_of_run(c, i, n_threads, true))
        n_runs++;
    return n_threads / n_runs >= FEW;
}

uint32_t topology_groups(struct topology_group *groups, const struct cpus *cpus,
                         uint32_t n_threads)
{
    const bool by_cache = caches_are_shared(cpus, n_threads);
    uint32_t n_groups = 0;

    for (uint32_t i = 0, end; i < n_threads; i = end) {
        end = end_of_run(cpus, i, n_threads, by_cache);
        const uint32_t n = end - i, parts = (n + TOPOLOGY_GROUP - 1) / TOPOLOGY_GROUP;

        for (uint32_t part = 0; part < parts; part++) {
            const uint32_t first = n * part / parts, last = n * (part + 1) / parts;

            groups[n_groups++] = (struct topology_group){
                .first = i + first, .n = last - first, .node = cpu_of(cpus, i)->node};
        }
    }
    return n_groups;
}
