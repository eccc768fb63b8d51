/* scheduler/sched.h - who runs in the next step, and on which blocks.
 *
 * There are no phases. A sequence has tokens known and tokens computed; a plan hands out tokens
 * until the second meets the first. The order inside a plan: a decode token for every running
 * sequence, then running prefills, then admissions from the waiting heap, all in order of claim
 * (priority, then arrival) under the token budget. Blocks are taken as tokens come. When a
 * running sequence cannot get its next block, or a strictly higher priority waits and there is no
 * room for it, the lowest claim is preempted by recompute: its blocks are freed and it goes back to
 * the heap under its old claim. So the oldest highest claim always progresses, and equal claims
 * never preempt each other back and forth.
 *
 * Pure: no thread, no clock (time is an argument), no floats. A simulator drives it as it is.
 *
 * Thread: engine thread only.
 * Memory: taken in sched_create(); requests are taken by sched_add() and given back by
 *         sched_next_end().
 */
#ifndef SCHEDULER_SCHED_H
#define SCHEDULER_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvcache/block_pool.h"
#include "scheduler/queue.h"
#include "scheduler/request.h"

enum sched_policy {
    SCHED_FCFS = 0, /* arrival only; priorities are ignored */
    SCHED_PRIORITY, /* priority, then arrival */
};

struct sched_options {
    struct block_pool *pool;    /* borrowed */
    enum sched_policy policy;
    uint32_t max_sequences;     /* running at a time */
    uint32_t max_requests;      /* running and waiting */
    uint32_t max_context;       /* tokens a sequence may reach */
    uint32_t max_batch_tokens;  /* rows in a step, >= max_sequences */
    uint32_t prefill_chunk;     /* prompt tokens in a step, over all sequences */
};

struct plan_item {
    struct request *request;   /* its ids[first .. first + n) are computed in this step */
    uint32_t slot;             /* the sequence's slot, stable while it runs */
    uint32_t first, n;
    bool wants_token;          /* the last row yields a token */
    uint32_t score_from;       /* rows from this position on are still to be scored (echo) */
    const uint32_t *table;     /* block table */
};

struct plan {
    uint64_t step;
    uint32_t n_items;
    uint32_t n_tokens;         /* rows in all */
    uint32_t n_prefill_tokens; /* rows of sequences that were more than one token behind */
    const struct plan_item *items;
    const uint64_t *preempted; /* request ids thrown out while planning */
    uint32_t n_preempted;
    const uint64_t *admitted;  /* request ids that got a slot */
    uint32_t n_admitted;
};

struct sched_end {
    struct request *request; /* the caller's now */
    enum finish finish;
    struct event_times times;
};

struct sched;

int sched_create(struct sched **out, const struct sched_options *options);
/* Destroys what is still inside. */
void sched_destroy(struct sched **s);

/* Can this many tokens ever run? The edge asks before posting (400 otherwise). */
bool sched_can_ever_fit(const struct sched_options *options, uint32_t n_prompt,
                        uint32_t max_tokens);

/* 0: taken. ERR_AGAIN: max_requests reached, ERR_RANGE: can never fit; still the caller's. */
int sched_add(struct sched *s, struct request *r, uint64_t now_us);

/* End a request wherever it is; its blocks are free when this returns. Unknown: ignored. */
void sched_cancel(struct sched *s, uint64_t id, enum finish why, uint64_t now_us);
void sched_cancel_all(struct sched *s, enum finish why, uint64_t now_us);

/* Plan one step. `prefill_budget` caps prompt tokens further (the loop's time model), at least 1
 * is granted when nothing else runs. Expired requests end here. Valid until the next call of
 * sched_plan; the plan must be committed first. An empty plan means: nothing to do now. */
const struct plan *sched_plan(struct sched *s, uint64_t now_us, uint32_t prefill_budget);

/* The plan was computed; tokens[i] is the token of item i where it wants one. is_eog tells
 * whether a token ends a generation (NULL: none does). */
void sched_commit(struct sched *s, const int32_t *tokens, bool (*is_eog)(void *ud, int32_t token),
                  void *ud, uint64_t now_us);

/* Requests that ended since the last call, one at a time; false when there are no more. */
bool sched_next_end(struct sched *s, struct sched_end *out);

bool sched_is_idle(const struct sched *s); /* nothing running, nothing waiting */

/* Fill the scheduler's part of the statistics. */
void sched_fill_stats(const struct sched *s, struct engine_stats *out);

/* Every invariant: blocks held = blocks in tables, states and lists agree. O(everything). */
bool sched_check(const struct sched *s);

#endif
