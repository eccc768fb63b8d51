/* scheduler/sched.c - arrivals, the lists, progress, ends; see sched.h. The plan is in
 * sched_plan.c.
 */
#include "scheduler/sched_state.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <assert.h>
#include <string.h>

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

void sched_enter_waiting(struct sched *s, struct seq *seq)
{
    heap_push(&s->waiting, seq);
    s->n_waiting[seq->request->priority]++;
    s->n_preempted += seq->state == SEQ_PREEMPTED;
}

void sched_leave_waiting(struct sched *s, struct seq *seq)
{
    heap_remove(&s->waiting, seq);
    s->n_waiting[seq->request->priority]--;
    s->n_preempted -= seq->state == SEQ_PREEMPTED;
}

void sched_enter_running(struct sched *s, struct seq *seq)
{
    uint32_t i = s->n_running++;

    seq->slot = s->slots[--s->n_slots];
    block_table_init(&seq->table, s->tables + (size_t)seq->slot * s->table_cap, s->table_cap);
    for (; i > 0 && s->waiting.before(seq, s->running[i - 1]); i--)
        s->running[i] = s->running[i - 1];
    s->running[i] = seq;
}

void sched_leave_running(struct sched *s, struct seq *seq)
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

static void end_seq(struct sched *s, struct seq *seq, enum seq_state state, enum finish why,
                    uint64_t now_us)
{
    struct request *r = seq->request;

    if (seq->state == SEQ_RUNNING)
        sched_leave_running(s, seq);
    else
        sched_leave_waiting(s, seq);
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
    sched_enter_waiting(s, seq);
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

void sched_end_expired(struct sched *s, uint64_t now_us)
{
    struct seq *seq;

    while ((seq = heap_top(&s->deadline)) != NULL && seq->request->deadline_us <= now_us)
        end_seq(s, seq, SEQ_FAILED, FINISH_TIMEOUT, now_us);
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
    const uint32_t fresh_from =
        seq->n_peak > item->first ? sched_min(seq->n_peak, end) : item->first;
    const uint32_t n_prompt = seq->request->n_prompt;

    s->recomputed_tokens += fresh_from - item->first;
    if (fresh_from < n_prompt)
        s->prompt_tokens += sched_min(end, n_prompt) - fresh_from;
    if (end > seq->n_peak)
        seq->n_peak = end;
}

/* Append the token; why the sequence ends with it, or FINISH_NONE. Before min_tokens neither kind
 * of stop counts (the sampler bans end-of-generation tokens there, but not stop_ids). */
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
        if (sched_min(seq->n_done, n_prompt - 1) > seq->n_scored)
            seq->n_scored = sched_min(seq->n_done, n_prompt - 1);
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
