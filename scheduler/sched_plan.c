/* scheduler/sched_plan.c - who computes what in the next step, and who has to go; see sched.h. */
#include "scheduler/sched_state.h"

#include <assert.h>

/* A strictly higher claim, the only kind that may take from another. Under fcfs there is none. */
static bool outranks(const struct sched *s, const struct seq *a, const struct seq *b)
{
    return s->opt.policy == SCHED_PRIORITY && a->request->priority > b->request->priority;
}

/* Take the sequence out of the plan that is being made. */
static void drop_item(struct sched *s, struct seq *seq)
{
    struct plan *p = &s->plan;
    const uint32_t at = seq->item;

    if (at == SEQ_NO_ITEM)
        return;
    s->rows_left += s->items[at].n;
    p->n_tokens -= s->items[at].n;
    if (seq_behind(seq) > 1) {
        s->prefill_left += s->items[at].n;
        p->n_prefill_tokens -= s->items[at].n;
    }
    p->n_items--;
    for (uint32_t i = at; i < p->n_items; i++) {
        s->items[i] = s->items[i + 1];
        s->item_seq[i] = s->item_seq[i + 1];
        s->item_seq[i]->item = i;
    }
    seq->item = SEQ_NO_ITEM;
}

static void preempt(struct sched *s, struct seq *victim, uint64_t now_us)
{
    drop_item(s, victim);
    sched_leave_running(s, victim);
    victim->n_done = 0;
    victim->n_preempted++;
    victim->preempted_at_us = now_us;
    seq_set_state(victim, SEQ_PREEMPTED);
    sched_enter_waiting(s, victim);
    s->preemptions++;
    if (s->plan.n_preempted < s->opt.max_requests)
        s->preempted[s->plan.n_preempted++] = victim->request->id;
}

static void add_item(struct sched *s, struct seq *seq, uint32_t n)
{
    struct plan *p = &s->plan;
    struct request *r = seq->request;

    seq->item = p->n_items;
    s->item_seq[p->n_items] = seq;
    s->items[p->n_items++] = (struct plan_item){
        .request = r,
        .slot = seq->slot,
        .first = seq->n_done,
        .n = n,
        .wants_token = seq->n_done + n == seq->n_known && r->max_tokens > 0,
        .score_from = seq->n_scored,
        .table = seq->table.blocks,
    };
    p->n_tokens += n;
    s->rows_left -= n;
}

/* Make the blocks for n_tokens of a running sequence, preempting lower claims from the end; false
 * when the sequence itself was the lowest and has been preempted. */
static bool make_room(struct sched *s, struct seq *seq, uint32_t n_tokens, uint64_t now_us)
{
    while (block_table_grow(&seq->table, s->opt.pool, n_tokens) < 0) {
        struct seq *victim = s->running[s->n_running - 1];

        preempt(s, victim, now_us);
        if (victim == seq)
            return false;
    }
    return true;
}

/* Every running sequence that is one token behind gets it. Victims come from the end, so what
 * has been planned already is never thrown out here. */
static void plan_decodes(struct sched *s, uint64_t now_us)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct seq *seq = s->running[i];

        if (seq_behind(seq) == 1 && make_room(s, seq, seq->n_done + 1, now_us))
            add_item(s, seq, 1);
    }
}

/* Tokens that fit into the table and the free blocks. */
static uint32_t tokens_that_fit(const struct sched *s, const struct seq *seq)
{
    const uint64_t blocks = (uint64_t)seq->table.n + block_pool_n_free(s->opt.pool);
    const uint64_t tokens = blocks * BLOCK_TOKENS - seq->n_done;

    return tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
}

/* The next chunk of a running prefill: as much as budgets and free blocks allow. */
static void plan_chunk(struct sched *s, struct seq *seq)
{
    uint32_t n = sched_min(seq_behind(seq), sched_min(s->prefill_left, s->rows_left));

    n = sched_min(n, tokens_that_fit(s, seq));
    if (n == 0 || block_table_grow(&seq->table, s->opt.pool, seq->n_done + n) < 0)
        return;
    add_item(s, seq, n);
    s->plan.n_prefill_tokens += n;
    s->prefill_left -= n;
}

