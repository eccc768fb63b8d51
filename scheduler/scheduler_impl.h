/* scheduler/scheduler_impl.h - struct sched, shared by scheduler.c (life cycle, progress),
 * scheduler_run_order.c (order), scheduler_plan.c (the plan of a step), scheduler_drafts.c (guessed
 * tokens in it), scheduler_admit.c
 * (admission), scheduler_preempt.c (victims), scheduler_store.c (blocks from the store) and
 * scheduler_inspect.c.
 *
 * Private to scheduler/. `running` is in run order, so the first victim is the last entry;
 * everything else is in a tenant's waiting order, or held back: by its prefix owner, for the store,
 * or until its swapped copy has been read.
 *
 * Thread: engine thread only.
 * Memory: as in scheduler.h.
 */
#ifndef SCHEDULER_SCHEDULER_IMPL_H
#define SCHEDULER_SCHEDULER_IMPL_H

#include "scheduler/heap.h"
#include "scheduler/order.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"
#include "scheduler/tenants.h"

#define SCHED_NO_LIMIT UINT64_MAX

struct sched {
    struct sched_options opt;
    struct kv_manager *kv;
    struct seq_set set;
    struct tenant *tenants; /* [max_tenants] */
    uint32_t n_tenants;     /* tenants up to the highest index seen */
    struct heap expiry;     /* every sequence with an expiry time */
    struct seq **running;   /* [max_sequences], in run order */
    uint32_t n_running;
    uint32_t *slots; /* [max_sequences] stack of free slots */
    uint32_t n_slots;
    block_id *tables; /* [max_sequences][n_groups][table_cap] */
    uint32_t table_cap, n_groups;
    uint64_t next_ticket;
    struct sched_end *ends; /* ring [max_requests] */
    uint32_t end_head, n_ends;
    uint32_t n_waiting[PRIORITY_COUNT], n_preempted, n_waiting_all;
    uint64_t waiting_tokens[PRIORITY_COUNT]; /* tokens to compute, counted when they began to
                                              * wait */
    /* ---- the plan ---- */
    struct plan plan;
    uint64_t now_us;
    const struct sched_limits *limits;
    struct plan_item *items; /* [max_sequences] */
    struct seq **item_seq;   /* [max_sequences] */
    uint64_t *preempted, *swapped_out, *swapped_in, *admitted; /* [max_requests] */
    uint64_t *shifted; /* [max_sequences] */
    uint32_t rows_left, prefill_left; /* budgets of the plan being made */
    uint64_t room_ns;                 /* time left in it for prompt rows, or SCHED_NO_LIMIT */
    uint32_t n_streams;               /* decode rows planned */
    uint64_t serial;                  /* number of this plan; marks sequences tried in it */
    /* ---- drafts ---- */
    struct draft_rates rates;         /* right and wrong guesses of all sequences */
    uint32_t n_with_drafts;           /* steps since the last one without drafts */
    struct seq *taken_in;             /* sequence whose text the draft model takes in now */
    uint64_t draft_keys, guess_ns;    /* keys that the plan's drafts read; time to make them */
    struct draft_stats drafts[DRAFT_SOURCES];
    /* ---- the block store ---- */
    struct list held_for_store; /* sequences held back for the block store, by arrival */
    uint32_t n_reading;
    struct sched_fetch *fetches; /* ring [max_fetches] */
    uint32_t fetch_head, n_fetches, max_fetches;
    struct list held_for_copy; /* sequences whose swapped copies are read from the file */
    uint64_t store_declined, store_timeouts, fetched_blocks;
    /* ---- counters ---- */
    uint64_t prompt_tokens, generation_tokens, recomputed_tokens, cached_tokens;
    uint64_t preemptions, preemptions_swap, swap_fallbacks, iterations, context_shifts;
    struct usage usage; /* sum over all sequences */
};

/* ---- scheduler_run_order.c ---- */

