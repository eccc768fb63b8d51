/* kvcache/kv_manager_prefix.c - looks a sequence's tokens up in the prefix index; see
 * kv_manager.h.
 *
 * A look-up walks the index with a cursor, one block of 16 tokens at a time, and remembers the last
 * position at which a sequence could continue: with windows the blocks that the next query sees
 * must all be there, with recurrent states a snapshot. kv_manager_match() does the walk for the
 * scheduler's decisions and changes nothing; kv_manager_attach() does it again at admission and
 * takes references on the blocks found. kv_manager_enter() does the same for blocks that come from
 * the block store.
 */
#include "kvcache/kv_manager_impl.h"

#include "kvcache/block_offers.h"

#include <stddef.h>
#include <string.h>

void kv_key_extend(struct kv_key *key, uint32_t n_tokens)
{
    for (; key->n_hashed < n_tokens / BLOCK_TOKENS; key->n_hashed++) {
        const uint32_t b = key->n_hashed;
        const struct prefix_hash before = b > 0 ? key->hashes[b - 1] : prefix_hash_root(key->salt);

        key->hashes[b] = prefix_hash_next(before, key->ids + (size_t)b * BLOCK_TOKENS);
    }
}

/* A position in the index: after the first `n` blocks of a key, the last of which belongs to
 * `entry`. */
struct prefix_cursor {
    const struct kv_key *key;
    struct prefix_hash hash;
    struct prefix_id entry;
    uint32_t n;
};

static struct prefix_cursor cursor_start(const struct kv_key *key)
{
    return (struct prefix_cursor){.key = key, .hash = prefix_hash_root(key->salt)};
}

static const int32_t *cursor_tokens(const struct prefix_cursor *p)
{
    return p->key->ids + (size_t)p->n * BLOCK_TOKENS;
}

/* Advance by a block, if it ends at `limit` tokens or before and is in the index. */
static bool cursor_next(const struct kv_manager *m, struct prefix_cursor *p, uint32_t limit)
{
    const int32_t *tokens = cursor_tokens(p);
    struct prefix_hash hash;
    struct prefix_id entry;

    if (p->n >= limit / BLOCK_TOKENS)
        return false;
    hash = p->n < p->key->n_hashed ? p->key->hashes[p->n] : prefix_hash_next(p->hash, tokens);
    entry = prefix_index_find(m->index, hash, p->entry, tokens);
    if (prefix_id_is_none(entry))
        return false;
    p->hash = hash;
    p->entry = entry;
    p->n++;
    return true;
}

/* Return an entry that begins with the key's next *n tokens and has blocks in all groups; or none.
 * Always none where all layers have the window, because making room for the copy could evict its
 * source, and in recurrent models, because snapshots exist only after whole blocks. */
static struct prefix_id cursor_part(const struct kv_manager *m, const struct prefix_cursor *p,
                                    uint32_t limit, uint32_t *n)
{
    const struct prefix_id entry = prefix_index_find_partial(
        m->index, p->hash, p->entry, cursor_tokens(p), limit - p->n * BLOCK_TOKENS, n);

    if (!prefix_id_is_none(entry) && m->n_full > 0 && m->states == NULL &&
        prefix_index_is_whole(m->index, entry))
        return entry;
    *n = 0;
    return PREFIX_NONE;
}

/* True: a sequence could continue at this position. Groups with the window have all blocks from
 * `run` on, and need those from kv_groups_seen() on. */
static bool can_continue_at(const struct kv_manager *m, const struct prefix_cursor *p, uint32_t run)
{
    return run <= kv_groups_seen(&m->opt.groups, p->n * BLOCK_TOKENS) &&
           kv_state_is_at(m, p->entry);
}

struct prefix {
    struct prefix_cursor end;
    uint32_t n_held; /* entries whose blocks other sequences hold, or that are pinned */
};

/* True: a block of the index could be evicted, so that a sequence that takes it leaves less for
 * others. */
static bool is_available(const struct kv_manager *m, block_id block)
{
    return block_pool_state(m->pool, block) == BLOCK_CACHED;
}

/* Find the longest cached prefix of whole blocks; store its entries in entries[], unless that is
 * NULL. */
static struct prefix longest(const struct kv_manager *m, const struct kv_key *key, uint32_t limit,
                             struct prefix_id *entries)
{
    struct prefix_cursor p = cursor_start(key);
    struct prefix best = {.end = p};
    uint32_t run = 0, n_held = 0;

    while (cursor_next(m, &p, limit)) {
        n_held += !is_available(m, prefix_index_at(m->index, p.entry, 0));
        if (!prefix_index_is_whole(m->index, p.entry))
            run = p.n;
        if (can_continue_at(m, &p, run))
            best = (struct prefix){p, n_held};
        if (entries != NULL)
            entries[p.n - 1] = p.entry;
    }
    return best;
}

struct kv_match kv_manager_match(const struct kv_manager *m, const struct kv_key *key,
                                 uint32_t limit)
{
    struct kv_match match = {0};
    struct prefix found;
    uint32_t n_part;

    if (m->index == NULL)
        return match;
    found = longest(m, key, limit, NULL);
    (void)cursor_part(m, &found.end, limit, &n_part);
    match.n_blocks = found.end.n;
    match.n_held = found.n_held * m->n_full;
    match.n_tokens = found.end.n * BLOCK_TOKENS + n_part;
    return match;
}

/* Attach a copy of a block whose first tokens match. Its sources may be the next blocks to be
 * evicted, so they are pinned while room is made. Returns the tokens in it. */
