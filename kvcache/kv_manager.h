/* kvcache/kv_manager.h - the paged cache as the scheduler sees it: sequences, not blocks.
 *
 * Puts pool, prefix index, states and swap tiers together. A sequence has a table of blocks that
 * hold the keys and values of its first n_done tokens; full blocks are shared through the index,
 * also with sequences that come later; a block is written only by a sequence that alone holds it.
 * Nothing here touches bytes: copies are written down as moves and carried out before the step's
 * arithmetic; reads and writes of the swap file are handed out as I/O.
 *
 * Layers are assigned to groups (kv_groups.h), each with blocks of its own. In groups with a window
 * a sequence gives back what no later token sees (kv_manager_commit). What it found in the index,
 * or was given by another sequence, it holds there only from that point on, too. How many
 * blocks tokens take is computed here and nowhere else.
 *
 * Cached blocks are as good as free ones: whenever blocks are taken and too few are free, the least
 * recently used are evicted. A block of a group with the window goes alone; the tokens stay in
 * the index, and a prefix may lead through them as long as it does not end within their window. One
 * of any other group ends the entry (it has no children in the index: a prefix is always used at
 * least as recently as what follows it). Where all layers have the window, the beginning is what
 * was used longest ago, and all that follows it leaves the index too.
 *
 * Of a recurrent model a sequence has, beside its blocks, a state (kv_states.h): one slot that each
 * step overwrites. Where a chunk ends at one of the places that kv_state_options.interval says, the
 * slot becomes the snapshot of the index's entry there, and the next step goes on in another one, a
 * copy. A prefix can be taken up behind a snapshot only, and a sequence forked only where its state
 * was kept for that. A swapped copy holds the state too.
 *
 * All-or-nothing everywhere: a call that does not return 0 has changed nothing.
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
#include "kvcache/swap.h"

struct kv_state_options {
    uint32_t n_slots;  /* 0: the model has no states */
    uint32_t interval; /* blocks of tokens between two snapshots, >= 1: behind 16 intervals twice as
                        * many, behind 32 four times, and so on: never more than an eighth of what
                        * is before them */
    uint32_t n_parts;  /* swap slots that a state takes, >= 1 */
    bool is_alone;     /* blocks hold no bytes: no layer has keys */
};

struct kv_manager_options {
    uint32_t n_blocks;
    enum block_placement placement;
    bool prefix_cache;       /* keep and share what has been computed */
    uint32_t n_ram, n_file;  /* swap slots; 0 and 0: no swapping */
    uint32_t max_sequences;  /* swapped at a time */
    uint32_t max_table;      /* blocks of a group in a table */
    struct kv_groups groups; /* {0}: one, without a window */
    struct kv_state_options states;
    uint32_t max_chunk; /* most tokens of a sequence between two commits; 0: any number */
    uint32_t low_percent, critical_percent; /* watermarks of kv_manager_pressure() */
    struct kv_events *events; /* told what enters and leaves the index; borrowed; or NULL */
};

/* A sequence's part; {0} with swap = SWAP_NONE is empty (kv_seq_init). */
struct kv_seq {
    struct block_table table;
    uint32_t first;     /* groups with the window have their blocks, or those of the copy, from here
                         * on; from kv_groups_first() to kv_groups_seen() of the tokens computed */
    uint32_t n_indexed; /* leading blocks of tokens that are in the index */
    uint32_t swap;      /* its copy in the tiers, or SWAP_NONE */
    state_id state;     /* of a recurrent model: the slot of its state; STATE_NONE: it has had no
                         * token yet */
    uint32_t n_state;   /* tokens that the state has taken in: all that are computed */
    state_id fork;      /* a state that forks can have, that behind n_fork tokens; or STATE_NONE */
    uint32_t n_fork;
};

/* `blocks` has cap entries for each of the n_groups. */
void kv_seq_init(struct kv_seq *kv, block_id *blocks, uint32_t cap, uint32_t n_groups);

/* What a sequence's tokens are, and room for the hashes of its full blocks: those of the first
 * n_hashed are filled in, by kv_key_extend() alone. Belongs to the request. */
