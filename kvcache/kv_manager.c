/* kvcache/kv_manager.c - the manager's central part: room, allocation, forks and commit.
 *
 * The scheduler allocates a sequence's blocks while it plans a step and commits its tokens after
 * the step. A block is written only while one sequence holds it and the index does not have it;
 * alloc replaces any other block by a copy first (copy on write). commit enters full blocks into
 * the index; if an equal block is there already, the sequence shares that one and gives its own
 * back. Eviction, which makes room for an allocation, is in kv_manager_evict.c; lookups in the
 * index, states and swapping are in the files that kv_manager_impl.h lists.
 */
#include "kvcache/kv_manager_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/block_offers.h"

#include <stddef.h>
#include <string.h>

/* ---- creation ---- */

/* Number of moves that fit into the log. Between two kv_manager_moves_done() a sequence is attached
 * and grown once, each of which copies at most one block per group into a new one, and its state
 * into a new slot; it is swapped out or in once, so each RAM slot is loaded from and saved into at
 * most once. A caller that does more may get ERR_AGAIN. */
static uint64_t most_moves(const struct kv_manager_options *o)
{
    return 2 * ((uint64_t)o->n_blocks + o->n_ram + o->states.n_slots);
}

/* Swap slots that the copy of the longest sequence takes. */
static uint32_t most_swapped(const struct kv_manager_options *o)
{
    const uint64_t n_tokens = (uint64_t)o->max_table * BLOCK_TOKENS;
    const uint64_t n =
        kv_groups_peak(&o->groups, n_tokens < UINT32_MAX ? (uint32_t)n_tokens : UINT32_MAX, 1);
    const uint64_t n_all =
        (o->states.is_alone ? 0 : n) + (o->states.n_slots > 0 ? o->states.n_parts : 0);

    return n_all < UINT32_MAX ? (uint32_t)n_all : UINT32_MAX;
}

static int create_pins(struct kv_manager *m)
{
    const struct kv_pin_options *o = &m->opt.pins;

    return prefix_pins_create(&m->pins,
                              &(struct prefix_pins_options){.pool = m->pool,
                                                            .index = m->index,
                                                            .states = m->states,
                                                            .state_blocks = m->opt.states.n_parts,
                                                            .most_states = o->most_states,
                                                            .n_blocks = m->opt.n_blocks,
                                                            .n_groups = m->n_groups,
                                                            .n_full = m->n_full,
                                                            .n_tenants = o->n_tenants,
                                                            .tenant_blocks = o->tenant_blocks,
                                                            .most_blocks = o->most_blocks});
}

static int create_parts(struct kv_manager *m)
{
    const struct kv_manager_options *o = &m->opt;
    int rc = block_pool_create(&m->pool, o->n_blocks, o->placement);

    if (rc == 0 && o->prefix_cache)
        rc = prefix_index_create(&m->index, o->n_blocks, m->n_groups);
    if (rc == 0 && o->states.n_slots > 0)
        rc = kv_states_create(&m->states, o->states.n_slots, o->n_blocks);
    if (rc == 0 && o->n_ram > 0)
        rc = swap_create(&m->swap, &(struct swap_options){.n_ram = o->n_ram,
                                                          .n_file = o->n_file,
                                                          .max_copies = o->max_sequences,
                                                          .max_blocks = most_swapped(o)});
    if (rc == 0 && o->pins.most_blocks > 0)
        rc = create_pins(m);
    if (rc < 0)
        return rc;
    m->moves = mem_calloc(m->max_moves, sizeof(*m->moves));
    m->in_window = mem_calloc((size_t)o->n_blocks + 1, sizeof(*m->in_window));
    m->scratch = mem_calloc(o->max_table, m->n_groups * sizeof(*m->scratch));
    m->entries = mem_calloc(o->max_table, sizeof(*m->entries));
    m->entered = mem_calloc(o->max_table, 2 * sizeof(*m->entered));
    return m->moves != NULL && m->in_window != NULL && m->scratch != NULL && m->entries != NULL &&
                   m->entered != NULL
               ? 0
               : ERR_NOMEM;
}

static bool is_sane(const struct kv_manager_options *o)
{
    const struct kv_groups *l = &o->groups;
    const struct kv_state_options *s = &o->states;

    if (o->pins.most_blocks > 0 &&
        (!o->prefix_cache || s->is_alone || (s->n_slots > 0 && o->pins.most_states == 0)))
        return false;
    if (o->pins.most_states > 0 && o->pins.most_states >= s->n_slots)
        return false;
    if (s->n_slots > 0 ? s->interval == 0 || s->n_parts == 0 : s->is_alone)
        return false;
    return o->max_table > 0 && o->pins.most_blocks < o->n_blocks &&
           (o->n_file == 0 || o->n_ram > 0) && most_moves(o) <= UINT32_MAX &&
           l->n_window <= kv_groups_n(l) && (l->n_window == 0) == (l->window == 0) &&
           (kv_groups_n_full(l) > 0 || kv_groups_n(l) == 1);
}

