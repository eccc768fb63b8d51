/* scheduler/tenants.h - a tenant's waiting requests, and the service that it has received.
 *
 * Service is virtual time: tokens computed, divided by the weight, in units small enough for the
 * largest weight. The tenant with the least service goes first. A tenant that was idle starts at
 * most TENANT_CREDIT tokens below the least service of the busy ones, or, when all were idle, below
 * the greatest service of all: idle time is not saved up (VTC: Sheng et al., "Fairness in Serving
 * Large Language Models", 2024), but a tenant that sometimes uses less than its share does not wait
 * for those that always use more.
 *
 * Private to scheduler/.
 *
 * Thread: engine thread only.
 * Memory: plain data.
 */
#ifndef SCHEDULER_TENANTS_H
#define SCHEDULER_TENANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/order.h"

#define TENANT_UNIT 1048576u /* service of one token at weight 1 */
#define TENANT_CREDIT 2048   /* tokens at weight 1, about a few prompts: the most by which a tenant
                              * can be ahead */

struct tenant {
    struct order waiting;
    uint32_t n_running;
    uint32_t n_held_back; /* sequences held back: prefix waiters, and those that wait for the block
                           * store or for their swapped copy */
    uint32_t weight;      /* weight of its latest request; 0 = never seen */
    uint64_t service;
    uint64_t n_tokens; /* tokens computed for it */
};

bool tenant_is_busy(const struct tenant *t);

/* Called when a request of tenants[i] arrives: set the weight, and raise the service if the tenant
 * was idle. */
void tenant_arrive(struct tenant *tenants, uint32_t n, uint32_t i, uint32_t weight);

void tenant_charge(struct tenant *t, uint32_t n_tokens);

#endif
