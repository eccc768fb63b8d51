/* scheduler/loop.c - one turn of the engine; see loop.h.
 *
 * Data goes one way: queue -> sched -> plan -> batch -> tokens -> events.
 */
#include "scheduler/loop.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/run/batch.h"
#include "core/run/runner.h"
#include "scheduler/journal.h"
#include "scheduler/pace.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

struct loop {
    struct loop_options opt;
    struct sched *sched;
    struct batch *batch;
    int32_t *tokens; /* [max_sequences] by plan item */
    int32_t *eog;    /* [n_eog] */
    struct pace pace;
    struct engine_stats stats;
    uint32_t n_streams; /* decode rows of the last plan */
    bool closed;
    pthread_t thread;
};

int loop_create(struct loop **out, const struct loop_options *options)
{
    const struct sched_options *so = &options->sched;
    struct loop *l = mem_calloc(1, sizeof(*l));
    int rc = ERR_NOMEM;

    *out = NULL;
    if (l == NULL)
        return ERR_NOMEM;
    l->opt = *options;
    l->tokens = mem_calloc(so->max_sequences, sizeof(*l->tokens));
    l->eog = mem_dup(options->eog, options->n_eog * sizeof(*l->eog));
    if (l->tokens == NULL || l->eog == NULL)
        goto fail;
    rc = batch_create(&l->batch, so->max_batch_tokens, so->max_sequences, so->max_batch_tokens);
    if (rc < 0)
        goto fail;
    rc = sched_create(&l->sched, so);
    if (rc < 0)
        goto fail;
    pace_init(&l->pace, options->step_target_ms);
    hist_init_tokens(&l->stats.iteration_tokens);
    hist_init_itl(&l->stats.iteration_seconds);
    hist_init_tokens(&l->stats.batch_sequences);
    sched_fill_stats(l->sched, &l->stats);
    *out = l;
    return 0;

fail:
    loop_destroy(&l);
    return rc;
}

void loop_destroy(struct loop **loop)
{
    struct loop *l = loop != NULL ? *loop : NULL;

    if (l == NULL)
        return;
    sched_destroy(&l->sched);
    batch_destroy(&l->batch);
    mem_free(l->tokens);
    mem_free(l->eog);
    mem_free(l);
    *loop = NULL;
}

static bool is_eog(void *ud, int32_t token)
{
    const struct loop *l = ud;

    for (size_t i = 0; i < l->opt.n_eog; i++)
        if (l->eog[i] == token)
            return true;
    return false;
}

/* ---- events ---- */

static void publish(struct loop *l)
{
    sched_fill_stats(l->sched, &l->stats);
    queue_publish(l->opt.queue, &l->stats);
}

static void emit_end(struct loop *l, const struct sched_end *end)
{
    const struct event e = {
        .request = end->request->id,
        .kind = EVENT_END,
        .finish = end->finish,
        .token = -1,
        .times = end->times,
    };

    queue_wait_room(l->opt.queue, 1);
    queue_emit(l->opt.queue, &e);
}

/* A burst may be larger than the ring; publishing in between wakes the reader. */
static void emit_ends(struct loop *l)
{
    struct sched_end end;

    while (sched_next_end(l->sched, &end)) {
        emit_end(l, &end);
        queue_publish(l->opt.queue, &l->stats);
        request_destroy(&end.request);
    }
}

static void emit_output(struct loop *l, const struct batch_output *o, const struct request *r)
{
    struct event e = {
        .request = r->id,
        .kind = o->want == BATCH_SAMPLE ? EVENT_TOKEN : EVENT_SCORE,
        .token = o->token,
        .pos = o->want == BATCH_SAMPLE ? o->pos - r->n_prompt : o->pos,
        .logprob = o->logprob,
        .n_top = o->n_top,
    };

    e.is_eog = o->want == BATCH_SAMPLE && !r->ignore_eos && is_eog(l, o->token);
    memcpy(e.top, o->top, o->n_top * sizeof(o->top[0]));
    queue_emit(l->opt.queue, &e);
}

static void emit_outputs(struct loop *l, const struct plan *plan)
{
    for (uint32_t i = 0; i < l->batch->n_outputs; i++) {
        const struct batch_output *o = &l->batch->outputs[i];

        emit_output(l, o, plan->items[o->seq].request);
        if (o->want == BATCH_SAMPLE)
            l->tokens[o->seq] = o->token;
    }
}

/* ---- from the plan to the batch ---- */

static void add_scores(struct loop *l, const struct plan_item *item, uint32_t i_item, uint32_t row0)
{
    const struct request *r = item->request;
    const uint32_t from = item->first > item->score_from ? item->first : item->score_from;

    for (uint32_t pos = from; pos < item->first + item->n && pos + 1 < r->n_prompt; pos++) {
        struct batch_output *o = batch_add_output(l->batch, row0 + pos - item->first);

        o->want = BATCH_SCORE;
        o->sampling = &r->sampling;
        o->pos = pos + 1;
        o->token = r->ids[pos + 1];
        o->seq = i_item;
    }
}

