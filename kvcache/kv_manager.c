/* kvcache/kv_manager.c - see kv_manager.h.
 *
 * Why the block that was used longest ago never has followers in the index: whoever holds a block
 * holds at the place before it, in its own table, one and the same block as all its other holders.
 * (Attaching takes the chain from its start, a fork takes a leading part, what is replaced by a
 * copy is replaced with all that stands behind it, and of two equal blocks the sequence's own is
 * dropped only while nobody shares it.) So a block outlives its followers' holders, tables are
 * given back with the last block cached first, and a follower is never the younger one.
 */
#include "kvcache/kv_manager_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <stddef.h>
#include <string.h>

/* ---- creation ---- */

/* Between two kv_manager_moves_done() a sequence is attached and grown once, and each of the two
 * copies at most one block, into a block of its own; it is swapped out or in once, so each RAM slot
 * is loaded from and saved into at most once. Whoever does more may be told ERR_AGAIN. */
static uint64_t most_moves(const struct kv_manager_options *o)
{
    return 2 * ((uint64_t)o->n_blocks + o->n_ram);
}

static int create_parts(struct kv_manager *m)
{
    const struct kv_manager_options *o = &m->opt;
    int rc = block_pool_create(&m->pool, o->n_blocks, o->placement);

    if (rc == 0 && o->prefix_cache)
        rc = prefix_index_create(&m->index, o->n_blocks);
    if (rc == 0 && o->n_ram > 0)
        rc = swap_create(&m->swap, &(struct swap_options){.n_ram = o->n_ram,
                                                          .n_file = o->n_file,
                                                          .max_copies = o->max_sequences,
                                                          .max_blocks = o->max_table});
    if (rc < 0)
        return rc;
    m->moves = mem_calloc(m->max_moves, sizeof(*m->moves));
    m->scratch = mem_calloc(o->max_table, sizeof(*m->scratch));
    return m->moves != NULL && m->scratch != NULL ? 0 : ERR_NOMEM;
}

int kv_manager_create(struct kv_manager **out, const struct kv_manager_options *o)
{
    struct kv_manager *m;
    int rc;

    *out = NULL;
    if (o->max_table == 0 || (o->n_file > 0 && o->n_ram == 0) || most_moves(o) > UINT32_MAX)
        return ERR_INVAL;
    m = mem_calloc(1, sizeof(*m));
    if (m == NULL)
        return ERR_NOMEM;
    m->opt = *o;
    m->max_moves = (uint32_t)most_moves(o);
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
    block_pool_destroy(&m->pool);
    prefix_index_destroy(&m->index);
    swap_destroy(&m->swap);
    mem_free(m->moves);
    mem_free(m->scratch);
    mem_free(m);
    *manager = NULL;
}

