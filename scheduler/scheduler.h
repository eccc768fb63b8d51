/* scheduler/scheduler.h - decides which tokens of which sequences the next step computes.
 *
 * There are no prefill and decode phases. A sequence has known tokens and computed tokens; each
 * step computes more of them until all known ones are computed. A prompt in chunks, a prefix hit, a
 * resume after preemption and decoding are the same code path.
 *
 * One plan: decode rows for all sequences with one token to compute -> prompt chunks, of running
 * prefills and of waiting sequences that are admitted, in one order (below). When KV blocks are
 * short, a running sequence that cannot get its next block preempts one that is later in the run
 * order, or is preempted itself when it is the last; a waiting sequence preempts strictly lower
 * priorities only. A sequence is never preempted for one of equal priority.
 *
 * Run order. Running sequences: by priority (policies priority and adaptive), then by arrival.
 * Waiting sequences: by the policy; every key is fixed at arrival, so one ordered set serves all
 * policies, and ageing is built in: a waiting sequence is overtaken only by those that arrive
 * within a bounded time after it.
 *   fcfs      arrival
 *   sjf       prompt + max_tokens; a second of waiting counts as `aging_milli` tokens
 *   priority  due time: the deadline, or when the first token is wanted, or arrival + max_wait; a
 *             level of priority brings it 1 / aging seconds forward (at most max_wait); with aging
 *             0 levels are strict
 *   adaptive  the same, and 2,048 tokens of length (prompt + max_tokens) push it back by a level,
 *             at most by max_wait
 * Several tenants: the request of higher priority is admitted first, until the other one has waited
 * so long that it counts as high; among equals that of the tenant with least service: tokens
 * computed for it / its weight. Service starts, for a tenant that was idle, at the least of those
 * that are busy (Sheng et al., "Fairness in Serving Large Language Models", 2024). Running prefills
 * share the step in the same order.
 *
 * When several requests arrive with the same long prefix, one computes it; the others wait until it
 * is computed, and share its blocks. Parallel choices do the same (request.prefix_owner).
 *
 * Block store. A prompt whose beginning may be kept outside the process (request.asks_store) is
 * held back from its arrival until the store has told how many of its blocks it has, and, if
 * reading what the cache lacks takes less time than computing it, until the blocks were read into
 * the cache; never longer than store_wait_ms. Other requests continue meanwhile, and a prompt whose
 * blocks are being read for another one waits for them.
 *
 * Victims: of the sequences later in the run order the lowest priority, then the one that is
 * cheapest to bring back, by swapping or by recomputing, whichever is cheaper for it. A sequence
 * that has been preempted max_preemptions times is exempt, unless a running one of higher priority
 * lacks a block, and is admitted again only when all the blocks that it may ever need are there
 * beside all that the others may need.
 *
 * A running sequence that is full (request.h: context shift) discards tokens at the beginning of
 * the next plan. It keeps its slot, gives its blocks back, takes what the prefix cache has of the
 * tokens that stay, and is a running prefill until the rest is computed; its tenant is charged for
 * that.
 *
 * Pins. A request's prefixes (request.pins) are pinned in the KV cache when they are computed, and
 * stay there for their time, within the bounds of kv_manager's options. Pins end in sched_plan().
 *
 * Drafts (drafts/drafter.h). In a step without prompt rows a sequence's row may be followed by rows
 * of guessed tokens, if a drafter is given: as many, over all sequences, as make the most tokens in
 * the time of the step, by what such steps have taken and how often such guesses were right; none
 * where that is not a clear gain. A draft needs blocks that are available; no sequence is preempted
 * for drafts. Blocks of wrong guesses are given back. With recurrent states only the first
 * undo_streams sequences of a plan have drafts, and none beyond the place of a snapshot.
 *
 * Time. Beside running streams a step computes as many prompt rows as keep its predicted time
 * within the target. When the streams alone take more than half of the target, prompts still get
 * half of it, or no request would be admitted while all slots decode. At least SCHED_MIN_CHUNK rows
 * in any case; without streams there is no limit.
 *
 * Pure: no thread, no clock (time is an argument), no floats. The same calls give the same plans,
 * and a simulator calls it without changes.
 *
 * Thread: engine thread only.
 * Memory: taken in sched_create(); requests are taken by sched_add() and given back by
 *         sched_next_end().
 */