static uint32_t attach_part(struct kv_manager *m, struct kv_seq *kv, const struct prefix_cursor *p,
                            uint32_t limit)
{
    uint32_t n, n_cached = 0;
    const struct prefix_id source = cursor_part(m, p, limit, &n);
    struct block_table *t = &kv->table;

    if (prefix_id_is_none(source))
        return 0;
    for (uint32_t group = 0; group < m->n_groups; group++)
        n_cached +=
            block_pool_state(m->pool, prefix_index_at(m->index, source, group)) == BLOCK_CACHED;
    if (kv_manager_n_available(m) < m->n_groups + n_cached || !kv_manager_can_note(m, m->n_groups))
        return 0;
    for (uint32_t group = 0; group < m->n_groups; group++)
        kv_must(block_pool_pin(m->pool, prefix_index_at(m->index, source, group)));
    kv_manager_take(m, m->n_groups, kv_manager_last(kv), m->scratch);
    for (uint32_t group = 0; group < m->n_groups; group++) {
        const block_id from = prefix_index_at(m->index, source, group);

        kv_manager_place(m, kv, group, t->n, m->scratch[group]);
        kv_manager_note(m, KV_COPY, from, m->scratch[group]);
        kv_must(block_pool_unpin(m->pool, from));
    }
    t->n++;
    return n;
}

/* Hold the blocks of the first n entries of m->entries; in groups with the window from kv->first
 * on. */
static void share(struct kv_manager *m, struct kv_seq *kv, uint32_t n)
{
    for (uint32_t group = 0; group < m->n_groups; group++)
        for (uint32_t b = kv_group_from(m, kv, group); b < n; b++) {
            block_id *at = block_table_at(&kv->table, group, b);

            *at = prefix_index_at(m->index, m->entries[b], group);
            kv_must(block_pool_ref(m->pool, at, 1));
        }
    kv->table.n = kv->n_indexed = n;
}

uint32_t kv_manager_attach(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key,
                           uint32_t limit)
{
    struct prefix found;
    uint32_t n;

    assert(kv_seq_is_empty(kv) && block_table_needed(limit) <= kv->table.cap);
    if (m->index == NULL)
        return 0;
    kv_key_extend(key, limit);
    found = longest(m, key, limit, m->entries);
    kv->first = kv_groups_seen(&m->opt.groups, found.end.n * BLOCK_TOKENS);
    share(m, kv, found.end.n);
    for (uint32_t b = 1; m->offers != NULL && b <= found.end.n; b++)
        kv_manager_offer(m, kv, key, b);
    kv_state_attach(m, kv, found.end.entry, found.end.n);
    n = found.end.n * BLOCK_TOKENS + attach_part(m, kv, &found.end, limit);
    m->query_tokens += limit;
    m->hit_tokens += n;
    return n;
}

uint32_t kv_manager_longest(struct kv_manager *m, struct kv_key *key, uint32_t limit)
{
    kv_key_extend(key, limit);
    return longest(m, key, limit, m->entries).end.n;
}

uint32_t kv_manager_find_entries(struct kv_manager *m, struct kv_key *key, uint32_t n_tokens)
{
    struct prefix_cursor p = cursor_start(key);

    if (m->index == NULL)
        return 0;
    kv_key_extend(key, n_tokens);
    while (cursor_next(m, &p, n_tokens))
        m->entries[p.n - 1] = p.entry;
    return p.n;
}

/* ---- blocks outside the process ---- */

bool kv_manager_can_enter(const struct kv_manager *m)
{
    return m->index != NULL && m->n_groups == 1 && m->n_full == 1 && m->states == NULL;
}

void kv_manager_set_offers(struct kv_manager *m, struct block_offers *offers)
{
    assert(offers == NULL || kv_manager_can_enter(m));
    m->offers = offers;
}

void kv_manager_offer(struct kv_manager *m, const struct kv_seq *kv, const struct kv_key *key,
                      uint32_t n)
{
    const uint32_t each = m->offers != NULL ? block_offers_record_blocks(m->offers) : 1;

    if (m->offers == NULL || n % each != 0 ||
        block_offers_is_known(m->offers, kv->table.blocks[n - 1]))
        return;
    if (m->is_entering)
        block_offers_set_known(m->offers, kv->table.blocks[n - 1]);
    else
        block_offers_add(m->offers, kv->table.blocks + n - each,
                         n > each ? key->hashes[n - each - 1] : prefix_hash_root(key->salt),
                         key->hashes[n - 1], key->ids + (size_t)(n - each) * BLOCK_TOKENS);
}

uint32_t kv_manager_enter(struct kv_manager *m, struct kv_key *key, uint32_t first, uint32_t n,
                          uint32_t *from, const block_id **ids)
{
    const uint32_t to = first + n;
    struct kv_seq kv;
    uint32_t there;

    assert(kv_manager_can_enter(m) && to <= m->opt.max_table);
    kv_seq_init(&kv, m->entered, m->opt.max_table, 1);
    there = kv_manager_find_entries(m, key, to * BLOCK_TOKENS);
    if (there < first || there == to)
        return 0;
    share(m, &kv, there);
    m->is_entering = true;
    n = kv_manager_alloc(m, &kv, there * BLOCK_TOKENS, to * BLOCK_TOKENS) == 0 ? to - there : 0;
    kv_manager_commit(m, &kv, key, (there + n) * BLOCK_TOKENS);
    m->is_entering = false;
    *from = there;
    *ids = memcpy(m->entered + m->opt.max_table, kv.table.blocks + there, n * sizeof(**ids));
    kv_manager_release(m, &kv);
    return n;
}
