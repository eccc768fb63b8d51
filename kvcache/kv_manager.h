/* kvcache/kv_manager.h - the paged cache as the scheduler sees it: sequences, not blocks.
 *
 * Combines pool, prefix index, states and swap tiers. A sequence has a table of blocks that hold
 * the keys and values of its first n_done tokens; full blocks are shared through the index, also
 * with later sequences; only a sequence that alone holds a block writes it. Nothing here touches
 * bytes: copies are logged as moves, which the engine thread carries out before it computes the
 * step; reads and writes of the swap file are handed out as I/O.
 *
 * Layers are assigned to groups (kv_groups.h), each with blocks of its own. In groups with a window
 * a sequence gives back the blocks that no later token sees (kv_manager_commit). Of a prefix from
 * the index or of a fork's parent it takes only the blocks that it would still have if it had
 * computed them. Only this file computes how many blocks a number of tokens takes.
 *
 * Cached blocks count as available: whenever blocks are taken and too few are free, the least
 * recently used cached ones are evicted. Evicting a block of a group with the window leaves its
 * entry in the index, and a prefix may lead through the entry as long as it does not end within its
 * window. Evicting a block of any other group removes the entry (it has no children in the index: a
 * prefix is always used at least as recently as what follows it). Where all layers have the window,
 * the beginning was used longest ago, and everything that follows it leaves the index too.
 *
 * A sequence of a recurrent model has, beside its blocks, a state (kv_states.h): one slot that each
 * step overwrites. Where a chunk ends at a place that kv_state_options.interval determines, the
 * slot becomes the snapshot of the index's entry there, and the next step continues in a new slot,
 * a copy. A cached prefix can be used only up to a snapshot, and a sequence can be forked only
 * after the token whose state kv_manager_keep_fork() kept. A swapped copy holds the state too.
 *
 * Pins (prefix_pins.h) keep chosen prefixes from being evicted for a time. Pinned blocks without a
 * holder are not available, so kv_pin_options.most_blocks bounds them: a sequence that the rest of
 * the cache can hold always finds room.
 *
 * A call that returns an error has changed nothing.
 *
 * Thread: engine thread only.
 * Memory: taken in kv_manager_create(); tables and hashes belong to the caller.
 */
#ifndef KVCACHE_KV_MANAGER_H
#define KVCACHE_KV_MANAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "kvcache/block_pool.h"
#include "kvcache/block_table.h"
#include "kvcache/kv_events.h"
#include "kvcache/kv_groups.h"
#include "kvcache/kv_move.h"
#include "kvcache/kv_states.h"
#include "kvcache/prefix_index.h"
#include "kvcache/prefix_pins.h"
#include "kvcache/swap.h"

struct kv_state_options {
    uint32_t n_slots;  /* 0: the model has no states */
    uint32_t interval; /* blocks of tokens between two snapshots, >= 1; twice as many after 16
                        * intervals, four times after 32, and so on, so that a gap is at most an
                        * eighth of the tokens before it */
    uint32_t n_parts;  /* swap slots that a state takes, >= 1 */
    bool is_alone;     /* the model has only states: no layer has keys, and blocks hold no bytes */
};

struct kv_pin_options {     /* needs prefix_cache, and layers with keys */
    uint32_t most_blocks;   /* most blocks that are pinned at a time; 0: nothing is ever pinned */
    uint32_t tenant_blocks; /* most of them of one tenant, 1 .. most_blocks */
    uint32_t n_tenants;
    uint32_t most_states;   /* recurrent models: most snapshots that are pinned at a time; below
                             * n_slots; each counts as n_parts blocks */
};