#ifndef SCHEDULER_SCHEDULER_H
#define SCHEDULER_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvcache/kv_manager.h"
#include "scheduler/cost_model.h"
#include "scheduler/drafts/draft_model.h"
#include "scheduler/drafts/drafter.h"
#include "scheduler/queue.h"
#include "scheduler/request/plan_item.h"
#include "scheduler/request/request.h"
#include "scheduler/snapshot.h"

#define SCHED_MIN_CHUNK 16 /* prompt rows granted in any step, so that every prompt ends */

enum sched_policy { SCHED_FCFS = 0, SCHED_SJF, SCHED_PRIORITY, SCHED_ADAPTIVE };
enum sched_preemption { SCHED_AUTO = 0, SCHED_RECOMPUTE, SCHED_SWAP };

struct sched_options {
    struct kv_manager *kv;      /* borrowed */
    enum sched_policy policy;
    enum sched_preemption preemption; /* SCHED_SWAP: whenever there is room for the copy */
    uint32_t aging_milli;       /* thousandths of a priority level per second waited; 0 = none */
    uint32_t max_wait_ms;       /* longest effect of priority and length on the order, see above */
    uint32_t max_preemptions;   /* preemptions after which a sequence is exempt */
    uint32_t max_tenants;
    uint32_t max_sequences;     /* sequences running at a time */
    uint32_t max_requests;      /* requests running and waiting */
    uint32_t max_context;       /* tokens a sequence may reach */
    uint32_t max_batch_tokens;  /* rows in a step, >= max_sequences */
    uint32_t prefill_chunk;     /* prompt tokens in a step, over all sequences */
    /* A prompt is computed in one step and shares no blocks, because its tokens attend to later
     * ones too. Prompts longer than prefill_chunk or max_batch_tokens cannot run then. */
    bool whole_prompts;
    uint32_t store_blocks;  /* blocks in a record of the block store (kv_record.h); 0: no block
                             * store. Needs kv_manager_can_enter() */
    uint32_t store_wait_ms; /* longest wait for the block store */
    /* With recurrent states: how many sequences of a step may have drafts, and how many rows each
     * of them may have; 0: no drafts. */
    uint32_t undo_streams, undo_rows;
    struct drafter drafter; /* propose NULL: no drafts. Its guesses must not end a generation */
    struct draft_model model; /* a draft model; guess NULL: none. Needs a drafter */
};

/* Set every option to its default; those without one become 0. */
void sched_options_default(struct sched_options *o);

struct sched_limits {        /* limits of one step */
    uint64_t target_us;      /* most predicted time of a step with streams, and if is_shared of any
                              * step; 0 = no limit */
    bool is_shared;          /* other engines, which may have streams, wait for the end of the
                              * step */
    struct step_costs costs;
    const struct draft_costs *drafts; /* NULL: not known. Borrowed during sched_plan() */
};

/* Time for prompt rows in a step whose streams take used_ns. */
static inline uint64_t sched_room_ns(uint64_t target_us, uint64_t used_ns)
{
    const uint64_t half = target_us * 500;

    return used_ns < half ? 2 * half - used_ns : half;
}

struct plan {
    uint64_t step;
    uint32_t n_items;
    uint32_t n_tokens;         /* rows in all */
    uint32_t n_drafts;         /* rows of drafts among them */
    struct step_work work;     /* rows and keys, for the cost model; without drafts */
    uint64_t predicted_ns;     /* 0: unknown */
    const struct plan_item *items;
    const struct kv_move *moves; /* carried out before the step, in order, also when n_items is 0 */
    uint32_t n_moves;
    /* request ids, in the order of the events; an id may be in several lists */
    const uint64_t *preempted, *swapped_out, *swapped_in, *admitted, *shifted;
    uint32_t n_preempted;      /* preempted: to be swapped in or recomputed later */
    uint32_t n_swapped_out;    /* preempted with a swapped copy */
    uint32_t n_swapped_in;     /* admitted from a swapped copy */
    uint32_t n_admitted;       /* admitted: got a slot */
    uint32_t n_shifted;        /* contexts shifted, before everything else */
};

struct sched_fetch { /* an order to the block store */
    uint64_t request;
    uint32_t first, n; /* blocks of the prompt to read; n 0: the scheduler wants no more of it */
};

struct sched_end {
    struct request *request; /* owned by the caller now */
    enum finish finish;
    uint32_t n_known;        /* tokens in its ids */
    uint32_t n_discarded;    /* tokens that context shifts have discarded */
    struct event_times times;
    struct usage usage;
    struct event_pins pins;
};