struct kv_key {
    const int32_t *ids;
    uint64_t salt;
    struct prefix_hash *hashes; /* [tokens / 16] */
    uint32_t n_hashed;
    struct kv_origin origin; /* for kv_events alone: the salt makes the hashes */
};

/* Fill in the hashes of all blocks that are full with n_tokens. */
void kv_key_extend(struct kv_key *key, uint32_t n_tokens);

enum kv_pressure { KV_RELAXED = 0, KV_LOW, KV_CRITICAL }; /* by the share of available blocks */

struct kv_manager_stats {
    struct kv_groups groups;
    struct block_pool_stats pool;
    struct swap_stats swap;
    struct kv_states_stats states;
    uint32_t n_indexed;
    uint64_t n_copied;     /* blocks: copy on write and reuse of a part */
    uint64_t query_tokens; /* tokens that kv_manager_attach() was asked for */
    uint64_t hit_tokens;   /* and those it found */
};

struct kv_kind { /* of groups: those without the window, or those with it */
    uint32_t n_groups;
    uint32_t n_held, n_cached; /* blocks */
};

struct kv_manager;

int kv_manager_create(struct kv_manager **out, const struct kv_manager_options *options);
void kv_manager_destroy(struct kv_manager **m);

/* Blocks that can be taken: free and cached. */
uint32_t kv_manager_n_available(const struct kv_manager *m);
uint32_t kv_manager_n_blocks(const struct kv_manager *m);
bool kv_manager_shares(const struct kv_manager *m); /* options.prefix_cache */
enum kv_pressure kv_manager_pressure(const struct kv_manager *m);

/* As prefix_index_watch(); without an index nothing is ever called. */
void kv_manager_watch(struct kv_manager *m,
                      void (*changed)(void *ud, struct prefix_hash hash, bool is_in), void *ud);

/* ---- how many blocks ---- */

uint32_t kv_manager_n_groups(const struct kv_manager *m); /* blocks for 16 tokens more */
/* Can a sequence that is alone have so many tokens? */
bool kv_manager_can_hold(const struct kv_manager *m, uint32_t n_tokens);
/* The most blocks that a sequence holds until it has n_tokens, computed in the largest chunks. */
uint64_t kv_manager_needed(const struct kv_manager *m, uint32_t n_tokens);
/* The blocks that it will at most hold until then beyond those it has now, having computed its
 * first n_done. */
uint64_t kv_manager_owed(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done,
                         uint32_t n_tokens);
/* The tokens behind the first n_done for which kv_manager_alloc() finds blocks now, whether the
 * table holds them or not. */
uint32_t kv_manager_room(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done);
/* The swap slots that a copy of a sequence's first n_done tokens, all it has computed, takes. */
uint32_t kv_manager_n_swapped(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done);
/* The blocks that are in its table. */
uint32_t kv_manager_n_mapped(const struct kv_manager *m, const struct kv_seq *kv);

/* ---- recurrent states ---- */

bool kv_manager_has_states(const struct kv_manager *m);
/* Sequences that can be there at a time, without those in the swap tiers: each has a slot. */
uint32_t kv_manager_most_sequences(const struct kv_manager *m);
/* The tokens that a chunk behind the first n_done should have at most, so that it ends where a
 * snapshot is kept; UINT32_MAX: any number. */
uint32_t kv_manager_to_snapshot(const struct kv_manager *m, uint32_t n_done);
/* Of the first n_blocks blocks of tokens those up to the last place where a prefix can be taken up:
 * all without states. */
uint32_t kv_manager_resumable(const struct kv_manager *m, uint32_t n_blocks);

/* ---- prefixes ---- */

struct kv_match {
    uint32_t n_tokens; /* found, at most `limit` */
    uint32_t n_blocks; /* whole blocks of tokens among them, which would be shared */
    uint32_t n_held;   /* the blocks of groups without the window that others hold for these: as
                        * long as the sequence lives they cost nothing */
};

/* How much of the key's first `limit` tokens is there: every group without the window has all of
 * it, one with the window what is seen from its end, and there is a snapshot of its state. O(blocks
 * found). Changes nothing; hashes that the key lacks are computed and forgotten. */