static void add_sample(struct loop *l, const struct plan_item *item, uint32_t i_item, uint32_t row)
{
    const struct request *r = item->request;
    struct batch_output *o = batch_add_output(l->batch, row);

    o->want = BATCH_SAMPLE;
    o->sampling = &r->sampling;
    o->pos = item->first + item->n;
    o->counts = r->counts;
    o->n_counts = r->n_counts;
    o->ban_eog = o->pos - r->n_prompt < r->min_tokens;
    o->seq = i_item;
}

static void build_batch(struct loop *l, const struct plan *plan)
{
    batch_clear(l->batch);
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const struct plan_item *item = &plan->items[i];
        const uint32_t row0 = batch_add_span(l->batch, item->request->ids + item->first, item->n,
                                             item->first, item->table);

        if (item->request->score_prompt)
            add_scores(l, item, i, row0);
        if (item->wants_token)
            add_sample(l, item, i, row0 + item->n - 1);
    }
}

/* ---- the turn ---- */

static void refuse(struct loop *l, struct request *r, int rc)
{
    const struct sched_end end = {.request = r, .finish = FINISH_ERROR};

    log_error("loop", "request=%" PRIu64 " refused=%s", r->id, err_name(rc));
    emit_end(l, &end);
    request_destroy(&r);
}

static void take_news(struct loop *l, uint64_t now)
{
    struct queue_news news;

    queue_drain(l->opt.queue, &news);
    for (uint32_t i = 0; i < news.n_posted; i++) {
        struct request *r = news.posted[i];
        const int rc = sched_add(l->sched, r, now);

        if (rc < 0)
            refuse(l, r, rc);
    }
    for (uint32_t i = 0; i < news.n_cancelled; i++)
        sched_cancel(l->sched, news.cancelled[i], FINISH_CANCELLED, now);
    if (news.cancel_all)
        sched_cancel_all(l->sched, FINISH_CANCELLED, now);
    l->closed = news.closed;
    emit_ends(l);
}

static void observe(struct loop *l, const struct plan *plan, uint64_t from, uint64_t to)
{
    const uint64_t us = to - from;

    l->n_streams = plan->n_tokens - plan->n_prefill_tokens;
    pace_observe(&l->pace, us, plan->n_prefill_tokens, l->n_streams);
    hist_add(&l->stats.iteration_tokens, plan->n_tokens);
    hist_add(&l->stats.iteration_seconds, (double)us / 1e6);
    hist_add(&l->stats.batch_sequences, plan->n_items);
    l->stats.last_step_us = to;
    if (log_is_on(LOG_DEBUG))
        log_debug("sched", "step=%" PRIu64 " seqs=%u tok=%u prefill=%u free=%u us=%" PRIu64,
                  plan->step, plan->n_items, plan->n_tokens, plan->n_prefill_tokens,
                  l->stats.blocks_free, us);
}

/* 0, or ERR_AGAIN when there is nothing to do until news comes. */
static int loop_step(struct loop *l)
{
    const uint64_t from = clock_us();
    const struct plan *plan;

    take_news(l, from);
    plan = sched_plan(l->sched, from, pace_budget(&l->pace, l->n_streams));
    emit_ends(l); /* expired while waiting */
    if (plan->n_items == 0) {
        l->n_streams = 0;
        publish(l);
        return ERR_AGAIN;
    }
    l->stats.busy = true;
    publish(l);
    if (l->opt.journal != NULL)
        journal_plan(l->opt.journal, plan);
    build_batch(l, plan);
    runner_step(l->opt.runner, l->batch);
    queue_wait_room(l->opt.queue, l->batch->n_outputs);
    emit_outputs(l, plan);
    observe(l, plan, from, clock_us());
    sched_commit(l->sched, l->tokens, is_eog, l, clock_us());
    assert(sched_check(l->sched));
    l->stats.busy = false;
    publish(l);
    emit_ends(l);
    publish(l);
    return 0;
}

static void *loop_main(void *ud)
{
    struct loop *l = ud;

    for (;;) {
        int rc;

        mem_guard_begin("engine step");
        rc = loop_step(l);
        mem_guard_end();
        if (rc == 0)
            continue;
        if (l->closed && sched_is_idle(l->sched))
            break;
        queue_wait_news(l->opt.queue);
    }
    return NULL;
}

int loop_start(struct loop *l)
{
    publish(l); /* whoever asks before the first turn is told of the real blocks */
    return pthread_create(&l->thread, NULL, loop_main, l) == 0 ? 0 : ERR_INTERNAL;
}

void loop_join(struct loop *l)
{
    pthread_join(l->thread, NULL);
}
