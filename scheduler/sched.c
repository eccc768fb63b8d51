/* scheduler/sched.c - admission, planning, preemption, progress; see sched.h.
 *
 * `running` is sorted by claim, so the plan walks it forwards and victims come from its end.
 */
#include "scheduler/sched.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/heap.h"
#include "scheduler/seq.h"

#include <assert.h>
#include <string.h>

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

/* ---- claims ---- */

static bool before_fcfs(const struct seq *a, const struct seq *b)
{
    return a->ticket < b->ticket;
}

static bool before_priority(const struct seq *a, const struct seq *b)
{
    if (a->request->priority != b->request->priority)
        return a->request->priority > b->request->priority;
    return a->ticket < b->ticket;
}

static bool before_deadline(const struct seq *a, const struct seq *b)
{
    return a->request->deadline_us < b->request->deadline_us;
}

/* A strictly higher claim, the only kind that may take from another. Under fcfs there is none. */
static bool outranks(const struct sched *s, const struct seq *a, const struct seq *b)
{
    return s->opt.policy == SCHED_PRIORITY && a->request->priority > b->request->priority;
}

/* ---- life ---- */

static int create_arrays(struct sched *s)
{
    const struct sched_options *o = &s->opt;
    const size_t n = o->max_sequences;

    s->running = mem_calloc(n, sizeof(struct seq *));
    s->slots = mem_calloc(n, sizeof(*s->slots));
    s->tables = mem_calloc(n * s->table_cap, sizeof(*s->tables));
    s->ends = mem_calloc(o->max_requests, sizeof(*s->ends));
    s->items = mem_calloc(n, sizeof(*s->items));
    s->item_seq = mem_calloc(n, sizeof(struct seq *));
    s->preempted = mem_calloc(o->max_requests, sizeof(*s->preempted));
    s->admitted = mem_calloc(o->max_requests, sizeof(*s->admitted));
    if (s->running == NULL || s->slots == NULL || s->tables == NULL || s->ends == NULL ||
        s->items == NULL || s->item_seq == NULL || s->preempted == NULL || s->admitted == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++)
        s->slots[i] = (uint32_t)n - 1 - i;
    s->n_slots = (uint32_t)n;
    return 0;
}

static int create_heaps(struct sched *s)
{
    const uint32_t n = s->opt.max_requests;
    int rc = seq_set_create(&s->set, n);

    if (rc == 0)
        rc = heap_create(&s->waiting, n, offsetof(struct seq, heap_waiting),
                         s->opt.policy == SCHED_FCFS ? before_fcfs : before_priority);
    if (rc == 0)
        rc = heap_create(&s->deadline, n, offsetof(struct seq, heap_deadline), before_deadline);
    return rc;
}

int sched_create(struct sched **out, const struct sched_options *options)
{
    struct sched *s;

    *out = NULL;
    if (options->max_sequences == 0 || options->max_requests < options->max_sequences ||
        options->max_batch_tokens < options->max_sequences || options->prefill_chunk == 0 ||
        options->max_context == 0)
        return ERR_INVAL;
    s = mem_calloc(1, sizeof(*s));
    if (s == NULL)
        return ERR_NOMEM;
    s->opt = *options;
    s->table_cap = block_table_needed(options->max_context);
    if (create_heaps(s) < 0 || create_arrays(s) < 0) {
        sched_destroy(&s);
        return ERR_NOMEM;
    }
    s->plan.items = s->items;
    s->plan.preempted = s->preempted;
    s->plan.admitted = s->admitted;
    *out = s;
    return 0;
}