struct kv_match kv_manager_match(const struct kv_manager *m, const struct kv_key *key,
                                 uint32_t limit);

/* Give an empty sequence everything that is there of its first `limit` tokens: whole blocks shared,
 * a part of one copied if a block can be taken for it. Returns how many tokens that is. The caller
 * passes at most n_known - 1: the last token is always computed. */
uint32_t kv_manager_attach(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key,
                           uint32_t limit);

/* Has a sequence all blocks that one of its first n_tokens tokens needs to go on from there: in
 * groups with the window, what the next query sees? One that has come there by
 * computing has them from the last token before a block boundary on, until it has computed the
 * block behind that; where there is no window, always. And of a recurrent model, has
 * its state behind n_tokens been kept for forks, and is there a slot for a copy? */
bool kv_manager_can_fork(const struct kv_manager *m, const struct kv_seq *parent,
                         uint32_t n_tokens);
/* The blocks that cost a fork of n_tokens nothing as long as it lives; see struct kv_match. */
uint32_t kv_manager_n_forked(const struct kv_manager *m, uint32_t n_tokens);
/* Let an empty sequence share the first n_tokens of another one's blocks, the last one included
 * even when it is not full: the first of the two that writes into it gets a copy. So
 * does a state that was kept. */
void kv_manager_fork(struct kv_manager *m, struct kv_seq *child, const struct kv_seq *parent,
                     uint32_t n_tokens);

/* All computed tokens of a recurrent model's sequence can be forked from now on, until it is
 * released or swapped out, or kv_manager_drop_fork(); what was kept before is dropped. Where slots
 * are scarce it may be dropped by its owner's growth. */
void kv_manager_keep_fork(struct kv_manager *m, struct kv_seq *kv);
void kv_manager_drop_fork(struct kv_manager *m, struct kv_seq *kv);

/* ---- blocks outside the process ---- */

struct block_offers;

/* Can prefixes of this model be kept outside and entered again: is it one group without a window,
 * and are there no states? Only then may the two functions below be called. */
bool kv_manager_can_enter(const struct kv_manager *m);

/* Offer what enters the index from now on, and what a sequence finds there and has not been offered
 * (borrowed; NULL: no more). The offers must be for as many blocks. */
void kv_manager_set_offers(struct kv_manager *m, struct block_offers *offers);

/* Enter the key's whole blocks first .. first + n - 1, whose bytes somebody has: they are cached
 * then, as if a sequence had computed them. Blocks *from .. *from + result - 1 are new, their ids
 * are *ids [result], valid until the next call, and the caller copies their bytes before anything
 * else is asked of the manager. 0: all are there already, what is before `first` is not, or there
 * are too few blocks. */
uint32_t kv_manager_enter(struct kv_manager *m, struct kv_key *key, uint32_t first, uint32_t n,
                          uint32_t *from, const block_id **ids);

/* ---- growth ---- */

/* Make positions from .. to-1 of a sequence writable: blocks are added, and the one that `from`
 * falls into is replaced by a copy if others hold it or it is in the index (and so is what stands
 * behind it: `from` may go back, with windows only as far as the sequence could be forked, with
 * states not at all). So is the state, if it is a snapshot. ERR_AGAIN: too few blocks, or no slot
 * for a state; ERR_RANGE: the table is too short. */
int kv_manager_alloc(struct kv_manager *m, struct kv_seq *kv, uint32_t from, uint32_t to);
/* Blocks that kv_manager_alloc() would take, at most. */
uint32_t kv_manager_missing(const struct kv_manager *m, const struct kv_seq *kv, uint32_t from,
                            uint32_t to);

/* The first n_done tokens are computed: full blocks enter the index. Where an equal block is there
 * already, that one is shared and the sequence's own given back (P1: their bytes are equal), unless
 * a fork holds the own one too; indexing stops there then and goes on in a later call. The state
 * becomes a snapshot where one is due, as blocks enter the index. Then what is out of sight is
 * given back, as by kv_manager_free_out_of_window(). */
void kv_manager_commit(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key,
                       uint32_t n_done);

