/* kvcache/kv_manager_inspect.c - statistics, the block map and kv_manager_check(); see
 * kv_manager.h.
 *
 * Everything here only reads. The check recounts from three sides: the pool (which blocks are
 * cached or held), the index (which blocks and snapshots its entries name) and the swap tiers. Its
 * core is the rule that eviction relies on: a cached block is in the index, and the next one to be
 * evicted has no children there. P3 is part of it: free + held + cached + pinned = all blocks.
 */
#include "kvcache/kv_manager_impl.h"

struct kv_manager_stats kv_manager_stats(const struct kv_manager *m)
{
    struct kv_manager_stats stats = {
        .groups = m->opt.groups,
        .pins = m->opt.pins,
        .pool = block_pool_stats(m->pool),
        .n_copied = m->n_copied,
        .query_tokens = m->query_tokens,
        .hit_tokens = m->hit_tokens,
    };

    if (m->index != NULL)
        stats.n_indexed = prefix_index_n(m->index);
    if (m->swap != NULL)
        stats.swap = swap_stats(m->swap);
    if (m->states != NULL)
        stats.states = kv_states_stats(m->states);
    return stats;
}

void kv_manager_map(const struct kv_manager *m, char *states)
{
    for (block_id id = 1; id <= m->opt.n_blocks; id++) {
        const uint32_t holders = block_pool_holders(m->pool, id);
        const char state = holders > 1                                   ? 's'
                           : holders == 1                                ? 'h'
                           : block_pool_state(m->pool, id) == BLOCK_FREE ? 'f'
                                                                         : 'c';

        states[id - 1] = block_pool_is_pinned(m->pool, id) ? (char)(state - 'a' + 'A') : state;
    }
}

void kv_manager_kinds(const struct kv_manager *m, struct kv_kind kinds[2])
{
    kinds[0] = (struct kv_kind){.n_groups = m->n_full};
    kinds[1] = (struct kv_kind){.n_groups = m->n_groups - m->n_full};
    for (block_id id = 1; id <= m->opt.n_blocks; id++) {
        const enum block_state state = block_pool_state(m->pool, id);

        kinds[m->in_window[id]].n_held += state == BLOCK_HELD;
        kinds[m->in_window[id]].n_cached += state == BLOCK_CACHED;
        kinds[m->in_window[id]].n_pinned += state == BLOCK_PINNED;
    }
}

uint32_t kv_manager_hashes(const struct kv_manager *m, struct prefix_hash *hashes)
{
    struct prefix_entry entry;
    uint32_t n = 0;

    for (block_id id = 1; m->index != NULL && id <= m->opt.n_blocks; id++)
        if (prefix_index_get(m->index, prefix_id_of(id), &entry))
            hashes[n++] = entry.hash;
    return n;
}

const struct block_pool *kv_manager_pool(const struct kv_manager *m)
{
    return m->pool;
}

/* The next block to be evicted has no children in the index, unless it is evicted without its entry
 * or together with its children. */
static bool check_oldest(const struct kv_manager *m)
{
    uint32_t group;
    const struct prefix_id entry =
        prefix_index_entry_of(m->index, block_pool_oldest(m->pool), &group);

    return m->n_full == 0 || group >= m->n_full ||
           prefix_id_is_none(prefix_index_child(m->index, entry));
}

/* The blocks of an entry have the kind of their groups, and the same holders; in groups with the
 * window there may be fewer, because sequences drop such blocks, or never held them, once the
 * window has passed. */
static bool check_indexed(const struct kv_manager *m, block_id id)
{
    uint32_t group;
    const struct prefix_id entry = prefix_index_entry_of(m->index, id, &group);
    const block_id first = prefix_index_at(m->index, entry, 0);
    const uint32_t n = block_pool_holders(m->pool, id);

    if (m->in_window[id] != (group >= m->n_full))
        return false;
    if (group < m->n_full)
        return n == block_pool_holders(m->pool, first);
    return m->n_full == 0 || n <= block_pool_holders(m->pool, first);
}

/* Every cached or pinned block is in the index, and no block in the index is free. */
static bool check_cached(const struct kv_manager *m)
{
    for (block_id id = 1; id <= m->opt.n_blocks; id++) {
        const enum block_state state = block_pool_state(m->pool, id);
        const bool is_in = m->index != NULL && prefix_index_has(m->index, id);

        if (is_in ? state == BLOCK_FREE || !check_indexed(m, id)
                  : state == BLOCK_CACHED || state == BLOCK_PINNED)
            return false;
    }
    return m->index == NULL || check_oldest(m);
}

static bool is_entry(const struct kv_manager *m, block_id id)
{
    uint32_t group;

    return prefix_id_is(prefix_index_entry_of(m->index, id, &group), prefix_id_of(id));
}

/* Only entries of the index have snapshots. */
static bool check_states(const struct kv_manager *m)
{
    for (block_id id = 1; m->states != NULL && id <= m->opt.n_blocks; id++)
        if (kv_states_at(m->states, prefix_id_of(id)) != STATE_NONE &&
            (m->index == NULL || !is_entry(m, id)))
            return false;
    return m->states == NULL || kv_states_check(m->states);
}

bool kv_manager_check(const struct kv_manager *m)
{
    return block_pool_check(m->pool) && (m->index == NULL || prefix_index_check(m->index)) &&
           (m->swap == NULL || swap_check(m->swap)) && check_cached(m) && check_states(m) &&
           (m->pins == NULL || prefix_pins_check(m->pins)) && m->n_moves <= m->max_moves;
}