void sched_destroy(struct sched **sched)
{
    struct sched *s = sched != NULL ? *sched : NULL;

    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->n_running; i++)
        block_table_clear(&s->running[i]->table, s->opt.pool);
    for (uint32_t i = 0; i < s->n_ends; i++)
        request_destroy(&s->ends[(s->end_head + i) % s->opt.max_requests].request);
    seq_set_release(&s->set);
    heap_release(&s->waiting);
    heap_release(&s->deadline);
    mem_free(s->running);
    mem_free(s->slots);
    mem_free(s->tables);
    mem_free(s->ends);
    mem_free(s->items);
    mem_free(s->item_seq);
    mem_free(s->preempted);
    mem_free(s->admitted);
    mem_free(s);
    *sched = NULL;
}

/* ---- moving sequences between the lists ---- */

static void enter_waiting(struct sched *s, struct seq *seq)
{
    heap_push(&s->waiting, seq);
    s->n_waiting[seq->request->priority]++;
    s->n_preempted += seq->state == SEQ_PREEMPTED;
}

static void leave_waiting(struct sched *s, struct seq *seq)
{
    heap_remove(&s->waiting, seq);
    s->n_waiting[seq->request->priority]--;
    s->n_preempted -= seq->state == SEQ_PREEMPTED;
}

static void enter_running(struct sched *s, struct seq *seq)
{
    uint32_t i = s->n_running++;

    seq->slot = s->slots[--s->n_slots];
    block_table_init(&seq->table, s->tables + (size_t)seq->slot * s->table_cap, s->table_cap);
    for (; i > 0 && s->waiting.before(seq, s->running[i - 1]); i--)
        s->running[i] = s->running[i - 1];
    s->running[i] = seq;
}

static void leave_running(struct sched *s, struct seq *seq)
{
    uint32_t i = s->n_running;

    while (s->running[--i] != seq)
        ;
    memmove(s->running + i, s->running + i + 1, (s->n_running - i - 1) * sizeof(struct seq *));
    s->n_running--;
    block_table_clear(&seq->table, s->opt.pool);
    s->slots[s->n_slots++] = seq->slot;
    seq->slot = SEQ_NO_SLOT;
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
    leave_running(s, victim);
    victim->n_done = 0;
    victim->n_preempted++;
    victim->preempted_at_us = now_us;
    seq_set_state(victim, SEQ_PREEMPTED);
    enter_waiting(s, victim);
    s->preemptions++;
    if (s->plan.n_preempted < s->opt.max_requests)
        s->preempted[s->plan.n_preempted++] = victim->request->id;
}

static void end_seq(struct sched *s, struct seq *seq, enum seq_state state, enum finish why,
                    uint64_t now_us)
{
    struct request *r = seq->request;

    if (seq->state == SEQ_RUNNING)
        leave_running(s, seq);
    else
        leave_waiting(s, seq);
    if (seq->state == SEQ_PREEMPTED)
        seq_end_preemption(seq, now_us);
    if (r->deadline_us != 0)
        heap_remove(&s->deadline, seq);
    seq_set_state(seq, state);
    s->ends[(s->end_head + s->n_ends++) % s->opt.max_requests] =
        (struct sched_end){.request = r, .finish = why, .times = seq_times(seq, now_us)};
    seq_set_give(&s->set, seq);
}

/* ---- arrivals and cancels ---- */

bool sched_can_ever_fit(const struct sched_options *o, uint32_t n_prompt, uint32_t max_tokens)
{
    const uint64_t n = (uint64_t)n_prompt + max_tokens;
    const struct block_pool_stats pool = block_pool_stats(o->pool);

    return n_prompt > 0 && n <= o->max_context && block_table_needed((uint32_t)n) <= pool.n_blocks;
}

int sched_add(struct sched *s, struct request *r, uint64_t now_us)
{
    struct seq *seq;

    if (!sched_can_ever_fit(&s->opt, r->n_prompt, r->max_tokens))
        return ERR_RANGE;
    if (s->set.n + s->n_ends >= s->opt.max_requests)
        return ERR_AGAIN;
    seq = seq_set_take(&s->set, r);
    if (r->arrival_us > now_us)
        r->arrival_us = now_us;
    seq->ticket = s->next_ticket++;
    seq_count_prompt(seq);
    seq_set_state(seq, SEQ_PENDING);
    if (r->deadline_us != 0)
        heap_push(&s->deadline, seq);
    enter_waiting(s, seq);
    return 0;
}

