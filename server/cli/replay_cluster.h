/* server/cli/replay_cluster.h - `quire replay --replicas`: simulates recorded requests on many
 * replicas.
 *
 * Thread: the main thread.
 * Memory: what cluster.h says, for one run at a time.
 */
#ifndef SERVER_CLI_REPLAY_CLUSTER_H
#define SERVER_CLI_REPLAY_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/replay/router.h"
#include "scheduler/replay/workload.h"

struct replay;

#define CLUSTER_MAX_REPLICAS 4096
#define CLUSTER_MAX_SIZES 16 /* numbers in --replicas */

struct cluster_spec { /* the parsed options */
    uint32_t sizes[CLUSTER_MAX_SIZES];
    uint32_t n_sizes;
    bool find;            /* search the least number that meets the goal */
    double ttft_p95_ms;   /* the goal; 0: none */
    enum router_policy router;
    bool recorded_costs;  /* replay_recorded_costs() */
    struct workload_options workload;
    bool json;
};

/* Take its options out of the arguments. False, with a message, if they are wrong. */
bool cluster_spec_read(int *argc, char **argv, struct cluster_spec *out);
bool cluster_spec_is_set(const struct cluster_spec *spec);
const char *cluster_router_name(enum router_policy p);

/* Simulate the replayed runs, with their own settings and with each of the others (what_if.h).
 * Returns an exit_code, with a message. */
int replay_cluster(const struct cluster_spec *spec, struct replay *const *replays,
                   uint32_t n_replays, const char *const *what_ifs, uint32_t n_what_ifs);

#endif