struct kv_manager_options {
    uint32_t n_blocks;
    enum block_placement placement;
    bool prefix_cache;       /* keep computed blocks, and share them */
    uint32_t n_ram, n_file;  /* swap slots; 0 and 0: no swapping */
    uint32_t max_sequences;  /* sequences swapped at a time */
    uint32_t max_table;      /* blocks of a group in a table */
    struct kv_groups groups; /* {0}: one, without a window */
    struct kv_state_options states;
    struct kv_pin_options pins;
    uint32_t max_chunk; /* most tokens that a sequence computes between two commits; 0: any
                         * number */
    uint32_t low_percent, critical_percent; /* watermarks of kv_manager_pressure() */
    struct kv_events *events; /* gets an event for each entry that enters or leaves the index;
                               * borrowed; or NULL */
};

/* A sequence's blocks and state. kv_seq_init() makes it empty: all 0 but swap = SWAP_NONE. */
struct kv_seq {
    struct block_table table;
    uint32_t first;     /* groups with the window have blocks (or blocks of the copy) from here on;
                         * between kv_groups_first() and kv_groups_seen() of the computed tokens */
    uint32_t n_indexed; /* leading blocks of tokens that are in the index */
    uint32_t swap;      /* the sequence's copy in the swap tiers, or SWAP_NONE */
    state_id state;     /* slot of its recurrent state; STATE_NONE: no token was computed */
    uint32_t n_state;   /* tokens that the state has taken in: all computed ones */
    state_id fork;      /* slot of the state after n_fork tokens, kept for forks of this sequence;
                         * or STATE_NONE */
    uint32_t n_fork;
};

/* Set up an empty sequence; `blocks` has cap entries for each of the n_groups. */
void kv_seq_init(struct kv_seq *kv, block_id *blocks, uint32_t cap, uint32_t n_groups);

/* A sequence's tokens, and room for the hashes of its full blocks; kv_key_extend() fills in the
 * first n_hashed. Belongs to the request. */
struct kv_key {
    const int32_t *ids;
    uint64_t salt;
    struct prefix_hash *hashes; /* [tokens / 16] */
    uint32_t n_hashed;
    struct kv_origin origin; /* for kv_events only; the hashes depend on `salt` */
};

/* Compute the missing hashes of the key's blocks that the first n_tokens fill: n_tokens / 16 hashes
 * in all. */
void kv_key_extend(struct kv_key *key, uint32_t n_tokens);

enum kv_pressure { KV_RELAXED = 0, KV_LOW, KV_CRITICAL }; /* by the share of available blocks */

struct kv_manager_stats {
    struct kv_groups groups;
    struct block_pool_stats pool;
    struct swap_stats swap;
    struct kv_states_stats states;
    struct kv_pin_options pins;
    uint32_t n_indexed;
    uint64_t n_copied;     /* blocks copied: copy on write, and reuse of part of a block */
    uint64_t query_tokens; /* tokens that kv_manager_attach() was asked for */
    uint64_t hit_tokens;   /* tokens that kv_manager_attach() found */
};

struct kv_kind { /* block counts of the groups without the window, or of those with it */
    uint32_t n_groups;
    uint32_t n_held, n_cached, n_pinned; /* blocks; n_pinned: those without a holder */
};

struct kv_manager;

int kv_manager_create(struct kv_manager **out, const struct kv_manager_options *options);
void kv_manager_destroy(struct kv_manager **m);

/* Blocks that can be taken: free and cached. */
uint32_t kv_manager_n_available(const struct kv_manager *m);
uint32_t kv_manager_n_blocks(const struct kv_manager *m);
bool kv_manager_shares(const struct kv_manager *m); /* options.prefix_cache */
enum kv_pressure kv_manager_pressure(const struct kv_manager *m);

/* Set the callback of prefix_index_watch(); without a prefix cache it is never called. */
void kv_manager_watch(struct kv_manager *m,
                      void (*changed)(void *ud, struct prefix_hash hash, bool is_in), void *ud);

/* ---- how many blocks ---- */

uint32_t kv_manager_n_groups(const struct kv_manager *m); /* groups: the groups: the blocks that 16
                                                           * more tokens take */
