/* scheduler/scheduler_plan.c - the rows of the next step; see scheduler.h.
 *
 * The order is the policy: decode rows of all streams first, so that running streams never stall
 * (P7); then the time that is left, cut into prompt chunks for running prefills and newcomers in
 * the order of sched_is_due_before(); if that leaves the plan empty, the first sequence in the run
 * order preempts until it fits; drafts last, when everything else is fixed. add_plan_item() and
 * sched_drop_item() keep the sums of the plan, as a preemption can remove an item again.
 */
#include "scheduler/scheduler_impl.h"

#include <assert.h>

/* ---- items ---- */

/* The rows and keys that an item adds to the step. */
static struct step_work work_of(const struct plan_item *item, bool is_prefill)
{
    const uint64_t n = item->n, keys = n * item->first + n * (n + 1) / 2;

    if (is_prefill)
        return (struct step_work){.n_prefill = item->n, .kv_prefill = keys};
    return (struct step_work){.n_decode = 1, .kv_decode = keys};
}

void sched_drop_item(struct sched *s, struct seq *seq)
{
    struct plan *p = &s->plan;
    const uint32_t at = seq->item;
    struct step_work w;

    if (at == SEQ_NO_ITEM)
        return;
    w = work_of(&s->items[at], seq->is_prefill);
    p->work.n_prefill -= w.n_prefill;
    p->work.n_decode -= w.n_decode;
    p->work.kv_prefill -= w.kv_prefill;
    p->work.kv_decode -= w.kv_decode;
    p->n_tokens -= s->items[at].n;
    s->rows_left += s->items[at].n;
    s->prefill_left += w.n_prefill;
    p->n_items--;
    for (uint32_t i = at; i < p->n_items; i++) {
        s->items[i] = s->items[i + 1];
        s->item_seq[i] = s->item_seq[i + 1];
        s->item_seq[i]->item = i;
    }
    seq->item = SEQ_NO_ITEM;
}

static void add_plan_item(struct sched *s, struct seq *seq, uint32_t n, bool is_prefill)
{
    struct plan *p = &s->plan;
    struct request *r = seq->request;
    struct step_work w;

    seq->item = p->n_items;
    seq->is_prefill = is_prefill;
    s->item_seq[p->n_items] = seq;
    s->items[p->n_items] = (struct plan_item){
        .request = r,
        .slot = seq->slot,
        .first = seq->n_done,
        .n = n,
        .wants_token = seq->n_done + n == seq->n_known && r->max_tokens > 0,
        .is_begin = seq->n_peak == seq->n_cached && seq->n_known == request_n_given(r),
        .n_discarded = seq->n_discarded,
        .score_from = seq->n_scored,
        .table = seq->kv.table.blocks,
        .group_stride = seq->kv.table.cap,
        .state = seq->kv.state,
    };
    w = work_of(&s->items[p->n_items++], is_prefill);
    p->work.n_prefill += w.n_prefill;
    p->work.n_decode += w.n_decode;
    p->work.kv_prefill += w.kv_prefill;
    p->work.kv_decode += w.kv_decode;
    p->n_tokens += n;
    s->rows_left -= n;
    s->prefill_left -= w.n_prefill;
}

/* ---- decodes ---- */

/* Plan a decode row for every running sequence that has one token to compute. */
static void plan_decodes(struct sched *s)
{
    for (uint32_t i = 0; i < s->n_running;) {
        struct seq *seq = s->running[i];

        if (seq_behind(seq) == 1 && seq->item == SEQ_NO_ITEM) {
            if (!sched_make_room(s, seq, seq->n_done + 1))
                continue; /* the sequence was preempted: another one is at i now */
            add_plan_item(s, seq, 1, false);
        }
        i++;
    }
    s->n_streams = s->plan.work.n_decode;
}

/* ---- prompt chunks ---- */

/* Set the time left for prompt rows beside the streams; without streams there is no limit. */
static void set_room(struct sched *s)
{
    const uint64_t target_us = s->limits->target_us;
    const uint64_t used = step_costs_ns(&s->limits->costs, &s->plan.work);

    s->room_ns = SCHED_NO_LIMIT;
    if (target_us > 0 && (s->n_streams > 0 || s->limits->is_shared))
        s->room_ns = sched_room_ns(target_us, used);
}

/* Return how many of at most `max` rows fit into the time; the first chunk of a step always gets
 * SCHED_MIN_CHUNK. */
static uint32_t rows_in_time(const struct sched *s, const struct seq *seq, uint32_t max)
{
    const struct step_costs *c = &s->limits->costs;
    const uint32_t least = s->plan.work.n_prefill == 0 ? SCHED_MIN_CHUNK : 0;
    uint32_t n = 0;

    if (s->room_ns == SCHED_NO_LIMIT)
        return max;
    if (c->is_known)
        n = step_costs_chunk(c, seq->n_done, max, s->room_ns);
    return sched_min(max, n > least ? n : least);
}

/* Return n, the rows of a whole prompt, or 0. The first prompt of a step is always computed, others
 * if the time suffices. */
static uint32_t whole_in_time(const struct sched *s, const struct seq *seq, uint32_t n)
{
    const uint64_t ns = step_costs_chunk_ns(&s->limits->costs, seq->n_done, n);

    if (n < seq_behind(seq))
        return 0;
    return s->room_ns == SCHED_NO_LIMIT || s->plan.work.n_prefill == 0 || ns <= s->room_ns ? n : 0;
}

/* Return how many of n tokens to compute, so that the chunk ends where the recurrent state is kept:
 * at a snapshot, or before the prompt's last token, which parallel choices compute themselves. */
