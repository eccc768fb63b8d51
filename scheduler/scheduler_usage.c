/* scheduler/scheduler_usage.c - charges each sequence for the blocks, rows and time that it takes:
 * see usage.h.
 *
 * Integers only, so that sums over requests equal the engine's own. A step's time is divided among
 * its items by weights from the cost model; the division walks along the step (each item gets from
 * the end of the one before it to its own end), so the parts add up to the whole. Blocks are
 * charged before each commit, preemption and end.
 */
#include "scheduler/scheduler_impl.h"

void sched_use(struct sched *s, struct seq *seq, const struct usage *more)
{
    usage_add(&seq->usage, more);
    usage_add(&s->usage, more);
}

void sched_use_blocks(struct sched *s, struct seq *seq, uint64_t now_us)
{
    const uint64_t us = now_us > seq->held_since_us ? now_us - seq->held_since_us : 0;

    sched_use(s, seq, &(struct usage){.block_us = us * kv_manager_n_mapped(s->kv, &seq->kv)});
    seq->held_since_us = now_us;
}

/* Return the item's cost relative to other items, in any unit; not 0. */
static uint64_t weight_of(const struct plan_item *item, bool is_prefill, const struct step_costs *c)
{
    const uint64_t n = item->n, keys = n * item->first + n * (n + 1) / 2;

    if (!c->is_known)
        return n;
    return 1 + n * (is_prefill ? c->prefill_ns : c->decode_ns) +
           keys * (is_prefill ? c->kv_prefill_ps : c->kv_decode_ps) / 1000;
}

/* Each item gets the time from the end of the item before it to its own end, rounded down, so the
 * parts add up to the whole. */
void sched_account(struct sched *s, const struct step_costs *costs, uint64_t us)
{
    unsigned __int128 all = 0, sum = 0;
    uint64_t given = 0;

    for (uint32_t i = 0; i < s->plan.n_items; i++)
        all += weight_of(&s->items[i], s->item_seq[i]->is_prefill, costs);
    for (uint32_t i = 0; i < s->plan.n_items; i++) {
        struct usage use = {.computed_tokens = s->items[i].n};

        sum += weight_of(&s->items[i], s->item_seq[i]->is_prefill, costs);
        use.compute_us = (uint64_t)(us * sum / all) - given;
        given += use.compute_us;
        sched_use(s, s->item_seq[i], &use);
    }
}