/* True: the cache can hold n_tokens of a sequence if no other sequence has blocks, whatever is
 * pinned. */
bool kv_manager_can_hold(const struct kv_manager *m, uint32_t n_tokens);
/* The most blocks that a sequence holds until it has n_tokens, computed in the largest chunks. */
uint64_t kv_manager_needed(const struct kv_manager *m, uint32_t n_tokens);
/* The most blocks beyond its present ones that the sequence will hold until it has n_tokens, having
 * computed its first n_done. */
uint64_t kv_manager_owed(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done,
                         uint32_t n_tokens);
/* The number of tokens after the first n_done for which kv_manager_alloc() would find blocks now,
 * in the table or available ones. */
uint32_t kv_manager_room(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done);
/* Swap slots that a copy of the sequence takes, of which the first n_done tokens are computed. */
uint32_t kv_manager_n_swapped(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done);
/* The blocks in the sequence's table, over all groups. */
uint32_t kv_manager_n_mapped(const struct kv_manager *m, const struct kv_seq *kv);

/* ---- recurrent states ---- */

bool kv_manager_has_states(const struct kv_manager *m);
/* The most sequences that can be outside the swap tiers at a time, because each has a state
 * slot. */
uint32_t kv_manager_most_sequences(const struct kv_manager *m);
/* Tokens from n_done to the next place where a snapshot is kept: the most that a chunk may compute.
 * UINT32_MAX: no limit. */
uint32_t kv_manager_to_snapshot(const struct kv_manager *m, uint32_t n_done);
/* The number of leading blocks of tokens, at most n_blocks, up to the last place where a prefix can
 * be continued (a snapshot's place); without states n_blocks. */
uint32_t kv_manager_resumable(const struct kv_manager *m, uint32_t n_blocks);

/* ---- prefixes ---- */

struct kv_match {
    uint32_t n_tokens; /* tokens found, at most `limit` */
    uint32_t n_blocks; /* whole blocks of 16 tokens among n_tokens, which would be shared */
    uint32_t n_held;   /* blocks of groups without the window that others hold for these tokens, or
                        * that are pinned: sharing these takes no available block */
};

/* Find how many of the key's first `limit` tokens are cached: every group without the window has
 * all of them, a group with the window the blocks that the next query sees, and (recurrent model) a
 * snapshot is kept there. O(blocks found). Changes nothing; hashes that the key lacks are computed
 * and forgotten. */
struct kv_match kv_manager_match(const struct kv_manager *m, const struct kv_key *key,
                                 uint32_t limit);

/* Give an empty sequence the cached blocks of its first `limit` tokens: whole blocks are shared, a
 * part of one more is copied if a block can be taken for it. Returns the number of tokens. The
 * caller passes at most n_known - 1: the last token is always computed. */
uint32_t kv_manager_attach(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key,
                           uint32_t limit);

/* True: `parent` has all blocks that another sequence needs to continue after the first n_tokens.
 * Without a window it always has them; in groups with the window only from the last token before a
 * block boundary until it has computed the next block. In a recurrent model the state after
 * n_tokens must have been kept for forks, and a slot be free for a copy. */
bool kv_manager_can_fork(const struct kv_manager *m, const struct kv_seq *parent,
                         uint32_t n_tokens);
/* Blocks that a fork of n_tokens shares in groups without the window: these take no available block
 * (kv_match.n_held). */
uint32_t kv_manager_n_forked(const struct kv_manager *m, uint32_t n_tokens);
/* Let the empty sequence `child` share the blocks of the parent's first n_tokens. The last block
 * may be partly filled: the first of the two that writes into it gets a copy. So does the first
 * that writes the state kept for forks. */
void kv_manager_fork(struct kv_manager *m, struct kv_seq *child, const struct kv_seq *parent,
                     uint32_t n_tokens);

