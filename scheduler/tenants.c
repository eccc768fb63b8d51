/* scheduler/tenants.c - see tenants.h.
 *
 * `service` only grows. The service of an idle tenant stays the same while that of others grows;
 * tenant_arrive() lifts it, when its first new request comes, to TENANT_CREDIT below the level of
 * the busy tenants, which bounds how long it can go before them. The division by the weight happens
 * when tokens are charged, so that tenants are compared by one number.
 */
#include "scheduler/tenants.h"

bool tenant_is_busy(const struct tenant *t)
{
    return order_n(&t->waiting) > 0 || t->n_running > 0 || t->n_held_back > 0;
}

/* The service level at which an idle tenant starts: the least of the busy tenants, or, when all are
 * idle, the most of all, so that no tenant has an advantage. */
static uint64_t level_of_service(const struct tenant *tenants, uint32_t n)
{
    uint64_t least = UINT64_MAX, most = 0;

    for (uint32_t k = 0; k < n; k++) {
        if (tenants[k].service > most)
            most = tenants[k].service;
        if (tenant_is_busy(&tenants[k]) && tenants[k].service < least)
            least = tenants[k].service;
    }
    return least != UINT64_MAX ? least : most;
}

void tenant_arrive(struct tenant *tenants, uint32_t n, uint32_t i, uint32_t weight)
{
    struct tenant *t = &tenants[i];
    const uint64_t level = tenant_is_busy(t) ? 0 : level_of_service(tenants, n);
    const uint64_t credit = (uint64_t)TENANT_CREDIT * TENANT_UNIT;

    t->weight = weight > 0 ? weight : 1;
    if (level > credit && t->service < level - credit)
        t->service = level - credit;
}

void tenant_charge(struct tenant *t, uint32_t n_tokens)
{
    t->n_tokens += n_tokens;
    t->service += (uint64_t)n_tokens * TENANT_UNIT / t->weight;
}