int kv_manager_create(struct kv_manager **out, const struct kv_manager_options *o)
{
    struct kv_manager *m;
    int rc;

    *out = NULL;
    if (!is_sane(o))
        return ERR_INVAL;
    m = mem_calloc(1, sizeof(*m));
    if (m == NULL)
        return ERR_NOMEM;
    m->opt = *o;
    m->max_moves = (uint32_t)most_moves(o);
    m->n_groups = kv_groups_n(&o->groups);
    m->n_full = kv_groups_n_full(&o->groups);
    rc = create_parts(m);
    if (rc < 0)
        kv_manager_destroy(&m);
    *out = m;
    return rc;
}

void kv_manager_destroy(struct kv_manager **manager)
{
    struct kv_manager *m = manager != NULL ? *manager : NULL;

    if (m == NULL)
        return;
    prefix_pins_destroy(&m->pins);
    block_pool_destroy(&m->pool);
    prefix_index_destroy(&m->index);
    kv_states_destroy(&m->states);
    swap_destroy(&m->swap);
    mem_free(m->moves);
    mem_free(m->in_window);
    mem_free(m->scratch);
    mem_free(m->entries);
    mem_free(m->entered);
    mem_free(m);
    *manager = NULL;
}

void kv_seq_init(struct kv_seq *kv, block_id *blocks, uint32_t cap, uint32_t n_groups)
{
    *kv = (struct kv_seq){.swap = SWAP_NONE};
    block_table_init(&kv->table, blocks, cap, n_groups);
}

/* ---- room ---- */

uint32_t kv_manager_n_available(const struct kv_manager *m)
{
    const struct block_pool_stats s = block_pool_stats(m->pool);

    return s.n_free + s.n_cached;
}

bool kv_manager_shares(const struct kv_manager *m)
{
    return m->index != NULL;
}

void kv_manager_watch(struct kv_manager *m,
                      void (*changed)(void *ud, struct prefix_hash hash, bool is_in), void *ud)
{
    if (m->index != NULL)
        prefix_index_watch(m->index, changed, ud);
}

uint32_t kv_manager_n_blocks(const struct kv_manager *m)
{
    return m->opt.n_blocks;
}

enum kv_pressure kv_manager_pressure(const struct kv_manager *m)
{
    const uint64_t share = UINT64_C(100) * kv_manager_n_available(m);

    if (share < (uint64_t)m->opt.critical_percent * m->opt.n_blocks)
        return KV_CRITICAL;
    return share < (uint64_t)m->opt.low_percent * m->opt.n_blocks ? KV_LOW : KV_RELAXED;
}

bool kv_manager_can_note(const struct kv_manager *m, uint32_t n)
{
    return n <= m->max_moves - m->n_moves;
}

void kv_manager_note(struct kv_manager *m, enum kv_move_kind kind, uint32_t from, uint32_t to)
{
    kv_manager_note_part(m, kind, from, to, 0);
    m->n_copied += kind == KV_COPY;
}

void kv_manager_note_part(struct kv_manager *m, enum kv_move_kind kind, uint32_t from, uint32_t to,
                          uint32_t part)
{
    m->moves[m->n_moves++] = (struct kv_move){.kind = kind, .from = from, .to = to, .part = part};
}

block_id kv_manager_last(const struct kv_seq *kv)
{
    return kv->table.n > 0 ? *block_table_at(&kv->table, kv->table.n_groups - 1, kv->table.n - 1)
                           : BLOCK_NONE;
}

/* ---- how many blocks ---- */

uint32_t kv_manager_n_groups(const struct kv_manager *m)
{
    return m->n_groups;
}

/* Blocks that are never pinned. */
static uint32_t n_free_of_pins(const struct kv_manager *m)
{
    return m->opt.n_blocks - m->opt.pins.most_blocks;
}

bool kv_manager_can_hold(const struct kv_manager *m, uint32_t n_tokens)
{
    return n_tokens <= kv_groups_most_tokens(&m->opt.groups, n_free_of_pins(m));
}

uint64_t kv_manager_needed(const struct kv_manager *m, uint32_t n_tokens)
{
    const uint64_t n = kv_groups_peak(&m->opt.groups, n_tokens, m->opt.max_chunk);
    const uint32_t most = n_free_of_pins(m);

    /* a sequence that just fits is computed in smaller chunks */
    return n > most && kv_manager_can_hold(m, n_tokens) ? most : n;
}

