/* tests/tools/cluster/cluster.h - many replicas behind a router, in virtual time.
 *
 * Each replica is a simulation (simulate.h): the real scheduler and the real manager of blocks. One
 * clock moves from event to event in the order of their times: the ends of steps first, then
 * arrivals, then new plans. So a request that arrives when a step ends is in the next plan, and the
 * router sees which requests and blocks that step ended and stored. The same options and workload
 * give the same results.
 *
 * Replicas may differ: replica i has the options kinds[i % n_kinds].
 *
 * Thread: any, one at a time.
 * Memory: what the replicas have used of their blocks and sequences, and about 250 bytes a request.
 */
#ifndef TESTS_TOOLS_CLUSTER_CLUSTER_H
#define TESTS_TOOLS_CLUSTER_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "tests/tools/cluster/router.h"
#include "scheduler/replay/simulate.h"

struct workload;

struct cluster_options {
    const struct simulate_options *kinds; /* [n_kinds]; without callbacks */
    uint32_t n_kinds, n_replicas;         /* at least 1 each */
    enum router_policy router;
};

struct cluster;

/* ERR_INVAL: options of a replica contradict each other; ERR_NOMEM. */
int cluster_create(struct cluster **out, const struct cluster_options *options);
void cluster_destroy(struct cluster **c);

/* Run a workload, after workload_begin(), until all requests have ended; errors as in
 * simulate_run(). Called once. */
int cluster_run(struct cluster *c, struct workload *w);

uint32_t cluster_n(const struct cluster *c);
const struct simulate *cluster_replica(const struct cluster *c, uint32_t i);

struct cluster_summary { /* totals of one replica, or of all */
    size_t n_requests, n_ended, n_timeout;
    size_t n_refused; /* refused: no room in the queue, or too long */
    uint64_t prompt_tokens, cached_tokens, generated_tokens;
    uint64_t n_preempted;
    uint64_t ttft_p50_us, ttft_p95_us, ttft_p99_us; /* of requests that got a token */
    /* The p95 of all requests: those that timed out before a token or were refused count as if they
     * waited for ever. */
    uint64_t ttft_p95_all_us;
    uint64_t itl_p50_us, itl_p95_us;
    uint64_t span_us; /* from the cluster's first arrival to its last end */
    uint64_t busy_us; /* time in steps; for all replicas their sum */
};

/* cluster_summary.c. ERR_NOMEM */
int cluster_summarise_replica(const struct cluster *c, uint32_t i, struct cluster_summary *out);
int cluster_summarise(const struct cluster *c, struct cluster_summary *out);

#endif