void kv_seq_init(struct kv_seq *kv, block_id *blocks, uint32_t cap)
{
    *kv = (struct kv_seq){.swap = SWAP_NONE};
    block_table_init(&kv->table, blocks, cap);
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

void kv_manager_take(struct kv_manager *m, uint32_t n, block_id after, block_id *ids)
{
    while (block_pool_n_free(m->pool) < n) {
        const block_id oldest = block_pool_oldest(m->pool);

        prefix_index_remove(m->index, oldest);
        kv_must(block_pool_keep(m->pool, oldest, false));
    }
    kv_must(block_pool_take(m->pool, n, after, ids));
}

bool kv_manager_can_note(const struct kv_manager *m, uint32_t n)
{
    return n <= m->max_moves - m->n_moves;
}

void kv_manager_note(struct kv_manager *m, enum kv_move_kind kind, uint32_t from, uint32_t to)
{
    m->moves[m->n_moves++] = (struct kv_move){.kind = kind, .from = from, .to = to};
    m->n_copied += kind == KV_COPY;
}

block_id kv_manager_last(const struct kv_seq *kv)
{
    return kv->table.n > 0 ? kv->table.blocks[kv->table.n - 1] : BLOCK_NONE;
}

/* ---- growth ---- */

void kv_manager_fork(struct kv_manager *m, struct kv_seq *child, const struct kv_seq *parent,
                     uint32_t n_tokens)
{
    const uint32_t n = block_table_needed(n_tokens), n_full = n_tokens / BLOCK_TOKENS;

    assert(kv_seq_is_empty(child) && n <= child->table.cap && n <= parent->table.n);
    kv_must(block_pool_ref(m->pool, parent->table.blocks, n));
    memcpy(child->table.blocks, parent->table.blocks, n * sizeof(*child->table.blocks));
    child->table.n = n;
    child->n_indexed = parent->n_indexed < n_full ? parent->n_indexed : n_full;
}

/* Held by nobody else, and nobody can come to share it through the index. */
static bool is_writable(const struct kv_manager *m, block_id id)
{
    return block_pool_holders(m->pool, id) == 1 &&
           (m->index == NULL || !prefix_index_has(m->index, id));
}

/* Blocks of the table, from the one of position `from` on, that must be replaced by a copy. */
static uint32_t n_to_copy(const struct kv_manager *m, const struct kv_seq *kv, uint32_t from)
{
    uint32_t n = 0;

    for (uint32_t b = from / BLOCK_TOKENS; b < kv->table.n; b++)
        n += !is_writable(m, kv->table.blocks[b]);
    return n;
}

uint32_t kv_manager_missing(const struct kv_manager *m, const struct kv_seq *kv, uint32_t from,
                            uint32_t to)
{
    return from < to ? n_to_copy(m, kv, from) + block_table_missing(&kv->table, to) : 0;
}

/* Put the blocks ids[] in the places of those that must not be written; returns how many. They are
 * given back last, in the table's order, so that the first of them is evicted last. */
static uint32_t copy_on_write(struct kv_manager *m, struct kv_seq *kv, uint32_t from, block_id *ids)
{
    uint32_t n = 0;

    for (uint32_t b = from / BLOCK_TOKENS; b < kv->table.n; b++) {
        const block_id old = kv->table.blocks[b];

        if (is_writable(m, old))
            continue;
        kv_manager_note(m, KV_COPY, old, ids[n]);
        kv->table.blocks[b] = ids[n];
        ids[n++] = old;
    }
    kv_must(block_pool_give(m->pool, ids, n));
    if (kv->n_indexed > from / BLOCK_TOKENS)
        kv->n_indexed = from / BLOCK_TOKENS;
    return n;
}

int kv_manager_grow(struct kv_manager *m, struct kv_seq *kv, uint32_t from, uint32_t to)
{
    const uint32_t n_new = block_table_missing(&kv->table, to);
    const uint32_t n = kv_manager_missing(m, kv, from, to);
    uint32_t n_copies;

    assert(kv->table.cap <= m->opt.max_table && from <= kv->table.n * BLOCK_TOKENS);
    if (block_table_needed(to) > kv->table.cap)
        return ERR_RANGE;
    if (n == 0)
        return 0;
    if (n > kv_manager_n_available(m) || !kv_manager_can_note(m, n - n_new))
        return ERR_AGAIN;
    kv_manager_take(m, n, kv_manager_last(kv), m->scratch);
    n_copies = copy_on_write(m, kv, from, m->scratch);
    memcpy(kv->table.blocks + kv->table.n, m->scratch + n_copies, n_new * sizeof(*m->scratch));
    kv->table.n += n_new;
    return 0;
}

/* Enter the first block that is not yet in the index. False: it has to stay out for now. */
static bool index_next(struct kv_manager *m, struct kv_seq *kv, const struct kv_key *key)
{
    const uint32_t b = kv->n_indexed;
    const int32_t *tokens = key->ids + (size_t)b * BLOCK_TOKENS;
    const block_id before = b > 0 ? kv->table.blocks[b - 1] : BLOCK_NONE;
    block_id *own = &kv->table.blocks[b];
    const block_id there = prefix_index_find(m->index, key->hashes[b], before, tokens);

    if (there == *own)
        return true;
    if (there != BLOCK_NONE) {
        if (block_pool_holders(m->pool, *own) > 1)
            return false; /* a fork would go on with another block before the shared ones */
        kv_must(block_pool_ref(m->pool, &there, 1));
        kv_must(block_pool_give(m->pool, own, 1));
        *own = there;
        return true;
    }
    if (prefix_index_insert(m->index, *own,
                            b > 0 ? key->hashes[b - 1] : prefix_hash_root(key->salt),
                            key->hashes[b], before, tokens) < 0)
        return false;
    kv_must(block_pool_keep(m->pool, *own, true));
    return true;
}

void kv_manager_commit(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key,
                       uint32_t n_done)
{
    assert(block_table_needed(n_done) <= kv->table.n);
    if (m->index == NULL)
        return;
    kv_key_extend(key, n_done);
    while (kv->n_indexed < n_done / BLOCK_TOKENS && index_next(m, kv, key))
        kv->n_indexed++;
}

void kv_manager_give(struct kv_manager *m, struct kv_seq *kv)
{
    if (kv->table.n == 0)
        return;
    kv_must(block_pool_give(m->pool, kv->table.blocks, kv->table.n));
    memset(kv->table.blocks, 0, kv->table.n * sizeof(*kv->table.blocks));
    kv->table.n = kv->n_indexed = 0;
}

void kv_manager_release(struct kv_manager *m, struct kv_seq *kv)
{
    kv_manager_forget(m, kv);
    kv_manager_give(m, kv);
}

uint32_t kv_manager_n_exclusive(const struct kv_manager *m, const struct kv_seq *kv)
{
    uint32_t n = 0;

    for (uint32_t b = 0; b < kv->table.n; b++)
        n += block_pool_holders(m->pool, kv->table.blocks[b]) == 1;
    return n;
}

/* ---- inspection ---- */

struct kv_manager_stats kv_manager_stats(const struct kv_manager *m)
{
    struct kv_manager_stats stats = {
        .pool = block_pool_stats(m->pool),
        .n_copied = m->n_copied,
        .query_tokens = m->query_tokens,
        .hit_tokens = m->hit_tokens,
    };

    if (m->index != NULL)
        stats.n_indexed = prefix_index_n(m->index);
    if (m->swap != NULL)
        stats.swap = swap_stats(m->swap);
    return stats;
}

void kv_manager_map(const struct kv_manager *m, char *states)
{
    for (block_id id = 1; id <= m->opt.n_blocks; id++) {
        const uint32_t holders = block_pool_holders(m->pool, id);
        const char state = holders > 1    ? 's'
                           : holders == 1 ? 'h'
                           : block_pool_state(m->pool, id) == BLOCK_CACHED ? 'c' : 'f';

        states[id - 1] = block_pool_is_pinned(m->pool, id) ? (char)(state - 'a' + 'A') : state;
    }
}

const struct block_pool *kv_manager_pool(const struct kv_manager *m)
{
    return m->pool;
}

/* What is cached is in the index; what is in the index is not free; the next to go has no
 * followers. */
static bool check_cached(const struct kv_manager *m)
{
    const block_id oldest = block_pool_oldest(m->pool);

    for (block_id id = 1; id <= m->opt.n_blocks; id++) {
        const enum block_state state = block_pool_state(m->pool, id);
        const bool is_in = m->index != NULL && prefix_index_has(m->index, id);

        if (is_in ? state == BLOCK_FREE : state == BLOCK_CACHED)
            return false;
    }
    return m->index == NULL || !prefix_index_has_followers(m->index, oldest);
}

bool kv_manager_check(const struct kv_manager *m)
{
    return block_pool_check(m->pool) && (m->index == NULL || prefix_index_check(m->index)) &&
           (m->swap == NULL || swap_check(m->swap)) && check_cached(m) &&
           m->n_moves <= m->max_moves;
}