/* Give back the blocks behind those of the first n_done tokens, all that stay computed: drafts that
 * were wrong had made them writable. With states they are committed, and the state is that behind
 * them. */
void kv_manager_truncate(struct kv_manager *m, struct kv_seq *kv, uint32_t n_done);

/* The first n_done tokens are computed, and are not to be found in the index: groups with the
 * window give back what no token from n_done / 16 * 16 on sees. */
void kv_manager_free_out_of_window(struct kv_manager *m, struct kv_seq *kv, uint32_t n_done);

/* Give everything back, a swapped copy too; the sequence is empty then. Full blocks stay cached. */
void kv_manager_release(struct kv_manager *m, struct kv_seq *kv);

/* Blocks that this sequence alone holds: what its release makes available. O(blocks). */
uint32_t kv_manager_n_exclusive(const struct kv_manager *m, const struct kv_seq *kv);
/* Tokens, in whole blocks, whose keys and values this sequence alone holds. O(blocks). */
uint32_t kv_manager_n_alone(const struct kv_manager *m, const struct kv_seq *kv);

/* ---- swapping ---- */

/* Copy the blocks of the first n_done tokens, all it has computed, into the RAM tier and give all
 * blocks back: the sequence has an empty table and a copy then. ERR_AGAIN: no room there, no tier,
 * or no tokens. */
int kv_manager_swap_out(struct kv_manager *m, struct kv_seq *kv, uint32_t n_done);

/* Could that copy be made now? */
bool kv_manager_can_swap_out(const struct kv_manager *m, const struct kv_seq *kv, uint32_t n_done);

/* The reverse: shared blocks where the index has them, loads for the rest. ERR_AGAIN: too few
 * blocks; ERR_BUSY: the copy is in the file or on its way (kv_manager_fetch); ERR_IO: lost; the
 * copy is whole in the first two cases and still to be released in the third. */
int kv_manager_swap_in(struct kv_manager *m, struct kv_seq *kv, struct kv_key *key,
                       uint32_t n_done);

/* Start to read a copy that is in the file. 0: in RAM, or on its way; ERR_AGAIN: cannot be started
 * now; ERR_IO: lost. */
int kv_manager_fetch(struct kv_manager *m, struct kv_seq *kv);
enum swap_state kv_manager_where(const struct kv_manager *m, const struct kv_seq *kv);
/* Drop the copy, if there is one. */
void kv_manager_forget(struct kv_manager *m, struct kv_seq *kv);
bool kv_manager_is_freeing(const struct kv_manager *m); /* see swap_is_freeing() */

/* ---- for the owner of the bytes ---- */

/* The moves written down since kv_manager_moves_done(), to be carried out in order. */
const struct kv_move *kv_manager_moves(const struct kv_manager *m, uint32_t *n);
void kv_manager_moves_done(struct kv_manager *m);

/* The next I/O to start; only when no moves are outstanding (asserted). */
bool kv_manager_next_io(struct kv_manager *m, struct swap_io *out);
void kv_manager_io_done(struct kv_manager *m, uint32_t copy, int rc);
uint32_t kv_manager_n_io(const struct kv_manager *m);

/* Let the reader of options.events see what has changed. To be called once a step, and whenever the
 * reader asks for it. */
void kv_manager_flush_events(struct kv_manager *m);

/* ---- inspection ---- */

struct kv_manager_stats kv_manager_stats(const struct kv_manager *m);
/* Groups without the window, kinds[0], and with it, kinds[1]. O(n_blocks). */
void kv_manager_kinds(const struct kv_manager *m, struct kv_kind kinds[2]);
/* One character a block, states[0 .. n_blocks-1] for ids 1 .. n_blocks: 'f' free, 'h' held by one,
 * 's' shared, 'c' cached; upper case: pinned. */
void kv_manager_map(const struct kv_manager *m, char *states);
/* The hashes of all entries of the index into hashes[0 .. n_blocks-1]; returns how many. */
uint32_t kv_manager_hashes(const struct kv_manager *m, struct prefix_hash *hashes);
const struct block_pool *kv_manager_pool(const struct kv_manager *m);
/* Everything below agrees. O(everything). */
bool kv_manager_check(const struct kv_manager *m);

#endif
