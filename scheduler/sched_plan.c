/* scheduler/sched_plan.c - who computes what in the next step; see sched.h. */
#include "scheduler/sched_state.h"

#include "core/base/err.h"

#include <assert.h>
#include <string.h>

/* ---- items ---- */

/* What an item adds to the step. */
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

static void add_item(struct sched *s, struct seq *seq, uint32_t n, bool is_prefill)
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
        .score_from = seq->n_scored,
        .table = seq->kv.table.blocks,
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

/* Every running sequence that is one token behind gets it. */
static void plan_decodes(struct sched *s)
{
    for (uint32_t i = 0; i < s->n_running;) {
        struct seq *seq = s->running[i];

        if (seq_behind(seq) == 1 && seq->item == SEQ_NO_ITEM) {
            if (!sched_make_room(s, seq, seq->n_done + 1))
                continue; /* it is gone: another one stands at i now */
            add_item(s, seq, 1, false);
        }
        i++;
    }
    s->n_streams = s->plan.work.n_decode;
}

/* ---- prompt chunks ---- */

/* The time that is left beside the streams; without streams there is no limit. */
static void set_room(struct sched *s)
{
    const uint64_t target_us = s->limits->target_us;
    const uint64_t used = step_costs_ns(&s->limits->costs, &s->plan.work);

    s->room_ns = SCHED_NO_LIMIT;
    if (target_us > 0 && s->n_streams > 0)
        s->room_ns = sched_room_ns(target_us, used);
}

/* Tokens that could be computed with the blocks that are there. */
static uint32_t tokens_that_fit(const struct sched *s, const struct seq *seq)
{
    const struct kv_seq *kv = &seq->kv;
    const uint64_t available = kv_manager_n_available(s->kv);
    const bool is_mapped = seq->n_done / BLOCK_TOKENS < kv->table.n;
    const uint32_t copy = is_mapped
                              ? kv_manager_missing(s->kv, kv, seq->n_done, seq->n_done + 1)
                              : 0;
    uint64_t tokens;

    if (copy > available)
        return 0;
    tokens = (kv->table.n + available - copy) * BLOCK_TOKENS - seq->n_done;
    return tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
}

/* Rows that fit into the time; the first chunk of a step always gets SCHED_MIN_CHUNK. */
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

/* The next chunk of a running prefill: as much as budgets and free blocks allow. */
static void plan_chunk(struct sched *s, struct seq *seq)
{
    uint32_t n = sched_min(seq_behind(seq), sched_min(s->prefill_left, s->rows_left));
    uint64_t ns;

    n = rows_in_time(s, seq, sched_min(n, tokens_that_fit(s, seq)));
    if (n == 0 || kv_manager_grow(s->kv, &seq->kv, seq->n_done, seq->n_done + n) < 0)
        return;
    add_item(s, seq, n, true);
    if (s->room_ns == SCHED_NO_LIMIT)
        return;
    ns = step_costs_chunk_ns(&s->limits->costs, seq->n_done, n);
    s->room_ns -= ns < s->room_ns ? ns : s->room_ns;
}

/* The running prefill whose turn it is, of those that had none in this plan. */
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

/* Time for one row at least, or nobody would be let in for less than that. */
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

/* A prefill without room takes blocks from lower priorities. */
static void continue_prefill(struct sched *s, struct seq *seq)
{
    struct seq *victim;

    seq->tried = s->serial;
    while (tokens_that_fit(s, seq) == 0 && (victim = sched_victim_for(s, seq)) != NULL)
        sched_preempt(s, victim);
    plan_chunk(s, seq);
}

/* Nothing moves although something runs: the highest claim takes what it needs, from anybody. */
static void force_progress(struct sched *s)
{
    while (s->plan.n_items == 0 && s->n_running > 0) {
        struct seq *seq = s->running[0];
        struct seq *victim = sched_last_but(s, seq);

        plan_chunk(s, seq);
        if (s->plan.n_items > 0 || victim == NULL)
            break;
        sched_preempt(s, victim);
    }
}

/* ---- admissions ---- */

/* Tokens that a sequence will have at the end at most. */
static uint32_t worst_case(const struct seq *seq)
{
    return seq->request->n_prompt + seq->request->max_tokens;
}

/* Blocks that a running sequence still needs: for what it knows and one token more; all it may
 * ever need (`all`) where nobody is to be thrown out any more. */
static uint64_t owed_to(const struct sched *s, const struct seq *seq, bool all)
{
    const uint32_t to = all || sched_is_spared(s, seq) ? worst_case(seq) : seq->n_known + 1;

    return kv_manager_missing(s->kv, &seq->kv, seq->n_done, to > seq->n_done ? to : seq->n_done);
}

static uint64_t blocks_owed(const struct sched *s, bool all)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < s->n_running; i++)
        n += owed_to(s, s->running[i], all);
    return n;
}

