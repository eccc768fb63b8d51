/* kvcache/prefix_index.h - finds the blocks that hold the keys and values of given tokens.
 *
 * An entry is 16 tokens in the context of all tokens before them. It has a block in the first KV
 * group, whose id is the entry's prefix_id, and may have one in each other group. Its key is the
 * hash of everything up to its end: hash(hash of the entry before, its 16 tokens), starting from a
 * root that depends on the salt. A hit needs the same hash, the same 16 tokens and the same entry
 * before it, so a collision costs a miss and never a wrong answer. Requests with different salts
 * (tenants) never meet.
 *
 * The entries that follow a given one are also chained, so that an entry of which only the first
 * tokens match is found too (they are reused by copying its blocks). A look-up reads only the most
 * recent PREFIX_MAX_SIBLINGS of a chain: bounded work, at the price of a miss.
 *
 * The index has ids and tokens only; reference counts are in block_pool.
 *
 * Thread: engine thread only (prefix_hash_* : any).
 * Memory: taken in prefix_index_create(): about 130 bytes a block; with several groups 8 more, and
 *         4 for each group after the first.
 */
#ifndef KVCACHE_PREFIX_INDEX_H
#define KVCACHE_PREFIX_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "kvcache/block_pool.h"

#define PREFIX_MAX_SIBLINGS 32

struct prefix_hash { /* 128 bits of XXH3 */
    uint64_t lo, hi;
};

/* Id of an entry, not of a block: a type of its own, so that the compiler tells them apart. */
struct prefix_id {
    uint32_t n; /* the id of the entry's block in the first group; 0: none */
};
#define PREFIX_NONE ((struct prefix_id){0})

static inline bool prefix_id_is_none(struct prefix_id id)
{
    return id.n == 0;
}
static inline bool prefix_id_is(struct prefix_id a, struct prefix_id b)
{
    return a.n == b.n;
}
/* The id of the entry whose block in the first group is `first`; nothing checks that there is
 * one. */
static inline struct prefix_id prefix_id_of(block_id first)
{
    return (struct prefix_id){first};
}

/* Return the hash that stands before the first block of every chain with this salt. */
struct prefix_hash prefix_hash_root(uint64_t salt);
/* Return the hash of the block with these 16 tokens, if the block before it has the hash
 * `before`. */
struct prefix_hash prefix_hash_next(struct prefix_hash before, const int32_t *tokens);
/* A hash as bytes, by which other programs name a block: both halves big-endian, `hi` first, as in
 * XXH128's canonical form. */
#define PREFIX_HASH_BYTES 16
void prefix_hash_bytes(struct prefix_hash hash, uint8_t bytes[PREFIX_HASH_BYTES]);

struct prefix_index;

int prefix_index_create(struct prefix_index **out, uint32_t n_blocks, uint32_t n_groups);
void prefix_index_destroy(struct prefix_index **x);

/* Set the only callback: it is called with an entry's hash when the entry has entered or is about
 * to leave. */
void prefix_index_watch(struct prefix_index *x,
                        void (*changed)(void *ud, struct prefix_hash hash, bool is_in), void *ud);

/* Return the entry with this hash and these 16 tokens whose parent is `before` (PREFIX_NONE: it has
 * no parent), or PREFIX_NONE. O(1). */
struct prefix_id prefix_index_find(const struct prefix_index *x, struct prefix_hash hash,
                                   struct prefix_id before, const int32_t *tokens);

/* Return the child of `before` (whose hash is `before_hash`) that has most leading tokens in common
 * with tokens[0 .. n-1]: *n_common, >= 1. PREFIX_NONE: no child has one. */
struct prefix_id prefix_index_find_partial(const struct prefix_index *x,
                                           struct prefix_hash before_hash, struct prefix_id before,
                                           const int32_t *tokens, uint32_t n, uint32_t *n_common);

/* Make a block of the first group an entry. ERR_INVAL: the block is in the index already, or
 * `before` is not (and not PREFIX_NONE); ERR_AGAIN: an entry with the same content exists. */
int prefix_index_insert(struct prefix_index *x, block_id first, struct prefix_hash before_hash,
                        struct prefix_hash hash, struct prefix_id before, const int32_t *tokens);

/* Remove an entry, with its blocks in all groups. The entry must have no children (asserted), which
 * the pool's order of eviction guarantees. Ignored if `entry` is not in the index. */
void prefix_index_remove(struct prefix_index *x, struct prefix_id entry);

/* The entry's block in a group, or BLOCK_NONE. */
block_id prefix_index_at(const struct prefix_index *x, struct prefix_id entry, uint32_t group);
/* Set the entry's block in a group other than the first; BLOCK_NONE: it has none there any more. */
void prefix_index_put(struct prefix_index *x, struct prefix_id entry, uint32_t group,
                      block_id block);
/* True: the entry has a block in every group. */
bool prefix_index_is_whole(const struct prefix_index *x, struct prefix_id entry);
/* Return the entry that a block belongs to, and in *group the block's group; or PREFIX_NONE. */
struct prefix_id prefix_index_entry_of(const struct prefix_index *x, block_id block,
                                       uint32_t *group);

/* True: an entry has the block, in any group. */
bool prefix_index_has(const struct prefix_index *x, block_id block);
/* The most recent child of an entry, or PREFIX_NONE. */
struct prefix_id prefix_index_child(const struct prefix_index *x, struct prefix_id entry);
/* The parent of an entry, or PREFIX_NONE. */
struct prefix_id prefix_index_before(const struct prefix_index *x, struct prefix_id entry);
uint32_t prefix_index_n(const struct prefix_index *x);

struct prefix_entry {
    struct prefix_hash hash, before; /* before: hash of the parent, or the root */
    bool is_first;                   /* it has no parent */
    const int32_t *tokens;           /* [BLOCK_TOKENS]; valid until the index changes */
};
/* Describe an entry. False: `entry` is not in the index. */
bool prefix_index_get(const struct prefix_index *x, struct prefix_id entry,
                      struct prefix_entry *out);
/* Check that chains, parents and counts agree. O(n_blocks). */
bool prefix_index_check(const struct prefix_index *x);

#endif
