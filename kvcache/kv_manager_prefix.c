/* kvcache/kv_manager_prefix.c - what the index has of a sequence's tokens; see kv_manager.h. */
#include "kvcache/kv_manager_impl.h"

#include <stddef.h>

void kv_key_extend(struct kv_key *key, uint32_t n_tokens)
{
    for (; key->n_hashed < n_tokens / BLOCK_TOKENS; key->n_hashed++) {
        const uint32_t b = key->n_hashed;
        const struct prefix_hash before =
            b > 0 ? key->hashes[b - 1] : prefix_hash_root(key->salt);

        key->hashes[b] = prefix_hash_next(before, key->ids + (size_t)b * BLOCK_TOKENS);
    }
}

/* A place in the index: behind `n` blocks of a key, the last of them `block`. */
struct place {
    const struct kv_key *key;
    struct prefix_hash hash;
    block_id block;
    uint32_t n;
};

static struct place place_start(const struct kv_key *key)
{
    return (struct place){.key = key, .hash = prefix_hash_root(key->salt)};
}

static const int32_t *place_tokens(const struct place *p)
{
    return p->key->ids + (size_t)p->n * BLOCK_TOKENS;
}

/* Move on by a block, if that ends at `limit` tokens or before and is in the index. */
static bool place_next(const struct kv_manager *m, struct place *p, uint32_t limit)
{
    const int32_t *tokens = place_tokens(p);
    struct prefix_hash hash;
    block_id block;

    if (p->n >= limit / BLOCK_TOKENS)
        return false;
    hash = p->n < p->key->n_hashed ? p->key->hashes[p->n] : prefix_hash_next(p->hash, tokens);
    block = prefix_index_find(m->index, hash, p->block, tokens);
    if (block == BLOCK_NONE)
        return false;
    p->hash = hash;
    p->block = block;
    p->n++;
    return true;
}

/* A block that begins as the next one of the key does, for *n tokens. */
static block_id place_part(const struct kv_manager *m, const struct place *p, uint32_t limit,
                           uint32_t *n)
{
    return prefix_index_find_partial(m->index, p->hash, p->block, place_tokens(p),
                                     limit - p->n * BLOCK_TOKENS, n);
}

struct kv_match kv_manager_match(const struct kv_manager *m, const struct kv_key *key,
                                 uint32_t limit)
{
    struct place p = place_start(key);
    struct kv_match match = {0};
    uint32_t n_part;

    if (m->index == NULL)
        return match;
    while (place_next(m, &p, limit))
        match.n_held += block_pool_holders(m->pool, p.block) > 0;
    (void)place_part(m, &p, limit, &n_part);
    match.n_blocks = p.n;
    match.n_tokens = p.n * BLOCK_TOKENS + n_part;
    return match;
}

/* The part of a block that is there as a copy; the source may be the next to be evicted, so it is
 * pinned while room is made. Returns the tokens in it. */
static uint32_t attach_part(struct kv_manager *m, struct kv_seq *kv, const struct place *p,
                            uint32_t limit)
{
    uint32_t n;
    const block_id source = place_part(m, p, limit, &n);
    const bool is_cached = block_pool_state(m->pool, source) == BLOCK_CACHED;
    struct block_table *t = &kv->table;

    if (source == BLOCK_NONE || kv_manager_n_available(m) <= is_cached ||
        !kv_manager_can_note(m, 1))
        return 0;
    kv_must(block_pool_pin(m->pool, source));
    kv_manager_take(m, 1, kv_manager_last(kv), &t->blocks[t->n]);
    kv_manager_note(m, KV_COPY, source, t->blocks[t->n]);
    t->n++;
    kv_must(block_pool_unpin(m->pool, source));
    return n;
}

uint32_t kv_manager_attach(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key,
                           uint32_t limit)
{
    struct place p = place_start(key);
    uint32_t n;

    assert(kv_seq_is_empty(kv) && block_table_needed(limit) <= kv->table.cap);
    if (m->index == NULL)
        return 0;
    kv_key_extend(key, limit);
    while (place_next(m, &p, limit)) {
        kv_must(block_pool_ref(m->pool, &p.block, 1));
        kv->table.blocks[kv->table.n++] = p.block;
    }
    kv->n_indexed = p.n;
    n = p.n * BLOCK_TOKENS + attach_part(m, kv, &p, limit);
    m->query_tokens += limit;
    m->hit_tokens += n;
    return n;
}

uint32_t kv_manager_find_shared(const struct kv_manager *m, struct kv_key *key, uint32_t n_tokens,
                                block_id *ids, uint32_t *n_cached)
{
    struct place p = place_start(key);

    *n_cached = 0;
    if (m->index == NULL)
        return 0;
    kv_key_extend(key, n_tokens);
    while (place_next(m, &p, n_tokens)) {
        ids[p.n - 1] = p.block;
        *n_cached += block_pool_state(m->pool, p.block) == BLOCK_CACHED;
    }
    return p.n;
}