/* Keep the state of a recurrent model's sequence, as it is after all its computed tokens, for
 * forks: until the sequence is released or swapped out, or kv_manager_drop_fork() is called. A
 * state kept before is dropped. When slots are short, kv_manager_alloc() for the sequence may drop
 * it. */
void kv_manager_keep_fork(struct kv_manager *m, struct kv_seq *kv);
void kv_manager_drop_fork(struct kv_manager *m, struct kv_seq *kv);

/* ---- pins ---- */

/* Pin the longest cached beginning of the key's first n_tokens at which a sequence could continue,
 * in whole blocks, until until_us; as much of it as the tenant has room for. Returns how many
 * tokens are pinned now. */
uint32_t kv_manager_pin(struct kv_manager *m, struct kv_key *key, uint32_t n_tokens,
                        uint32_t tenant, uint64_t until_us);
/* End the pins whose time is over; their blocks stay cached. Called once a step: the work of a call
 * is bounded, and what is left is for the next one. */
void kv_manager_expire_pins(struct kv_manager *m, uint64_t now_us);
/* A tenant's pins; zeros where nothing is ever pinned. */
struct prefix_pins_tenant kv_manager_pins_of(const struct kv_manager *m, uint32_t tenant);

/* ---- blocks outside the process ---- */

struct block_offers;

/* True: blocks of this model can be kept outside the process and entered again: it has one group,
 * no window, no states. The two functions below require it. */
bool kv_manager_can_enter(const struct kv_manager *m);

/* From now on offer blocks that enter the index, and blocks that a sequence finds there and that
 * were not offered yet. `offers` is borrowed, and has as many blocks as the cache; NULL: offer no
 * more. */
void kv_manager_set_offers(struct kv_manager *m, struct block_offers *offers);

/* Enter the key's whole blocks first .. first + n - 1 into the cache, as if a sequence had computed
 * them. Blocks *from .. *from + result - 1 are new, with ids *ids [result], valid until the next
 * call; the caller copies their bytes before it calls the manager again. Returns 0 if all are
 * cached already, blocks before `first` are missing, or too few blocks are available. */
uint32_t kv_manager_enter(struct kv_manager *m, struct kv_key *key, uint32_t first, uint32_t n,
                          uint32_t *from, const block_id **ids);

/* ---- growth ---- */

/* Make positions from .. to-1 of a sequence writable: blocks are added, and the block of `from` and
 * those after it are replaced by copies if other sequences hold them or they are in the index.
 * `from` may lie before the end of the computed tokens: with a window only as far back as the
 * sequence could be forked, with states not at all. A state that is a snapshot is copied too.
 * ERR_AGAIN: too few blocks, or no slot for a state; ERR_RANGE: the table is too short. */
int kv_manager_alloc(struct kv_manager *m, struct kv_seq *kv, uint32_t from, uint32_t to);
/* The most blocks that kv_manager_alloc() would take. */
uint32_t kv_manager_missing(const struct kv_manager *m, const struct kv_seq *kv, uint32_t from,
                            uint32_t to);

/* Called when the first n_done tokens are computed: their full blocks enter the index. If an equal
 * block is in the index already, the sequence shares it and gives its own back (P1: their bytes are
 * equal); if a fork holds the sequence's block too, indexing stops there and continues in a later
 * call. Where a snapshot is due the state becomes one. Then blocks that have left the window are
 * given back, as by kv_manager_free_out_of_window(). */
void kv_manager_commit(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key,
                       uint32_t n_done);

/* Give back the blocks after those of the first n_done tokens, which stay computed; called after
 * wrong drafts, for which kv_manager_alloc() had added blocks. In a recurrent model the state must
 * be the one after n_done tokens. */
void kv_manager_truncate(struct kv_manager *m, struct kv_seq *kv, uint32_t n_done);

/* Called when the first n_done tokens are computed and shall not enter the index: groups with the
 * window give back the blocks that no token from n_done / 16 * 16 on sees. */
