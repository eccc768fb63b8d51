/* kvcache/kv_manager_pin.c - pins a prefix as far as its tenant has room; see kv_manager.h and
 * prefix_pins.h.
 *
 * The prefix is looked up as for a sequence that would continue it, so that a pin never keeps
 * blocks that nobody could use: with a window the blocks that the next query sees must be there, in
 * a recurrent model a snapshot.
 */
#include "kvcache/kv_manager_impl.h"

#define EXPIRED_BLOCKS                                                                             \
    4096 /* blocks unpinned in a step: about as many as a long sequence gives                      \
          * back when it ends */

/* The pin of the first n entries of m->entries; n >= 1. */
static struct prefix_pin pin_of(const struct kv_manager *m, uint32_t n, uint32_t tenant,
                                uint64_t until_us)
{
    return (struct prefix_pin){.end = m->entries[n - 1],
                               .n = n,
                               .first = kv_groups_seen(&m->opt.groups, n * BLOCK_TOKENS),
                               .tenant = tenant,
                               .until_us = until_us};
}

/* The number of leading entries, at most n, whose blocks in groups without the window cost the
 * tenant no more than its room, beside the most that a window and a snapshot take. */
static uint32_t n_affordable(const struct kv_manager *m, uint32_t n, uint32_t tenant)
{
    const uint32_t room = prefix_pins_room(m->pins, tenant);
    const uint32_t n_full = m->n_full > 0 ? m->n_full : 1;
    const uint64_t width =
        m->n_full < m->n_groups && m->n_full > 0
            ? (uint64_t)kv_groups_width(&m->opt.groups, 1) * (m->n_groups - m->n_full)
            : 0;
    uint64_t cost = width + (m->states != NULL ? m->opt.states.n_parts : 0);

    for (uint32_t b = 0; b < n; b++) {
        for (uint32_t group = 0; group < n_full; group++)
            cost += !block_pool_is_pinned(m->pool, prefix_index_at(m->index, m->entries[b], group));
        if (cost > room)
            return b;
    }
    return n;
}

uint32_t kv_manager_pin(struct kv_manager *m, struct kv_key *key, uint32_t n_tokens,
                        uint32_t tenant, uint64_t until_us)
{
    struct prefix_pin pin;
    uint32_t n;

    if (m->pins == NULL)
        return 0;
    n = kv_manager_longest(m, key, n_tokens);
    if (n > 0)
        pin = pin_of(m, n, tenant, until_us);
    if (n > 0 && prefix_pins_cost(m->pins, &pin) > prefix_pins_room(m->pins, tenant)) {
        n = kv_manager_longest(m, key, n_affordable(m, n, tenant) * BLOCK_TOKENS);
        if (n > 0)
            pin = pin_of(m, n, tenant, until_us);
        if (n > 0 && prefix_pins_cost(m->pins, &pin) > prefix_pins_room(m->pins, tenant))
            return 0; /* too many snapshots are pinned */
    }
    if (n == 0)
        return 0;
    prefix_pins_add(m->pins, &pin);
    return n * BLOCK_TOKENS;
}

void kv_manager_expire_pins(struct kv_manager *m, uint64_t now_us)
{
    if (m->pins != NULL)
        prefix_pins_expire(m->pins, now_us, EXPIRED_BLOCKS);
}

struct prefix_pins_tenant kv_manager_pins_of(const struct kv_manager *m, uint32_t tenant)
{
    return m->pins != NULL ? prefix_pins_of(m->pins, tenant) : (struct prefix_pins_tenant){0};
}