void sched_cancel(struct sched *s, uint64_t id, enum finish why, uint64_t now_us)
{
    struct seq *seq = seq_set_find(&s->set, id);

    if (seq != NULL)
        end_seq(s, seq, SEQ_CANCELLED, why, now_us);
}

void sched_cancel_all(struct sched *s, enum finish why, uint64_t now_us)
{
    while (s->n_running > 0)
        end_seq(s, s->running[s->n_running - 1], SEQ_CANCELLED, why, now_us);
    while (heap_top(&s->waiting) != NULL)
        end_seq(s, heap_top(&s->waiting), SEQ_CANCELLED, why, now_us);
}

static void end_expired(struct sched *s, uint64_t now_us)
{
    struct seq *seq;

    while ((seq = heap_top(&s->deadline)) != NULL && seq->request->deadline_us <= now_us)
        end_seq(s, seq, SEQ_FAILED, FINISH_TIMEOUT, now_us);
}

/* ---- planning ---- */

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

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The next chunk of a running prefill: as much as budgets and free blocks allow. */
static void plan_chunk(struct sched *s, struct seq *seq)
{
    uint32_t n = min_u32(seq_behind(seq), min_u32(s->prefill_left, s->rows_left));

    n = min_u32(n, tokens_that_fit(s, seq));
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
    leave_waiting(s, seq);
    if (seq->state == SEQ_PREEMPTED)
        seq_end_preemption(seq, now_us);
    else
        seq->started_us = now_us;
    seq_set_state(seq, SEQ_RUNNING);
    enter_running(s, seq);
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
    end_expired(s, now_us);
    s->rows_left = s->opt.max_batch_tokens;
    s->prefill_left = min_u32(s->opt.prefill_chunk, prefill_budget);
    plan_decodes(s, now_us);
    if (s->prefill_left == 0 && p->n_items == 0)
        s->prefill_left = 1;
    plan_prefills(s, now_us);
    plan_admissions(s, now_us);
    if (p->n_items > 0)
        p->step = s->iterations++;
    return p;
}

/* ---- progress ---- */

static bool is_stop_id(const struct request *r, int32_t token)
{
    for (uint32_t i = 0; i < r->n_stop_ids; i++)
        if (r->stop_ids[i] == token)
            return true;
    return false;
}

static void count_rows(struct sched *s, struct seq *seq, const struct plan_item *item)
{
    const uint32_t end = item->first + item->n;
    const uint32_t fresh_from = seq->n_peak > item->first ? min_u32(seq->n_peak, end) : item->first;
    const uint32_t n_prompt = seq->request->n_prompt;

    s->recomputed_tokens += fresh_from - item->first;
    if (fresh_from < n_prompt)
        s->prompt_tokens += min_u32(end, n_prompt) - fresh_from;
    if (end > seq->n_peak)
        seq->n_peak = end;
}

/* Append the token; why the sequence ends with it, or FINISH_NONE. Before min_tokens neither kind of
 * stop counts (the sampler bans end-of-generation tokens there, but not stop_ids). */
static enum finish take_token(struct sched *s, struct seq *seq, int32_t token, bool is_eog,
                              uint64_t now_us)
{
    const struct request *r = seq->request;
    const bool may_stop = seq_n_generated(seq) >= r->min_tokens;

    if (seq->first_token_us == 0)
        seq->first_token_us = now_us;
    seq_append(seq, token);
    s->generation_tokens++;
    if (may_stop && ((is_eog && !r->ignore_eos) || is_stop_id(r, token)))
        return FINISH_STOP;
    if (seq_n_generated(seq) == r->max_tokens || seq->n_known == s->opt.max_context)
        return FINISH_LENGTH;
    return FINISH_NONE;
}

