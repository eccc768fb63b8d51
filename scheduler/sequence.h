/* scheduler/sequence.h - a request in progress: tokens known, tokens computed, blocks held.
 *
 * Private to scheduler/. The states and their legal edges:
 *
 *   PENDING --> RUNNING <--> PREEMPTED
 *      \           |            /
 *       `--> COMPLETED | CANCELLED | FAILED
 *
 * PENDING and PREEMPTED sequences are in their tenant's waiting order (a prefix waiter, until its
 * prefix owner has computed what they share, in the prefix owner's list instead; one whose prompt
 * may be in the block store, until that has been read, in the scheduler's list of these), RUNNING
 * ones in the running list.
 *
 * Thread: engine thread only.
 * Memory: a fixed array of seqs is taken at start; a seq owns its request.
 */
#ifndef SCHEDULER_SEQUENCE_H
#define SCHEDULER_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "kvcache/kv_manager.h"
#include "scheduler/drafts/draft_rates.h"
#include "scheduler/order.h"
#include "scheduler/queue.h"
#include "scheduler/request/request.h"
#include "scheduler/usage.h"

enum seq_state {
    SEQ_NONE = 0, /* not in use */
    SEQ_PENDING,
    SEQ_RUNNING,
    SEQ_PREEMPTED,
    SEQ_COMPLETED,
    SEQ_CANCELLED,
    SEQ_FAILED,
};

enum store_step { /* the step of a sequence held back for the block store */
    STORE_NONE = 0,
    STORE_ASKED,   /* the store was asked and has not answered yet */
    STORE_FOUND,   /* the store has its first n_stored blocks */
    STORE_READING, /* the blocks that the cache lacks are being read */
};

#define SEQ_NO_ITEM UINT32_MAX
#define SEQ_NO_SLOT UINT32_MAX

struct seq {
    struct request *request;
    enum seq_state state;
    uint64_t ticket;   /* order of arrival in the scheduler */
    uint32_t n_known;  /* tokens in request->ids */
    uint32_t n_discarded; /* tokens discarded by context shifts */
    uint32_t n_done;   /* computed tokens, whose keys are in blocks or in a swapped copy */
    uint32_t n_peak;   /* the most that n_done ever was: rows below it are recomputed; after a
                        * context shift all remaining tokens but the last */
    uint32_t n_scored; /* prompt rows whose score was reported */
    uint32_t slot;     /* while running, else SEQ_NO_SLOT */
    uint32_t item;     /* index in the plan being made, or SEQ_NO_ITEM */
    bool is_prefill;   /* the item is a chunk, not a decode row */
    uint64_t tried;    /* serial of the plan that last tried a chunk of it */
    struct kv_seq kv;  /* the table is set up while running */
    struct order_node node;
    struct seq *prefix_owner;   /* the owner in whose prefix_waiters it is held back */
    struct seq *prefix_waiters; /* sequences held back until this one has computed the prefix that
                                 * they share */
    struct seq *next_prefix_waiter;
    uint32_t n_awaited;    /* while held back: tokens that the prefix owner is to have computed */
    uint32_t n_choices;    /* parallel choices that are to fork from this one */
    bool is_choice;        /* this sequence is counted in n_choices of its prefix owner */
    enum store_step store; /* not STORE_NONE: it is in the list held_for_store */
    struct list store_link;
    bool awaits_copy;      /* it is in the list held_for_copy */
    struct list copy_link;
    uint32_t n_stored;     /* leading blocks of the prompt in the store; from STORE_FOUND on */
    uint64_t store_until_us; /* time at which it is released from held_for_store */
    uint64_t expiry_us;    /* when it expires; 0 = never */
    uint32_t heap_expiry;  /* position, kept by struct heap */
    uint32_t n_prompt_left; /* leading ids that are tokens of the prompt */
    struct draft draft;    /* the sequence's draft in the plan being made */
    struct draft_rates rates;
    bool is_taking_in;     /* the draft model has begun to take in its text */
    uint32_t n_drafted, n_accepted; /* drafts that were computed, and those that were right */
    uint32_t n_cached;     /* prompt tokens that were cached at the first admission */
    uint32_t n_pins;       /* pins of the request that were made, or found no room */
    struct event_pins pins; /* tokens that they have pinned */
    struct seq *hash_next; /* chain of the id table, or the free list */
    /* ---- times ---- */
    uint64_t started_us, first_token_us, preempted_at_us;
    uint64_t preempted_before_us, preempted_after_us; /* before and after the first token */
    uint64_t swapped_us;                              /* part of both times above with a swapped
                                                       * copy */
    uint32_t n_preempted;
    struct usage usage;
    uint64_t held_since_us; /* while the sequence has blocks: time up to which its usage counts
                             * them */
};

/* The sequence of a node in an order; NULL for NULL. */
static inline struct seq *seq_at(struct order_node *node)
{
    return node != NULL ? list_entry(node, struct seq, node) : NULL;
}

/* Change the state; the edge must be legal (asserted). */
void seq_set_state(struct seq *s, enum seq_state state);

/* Tokens still to be computed before a new one can be chosen. */
static inline uint32_t seq_behind(const struct seq *s)
{
    return s->n_known - s->n_done;
}

static inline uint32_t seq_n_generated(const struct seq *s)
{
    return s->n_known + s->n_discarded - s->request->n_prompt;
}

/* True: the sequence has max_known tokens and more to generate, so that its context must be
 * shifted. */
static inline bool seq_is_full(const struct seq *s)
{
    return s->n_known == s->request->max_known && request_may_shift(s->request);
}

/* Shift the context as described in request.h; no token is computed afterwards. The sequence must
 * be full and hold no blocks. */
void seq_shift(struct seq *s);

/* Append a chosen token, and count it if penalties need the counts. */
void seq_append(struct seq *s, int32_t token);

/* Enter all ids into the request's count table, if it has one; the table must be empty. */
void seq_count_ids(struct seq *s);

/* Add the time since the preemption to the accounts that it belongs to; a swapped copy, if any,
 * must still be there. */
void seq_end_preemption(struct seq *s, uint64_t now_us);

/* The time accounts; their sum is now - arrival. */
struct event_times seq_times(const struct seq *s, uint64_t now_us);

/* ---- all seqs of a scheduler ---- */

struct seq_set {
    struct seq *all;     /* [cap] */
    uint32_t cap, n;
    uint32_t n_fresh;    /* entries of `all` ever used; the pages of the others were never touched,
                          * and take no memory */
    struct seq *free;    /* unused ones of the first n_fresh entries, chained by hash_next */
    struct seq **bucket; /* [n_bucket], by request id */
    uint32_t n_bucket;   /* a power of two */
};

int seq_set_create(struct seq_set *set, uint32_t cap);
void seq_set_release(struct seq_set *set); /* destroys the requests still inside */
/* Take a cleared seq for the request and enter it into the table of ids; NULL: all are in use. */
struct seq *seq_set_take(struct seq_set *set, struct request *r);
void seq_set_give(struct seq_set *set, struct seq *s); /* the caller owns the request again */
struct seq *seq_set_find(const struct seq_set *set, uint64_t id);

#endif
