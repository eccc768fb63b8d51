/* kvcache/kv_manager_evict.c - which cached block is evicted when too few blocks are free, and what
 * leaves the prefix index with it.
 *
 * The pool keeps cached blocks in the order of their last use; the least recently used is evicted.
 *
 * That block never has children in the index, because all sequences that hold a block also hold the
 * same block before it. (Attaching takes a chain from its start, a fork takes a leading part, a
 * block that is replaced by a copy is replaced together with all that follow it, and of two equal
 * blocks the sequence's own is dropped only while no other sequence holds it.) So a block is held
 * at least as long as its children, a table is released from its last block to its first, and a
 * child is never more recently used than its parent. This holds for the groups without a window;
 * the blocks of an entry in all of these have the same holders, so that any of them stands for the
 * entry. A sequence that holds a block of a group with a window holds the entry's other blocks too.
 */
#include "kvcache/kv_manager_impl.h"

#include "kvcache/block_offers.h"

/* Take an entry without children out of the index, and free its blocks. No sequence holds its
 * blocks in groups with the window either, unless all layers have the window. */
static void forget_entry(struct kv_manager *m, struct prefix_id entry)
{
    const block_id first = prefix_index_at(m->index, entry, 0);

    for (uint32_t group = 1; group < m->n_groups; group++) {
        const block_id group_block = prefix_index_at(m->index, entry, group);

        if (group_block != BLOCK_NONE)
            kv_must(block_pool_keep(m->pool, group_block, false));
    }
    if (m->states != NULL)
        kv_states_forget(m->states, entry);
    kv_events_removed(m->opt.events, m->index, entry);
    if (m->offers != NULL)
        block_offers_forget(m->offers, first);
    prefix_index_remove(m->index, entry);
    kv_must(block_pool_keep(m->pool, first, false));
}

/* Take an entry and everything that follows it out of the index: walk down to an entry without
 * children, remove it, continue at its parent. */
static void forget_chain(struct kv_manager *m, struct prefix_id entry)
{
    struct prefix_id at = entry, next;

    for (;;) {
        while (!prefix_id_is_none(next = prefix_index_child(m->index, at)))
            at = next;
        next = prefix_index_before(m->index, at);
        forget_entry(m, at);
        if (prefix_id_is(at, entry))
            return;
        at = next;
    }
}

/* Evict a cached block, and the entries that the index cannot keep without it. */
static void evict_block(struct kv_manager *m, block_id block)
{
    uint32_t group;
    const struct prefix_id entry = prefix_index_entry_of(m->index, block, &group);

    assert(!prefix_id_is_none(entry));
    if (m->n_full == 0) {
        forget_chain(m, entry);
    } else if (group < m->n_full) {
        forget_entry(m, entry);
    } else {
        prefix_index_put(m->index, entry, group, BLOCK_NONE);
        kv_must(block_pool_keep(m->pool, block, false));
    }
}

void kv_manager_take(struct kv_manager *m, uint32_t n, block_id after, block_id *ids)
{
    while (block_pool_n_free(m->pool) < n)
        evict_block(m, block_pool_oldest(m->pool));
    kv_must(block_pool_take(m->pool, n, after, ids));
}
