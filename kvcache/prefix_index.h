/* kvcache/prefix_index.h - which blocks hold the keys and values of which tokens.
 *
 * An entry is 16 tokens behind all those before them. It has a block in the first group of layers,
 * whose id names it, and may have one in each of the others. It is known by the hash of everything
 * up to its end: hash(hash of the entry before, its 16 tokens), starting from a root that depends
 * on the salt. A hit needs the same hash, the same 16 tokens and the same entry before it, so a
 * collision costs a miss and never a wrong answer. Requests with different salts (tenants) never
 * meet.
 *
 * Besides, the blocks that follow a given one are chained, so that the first tokens of a block can
 * be found too (they are reused by copying it). Of a long chain only the most recent
 * PREFIX_MAX_SIBLINGS are looked at: bounded work, at the price of a miss.
 *
 * Below, `block` is an entry's block of the first group unless another group is named.
 *
 * The index only knows ids and tokens; reference counts are in block_pool.
 *
 * Thread: engine thread only (prefix_hash_* : any).
 * Memory: taken in prefix_index_create(): about 130 bytes a block; with more groups than one
 *         8, and 4 for each of the others, besides.
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

/* Where every chain of a salt begins. */
struct prefix_hash prefix_hash_root(uint64_t salt);
/* The hash of the block with these 16 tokens that follows `before`. */
struct prefix_hash prefix_hash_next(struct prefix_hash before, const int32_t *tokens);
/* A hash as the name that others know a block by: both halves big-endian, `hi` first, as XXH128's
 * canonical form has it. */
#define PREFIX_HASH_BYTES 16
void prefix_hash_bytes(struct prefix_hash hash, uint8_t bytes[PREFIX_HASH_BYTES]);

struct prefix_index;

int prefix_index_create(struct prefix_index **out, uint32_t n_blocks, uint32_t n_groups);
void prefix_index_destroy(struct prefix_index **x);

/* Call `changed` whenever an entry has entered or leaves, with its hash. One at most. */
void prefix_index_watch(struct prefix_index *x,
                        void (*changed)(void *ud, struct prefix_hash hash, bool is_in), void *ud);

/* The block with this hash and these 16 tokens that follows block `before` (BLOCK_NONE: the first),
 * or BLOCK_NONE. O(1). */
block_id prefix_index_find(const struct prefix_index *x, struct prefix_hash hash, block_id before,
                           const int32_t *tokens);

/* Of the blocks that follow the chain with hash `before_hash` and end block `before`, the one whose
 * tokens have most in common with tokens[0 .. n-1] from the start; *n_common of them, >= 1. Or
 * BLOCK_NONE. */
block_id prefix_index_find_partial(const struct prefix_index *x, struct prefix_hash before_hash,
                                   block_id before, const int32_t *tokens, uint32_t n,
                                   uint32_t *n_common);

/* Enter a block. ERR_INVAL: it is in already, or `before` is not (and not BLOCK_NONE); ERR_AGAIN:
 * another block with the same content is. */
int prefix_index_insert(struct prefix_index *x, block_id block, struct prefix_hash before_hash,
                        struct prefix_hash hash, block_id before, const int32_t *tokens);

/* Take an entry out, whatever groups it has blocks in. Nothing may follow it any more (asserted):
 * evicting in the pool's order keeps that true. A block that is not in is ignored. */
void prefix_index_remove(struct prefix_index *x, block_id block);

/* The entry's block of a group, BLOCK_NONE if it has none. Group 0: the entry itself. */
block_id prefix_index_at(const struct prefix_index *x, block_id entry, uint32_t group);
/* Give the entry, or take away (BLOCK_NONE), a block of a group other than the first. */
void prefix_index_put(struct prefix_index *x, block_id entry, uint32_t group, block_id block);
/* Has the entry a block in every group? */
bool prefix_index_is_whole(const struct prefix_index *x, block_id entry);
/* The entry that a block belongs to, in *group, or BLOCK_NONE. */
block_id prefix_index_entry_of(const struct prefix_index *x, block_id block, uint32_t *group);

/* Is the block of any group in the index? */
bool prefix_index_has(const struct prefix_index *x, block_id block);
/* The most recent of the blocks in the index that follow this one, or BLOCK_NONE. */
block_id prefix_index_child(const struct prefix_index *x, block_id block);
/* The entry that one follows, or BLOCK_NONE. */
block_id prefix_index_before(const struct prefix_index *x, block_id entry);
uint32_t prefix_index_n(const struct prefix_index *x);

struct prefix_entry {
    struct prefix_hash hash, before; /* before: of the entry that it follows, or the root */
    bool is_first;                   /* it follows none */
    const int32_t *tokens;           /* [BLOCK_TOKENS]; valid until the index changes */
};
/* What an entry is; false: the block is none. */
bool prefix_index_get(const struct prefix_index *x, block_id entry, struct prefix_entry *out);
/* Chains, parents and counts agree. O(n_blocks). */
bool prefix_index_check(const struct prefix_index *x);

#endif