void sched_commit(struct sched *s, const int32_t *tokens, bool (*is_eog)(void *ud, int32_t token),
                  void *ud, uint64_t now_us)
{
    for (uint32_t i = 0; i < s->plan.n_items; i++) {
        const struct plan_item *item = &s->items[i];
        struct seq *seq = s->item_seq[i];
        const uint32_t n_prompt = seq->request->n_prompt;
        enum finish why = FINISH_NONE;

        seq->item = SEQ_NO_ITEM;
        count_rows(s, seq, item);
        seq->n_done += item->n;
        if (min_u32(seq->n_done, n_prompt - 1) > seq->n_scored)
            seq->n_scored = min_u32(seq->n_done, n_prompt - 1);
        if (item->wants_token)
            why = take_token(s, seq, tokens[i], is_eog != NULL && is_eog(ud, tokens[i]), now_us);
        else if (seq->n_done == seq->n_known)
            why = FINISH_LENGTH; /* max_tokens 0: the prompt was all */
        if (why != FINISH_NONE)
            end_seq(s, seq, SEQ_COMPLETED, why, now_us);
    }
    s->plan.n_items = 0;
}

bool sched_next_end(struct sched *s, struct sched_end *out)
{
    if (s->n_ends == 0)
        return false;
    *out = s->ends[s->end_head];
    s->end_head = (s->end_head + 1) % s->opt.max_requests;
    s->n_ends--;
    return true;
}

/* ---- inspection ---- */

bool sched_is_idle(const struct sched *s)
{
    return s->n_running == 0 && s->waiting.n == 0;
}

void sched_fill_stats(const struct sched *s, struct engine_stats *out)
{
    const struct block_pool_stats pool = block_pool_stats(s->opt.pool);

    out->n_running = s->n_running;
    out->n_preempted = s->n_preempted;
    memcpy(out->n_waiting, s->n_waiting, sizeof(out->n_waiting));
    out->blocks_total = pool.n_blocks;
    out->blocks_free = pool.n_free;
    out->blocks_held = pool.n_held;
    out->prompt_tokens = s->prompt_tokens;
    out->generation_tokens = s->generation_tokens;
    out->recomputed_tokens = s->recomputed_tokens;
    out->preemptions_recompute = s->preemptions;
    out->iterations = s->iterations;
}

static bool check_running(const struct sched *s, uint32_t *n_held)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        const struct seq *seq = s->running[i];

        if (seq->state != SEQ_RUNNING || seq->n_done > seq->n_known ||
            block_table_missing(&seq->table, seq->n_done) > 0 ||
            (i > 0 && s->waiting.before(seq, s->running[i - 1])))
            return false;
        for (uint32_t b = 0; b < seq->table.n; b++)
            if (block_pool_holders(s->opt.pool, seq->table.blocks[b]) != 1)
                return false;
        *n_held += seq->table.n;
    }
    return true;
}

bool sched_check(const struct sched *s)
{
    const struct block_pool_stats pool = block_pool_stats(s->opt.pool);
    uint32_t n_held = 0, n_preempted = 0;

    if (!check_running(s, &n_held) || !heap_check(&s->waiting) || !heap_check(&s->deadline))
        return false;
    for (uint32_t i = 0; i < s->waiting.n; i++) {
        const struct seq *seq = s->waiting.items[i];

        if ((seq->state != SEQ_PENDING && seq->state != SEQ_PREEMPTED) || seq->n_done != 0 ||
            seq->slot != SEQ_NO_SLOT)
            return false;
        n_preempted += seq->state == SEQ_PREEMPTED;
    }
    return n_held == pool.n_held && pool.n_free + pool.n_held == pool.n_blocks &&
           n_preempted == s->n_preempted && s->n_running + s->n_slots == s->opt.max_sequences &&
           s->set.n == s->n_running + s->waiting.n && block_pool_check(s->opt.pool);
}