/* A prefill without room takes blocks from lower priorities; from an equal one only when nothing
 * else makes progress, so that the highest claim always does. */
static void plan_prefills(struct sched *s, uint64_t now_us)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct seq *seq = s->running[i];

        if (seq_behind(seq) < 2 || s->prefill_left == 0 || s->rows_left == 0)
            continue;
        while (tokens_that_fit(s, seq) == 0 && i + 1 < s->n_running) {
            struct seq *victim = s->running[s->n_running - 1];

            if (!outranks(s, seq, victim) && s->plan.n_items > 0)
                break;
            preempt(s, victim, now_us);
        }
        plan_chunk(s, seq);
    }
}

/* Blocks that running sequences still need for what they know and one token more. */
static uint32_t blocks_owed(const struct sched *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_running; i++)
        n += block_table_missing(&s->running[i]->table, s->running[i]->n_known + 1);
    return n;
}

/* Admission wants room for all that the newcomer knows, for what is owed to the others, and for
 * one block more for each of them: otherwise it would soon be thrown out again, having computed for
 * nothing. Alone, it is always let in. */
static bool has_room_for(const struct seq *seq, uint32_t n_running, uint64_t n_free, uint64_t owed)
{
    const uint64_t need = block_table_needed(seq->n_known + 1);

    return n_running == 0 || n_free >= need + owed + n_running;
}

/* Would the newcomer fit if every running sequence that it outranks were preempted? */
static bool could_make_room(const struct sched *s, const struct seq *seq)
{
    uint64_t n_free = block_pool_n_free(s->opt.pool), owed = blocks_owed(s);
    uint32_t n = s->n_running;

    while (n > 0 && outranks(s, seq, s->running[n - 1])) {
        const struct seq *victim = s->running[--n];

        n_free += victim->table.n;
        owed -= block_table_missing(&victim->table, victim->n_known + 1);
        if (has_room_for(seq, n, n_free, owed))
            return true;
    }
    return false;
}

static bool is_admissible(const struct sched *s, const struct seq *seq)
{
    return s->n_slots > 0 &&
           has_room_for(seq, s->n_running, block_pool_n_free(s->opt.pool), blocks_owed(s));
}

static void admit(struct sched *s, struct seq *seq, uint64_t now_us)
{
    sched_leave_waiting(s, seq);
    if (seq->state == SEQ_PREEMPTED)
        seq_end_preemption(seq, now_us);
    else
        seq->started_us = now_us;
    seq_set_state(seq, SEQ_RUNNING);
    sched_enter_running(s, seq);
    if (s->plan.n_admitted < s->opt.max_requests)
        s->admitted[s->plan.n_admitted++] = seq->request->id;
    plan_chunk(s, seq);
}

static void plan_admissions(struct sched *s, uint64_t now_us)
{
    struct seq *seq;

    while ((seq = heap_top(&s->waiting)) != NULL && s->prefill_left > 0 && s->rows_left > 0) {
        if (!is_admissible(s, seq)) {
            if (!could_make_room(s, seq))
                break;
            while (!is_admissible(s, seq))
                preempt(s, s->running[s->n_running - 1], now_us);
        }
        admit(s, seq, now_us);
    }
}

const struct plan *sched_plan(struct sched *s, uint64_t now_us, uint32_t prefill_budget)
{
    struct plan *p = &s->plan;

    assert(p->n_items == 0);
    p->n_tokens = p->n_prefill_tokens = p->n_preempted = p->n_admitted = 0;
    sched_end_expired(s, now_us);
    s->rows_left = s->opt.max_batch_tokens;
    s->prefill_left = sched_min(s->opt.prefill_chunk, prefill_budget);
    plan_decodes(s, now_us);
    if (s->prefill_left == 0 && p->n_items == 0)
        s->prefill_left = 1;
    plan_prefills(s, now_us);
    plan_admissions(s, now_us);
    if (p->n_items > 0)
        p->step = s->iterations++;
    return p;
}
