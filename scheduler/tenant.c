/* scheduler/tenant.c - see tenant.h. */
#include "scheduler/tenant.h"

bool tenant_is_busy(const struct tenant *t)
{
    return order_n(&t->waiting) > 0 || t->n_running > 0 || t->n_held_back > 0;
}

void tenant_arrive(struct tenant *tenants, uint32_t n, uint32_t i, uint32_t weight)
{
    uint64_t least = UINT64_MAX;

    tenants[i].weight = weight > 0 ? weight : 1;
    if (tenant_is_busy(&tenants[i]))
        return;
    for (uint32_t k = 0; k < n; k++)
        if (tenant_is_busy(&tenants[k]) && tenants[k].service < least)
            least = tenants[k].service;
    if (least != UINT64_MAX && tenants[i].service < least)
        tenants[i].service = least;
}

void tenant_charge(struct tenant *t, uint32_t n_tokens)
{
    t->n_tokens += n_tokens;
    t->service += (uint64_t)n_tokens * TENANT_UNIT / t->weight;
}
