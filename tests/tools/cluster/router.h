/* tests/tools/cluster/router.h - chooses the replica of a cluster that gets a request.
 *
 *   round-robin   one after the other
 *   least-loaded  the fewest requests in flight: routed there, and not ended
 *   prefix        the most leading blocks of the prompt in the replica's index; among equals, and
 *                 when none has the first block, as least-loaded
 *
 * Among equally loaded replicas the one chosen longest ago is taken. So `prefix` is vllm-router's
 * kv_aware (most blocks first, the least loaded without a hit) without its speculative entries;
 * llm-d weighs hits and load instead, which gives the same choice where loads are equal.
 *
 * A router learns of ended requests and of blocks stored or removed at the end of the step.
 *
 * Thread: the owner's.
 * Memory: grows with the blocks that replicas hold, for `prefix`; else 16 bytes a replica.
 */
#ifndef TESTS_TOOLS_CLUSTER_ROUTER_H
#define TESTS_TOOLS_CLUSTER_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/scheduler.h"

enum router_policy { ROUTER_ROUND_ROBIN = 0, ROUTER_PREFIX, ROUTER_LEAST_LOADED };

#define ROUTER_POLICIES 3
/* The name as --router takes it. */
const char *router_policy_name(enum router_policy p);

struct simulate_arrival;
struct router;

int router_create(struct router **out, enum router_policy policy, uint32_t n_replicas);
void router_destroy(struct router **r);

/* Choose the replica for a request, which is in flight there from now on; or ERR_NOMEM. */
int64_t router_choose(struct router *r, const struct simulate_arrival *a);
/* Route a request to the given replica, whatever the policy: it belongs to an earlier one there. */
void router_place(struct router *r, uint32_t replica);
/* A request has ended on the replica. */
void router_end(struct router *r, uint32_t replica);
/* A block has entered the replica's prefix index (is_in), or left it. ERR_NOMEM. */
int router_block(struct router *r, uint32_t replica, struct prefix_hash hash, bool is_in);

uint32_t router_in_flight(const struct router *r, uint32_t replica);

#endif
