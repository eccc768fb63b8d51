/* scheduler/replay/cluster.h - many replicas behind a router, in virtual time.
 *
 * Each replica is a simulation (simulate.h): the real scheduler and the real manager of blocks.
 * One clock goes over all of them, from event to event in the order of their times: the ends of
 * steps first, then arrivals, then new plans. So a request that comes while a step ends is in the
 * next plan, and the router sees what that step ended and stored. The same options and workload
 * give the same results.
 *
 * Replicas need not be alike: replica i has the options kinds[i % n_kinds].
 *
 * Thread: any, one at a time.
 * Memory: what the replicas have used of their blocks and sequences, and about 250 bytes a request.
 */
#ifndef SCHEDULER_REPLAY_CLUSTER_H
#define SCHEDULER_REPLAY_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/replay/router.h"
#include "scheduler/replay/simulate.h"

struct workload;

struct cluster_options {
    const struct simulate_options *kinds; /* [n_kinds]; without callbacks */
    uint32_t n_kinds, n_replicas;         /* 1 at least */
    enum router_policy router;
};

struct cluster;

/* ERR_INVAL: options of a replica do not go together; ERR_NOMEM. */
int cluster_create(struct cluster **out, const struct cluster_options *options);
void cluster_destroy(struct cluster **c);

/* Run a workload that begins, until everything has ended. As simulate_run(). Once. */
int cluster_run(struct cluster *c, struct workload *w);

uint32_t cluster_n(const struct cluster *c);
const struct simulate *cluster_replica(const struct cluster *c, uint32_t i);

struct cluster_summary { /* of one replica, or of all */
    size_t n_requests, n_ended, n_timeout;
    size_t n_refused;                   /* no room in the queue, or too long for a replica */
    uint64_t prompt_tokens, cached_tokens, generated_tokens;
    uint64_t n_preempted;
    uint64_t ttft_p50_us, ttft_p95_us, ttft_p99_us; /* of those that got a token */
    /* The same with those that timed out before it or were refused, as if they waited for ever. */
    uint64_t ttft_p95_all_us;
    uint64_t itl_p50_us, itl_p95_us;
    uint64_t span_us;                   /* of the cluster: first arrival to last end */
    uint64_t busy_us;                   /* in steps; of all: the sum */
};

/* cluster_summary.c. ERR_NOMEM */
int cluster_summarise_replica(const struct cluster *c, uint32_t i, struct cluster_summary *out);
int cluster_summarise(const struct cluster *c, struct cluster_summary *out);

#endif
