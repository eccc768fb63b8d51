/* core/runtime/topology.h - cuts the threads of a pool into groups that share a last-level cache.
 *
 * Thread i is meant for CPU i of `struct cpus`, which is ordered by node and, within a node, by
 * last-level cache. A group is at most TOPOLOGY_GROUP threads of one cache: threads steal work from
 * their own group first, and share a word of the barrier with it. If caches have few threads each,
 * as on virtual machines that report no shared cache, groups are made of a node's threads.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_RUNTIME_TOPOLOGY_H
#define CORE_RUNTIME_TOPOLOGY_H

#include "core/base/cpus.h"

#define TOPOLOGY_GROUP 16

struct topology_group {
    uint32_t first, n; /* threads first .. first + n - 1 */
    uint32_t node;
};

/* Cut n_threads (>= 1) into groups; groups[] has room for n_threads. Returns the number of
 * groups. */
uint32_t topology_groups(struct topology_group *groups, const struct cpus *cpus,
                         uint32_t n_threads);

#endif