/* The sequence's key in its tenant's waiting order; fixed at arrival. */
struct order_key sched_key(const struct sched *s, const struct request *r, uint64_t ticket);
/* True: a comes before b in the run order: by priority, if the policy has any, then by arrival. */
bool sched_runs_before(const struct sched *s, const struct seq *a, const struct seq *b);
/* True: a has a strictly higher priority than b, and the policy has priorities. */
bool sched_is_above(const struct sched *s, const struct seq *a, const struct seq *b);
/* True: the waiting sequence a may preempt the running sequence b: a is above b and also before it
 * in the waiting order. Without the second condition b, having waited long, would be preempted as
 * soon as it ran. */
bool sched_can_preempt(const struct sched *s, const struct seq *a, const struct seq *b);
/* True: a is due before b. Between tenants: the higher priority, unless the other one has waited
 * until it counts as high; then the tenant with less service. Within a tenant: the smaller key. Not
 * transitive: compare pairs only. */
bool sched_is_due_before(const struct sched *s, const struct seq *a, const struct seq *b);
/* Return the waiting sequence that is to be admitted next, or NULL. */
struct seq *sched_next_waiting(const struct sched *s);

/* ---- scheduler_usage.c ---- */

void sched_use(struct sched *s, struct seq *seq, const struct usage *more);
/* Add the blocks of a running sequence to its usage, for the time since the last call. */
void sched_use_blocks(struct sched *s, struct seq *seq, uint64_t now_us);

/* ---- scheduler_pins.c ---- */

/* Pin the request's prefixes that the sequence has computed and that were not pinned yet. Called
 * after kv_manager_commit(). */
void sched_pin_prefixes(struct sched *s, struct seq *seq, uint64_t now_us);

/* ---- scheduler.c ---- */

/* Move a sequence between the lists; the caller sets its state. */
void sched_enter_waiting(struct sched *s, struct seq *seq);
void sched_leave_waiting(struct sched *s, struct seq *seq);
void sched_enter_running(struct sched *s, struct seq *seq); /* takes a free slot (there is one) */
void sched_leave_running(struct sched *s, struct seq *seq); /* gives slot and blocks back */
uint64_t sched_end_of_time(const struct request *r); /* when the request expires; 0 = never */
void sched_set_expiry(struct sched *s, struct seq *seq, uint64_t at_us); /* 0 = never */
/* End every request whose time is over. */
void sched_end_expired(struct sched *s, uint64_t now_us);
/* Make a sequence that is counted as waiting, and is in no order, wait until prefix_owner has
 * computed n_awaited tokens. */
void sched_hold_back(struct sched *s, struct seq *seq, struct seq *prefix_owner,
                     uint32_t n_awaited);
/* Called when the prefix owner has computed n_done tokens: release the waiters that need no
 * more. */
void sched_free_prefix_waiters(struct sched *s, struct seq *prefix_owner, uint32_t n_done);
/* Return the number of tokens that a parallel choice waits for: the prompt. With recurrent states
 * the prompt without its last token, because a state can only be copied at its sequence's current
 * position, and the choice computes that token itself. */
uint32_t sched_awaited_by_choice(const struct sched *s, const struct request *r);
/* Called when a parallel choice has forked from its prefix owner, or does not need it any more. */
void sched_choice_left(struct sched *s, struct seq *seq);
/* Called when the owner was preempted, or has ended (is_gone): release its waiters, or give them a
 * successor. */
void sched_leave_prefix_waiters(struct sched *s, struct seq *prefix_owner, bool is_gone);

/* ---- scheduler_preempt.c ---- */

/* Preempt a sequence. It is swapped out if there is room for the copy and bringing it back so is
 * cheaper than recomputing. */
void sched_preempt(struct sched *s, struct seq *victim);
/* Make positions n_done .. to-1 of a running sequence writable, preempting sequences later in the
 * run order; false when it was preempted itself. */
bool sched_make_room(struct sched *s, struct seq *seq, uint32_t to);
/* Return a running sequence of lower priority that may be preempted to admit a newcomer, or
 * NULL. */
struct seq *sched_victim_for(const struct sched *s, const struct seq *newcomer);
/* Return the last sequence in the run order other than `seq`, exempt from preemption or not. Used
 * when no sequence can progress. */
struct seq *sched_last_but(const struct sched *s, const struct seq *seq);
bool sched_is_preempt_exempt(const struct sched *s, const struct seq *seq);