/* How many of its tokens a sequence need not compute, if others have them. A prompt that is to be
 * scored must be computed as far as it has not been. */
static uint32_t reusable(const struct seq *seq)
{
    const struct request *r = seq->request;

    if (r->score_prompt && seq->n_scored + 1 < r->n_prompt)
        return seq->n_scored;
    return seq->n_known - 1;
}

/* The leader whose blocks the sequence can take over as they are. */
static const struct seq *fork_parent(const struct sched *s, const struct seq *seq)
{
    const struct request *r = seq->request;
    const struct seq *leader =
        r->leader != 0 && seq->n_peak == 0 ? seq_set_find(&s->set, r->leader) : NULL;

    if (leader == NULL || leader->state != SEQ_RUNNING || leader->n_done < r->n_prompt ||
        r->score_prompt)
        return NULL;
    assert(leader->request->n_prompt == r->n_prompt && leader->request->key.salt == r->key.salt &&
           memcmp(leader->request->ids, r->ids, r->n_prompt * sizeof(*r->ids)) == 0);
    return leader;
}

/* Blocks an admission takes out of the available ones, at once and soon. */
static uint64_t admission_blocks(const struct sched *s, const struct seq *seq)
{
    const bool spared = sched_is_spared(s, seq);
    const uint32_t n_tokens = spared ? worst_case(seq) : seq->n_known + 1;
    const uint64_t need = block_table_needed(n_tokens > seq->n_known ? n_tokens : seq->n_known);
    uint32_t n_held;

    if (fork_parent(s, seq) != NULL)
        n_held = (seq->request->n_prompt - 1) / BLOCK_TOKENS;
    else
        n_held = kv_manager_match(s->kv, &seq->request->key,
                                  seq->n_done > 0 ? seq->n_done : reusable(seq))
                     .n_held;
    return need > n_held ? need - n_held : 0;
}

/* Admission wants room for all that the newcomer knows, for what is owed to the others, and for
 * one block more for each of them: otherwise it would soon be thrown out again, having computed for
 * nothing. Alone, it is always let in. */
static bool is_admissible(const struct sched *s, const struct seq *seq, uint64_t need)
{
    if (s->n_slots == 0 || s->n_running == 0)
        return s->n_slots > 0;
    return kv_manager_n_available(s->kv) >=
           need + blocks_owed(s, sched_is_spared(s, seq)) + s->n_running;
}

/* Would the newcomer fit if everyone were gone who may be thrown out for it? */
static bool could_make_room(const struct sched *s, const struct seq *seq, uint64_t need)
{
    uint64_t available = kv_manager_n_available(s->kv), owed = 0;
    uint32_t n_left = 0;

    for (uint32_t i = 0; i < s->n_running; i++) {
        const struct seq *other = s->running[i];

        if (sched_outranks(s, seq, other) && !sched_is_spared(s, other)) {
            available += kv_manager_n_exclusive(s->kv, &other->kv);
        } else {
            owed += owed_to(s, other, sched_is_spared(s, seq));
            n_left++;
        }
    }
    if (n_left == s->n_running)
        return false;
    return n_left == 0 || available >= need + owed + n_left;
}

/* Preempt lower priorities until the newcomer may come in; false: it may not. */
static bool clear_the_way(struct sched *s, const struct seq *seq)
{
    const uint64_t need = admission_blocks(s, seq);
    struct seq *victim;

    if (is_admissible(s, seq, need))
        return true;
    if (!could_make_room(s, seq, need))
        return false;
    while (!is_admissible(s, seq, need)) {
        victim = sched_victim_for(s, seq);
        if (victim == NULL)
            return false;
        sched_preempt(s, victim);
    }
    return true;
}

static void note(uint64_t *ids, uint32_t *n, uint32_t max, uint64_t id)
{
    if (*n < max)
        ids[(*n)++] = id;
}

/* The first admission: what is there already need not be computed. */
static void start_seq(struct sched *s, struct seq *seq)
{
    struct request *r = seq->request;
    const struct seq *parent = fork_parent(s, seq);

    if (parent != NULL) {
        kv_manager_fork(s->kv, &seq->kv, &parent->kv, r->n_prompt - 1);
        seq->n_done = r->n_prompt - 1;
        /* Part at once: the parent may write into the last block in this very step. The block for
         * that was counted; should it be missing all the same, plan_chunk() tries again. */
        (void)kv_manager_grow(s->kv, &seq->kv, seq->n_done, seq->n_done + 1);
    } else {
        seq->n_done = kv_manager_attach(s->kv, &seq->kv, &r->key, reusable(seq));
    }
    if (seq->n_preempted > 0)
        return;
    seq->n_cached = seq->n_peak = seq->n_done;
    s->cached_tokens += seq->n_done;
    tenant_charge(&s->tenants[r->tenant], r->n_prompt - seq->n_done);
}