struct sched;

int sched_create(struct sched **out, const struct sched_options *options);
/* Destroy the scheduler and the requests still in it. */
void sched_destroy(struct sched **s);

/* True: a request with so many tokens (struct request) can run when it is alone. The server answers
 * 400 otherwise, before it posts the request. */
bool sched_can_ever_fit(const struct sched_options *options, uint32_t n_prompt,
                        uint32_t max_known);

/* Returns 0: the scheduler owns the request. ERR_AGAIN: max_requests reached, ERR_RANGE: can never
 * fit; the caller still owns it. */
int sched_add(struct sched *s, struct request *r, uint64_t now_us);

/* Report what a request would find if it arrived now (dry runs). */
struct event_probe sched_probe(const struct sched *s, struct request *r);

/* End a request in any state; its blocks are free when this returns. An unknown id is ignored. */
void sched_cancel(struct sched *s, uint64_t id, enum finish why, uint64_t now_us);
void sched_cancel_all(struct sched *s, enum finish why, uint64_t now_us);
/* End the request's thought with its next token, if one is open. An unknown id is ignored. */
void sched_end_thought(struct sched *s, uint64_t id);

/* Find a request that has expired, and how it should end; the caller cancels it. Used while no plan
 * is made: sched_plan() ends expired requests itself. */
bool sched_next_expired(const struct sched *s, uint64_t now_us, uint64_t *id, enum finish *why);

/* The earliest time at which a request expires; UINT64_MAX: never. */
uint64_t sched_next_expiry(const struct sched *s);

/* Plan one step, after ending expired requests. The plan is valid until the next call; a plan with
 * items must be committed first. A plan without items: nothing can be computed now; unless
 * sched_is_idle(), sequences wait for I/O. */
const struct plan *sched_plan(struct sched *s, uint64_t now_us, const struct sched_limits *limits);

/* Called when the plan's moves were carried out, so that I/O of their blocks may start. */
void sched_moves_done(struct sched *s);
bool sched_next_io(struct sched *s, struct swap_io *out);
void sched_io_done(struct sched *s, uint32_t copy, int rc);

/* Called when the block store has answered that it has the first n_blocks blocks of a request's
 * prompt. Here and in sched_fetched() a request that is not held back any more is ignored. */
void sched_stored(struct sched *s, uint64_t id, uint32_t n_blocks);
/* Called when blocks first .. first + n - 1 of a request's prompt were read; n 0: none could be
 * read; is_last: no more will come. Returns what kv_manager_enter() returns: the caller copies the
 * bytes. */
uint32_t sched_fetched(struct sched *s, uint64_t id, uint32_t first, uint32_t n, bool is_last,
                       uint32_t *from, const block_id **ids);
/* Take the next order for the block store; false: there is none. Called after sched_plan() and
 * after cancels. */
bool sched_next_fetch(struct sched *s, struct sched_fetch *out);
/* True: a sequence waits for the block store. Then plans must be made even if nothing else happens,
 * because sched_plan() releases it when its time is over. */
bool sched_waits_for_store(const struct sched *s);

/* Divide the `us` that the step took among the usage of the plan's sequences, in the ratio of their
 * costs. Called once, before sched_commit(); without it usage has neither time nor computed
 * tokens. */
void sched_account(struct sched *s, const struct step_costs *costs, uint64_t us);

/* Called when the plan was computed. tokens[i]: the token of item i, if that wants one, after the
 * first n_accepted[i] drafts, which were right (NULL: none were). is_eog: true for a token that
 * ends a generation (NULL: none does). */
void sched_commit(struct sched *s, const int32_t *tokens, const uint32_t *n_accepted,
                  bool (*is_eog)(void *ud, int32_t token), void *ud, uint64_t now_us);

/* Take the next request that has ended; false: there are no more. */
bool sched_next_end(struct sched *s, struct sched_end *out);

bool sched_is_idle(const struct sched *s); /* nothing running, nothing waiting */

/* Fill the scheduler's part of the statistics. */
void sched_fill_stats(const struct sched *s, struct engine_stats *out);
/* Fill requests, tenants and the block map. */
void sched_fill_snapshot(const struct sched *s, struct snapshot *out, uint64_t now_us);

/* Check every invariant: blocks held = blocks in tables; states and lists agree. O(everything). */
bool sched_check(const struct sched *s);

#endif
