/* tests/tools/cluster/cluster_spec.h - the parsed options of cluster_sim.
 *
 * Thread: the main thread.
 * Memory: none.
 */
#ifndef TESTS_TOOLS_CLUSTER_CLUSTER_SPEC_H
#define TESTS_TOOLS_CLUSTER_CLUSTER_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/tools/cluster/router.h"
#include "tests/tools/cluster/workload.h"

#define CLUSTER_MAX_REPLICAS 4096
#define CLUSTER_MAX_SIZES 16 /* numbers in --replicas */

struct cluster_spec {
    uint32_t sizes[CLUSTER_MAX_SIZES];
    uint32_t n_sizes;
    bool find;          /* search the least number that meets the goal */
    double ttft_p95_ms; /* the goal; 0: none */
    enum router_policy router;
    bool recorded_costs; /* replay_recorded_costs() */
    struct workload_options workload;
    bool json;
};

#endif