/* Blocks for a sequence that has just become a running one: from its copy, or what is there. */
static void bring_in(struct sched *s, struct seq *seq)
{
    if (seq->kv.swap != SWAP_NONE) {
        if (kv_manager_swap_in(s->kv, &seq->kv, &seq->request->key, seq->n_done) == 0) {
            note(s->swapped_in, &s->plan.n_swapped_in, s->opt.max_requests, seq->request->id);
            return;
        }
        kv_manager_forget(s->kv, &seq->kv);
        s->swap_fallbacks++;
    }
    start_seq(s, seq);
}

static void admit(struct sched *s, struct seq *seq)
{
    seq->tried = s->serial;
    sched_leave_waiting(s, seq);
    if (seq->state == SEQ_PREEMPTED)
        seq_end_preemption(seq, s->now_us);
    else
        seq->started_us = s->now_us;
    seq_set_state(seq, SEQ_RUNNING);
    sched_set_expiry(s, seq, sched_end_of_time(seq->request));
    sched_enter_running(s, seq);
    bring_in(s, seq);
    note(s->admitted, &s->plan.n_admitted, s->opt.max_requests, seq->request->id);
    plan_chunk(s, seq);
}

/* The copy is lost, or cannot be had while nothing else moves: compute again. */
static void give_up_copy(struct sched *s, struct seq *seq)
{
    sched_leave_waiting(s, seq);
    kv_manager_forget(s->kv, &seq->kv);
    seq->n_done = 0;
    sched_enter_waiting(s, seq);
    s->swap_fallbacks++;
}

static bool is_in_file(const struct sched *s, const struct seq *seq)
{
    return seq->kv.swap != SWAP_NONE && kv_manager_where(s->kv, &seq->kv) == SWAP_FILE;
}

/* Is what the sequence had at hand, in RAM or nowhere? Otherwise it is fetched. */
static bool is_at_hand(struct sched *s, struct seq *seq)
{
    const bool is_in_ram = seq->kv.swap == SWAP_NONE ||
                           kv_manager_where(s->kv, &seq->kv) == SWAP_RAM ||
                           kv_manager_where(s->kv, &seq->kv) == SWAP_WRITING;
    const int rc = is_in_ram ? 0 : kv_manager_fetch(s->kv, &seq->kv);

    if (rc == ERR_IO || (rc == ERR_AGAIN && s->n_running == 0 && !kv_manager_is_freeing(s->kv))) {
        give_up_copy(s, seq);
        return true;
    }
    return is_in_ram;
}

#define READ_AHEAD 2 /* sequences after the next one whose copies are read in time */

static void read_ahead(struct sched *s, const struct seq *next)
{
    const struct order *o;

    if (next == NULL)
        return;
    o = &s->tenants[next->request->tenant].waiting;
    for (int i = 0; i < READ_AHEAD && next != NULL; i++) {
        struct seq *seq = order_next(o, &next->node.key);

        if (seq != NULL && is_in_file(s, seq))
            (void)kv_manager_fetch(s->kv, &seq->kv); /* lost or no room: seen when it is due */
        next = seq;
    }
}

static bool try_admit(struct sched *s, struct seq *seq)
{
    if (!is_at_hand(s, seq) || !clear_the_way(s, seq))
        return false;
    admit(s, seq);
    return true;
}

/* ---- prompts ---- */

/* Running prefills and newcomers share what is left of the step in one order. Once a newcomer
 * cannot come in, those behind it do not either. */
static void plan_prompts(struct sched *s)
{
    bool is_open = true;

    while (has_budget(s)) {
        struct seq *prefill = next_prefill(s);
        struct seq *waiting = is_open ? sched_next_waiting(s) : NULL;

        if (waiting != NULL && (prefill == NULL || sched_is_due_before(s, waiting, prefill)))
            is_open = try_admit(s, waiting);
        else if (prefill != NULL)
            continue_prefill(s, prefill);
        else
            break;
    }
    read_ahead(s, sched_next_waiting(s));
}

/* ---- the plan ---- */

static void begin(struct sched *s, uint64_t now_us, const struct sched_limits *limits)
{
    struct plan *p = &s->plan;

    assert(p->n_items == 0);
    p->n_tokens = p->n_preempted = p->n_swapped_out = p->n_swapped_in = p->n_admitted = 0;
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

    begin(s, now_us, limits);
    sched_end_expired(s, now_us);
    plan_decodes(s);
    set_room(s);
    plan_prompts(s);
    force_progress(s);
    p->moves = kv_manager_moves(s->kv, &p->n_moves);
    if (p->n_items > 0) {
        p->step = s->iterations++;
        p->predicted_ns = limits->costs.is_known ? step_costs_ns(&limits->costs, &p->work) : 0;
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