/* ---- scheduler_plan.c ---- */

/* Take the sequence out of the plan that is being made. */
void sched_drop_item(struct sched *s, struct seq *seq);
/* Plan the next chunk of a running prefill: as much as budgets and available blocks allow. */
void sched_plan_chunk(struct sched *s, struct seq *seq);

/* ---- scheduler_drafts.c ---- */

/* Add the drafts that are worth the time of their rows to the plan. Called last: the plan is
 * complete otherwise. */
void sched_plan_drafts(struct sched *s);
/* Called when n_accepted drafts of a sequence's item were right: count them, and give back the
 * blocks after the sequence's n_done tokens, which wrong drafts had taken. */
void sched_settle_drafts(struct sched *s, struct seq *seq, uint32_t n_accepted);

/* Return the most drafts that a sequence can have in a step. A step makes one token more than it
 * accepts drafts. */
uint32_t sched_most_drafts(const struct sched *s, const struct seq *seq);
/* Return how many of 1,000 guesses of this source and class are expected to be right for the
 * sequence. */
uint32_t sched_draft_rate(const struct sched *s, const struct seq *seq, enum draft_source source,
                          uint8_t fit);

#define DRAFT_TOKEN 1000000u /* unit of expected tokens: one token that is certain */

struct draft_pace { /* the pace of a step with n_drafts drafts */
    uint32_t n_drafts;
    uint64_t tokens, us; /* tokens that the step is expected to choose, in DRAFT_TOKENs, and its
                          * time */
};

static inline bool sched_is_faster(const struct draft_pace *a, const struct draft_pace *b)
{
    return a->tokens * b->us > b->tokens * a->us;
}

/* Return the best pace with the drafts of all sequences in the plan, if making the guesses takes
 * made_us. Where drafts are no clear gain, n_drafts is 0 and the pace is the one without drafts
 * that they had to exceed. */
struct draft_pace sched_draft_pace(const struct sched *s, uint64_t made_us);

/* ---- scheduler_draft_model.c ---- */

/* Let the draft model guess, where that pays, for sequences that have no better guess, and choose a
 * sequence whose text it should take in next. */
void sched_guess_by_model(struct sched *s);
/* Let the draft model take in a part of the chosen sequence's text, in left_ns at most. */
void sched_take_in_by_model(struct sched *s, uint64_t left_ns);

/* ---- scheduler_admit.c ---- */

/* Shift the contexts of the running sequences that are full. */
void sched_shift_full(struct sched *s);
/* Admit a waiting sequence, if there is room or can be made, or hold it back until another one has
 * computed its prefix, or its copy has been read. False: neither this sequence nor those after it
 * are admitted. */
bool sched_try_admit(struct sched *s, struct seq *seq);
/* Put sequences whose swapped copies were read, or are lost, back into the waiting order. */
void sched_plan_copies(struct sched *s);
/* Take a sequence out of the list of those held back for their copies; it is in no list then. */
void sched_leave_copy(struct sched *s, struct seq *seq);
/* Begin to read the swapped copies of the sequences after `next` in its tenant's order; `next` may
 * be NULL. */
void sched_read_ahead(struct sched *s, const struct seq *next);

/* ---- scheduler_store.c ---- */

/* Hold a new sequence, which is counted as waiting and in no order, back for the block store;
 * false: the store has nothing to answer for it. */
bool sched_hold_for_store(struct sched *s, struct seq *seq);
/* Take a sequence out of the list of those held back for the store; it is in no list then. */
void sched_leave_store(struct sched *s, struct seq *seq);
/* Call sched_leave_store() for a sequence that ends, and tell the store that it needs no more
 * blocks. */
void sched_end_in_store(struct sched *s, struct seq *seq);
/* Begin the reads that are faster than computing, and release the sequences for which the store has
 * nothing or that have waited too long. */
void sched_plan_store(struct sched *s);

/* Append a request's id to one of the plan's lists. */
static inline void sched_note(const struct sched *s, uint64_t *ids, uint32_t *n,
                              const struct seq *seq)
{
    if (*n < s->opt.max_requests)
        ids[(*n)++] = seq->request->id;
}

static inline uint32_t sched_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

#endif