static uint32_t until_wanted(const struct sched *s, const struct seq *seq, uint32_t n)
{
    const uint32_t last = seq->request->n_prompt - 1;

    if (seq->n_done < last && seq->n_choices > 0 && kv_manager_has_states(s->kv))
        n = sched_min(n, last - seq->n_done);
    return sched_min(n, kv_manager_to_snapshot(s->kv, seq->n_done));
}

/* Plan the next chunk of a running prefill: as much as budgets and free blocks allow. */
void sched_plan_chunk(struct sched *s, struct seq *seq)
{
    uint32_t n = sched_min(seq_behind(seq), sched_min(s->prefill_left, s->rows_left));
    uint64_t ns;

    n = sched_min(n, kv_manager_room(s->kv, &seq->kv, seq->n_done));
    n = s->opt.whole_prompts ? whole_in_time(s, seq, n)
                             : until_wanted(s, seq, rows_in_time(s, seq, n));
    if (n == 0 || kv_manager_alloc(s->kv, &seq->kv, seq->n_done, seq->n_done + n) < 0)
        return;
    add_plan_item(s, seq, n, true);
    if (s->room_ns == SCHED_NO_LIMIT)
        return;
    ns = step_costs_chunk_ns(&s->limits->costs, seq->n_done, n);
    s->room_ns -= ns < s->room_ns ? ns : s->room_ns;
}

/* Return the running prefill that is due first, of those not tried in this plan; or NULL. */
static struct seq *next_prefill(const struct sched *s)
{
    struct seq *best = NULL;

    for (uint32_t i = 0; i < s->n_running; i++) {
        struct seq *seq = s->running[i];

        if (seq_behind(seq) > 1 && seq->tried != s->serial &&
            (best == NULL || sched_is_due_before(s, seq, best)))
            best = seq;
    }
    return best;
}

/* True: there is time for at least one more row. The first chunk of a step needs none, or no
 * sequence would ever be admitted. */
static bool has_time(const struct sched *s)
{
    const struct step_costs *c = &s->limits->costs;

    if (s->plan.work.n_prefill == 0 || s->room_ns == SCHED_NO_LIMIT)
        return true;
    return c->is_known && s->room_ns > 0 && step_costs_chunk_ns(c, 0, 1) <= s->room_ns;
}

static bool has_budget(const struct sched *s)
{
    return s->prefill_left > 0 && s->rows_left > 0 && has_time(s);
}

/* Plan a chunk of a running prefill, which preempts lower priorities if it has no room. */
static void continue_prefill(struct sched *s, struct seq *seq)
{
    struct seq *victim;

    seq->tried = s->serial;
    while (kv_manager_room(s->kv, &seq->kv, seq->n_done) == 0 &&
           (victim = sched_victim_for(s, seq)) != NULL)
        sched_preempt(s, victim);
    sched_plan_chunk(s, seq);
}

/* Avoid an empty plan while sequences run: the first in the run order preempts until its chunk
 * fits. */
static void force_progress(struct sched *s)
{
    while (s->plan.n_items == 0 && s->n_running > 0) {
        struct seq *seq = s->running[0];
        struct seq *victim = sched_last_but(s, seq);

        sched_plan_chunk(s, seq);
        if (s->plan.n_items > 0 || victim == NULL)
            break;
        sched_preempt(s, victim);
    }
}

/* ---- prompts ---- */

/* Running prefills and newcomers share the rest of the step in one order. Once a newcomer cannot be
 * admitted, none after it is. */
static void plan_prompts(struct sched *s)
{
    bool is_open = true;

    sched_plan_copies(s);
    while (has_budget(s)) {
        struct seq *prefill = next_prefill(s);
        struct seq *waiting = is_open ? sched_next_waiting(s) : NULL;

        if (waiting != NULL && (prefill == NULL || sched_is_due_before(s, waiting, prefill)))
            is_open = sched_try_admit(s, waiting);
        else if (prefill != NULL)
            continue_prefill(s, prefill);
        else
            break;
    }
    sched_read_ahead(s, sched_next_waiting(s));
}

/* ---- the plan ---- */

static void begin_plan(struct sched *s, uint64_t now_us, const struct sched_limits *limits)
{
    struct plan *p = &s->plan;

    assert(p->n_items == 0);
    p->n_tokens = p->n_drafts = p->n_preempted = p->n_swapped_out = p->n_swapped_in =
        p->n_admitted = p->n_shifted = 0;
    p->work = (struct step_work){0};
    p->predicted_ns = 0;
    s->serial++;
    s->now_us = now_us;
    s->limits = limits;
    s->rows_left = s->opt.max_batch_tokens;
    s->prefill_left = s->opt.prefill_chunk;
}

const struct plan *sched_plan(struct sched *s, uint64_t now_us, const struct sched_limits *limits)
{
    struct plan *p = &s->plan;

    begin_plan(s, now_us, limits);
    sched_end_expired(s, now_us);
    kv_manager_expire_pins(s->kv, now_us);
    sched_plan_store(s);
    sched_shift_full(s);
    plan_decodes(s);
    set_room(s);
    plan_prompts(s);
    force_progress(s);
    sched_plan_drafts(s);
    p->moves = kv_manager_moves(s->kv, &p->n_moves);
    if (p->n_items > 0) {
        p->step = s->iterations++;
        if (p->n_drafts == 0 && limits->costs.is_known)
            p->predicted_ns = step_costs_ns(&limits->costs, &p->work);
    }
    return p;
}

void sched_moves_done(struct sched *s)
{
    s->plan.n_moves = 0;
    kv_manager_moves_done(s->kv);
}

bool sched_next_io(struct sched *s, struct swap_io *out)
{
    return kv_manager_next_io(s->kv, out);
}

void sched_io_done(struct sched *s, uint32_t copy, int rc)
{
    kv_manager_io_done(s->kv, copy, rc);
}
