/* kvcache/kv_manager_impl.h - declarations that the files of the manager share; private to them.
 *
 * kv_manager.c: room, allocation, commit. kv_manager_evict.c: which cached block is evicted when
 * too few are free. kv_manager_prefix.c: look-ups in the index. kv_manager_state.c: recurrent
 * states. kv_manager_pin.c: pins. kv_manager_swap.c: the tiers, the moves and the I/O.
 * kv_manager_inspect.c: counts and checks.
 *
 * Thread: engine thread only.
 * Memory: that of struct kv_manager.
 */
#ifndef KVCACHE_KV_MANAGER_IMPL_H
#define KVCACHE_KV_MANAGER_IMPL_H

#include <assert.h>

#include "kvcache/kv_manager.h"

struct kv_manager {
    struct kv_manager_options opt;
    struct block_pool *pool;
    struct prefix_index *index; /* NULL: no prefix cache */
    struct swap *swap;          /* NULL: no swapping */
    struct kv_states *states;   /* NULL: the model has none */
    struct prefix_pins *pins;   /* NULL: nothing is ever pinned */
    struct kv_move *moves;      /* [max_moves] */
    uint32_t n_moves, max_moves;
    uint32_t n_groups, n_full; /* n_full: the first groups, without the window */
    bool *in_window;           /* [n_blocks + 1] true: the group of this held or cached block has
                                * the window */
    block_id *scratch;         /* [n_groups * max_table] */
    struct prefix_id *entries; /* [max_table] */
    uint64_t n_copied, query_tokens, hit_tokens;
    struct block_offers *offers; /* NULL: no blocks are kept outside the process */
    block_id *entered;           /* [2 * max_table] table and result of kv_manager_enter() */
    bool is_entering;            /* kv_manager_enter() is running: its blocks come from the store,
                                  * and are not offered */
};

/* Assert a call that can fail only if the cache's own bookkeeping is wrong. */
static inline void kv_must(int rc)
{
    assert(rc == 0);
    (void)rc;
}

/* True: the sequence is as kv_seq_init() makes it. Only used in assertions. */
static inline bool kv_seq_is_empty(const struct kv_seq *kv)
{
    return kv->table.n == 0 && kv->n_indexed == 0 && kv->first == 0 && kv->swap == SWAP_NONE &&
           kv->state == STATE_NONE;
}

/* Number (position / 16) of the first block that a sequence has in a group. */
static inline uint32_t kv_group_from(const struct kv_manager *m, const struct kv_seq *kv,
                                     uint32_t group)
{
    return group < m->n_full ? 0 : kv->first;
}

/* Blocks that a sequence has in all groups for the first n blocks of tokens. */
static inline uint32_t kv_manager_over_groups(const struct kv_manager *m, const struct kv_seq *kv,
                                              uint32_t n)
{
    return n > 0 ? m->n_groups * n - (m->n_groups - m->n_full) * kv->first : 0;
}

/* Put a block from kv_manager_take() into a sequence's table. */
static inline void kv_manager_place(struct kv_manager *m, struct kv_seq *kv, uint32_t group,
                                    uint32_t b, block_id id)
{
    *block_table_at(&kv->table, group, b) = id;
    m->in_window[id] = group >= m->n_full;
}

/* kv_manager_evict.c: take n blocks, evicting cached ones as needed. The caller has checked that n
 * blocks are free or cached. */
void kv_manager_take(struct kv_manager *m, uint32_t n, block_id after, block_id *ids);

/* Give all blocks of a table back. */
void kv_manager_give(struct kv_manager *m, struct kv_seq *kv);

/* The last block of a table, or BLOCK_NONE. */
block_id kv_manager_last(const struct kv_seq *kv);

/* True: n more moves fit into the log. */
bool kv_manager_can_note(const struct kv_manager *m, uint32_t n);
void kv_manager_note(struct kv_manager *m, enum kv_move_kind kind, uint32_t from, uint32_t to);
void kv_manager_note_part(struct kv_manager *m, enum kv_move_kind kind, uint32_t from, uint32_t to,
                          uint32_t part);

/* Find the longest cached beginning of the key's first `limit` tokens, in whole blocks, at which a
 * sequence could continue, and put its entries into m->entries. Returns how many. */
uint32_t kv_manager_longest(struct kv_manager *m, struct kv_key *key, uint32_t limit);

/* Find the entries of a key's leading whole blocks that are in the index, into m->entries, whether
 * or not they have blocks in groups with the window. Returns how many. */
uint32_t kv_manager_find_entries(struct kv_manager *m, struct kv_key *key, uint32_t n_tokens);

/* Offer the record that ends with the sequence's first n blocks, which are in the index, if a
 * record ends there and was not offered. */
void kv_manager_offer(struct kv_manager *m, const struct kv_seq *kv, const struct kv_key *key,
                      uint32_t n);

/* ---- kv_manager_state.c: no-ops for models without states ---- */

/* True: the sequence needs a new slot before a step may write its state. */
bool kv_state_is_missing(const struct kv_manager *m, const struct kv_seq *kv);
/* True: kv_state_grow() would get a slot. */
bool kv_state_can_grow(const struct kv_manager *m, const struct kv_seq *kv);
/* Give the sequence a writable slot, with a copy of its old state if it had one. */
void kv_state_grow(struct kv_manager *m, struct kv_seq *kv);
/* Make a sequence's state the snapshot of its last indexed block's entry, if one is due there. */
void kv_state_commit(struct kv_manager *m, struct kv_seq *kv);
/* True: the entry has a snapshot, or the model has no states. */
bool kv_state_is_at(const struct kv_manager *m, struct prefix_id entry);
/* Give an empty sequence, which takes over n blocks of tokens ending with `entry`, that entry's
 * snapshot. */
void kv_state_attach(struct kv_manager *m, struct kv_seq *kv, struct prefix_id entry, uint32_t n);
void kv_state_fork(struct kv_manager *m, struct kv_seq *child, const struct kv_seq *parent);
void kv_state_release(struct kv_manager *m, struct kv_seq *kv);
/* Log the moves of a state into the swap slots ram[], or back into a new slot. */
void kv_state_save(struct kv_manager *m, const struct kv_seq *kv, const uint32_t *ram);
void kv_state_load(struct kv_manager *m, struct kv_seq *kv, const uint32_t *ram, uint32_t n_done);

#endif
