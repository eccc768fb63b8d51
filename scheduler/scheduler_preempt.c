/* scheduler/scheduler_preempt.c - chooses the sequences that are preempted, and whether they are
 * swapped out or recomputed.
 *
 * Costs decide: bringing a sequence back takes two copies of its blocks if it is swapped, or the
 * prefill of the tokens that no other sequence holds. The same estimate chooses the victim among
 * sequences of one priority, and between swapping and recomputing it. A victim is always later in
 * the run order, so two sequences never preempt each other in turn.
 */
#include "scheduler/scheduler_impl.h"

#include <assert.h>

/* ---- the cost of bringing a sequence back ---- */

static uint64_t swap_back_ns(const struct sched *s, const struct seq *seq)
{
    const struct step_costs *c = &s->limits->costs;

    return 2 * c->swap_ns * kv_manager_n_swapped(s->kv, &seq->kv, seq->n_done);
}

/* Nanoseconds to recompute the sequence's tokens, except those in blocks that other sequences hold
 * too: a prefix look-up finds these again. */
static uint64_t recompute_ns(const struct sched *s, const struct seq *seq)
{
    const struct step_costs *c = &s->limits->costs;
    const uint32_t n = sched_min(kv_manager_n_alone(s->kv, &seq->kv), seq->n_done);

    return step_costs_chunk_ns(c, seq->n_done - n, n);
}

/* True: swapping is cheaper than recomputing. Also true until costs are known, because it nearly
 * always is. */
static bool prefers_swap(const struct sched *s, const struct seq *seq)
{
    if (s->opt.preemption == SCHED_RECOMPUTE || seq->n_done == 0)
        return false;
    if (s->opt.preemption == SCHED_SWAP || !s->limits->costs.is_known)
        return true;
    return swap_back_ns(s, seq) <= recompute_ns(s, seq);
}

static uint64_t return_cost(const struct sched *s, const struct seq *seq)
{
    const bool can_swap = kv_manager_can_swap_out(s->kv, &seq->kv, seq->n_done);

    if (!s->limits->costs.is_known)
        return seq->n_done;
    return can_swap && prefers_swap(s, seq) ? swap_back_ns(s, seq) : recompute_ns(s, seq);
}

/* ---- victims ---- */

bool sched_is_preempt_exempt(const struct sched *s, const struct seq *seq)
{
    return seq->n_preempted >= s->opt.max_preemptions;
}

/* Return the better victim of two: the lower priority, then the cheaper to bring back, then the
 * younger. `a` may be NULL. */
static struct seq *better_victim(const struct sched *s, struct seq *a, struct seq *b)
{
    uint64_t cost_a, cost_b;

    if (a == NULL)
        return b;
    if (sched_is_above(s, a, b) || sched_is_above(s, b, a))
        return sched_is_above(s, a, b) ? b : a;
    cost_a = return_cost(s, a);
    cost_b = return_cost(s, b);
    if (cost_a != cost_b)
        return cost_a < cost_b ? a : b;
    return sched_runs_before(s, a, b) ? b : a;
}

struct seq *sched_victim_for(const struct sched *s, const struct seq *newcomer)
{
    struct seq *best = NULL;

    for (uint32_t i = s->n_running; i-- > 0 && sched_is_above(s, newcomer, s->running[i]);)
        if (!sched_is_preempt_exempt(s, s->running[i]) &&
            sched_can_preempt(s, newcomer, s->running[i]))
            best = better_victim(s, best, s->running[i]);
    return best;
}

/* Return the victim whose preemption gives a running sequence a block, or NULL. It is later in the
 * run order; it is exempt from preemption only if its priority is strictly lower; its preemption
 * makes a block available. */
static struct seq *victim_below(const struct sched *s, const struct seq *seq)
{
    struct seq *best = NULL;

    for (uint32_t i = s->n_running; i-- > 0 && s->running[i] != seq;) {
        struct seq *v = s->running[i];

        if (sched_is_preempt_exempt(s, v) && !sched_can_preempt(s, seq, v))
            continue;
        if (kv_manager_n_exclusive(s->kv, &v->kv) > 0)
            best = better_victim(s, best, v);
    }
    return best;
}

struct seq *sched_last_but(const struct sched *s, const struct seq *seq)
{
    for (uint32_t i = s->n_running; i-- > 0;)
        if (s->running[i] != seq)
            return s->running[i];
    return NULL;
}

/* ---- preemption ---- */

void sched_preempt(struct sched *s, struct seq *victim)
{
    const bool wants_swap = prefers_swap(s, victim);
    bool swapped;

    sched_drop_item(s, victim);
    sched_use_blocks(s, victim, s->now_us);
    swapped = wants_swap && kv_manager_swap_out(s->kv, &victim->kv, victim->n_done) == 0;
    sched_leave_running(s, victim);
    if (swapped) {
        s->preemptions_swap++;
        sched_note(s, s->swapped_out, &s->plan.n_swapped_out, victim);
    } else {
        victim->n_done = 0;
        s->preemptions++;
        s->swap_fallbacks += wants_swap && kv_manager_stats(s->kv).swap.ram_slots > 0;
    }
    sched_leave_prefix_waiters(s, victim, false);
    victim->n_preempted++;
    victim->preempted_at_us = s->now_us;
    seq_set_state(victim, SEQ_PREEMPTED);
    sched_enter_waiting(s, victim);
    sched_note(s, s->preempted, &s->plan.n_preempted, victim);
}

bool sched_make_room(struct sched *s, struct seq *seq, uint32_t to)
{
    while (kv_manager_alloc(s->kv, &seq->kv, seq->n_done, to) < 0) {
        struct seq *victim = victim_below(s, seq);

        if (victim == NULL && s->running[0] == seq)
            victim = sched_last_but(s, seq);
        assert(victim != NULL || s->n_running > 1 || seq != s->running[0]);
        sched_preempt(s, victim != NULL ? victim : seq);
        if (victim == NULL)
            return false;
    }
    return true;
}