void kv_manager_free_out_of_window(struct kv_manager *m, struct kv_seq *kv, uint32_t n_done);

/* Give all blocks back, and the swapped copy; the sequence is empty then. Full blocks stay
 * cached. */
void kv_manager_release(struct kv_manager *m, struct kv_seq *kv);

/* Blocks that only this sequence holds, and that are not pinned: its release makes them available.
 * O(blocks). */
uint32_t kv_manager_n_exclusive(const struct kv_manager *m, const struct kv_seq *kv);
/* Tokens, in whole blocks, whose keys and values only this sequence keeps in the cache.
 * O(blocks). */
uint32_t kv_manager_n_alone(const struct kv_manager *m, const struct kv_seq *kv);

/* ---- swapping ---- */

/* Copy the blocks of the first n_done tokens (all computed ones) into the RAM tier and give all
 * blocks back: the sequence then has an empty table and a copy. ERR_AGAIN: no room in the tier, no
 * tier, or no tokens. */
int kv_manager_swap_out(struct kv_manager *m, struct kv_seq *kv, uint32_t n_done);

/* True: kv_manager_swap_out() would find room now. */
bool kv_manager_can_swap_out(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done);

/* Give a swapped sequence its blocks again: those in the index are shared, the others are loaded.
 * ERR_AGAIN: too few blocks; ERR_BUSY: the copy is in the file or being read (kv_manager_fetch);
 * ERR_IO: the copy is lost, and the caller releases it. */
int kv_manager_swap_in(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key,
                       uint32_t n_done);

/* Start to read a copy from the file. 0: it is in RAM or being read; ERR_AGAIN: the read cannot
 * start now; ERR_IO: the copy is lost. */
int kv_manager_fetch(struct kv_manager *m, struct kv_seq *kv);
enum swap_state kv_manager_where(const struct kv_manager *m, const struct kv_seq *kv);
/* Drop the sequence's swapped copy, if it has one. */
void kv_manager_forget(struct kv_manager *m, struct kv_seq *kv);
bool kv_manager_is_freeing(const struct kv_manager *m); /* see swap_is_freeing() */

/* ---- for the owner of the bytes ---- */

/* The moves logged since kv_manager_moves_done(), to be carried out in order. */
const struct kv_move *kv_manager_moves(const struct kv_manager *m, uint32_t *n);
void kv_manager_moves_done(struct kv_manager *m);

/* The next I/O to start; only when no moves are outstanding (asserted). */
bool kv_manager_next_io(struct kv_manager *m, struct swap_io *out);
void kv_manager_io_done(struct kv_manager *m, uint32_t copy, int rc);
uint32_t kv_manager_n_io(const struct kv_manager *m);

/* Publish the index's changes to the reader of options.events. Called once a step, and when the
 * reader's `room` callback asks for it. */
void kv_manager_flush_events(struct kv_manager *m);

/* ---- inspection ---- */

struct kv_manager_stats kv_manager_stats(const struct kv_manager *m);
/* Count the blocks of groups without the window, kinds[0], and with it, kinds[1]. O(n_blocks). */
void kv_manager_kinds(const struct kv_manager *m, struct kv_kind kinds[2]);
/* One character a block, states[0 .. n_blocks-1] for ids 1 .. n_blocks: 'f' free, 'h' held by one,
 * 's' shared, 'c' cached; upper case: pinned, 'C' without a holder. */
void kv_manager_map(const struct kv_manager *m, char *states);
/* Copy the hashes of all entries of the index into hashes[0 .. n_blocks-1]; returns how many. */
uint32_t kv_manager_hashes(const struct kv_manager *m, struct prefix_hash *hashes);
const struct block_pool *kv_manager_pool(const struct kv_manager *m);
/* Check that the manager and all its parts agree. O(everything). */
bool kv_manager_check(const struct kv_manager *m);

#endif
