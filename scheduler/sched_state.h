/* scheduler/sched_state.h - the scheduler's inside, shared by sched.c and sched_plan.c.
 *
 * Private to scheduler/. `running` is sorted by claim, so the plan walks it forwards and victims
 * come from its end; everything else waits in a heap.
 *
 * Thread: engine thread only.
 * Memory: as in sched.h.
 */
#ifndef SCHEDULER_SCHED_STATE_H
#define SCHEDULER_SCHED_STATE_H

#include "scheduler/heap.h"
#include "scheduler/sched.h"
#include "scheduler/seq.h"

struct sched {
    struct sched_options opt;
    struct seq_set set;
    struct heap waiting;  /* by claim */
    struct heap deadline; /* every seq with a deadline */
    struct seq **running; /* [max_sequences], by claim */
    uint32_t n_running;
    uint32_t *slots; /* [max_sequences] stack of free slots */
    uint32_t n_slots;
    block_id *tables; /* [max_sequences][table_cap] */
    uint32_t table_cap;
    uint64_t next_ticket;
    struct sched_end *ends; /* ring [max_requests] */
    uint32_t end_head, n_ends;
    uint32_t n_waiting[PRIORITY_COUNT], n_preempted;
    /* the plan */
    struct plan plan;
    struct plan_item *items;  /* [max_sequences] */
    struct seq **item_seq;    /* [max_sequences] */
    uint64_t *preempted;      /* [max_sequences] */
    uint64_t *admitted;       /* [max_requests]: a slot may be given twice in one plan */
    uint32_t rows_left, prefill_left; /* budgets of the plan being made */
    /* counters */
    uint64_t prompt_tokens, generation_tokens, recomputed_tokens, preemptions, iterations;
};

/* Between the lists; the state of the sequence is the caller's to set. */
void sched_enter_waiting(struct sched *s, struct seq *seq);
void sched_leave_waiting(struct sched *s, struct seq *seq);
void sched_enter_running(struct sched *s, struct seq *seq); /* takes a slot: there is one */
void sched_leave_running(struct sched *s, struct seq *seq); /* gives slot and blocks back */

/* End every request whose deadline has passed. */
void sched_end_expired(struct sched *s, uint64_t now_us);

static inline uint32_t sched_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

#endif