uint32_t kv_manager_n_swapped(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done)
{
    const uint32_t n_blocks = kv_manager_over_groups(m, kv, block_table_needed(n_done));
    const uint32_t n = m->opt.states.is_alone ? 0 : n_blocks;

    return n + (m->states != NULL && n_done > 0 ? m->opt.states.n_parts : 0);
}

uint32_t kv_manager_n_mapped(const struct kv_manager *m, const struct kv_seq *kv)
{
    return kv_manager_over_groups(m, kv, kv->table.n);
}

/* ---- growth ---- */

bool kv_manager_can_fork(const struct kv_manager *m, const struct kv_seq *parent, uint32_t n_tokens)
{
    return block_table_needed(n_tokens) <= parent->table.n &&
           parent->first <= kv_groups_seen(&m->opt.groups, n_tokens) &&
           (m->states == NULL || n_tokens == 0 ||
            (parent->fork != STATE_NONE && n_tokens == parent->n_fork &&
             kv_states_can_take(m->states)));
}

uint32_t kv_manager_n_forked(const struct kv_manager *m, uint32_t n_tokens)
{
    return m->n_full * (n_tokens / BLOCK_TOKENS);
}

void kv_manager_fork(struct kv_manager *m, struct kv_seq *child, const struct kv_seq *parent,
                     uint32_t n_tokens)
{
    const uint32_t n = block_table_needed(n_tokens), n_full = n_tokens / BLOCK_TOKENS;

    assert(kv_seq_is_empty(child) && n <= child->table.cap);
    assert(kv_manager_can_fork(m, parent, n_tokens));
    child->first = kv_groups_first(&m->opt.groups, n_tokens);
    if (child->first < parent->first)
        child->first = parent->first;
    for (uint32_t group = 0; group < m->n_groups; group++) {
        const uint32_t from = kv_group_from(m, child, group);
        const block_id *theirs = block_table_at(&parent->table, group, from);

        kv_must(block_pool_ref(m->pool, theirs, n - from));
        memcpy(block_table_at(&child->table, group, from), theirs, (n - from) * sizeof(*theirs));
    }
    if (n > 0)
        kv_state_fork(m, child, parent);
    child->table.n = n;
    child->n_indexed = parent->n_indexed < n_full ? parent->n_indexed : n_full;
}

/* True: one sequence alone holds the block, and it is not in the index, where others could find
 * it. */
static bool is_writable(const struct kv_manager *m, block_id id)
{
    return block_pool_holders(m->pool, id) == 1 &&
           (m->index == NULL || !prefix_index_has(m->index, id));
}

/* Count the blocks of the table, from that of position `from` on, that must be replaced by
 * copies. */
static uint32_t n_to_copy(const struct kv_manager *m, const struct kv_seq *kv, uint32_t from)
{
    uint32_t n = 0;

    for (uint32_t b = from / BLOCK_TOKENS; b < kv->table.n; b++)
        for (uint32_t group = 0; group < m->n_groups; group++)
            n += b >= kv_group_from(m, kv, group) &&
                 !is_writable(m, *block_table_at(&kv->table, group, b));
    return n;
}

uint32_t kv_manager_missing(const struct kv_manager *m, const struct kv_seq *kv, uint32_t from,
                            uint32_t to)
{
    return from < to ? n_to_copy(m, kv, from) + block_table_missing(&kv->table, to) * m->n_groups
                     : 0;
}

uint64_t kv_manager_owed(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done,
                         uint32_t n_tokens)
{
    const uint64_t n = block_table_missing(&kv->table, n_tokens);
    const uint64_t has = kv->table.n - kv->first; /* blocks in each group with the window */
    uint64_t width = UINT32_MAX, more = n;

    if (n_done >= n_tokens)
        return 0;
    if (m->n_full < m->n_groups)
        width = kv_groups_width(&m->opt.groups, m->opt.max_chunk);
    if (has + more > width)
        more = width > has ? width - has : 0;
    return n_to_copy(m, kv, n_done) + m->n_full * n + (m->n_groups - m->n_full) * more;
}

