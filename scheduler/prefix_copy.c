/* scheduler/prefix_copy.c - see prefix_copy.h.
 *
 * A temporary sequence on the stack holds the blocks, so that they are shared, counted and evicted
 * as for any other sequence: copying out attaches the prefix and reads its blocks, copying in
 * allocates blocks after the cached ones, fills them and commits, which enters them into the prefix
 * index. The engine thread calls it between two steps, when no block moves are outstanding
 * (asserted).
 */
#include "scheduler/prefix_copy.h"

#include "kvcache/kv_store.h"

#include <assert.h>
#include <string.h>

/* Let the sequence hold those of the first n blocks that are cached; returns how many there are. */
static uint32_t hold(struct kv_manager *kv, struct kv_seq *seq, struct kv_key *key, uint32_t n)
{
    uint32_t n_blocks;

    kv_key_extend(key, n * BLOCK_TOKENS);
    n_blocks = kv_manager_match(kv, key, n * BLOCK_TOKENS).n_blocks;
    if (n_blocks > 0)
        kv_manager_attach(kv, seq, key, n_blocks * BLOCK_TOKENS);
    return n_blocks;
}

static void copy_out(const struct prefix_copy *c, const struct kv_store *store)
{
    const size_t bytes = kv_store_block_bytes(&store->shape);

    for (uint32_t i = 0; i < c->n; i++)
        memcpy(c->bytes + i * bytes, kv_store_block(store, c->table[c->first + i]), bytes);
}

static void copy_in(struct prefix_copy *c, struct kv_manager *kv, struct kv_store *store,
                    struct kv_seq *seq, struct kv_key *key)
{
    const size_t bytes = kv_store_block_bytes(&store->shape);
    const uint32_t from = c->n_there, to = c->first + c->n;

    if (from < c->first ||
        kv_manager_alloc(kv, seq, from * BLOCK_TOKENS, to * BLOCK_TOKENS) < 0)
        return;
    for (uint32_t i = from; i < to; i++)
        memcpy(kv_store_block(store, c->table[i]), c->bytes + (i - c->first) * bytes, bytes);
    kv_manager_commit(kv, seq, key, to * BLOCK_TOKENS);
    c->n_there = to;
}

void prefix_copy_run(struct prefix_copy *c, struct kv_manager *kv, struct kv_store *store,
                     struct kv_key *key)
{
    struct kv_seq seq;
    uint32_t n_moves;

    kv_manager_moves(kv, &n_moves);
    assert(n_moves == 0 && kv_manager_n_groups(kv) == 1);
    kv_seq_init(&seq, c->table, c->first + c->n, 1);
    c->n_there = hold(kv, &seq, key, c->first + c->n);
    if (!c->is_in && c->n_there == c->first + c->n)
        copy_out(c, store);
    if (c->is_in && c->n_there < c->first + c->n)
        copy_in(c, kv, store, &seq, key);
    kv_manager_release(kv, &seq);
    kv_manager_moves(kv, &n_moves);
    assert(n_moves == 0);
}
