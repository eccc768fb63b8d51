/* core/runtime/topology.h - the threads of a pool as groups that share a last-level cache.
 *
 * Thread i is meant for CPU i of `struct cpus`, where those of a node stand together and of these
 * those of a cache. A group is at most TOPOLOGY_GROUP threads of one cache: work is stolen, and a
 * barrier's words are shared, inside it first. Where a cache has few of the threads, as on virtual
 * machines that name no shared one, those of a node count as its threads.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_RUNTIME_TOPOLOGY_H
#define CORE_RUNTIME_TOPOLOGY_H

#include "core/base/cpus.h"

#define TOPOLOGY_GROUP 16

struct topology_group {
    uint32_t first, n; /* threads */
    uint32_t node;
};

/* Cut n_threads (>= 1) threads into groups; groups[] has room for n_threads. Returns the number of
 * groups. */
uint32_t topology_groups(struct topology_group *groups, const struct cpus *cpus,
                         uint32_t n_threads);

#endif