uint32_t kv_manager_room(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done)
{
    const uint32_t available = kv_manager_n_available(m), copies = n_to_copy(m, kv, n_done);
    uint64_t n;

    if (copies > available)
        return 0;
    n = ((uint64_t)kv->table.n + (available - copies) / m->n_groups) * BLOCK_TOKENS - n_done;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Replace blocks that must not be written by the blocks ids[]; returns how many. The old blocks are
 * given back at the end, in the table's order, so that the first of them is evicted last. */
static uint32_t copy_on_write(struct kv_manager *m, struct kv_seq *kv, uint32_t from, block_id *ids)
{
    uint32_t n = 0;

    for (uint32_t b = from / BLOCK_TOKENS; b < kv->table.n; b++)
        for (uint32_t group = 0; group < m->n_groups; group++) {
            const block_id old = *block_table_at(&kv->table, group, b);

            if (b < kv_group_from(m, kv, group) || is_writable(m, old))
                continue;
            kv_manager_note(m, KV_COPY, old, ids[n]);
            kv_manager_place(m, kv, group, b, ids[n]);
            ids[n++] = old;
        }
    kv_must(block_pool_give(m->pool, ids, n));
    if (kv->n_indexed > from / BLOCK_TOKENS)
        kv->n_indexed = from / BLOCK_TOKENS;
    return n;
}

int kv_manager_alloc(struct kv_manager *m, struct kv_seq *kv, uint32_t from, uint32_t to)
{
    const uint32_t n_new = block_table_missing(&kv->table, to);
    const uint32_t n = kv_manager_missing(m, kv, from, to), n_copies = n - n_new * m->n_groups;
    const block_id *ids = m->scratch + n_copies;
    uint32_t n_used;

    assert(kv->table.cap <= m->opt.max_table && kv->table.n_groups == m->n_groups);
    assert(from <= kv->table.n * BLOCK_TOKENS);
    assert(kv->first <= kv_groups_seen(&m->opt.groups, from));
    assert(m->states == NULL || from == kv->n_state);
    if (block_table_needed(to) > kv->table.cap)
        return ERR_RANGE;
    if (from >= to || (n == 0 && !kv_state_is_missing(m, kv)))
        return 0;
    if (n > kv_manager_n_available(m) || !kv_state_can_grow(m, kv) ||
        !kv_manager_can_note(m, n_copies + (m->states != NULL)))
        return ERR_AGAIN;
    kv_manager_take(m, n, kv_manager_last(kv), m->scratch);
    n_used = copy_on_write(m, kv, from, m->scratch);
    /* Taking blocks may have evicted the block that was to be copied from the index, if all layers
     * have the window: the sequence may write into it then. */
    kv_must(block_pool_give(m->pool, m->scratch + n_used, n_copies - n_used));
    for (uint32_t group = 0; group < m->n_groups; group++)
        for (uint32_t b = kv->table.n; b < kv->table.n + n_new; b++)
            kv_manager_place(m, kv, group, b, *ids++);
    kv->table.n += n_new;
    kv_state_grow(m, kv);
    return 0;
}

/* ---- commit ---- */

/* Replace the sequence's block of a group by the entry's; if the entry has none, give it the
 * sequence's block. In groups with the window either may have been dropped. */
static void join_group(struct kv_manager *m, struct kv_seq *kv, struct prefix_id entry, uint32_t b,
                       uint32_t group)
{
    const block_id there = prefix_index_at(m->index, entry, group);
    block_id *own = block_table_at(&kv->table, group, b);

    if (*own == BLOCK_NONE || *own == there)
        return;
    if (there == BLOCK_NONE) {
        prefix_index_put(m->index, entry, group, *own);
        kv_must(block_pool_keep(m->pool, *own, true));
        return;
    }
    kv_must(block_pool_ref(m->pool, &there, 1));
    kv_must(block_pool_give(m->pool, own, 1));
    *own = there;
}

/* Enter the first block that is not indexed yet. False: it cannot be entered yet. */
static bool index_next(struct kv_manager *m, struct kv_seq *kv, const struct kv_key *key)
{
    const uint32_t b = kv->n_indexed;
    const int32_t *tokens = key->ids + (size_t)b * BLOCK_TOKENS;
    const struct prefix_id before = prefix_id_of(b > 0 ? kv->table.blocks[b - 1] : BLOCK_NONE);
    const block_id own = kv->table.blocks[b];
    struct prefix_id entry;

    if (own == BLOCK_NONE || (b > 0 && prefix_id_is_none(before)))
        return false; /* all groups have the window, and the block has left it */
    entry = prefix_index_find(m->index, key->hashes[b], before, tokens);
    if (!prefix_id_is_none(entry) && !prefix_id_is(entry, prefix_id_of(own)) &&
        block_pool_holders(m->pool, own) > 1)
        return false; /* a fork would have a different block before the shared ones */
    if (prefix_id_is_none(entry)) {
        if (prefix_index_insert(m->index, own,
                                b > 0 ? key->hashes[b - 1] : prefix_hash_root(key->salt),
                                key->hashes[b], before, tokens) < 0)
            return false;
        kv_must(block_pool_keep(m->pool, own, true));
        entry = prefix_id_of(own);
        kv_events_stored(m->opt.events, m->index, entry, &key->origin);
    }
    for (uint32_t group = 0; group < m->n_groups; group++)
        join_group(m, kv, entry, b, group);
    return true;
}

/* Take blocks from .. to-1 of the groups from group0 on out of the table and give them back, in an
 * order in which the blocks of the last tokens are evicted first. */
static void give_blocks(struct kv_manager *m, struct kv_seq *kv, uint32_t group0, uint32_t from,
                        uint32_t to)
{
    uint32_t n = 0;

    for (uint32_t b = from; b < to; b++)
        for (uint32_t group = group0; group < m->n_groups; group++) {
            block_id *at = block_table_at(&kv->table, group, b);

            if (*at != BLOCK_NONE)
                m->scratch[n++] = *at;
            *at = BLOCK_NONE;
        }
    kv_must(block_pool_give(m->pool, m->scratch, n));
}

void kv_manager_truncate(struct kv_manager *m, struct kv_seq *kv, uint32_t n_done)
{
    const uint32_t n = block_table_needed(n_done);

    assert(n >= kv->n_indexed && n >= kv->first);
    assert(m->states == NULL || n_done == kv->n_state);
    if (n >= kv->table.n)
        return;
    give_blocks(m, kv, 0, n, kv->table.n);
    kv->table.n = n;
}

void kv_manager_free_out_of_window(struct kv_manager *m, struct kv_seq *kv, uint32_t n_done)
{
    const uint32_t first = kv_groups_first(&m->opt.groups, n_done);

    assert(block_table_needed(n_done) <= kv->table.n);
    kv->n_state = n_done;
    if (first <= kv->first)
        return;
    give_blocks(m, kv, m->n_full, kv->first, first);
    kv->first = first;
}

void kv_manager_commit(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key, uint32_t n_done)
{
    assert(block_table_needed(n_done) <= kv->table.n);
    if (m->index != NULL) {
        kv_key_extend(key, n_done);
        while (kv->n_indexed < n_done / BLOCK_TOKENS && index_next(m, kv, key))
            kv_manager_offer(m, kv, key, ++kv->n_indexed);
    }
    kv->n_state = n_done;
    kv_state_commit(m, kv);
    kv_manager_free_out_of_window(m, kv, n_done);
}

void kv_manager_flush_events(struct kv_manager *m)
{
    if (m->index != NULL)
        kv_events_flush(m->opt.events, m->index);
}

void kv_manager_give(struct kv_manager *m, struct kv_seq *kv)
{
    kv_state_release(m, kv);
    give_blocks(m, kv, 0, 0, kv->table.n);
    kv->table.n = kv->n_indexed = kv->first = 0;
}

void kv_manager_release(struct kv_manager *m, struct kv_seq *kv)
{
    kv_manager_forget(m, kv);
    kv_manager_give(m, kv);
}

/* True: the sequence alone holds the block, and its release makes it available. */
static bool is_alone(const struct kv_manager *m, block_id id)
{
    return block_pool_holders(m->pool, id) == 1 && !block_pool_is_pinned(m->pool, id);
}

uint32_t kv_manager_n_exclusive(const struct kv_manager *m, const struct kv_seq *kv)
{
    uint32_t n = 0;

    for (uint32_t group = 0; group < m->n_groups; group++)
        for (uint32_t b = kv_group_from(m, kv, group); b < kv->table.n; b++)
            n += is_alone(m, *block_table_at(&kv->table, group, b));
    return n;
}

/* In a recurrent model: the tokens after the last snapshot that others or the index keep. */
static uint32_t n_behind_snapshot(const struct kv_manager *m, const struct kv_seq *kv)
{
    uint32_t b = kv->n_indexed;

    while (b > kv_group_from(m, kv, 0) &&
           kv_states_at(m->states, prefix_id_of(kv->table.blocks[b - 1])) == STATE_NONE)
        b--;
    return (kv->table.n - b) * BLOCK_TOKENS;
}

uint32_t kv_manager_n_alone(const struct kv_manager *m, const struct kv_seq *kv)
{
    uint32_t n = kv_group_from(m, kv, 0); /* blocks before it were released */

    if (m->states != NULL)
        return n_behind_snapshot(m, kv);
    for (uint32_t b = n; b < kv->table.n; b++)
        n += is_alone(m, kv->table.blocks[b]);
    return n * BLOCK_TOKENS;
}
