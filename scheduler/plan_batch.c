/* scheduler/plan_batch.c - see plan_batch.h.
 *
 * The engine thread builds the batch between sched_plan() and runner_step(). One span a sequence:
 * its rows are ids[first .. first + n), drafts included. A sequence that wants a token gets one
 * output at its last known token and one at each draft; the runner marks outputs after the first
 * wrong draft as void. Spans with the same LoRA adapter are put together, because the runner
 * computes them as one product.
 */
#include "scheduler/plan_batch.h"

#include "core/runtime/batch.h"
#include "scheduler/scheduler.h"

static void add_scores(struct batch *b, const struct plan_item *item, uint32_t i_item,
                       uint32_t row0)
{
    const struct request *r = item->request;
    const uint32_t from = item->first > item->score_from ? item->first : item->score_from;

    for (uint32_t pos = from; pos < item->first + item->n && pos + 1 < r->n_prompt; pos++) {
        struct batch_output *o = batch_add_output(b, row0 + pos - item->first);

        o->want = BATCH_SCORE;
        o->sampling = &r->sampling;
        o->pos = pos + 1;
        o->token = r->ids[pos + 1];
        o->seq = i_item;
    }
}

/* Add the output at the row of the last known token (n_drafts 0) or of draft number n_drafts. */
static void add_sample(struct batch *b, const struct plan_item *item, uint32_t i_item, uint32_t row,
                       uint32_t n_drafts)
{
    struct request *r = item->request;
    struct batch_output *o = batch_add_output(b, row + n_drafts);

    o->want = BATCH_SAMPLE;
    o->sampling = &r->sampling;
    o->pos = item->first + item->n - item->n_drafts + n_drafts;
    o->is_draft = n_drafts > 0;
    o->n_uncounted = n_drafts;
    o->counts = r->counts.list;
    o->n_counts = r->counts.n;
    o->n_discarded = item->n_discarded;
    o->ban_eog = o->n_discarded + o->pos - r->n_prompt < r->min_tokens;
    o->constraint = r->constraint;
    o->thought = r->thought.phase != THOUGHT_NONE ? &r->thought : NULL;
    o->history = r->ids;
    o->mirostat_mu = &r->mirostat_mu;
    if (r->constraint != NULL && r->ignore_eos) /* then only the constraint can end the answer */
        o->ban_eog = true;
    o->seq = i_item;
}

/* Add the item's rows that are to be pooled and were not pooled before a preemption. */
static void add_pool(struct batch *b, const struct plan_item *item, uint32_t row0)
{
    const struct request *r = item->request;
    uint32_t from = item->first > item->score_from ? item->first : item->score_from;
    uint32_t to = item->first + item->n < r->n_prompt ? item->first + item->n : r->n_prompt;
    struct batch_pool *p;

    if (r->pooling == POOLING_LAST && from < r->n_prompt - 1)
        from = r->n_prompt - 1;
    if (r->pooling == POOLING_FIRST && to > 1)
        to = 1;
    if (r->pooling == POOLING_NONE || from >= to)
        return;
    p = batch_add_pool(b, row0 + from - item->first, to - from, r->pooled);
    if (r->pooling == POOLING_ALL) {
        p->sum += (size_t)from * r->n_pooled;
        p->next = r->n_pooled;
        p->token_head = r->token_head;
        b->has_token_heads = b->has_token_heads || r->token_head != 0;
    } else if (to == r->n_prompt || r->pooling == POOLING_FIRST) { /* the pooled vector is complete
                                                                    * then */
        p->labels = r->labels;
        p->scale = r->pooling == POOLING_MEAN ? 1.0f / (float)r->n_prompt : 1.0f;
        b->has_labels = b->has_labels || r->labels != NULL;
    }
}

/* Add the item's rows that are marked and were not computed before a preemption. */
static void add_marks(struct batch *b, const struct plan_item *item, uint32_t row0)
{
    const struct marks *m = &item->request->marks;
    const uint32_t from = item->first > item->score_from ? item->first : item->score_from;

    for (uint32_t i = 0; i < m->n; i++) {
        const uint32_t pos = m->at[i].pos;
        struct batch_pool *p;

        if (pos < from || pos >= item->first + item->n)
            continue;
        p = batch_add_pool(b, row0 + pos - item->first, 1, NULL);
        p->labels = m->outs + (size_t)i * m->n_out;
        b->has_labels = true;
    }
}

static void add_batch_item(struct batch *b, const struct plan_item *item, uint32_t i)
{
    const uint32_t row0 = batch_add_span(b, item->request->ids + item->first, item->n, item->first,
                                         item->table, item->group_stride);
    struct batch_span *span = &b->spans[b->n_spans - 1];

    span->second_at = item->request->second_at;
    span->question = item->request->marks.question;
    span->state = item->state;
    span->slot = item->slot;
    span->owner = item->request->id;
    span->adapter = item->request->adapter;
    span->adapter_scale = item->request->adapter_scale;
    b->has_adapters = b->has_adapters || span->adapter != NULL;
    if (item->request->score_prompt)
        add_scores(b, item, i, row0);
    add_pool(b, item, row0);
    add_marks(b, item, row0);
    for (uint32_t k = 0; item->wants_token && k <= item->n_drafts; k++)
        add_sample(b, item, i, row0 + item->n - item->n_drafts - 1, k);
}

static bool has_same_adapter(const struct plan_item *a, const struct plan_item *b)
{
    return a->request->adapter == b->request->adapter &&
           a->request->adapter_scale == b->request->adapter_scale;
}

/* Add all items with the adapter of item `first`, unless an item before it has that adapter too. */
static void add_items_like(struct batch *b, const struct plan *plan, uint32_t first)
{
    for (uint32_t i = 0; i < first; i++)
        if (has_same_adapter(&plan->items[i], &plan->items[first]))
            return;
    for (uint32_t i = first; i < plan->n_items; i++)
        if (has_same_adapter(&plan->items[i], &plan->items[first]))
            add_batch_item(b, &plan->items[i], i);
}

void plan_batch_build(struct batch *b, const struct plan *plan)
{
    batch_clear(b);
    for (uint32_t i = 0; i < plan->n_items; i++)
        add_items_like(b, plan, i);
}

void plan_batch_settle(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const struct plan_item *item = &plan->items[i];
        const struct request *r = item->request;

        if (r->marks.n > 0 && item->first < r->n_prompt && item->first + item->n >= r->n_prompt)
            marks_settle(&r->marks);
    }
}
