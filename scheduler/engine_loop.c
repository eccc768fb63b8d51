/* scheduler/engine_loop.c - one iteration of the engine loop; see engine_loop.h.
 *
 * Data flows one way: queue -> sched -> plan -> moves, batch -> tokens -> events.
 * engine_loop_main() runs engine_loop_step() until the queue is closed; with several engines a step
 * also needs the turn that engine_arbiter grants. Every call of the scheduler has its line in the
 * journal beside it, in the same order, or a replay would make other plans.
 */
#include "scheduler/engine_loop.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/float_mode.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/runtime/batch.h"
#include "core/runtime/runner.h"
#include "kvcache/kv_store.h"
#include "kvcache/swap_store.h"
#include "scheduler/cost_model.h"
#include "scheduler/drafts/draft_learner.h"
#include "scheduler/drafts/engine_drafter.h"
#include "scheduler/engine_arbiter.h"
#include "scheduler/journal.h"
#include "scheduler/plan_batch.h"
#include "scheduler/prefix_copy.h"
#include "scheduler/prefix_fetch.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#define STORE_TICK_MS 20 /* most delay of the check that a request has waited too long for the block
                          * store */
#define TURN_TICK_MS 20 /* most delay of the check for expired requests while other engines
                         * compute */

struct engine_loop {
    struct engine_loop_options opt;
    struct sched *sched;
    struct batch *batch;
    struct engine_drafter *drafter; /* or NULL */
    int32_t *tokens;      /* [max_sequences] by plan item: the last token chosen */
    uint32_t *n_accepted; /* [max_sequences] by plan item: drafts accepted before that token */
    int32_t *eog;    /* [n_eog] */
    struct cost_model cost;
    struct draft_learner drafts;
    struct sched_limits limits;
    struct engine_stats stats;
    struct step_info steps[SNAPSHOT_STEPS]; /* ring of the latest steps, for snapshots */
    uint64_t n_steps;
    uint64_t epoch_us; /* clock at creation */
    uint64_t asked_us; /* clock when the engine began to wait for its turn; 0: it does not wait */
    bool closed;
    pthread_t thread;
};

static void on_granted(void *ud)
{
    queue_wake(((struct engine_loop *)ud)->opt.queue);
}

static void init_stats(struct engine_loop *l)
{
    l->stats.target_us = (uint64_t)l->opt.step_target_ms * 1000;
    l->stats.block_bytes = l->opt.swap != NULL ? swap_store_block_bytes(l->opt.swap)
                                               : kv_store_block_bytes(&l->opt.kv->shape);
    hist_init_ratio(&l->stats.cost_error);
    hist_init_step(&l->stats.iteration_tokens);
    hist_init_itl(&l->stats.iteration_seconds);
    hist_init_tokens(&l->stats.batch_sequences);
    sched_fill_stats(l->sched, &l->stats);
}

static int create_drafter(struct engine_loop *l)
{
    if (!l->opt.makes_drafts)
        return 0;
    if (engine_drafter_create(&l->drafter, l->eog, l->opt.n_eog) < 0)
        return ERR_NOMEM;
    if (l->opt.draft_history > 0 &&
        engine_drafter_keep_answers(l->drafter, l->opt.draft_history) < 0)
        return ERR_NOMEM;
    l->opt.sched.drafter = engine_drafter_get(l->drafter);
    l->opt.sched.undo_streams = RUNNER_UNDO_SPANS;
    l->opt.sched.undo_rows = RUNNER_UNDO_ROWS;
    l->opt.sched.model = l->opt.draft_model;
    l->drafts.model = l->opt.draft_model_costs;
    return 0;
}

int engine_loop_create(struct engine_loop **out, const struct engine_loop_options *options)
{
    const struct sched_options *so = &options->sched;
    struct engine_loop *l = mem_calloc(1, sizeof(*l));
    int rc = ERR_NOMEM;

    *out = NULL;
    if (l == NULL)
        return ERR_NOMEM;
    l->opt = *options;
    l->tokens = mem_calloc(so->max_sequences, sizeof(*l->tokens));
    l->n_accepted = mem_calloc(so->max_sequences, sizeof(*l->n_accepted));
    l->eog = mem_dup(options->eog, options->n_eog * sizeof(*l->eog));
    if (l->tokens == NULL || l->n_accepted == NULL || l->eog == NULL || create_drafter(l) < 0)
        goto fail;
    rc = batch_create(&l->batch, so->max_batch_tokens, so->max_sequences, so->max_batch_tokens);
    if (rc < 0)
        goto fail;
    rc = sched_create(&l->sched, &l->opt.sched);
    if (rc < 0)
        goto fail;
    cost_init(&l->cost);
    if (so->whole_prompts)
        cost_expect_no_streams(&l->cost);
    l->epoch_us = clock_us();
    init_stats(l);
    engine_arbiter_join(options->arbiter, options->engine, on_granted, l);
    journal_start(options->journal, so, options->kv_options, l->eog, l->opt.n_eog,
                  (uint64_t)(clock_unix_s() * 1e6) - clock_us());
    *out = l;
    return 0;

fail:
    engine_loop_destroy(&l);
    return rc;
}

void engine_loop_destroy(struct engine_loop **loop)
{
    struct engine_loop *l = loop != NULL ? *loop : NULL;

    if (l == NULL)
        return;
    sched_destroy(&l->sched);
    batch_destroy(&l->batch);
    engine_drafter_destroy(&l->drafter);
    mem_free(l->n_accepted);
    mem_free(l->tokens);
    mem_free(l->eog);
    mem_free(l);
    *loop = NULL;
}

static bool is_eog(void *ud, int32_t token)
{
    const struct engine_loop *l = ud;

    for (size_t i = 0; i < l->opt.n_eog; i++)
        if (l->eog[i] == token)
            return true;
    return false;
}

/* ---- events ---- */

static void publish(struct engine_loop *l)
{
    const uint64_t n_declined = l->stats.store_declined;

    kv_manager_flush_events(l->opt.sched.kv);
    sched_fill_stats(l->sched, &l->stats);
    if (l->stats.store_declined > n_declined)
        cost_forget_fetch(&l->cost);
    queue_publish(l->opt.queue, &l->stats);
}

static void emit_end(struct engine_loop *l, const struct sched_end *end)
{
    const struct event e = {
        .request = end->request->id,
        .kind = EVENT_END,
        .finish = end->finish,
        .token = -1,
        .times = end->times,
        .usage = end->usage,
        .pins = end->pins,
    };

    request_let_go(end->request);
    queue_wait_room(l->opt.queue, 1);
    queue_emit(l->opt.queue, &e);
}

/* Emit the ends of requests. The event ring may have less room than there are ends, so each is
 * published at once, which wakes the reader. */
static void emit_ends(struct engine_loop *l)
{
    struct sched_end end;

    while (sched_next_end(l->sched, &end)) {
        emit_end(l, &end);
        queue_publish(l->opt.queue, &l->stats);
        if (l->drafter != NULL && end.n_discarded == 0)
            engine_drafter_note_end(l->drafter, end.request, end.n_known);
        request_destroy(&end.request);
    }
}

/* Advance the request's prediction by a chosen token. Returns how many of its tokens came true so
 * far. */
static uint32_t follow_prediction(struct request *r, const struct batch_output *o)
{
    if (o->want != BATCH_SAMPLE || r->prediction.n == 0)
        return 0;
    r->ids[o->pos] = o->token; /* where sched_commit() appends it */
    prediction_take(&r->prediction, r->ids, o->pos + 1);
    return r->prediction.accepted;
}

static void emit_output(struct engine_loop *l, const struct batch_output *o, struct request *r,
                        bool is_followed)
{
    struct event e = {
        .request = r->id,
        .kind = o->want == BATCH_SAMPLE ? EVENT_TOKEN : EVENT_SCORE,
        .token = o->token,
        .pos = o->want == BATCH_SAMPLE ? o->n_discarded + o->pos - r->n_prompt : o->pos,
        .logprob = o->logprob,
        .rank = o->rank,
        .n_top = o->n_top,
        .is_complete = o->is_complete,
        .is_followed = is_followed,
        .n_predicted = follow_prediction(r, o),
    };

    e.is_eog = o->want == BATCH_SAMPLE && !r->ignore_eos && is_eog(l, o->token);
    memcpy(e.top, o->top, o->n_top * sizeof(o->top[0]));
    queue_emit(l->opt.queue, &e);
}

/* Emit the progress of a prompt whose rows before `end` are computed. */
static void emit_progress(struct engine_loop *l, const struct plan_item *item, uint32_t end)
{
    const struct request *r = item->request;
    const struct event e = {
        .request = r->id,
        .kind = EVENT_PROGRESS,
        .token = -1,
        .pos = end < r->n_prompt ? end : r->n_prompt,
        .rank = item->first,
    };

    queue_emit(l->opt.queue, &e);
}

static bool reports(const struct plan_item *item)
{
    return item->request->reports_progress && item->n_discarded == 0 &&
           item->first < item->request->n_prompt;
}

/* For each prompt that comes to its first step, emit how many of its tokens were cached. */
static void emit_begins(struct engine_loop *l, const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->n_items; i++) {
        if (!plan->items[i].is_begin || !reports(&plan->items[i]))
            continue;
        queue_wait_room(l->opt.queue, 1);
        emit_progress(l, &plan->items[i], plan->items[i].first);
    }
}

/* True: output i chose the guessed token, so that output i + 1 counts. */
static bool has_right_draft(const struct batch *b, uint32_t i)
{
    return i + 1 < b->n_outputs && b->outputs[i + 1].is_draft && !b->outputs[i + 1].is_void;
}

static void emit_outputs(struct engine_loop *l, const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->n_items; i++)
        if (reports(&plan->items[i]))
            emit_progress(l, &plan->items[i], plan->items[i].first + plan->items[i].n);
    for (uint32_t i = 0; i < l->batch->n_outputs; i++) {
        const struct batch_output *o = &l->batch->outputs[i];

        if (o->is_void)
            continue;
        emit_output(l, o, plan->items[o->seq].request, has_right_draft(l->batch, i));
        if (o->want == BATCH_SAMPLE)
            l->tokens[o->seq] = o->token;
        l->n_accepted[o->seq] += o->is_draft; /* the token before it was the guess */
    }
}

/* ---- the inbox ---- */

static void refuse_request(struct engine_loop *l, struct request *r, int rc)
{
    const struct sched_end end = {.request = r, .finish = FINISH_ERROR};

    log_error("loop", "request=%" PRIu64 " refused=%s", r->id, err_name(rc));
    emit_end(l, &end);
    request_destroy(&r);
}

/* Copy blocks of a prefix into or out of the cache. The copy bypasses the scheduler, so a replay
 * cannot continue from here: mark a gap in the journal. */
static void copy_prefix(struct engine_loop *l, struct request *r)
{
    journal_gap(l->opt.journal);
    prefix_copy_run(r->copy, l->opt.sched.kv, l->opt.kv, &r->key);
}

/* Answer a dry run at once, between two steps. */
static void answer_dry_run(struct engine_loop *l, struct request *r)
{
    struct event e = {
        .request = r->id,
        .kind = EVENT_END,
        .finish = FINISH_DRY_RUN,
        .token = -1,
    };

    if (r->copy != NULL)
        copy_prefix(l, r);
    else
        e.probe = sched_probe(l->sched, r);
    queue_wait_room(l->opt.queue, 1);
    queue_emit(l->opt.queue, &e);
    queue_publish(l->opt.queue, &l->stats);
    request_destroy(&r);
}

static void take_post(struct engine_loop *l, struct request *r, uint64_t now)
{
    int rc;

    if (r->is_dry_run) {
        answer_dry_run(l, r);
        return;
    }
    journal_post(l->opt.journal, r, now);
    prediction_begin(&r->prediction, r->ids, r->n_prompt, request_n_given(r));
    rc = sched_add(l->sched, r, now);
    if (rc == 0)
        return;
    if (r->asks_store)
        prefix_fetch_drop(l->opt.fetch, r->id);
    refuse_request(l, r, rc);
}

static void take_io_ends(struct engine_loop *l, const struct queue_inbox *inbox)
{
    for (uint32_t i = 0; i < inbox->n_io; i++) {
        const struct queue_io_end *io = &inbox->io[i];

        if (io->rc == 0)
            cost_observe_swap(&l->cost, io->n_blocks, io->us, true);
        journal_io_done(l->opt.journal, io->copy, io->rc);
        sched_io_done(l->sched, io->copy, io->rc);
    }
}

/* Enter a part of a prompt into the cache. The copy is at most as large as one buffer of the
 * store. */
static void take_part(struct engine_loop *l, const struct fetch_answer *a)
{
    const size_t bytes = kv_store_block_bytes(&l->opt.kv->shape);
    const block_id *ids = NULL;
    uint32_t from = 0, n;

    cost_observe_fetch(&l->cost, a->n, a->us);
    journal_fetched(l->opt.journal, a->request, a->first, a->n, a->is_last);
    n = sched_fetched(l->sched, a->request, a->first, a->n, a->is_last, &from, &ids);
    for (uint32_t i = 0; i < n; i++)
        memcpy(kv_store_block(l->opt.kv, ids[i]), a->bytes + (from + i - a->first) * bytes, bytes);
    prefix_fetch_give(l->opt.fetch, a);
}

/* Take the block store's answers. Called between two steps, when no moves are outstanding. */
static void take_fetched(struct engine_loop *l)
{
    struct fetch_answer a;

    while (l->opt.fetch != NULL && prefix_fetch_take_answer(l->opt.fetch, &a)) {
        if (a.kind == FETCH_PART) {
            take_part(l, &a);
            continue;
        }
        cost_observe_store(&l->cost, a.us);
        journal_stored(l->opt.journal, a.request, a.n);
        sched_stored(l->sched, a.request, a.n);
    }
}

/* Pass the scheduler's orders to the block store: blocks to read, and prompts to drop. */
static void tell_store(struct engine_loop *l)
{
    struct sched_fetch fetch;

    while (sched_next_fetch(l->sched, &fetch)) {
        journal_fetch(l->opt.journal, &fetch);
        if (fetch.n > 0)
            prefix_fetch_ask(l->opt.fetch, fetch.request, fetch.first, fetch.n);
        else
            prefix_fetch_drop(l->opt.fetch, fetch.request);
    }
}

static void take_inbox(struct engine_loop *l, uint64_t now)
{
    struct queue_inbox inbox;

    queue_drain(l->opt.queue, &inbox);
    take_io_ends(l, &inbox);
    for (uint32_t i = 0; i < inbox.n_posted; i++)
        take_post(l, inbox.posted[i], now);
    for (uint32_t i = 0; i < inbox.n_cancelled; i++) {
        journal_cancel(l->opt.journal, inbox.cancelled[i], FINISH_CANCELLED, now);
        sched_cancel(l->sched, inbox.cancelled[i], FINISH_CANCELLED, now);
    }
    for (uint32_t i = 0; i < inbox.n_thoughts; i++)
        sched_end_thought(l->sched, inbox.thoughts[i]);
    if (inbox.cancel_all) {
        journal_cancel_all(l->opt.journal, FINISH_CANCELLED, now);
        sched_cancel_all(l->sched, FINISH_CANCELLED, now);
    }
    take_fetched(l);
    tell_store(l);
    l->closed = inbox.closed;
    emit_ends(l);
}

/* ---- blocks ---- */

/* Carry out the plan's moves. Saves and loads are timed together; copies within the cache are as
 * fast, and rare. */
static void move_blocks(struct engine_loop *l, const struct plan *plan)
{
    const uint32_t n = plan->n_moves;
    const uint64_t from = clock_us();

    if (n > 0) {
        kv_move_run(plan->moves, n, &(struct kv_bytes){l->opt.kv, l->opt.swap, l->opt.states});
        cost_observe_swap(&l->cost,
                          kv_move_blocks(plan->moves, n, l->opt.kv_options->states.n_parts),
                          clock_us() - from, false);
        journal_moves_done(l->opt.journal);
        sched_moves_done(l->sched);
    }
}

static void start_io(struct engine_loop *l)
{
    struct swap_io io;

    while (sched_next_io(l->sched, &io)) {
        journal_io_start(l->opt.journal, &io);
        queue_emit_io(l->opt.queue, &io);
    }
}

/* ---- measurements ---- */

static void remember(struct engine_loop *l, const struct plan *plan, uint32_t n_moves,
                     uint64_t from, uint64_t us)
{
    l->steps[l->n_steps++ % SNAPSHOT_STEPS] = (struct step_info){
        .step = plan->step,
        .at_us = from - l->epoch_us,
        .work = plan->work,
        .n_drafts = plan->n_drafts,
        .n_sequences = plan->n_items,
        .n_admitted = plan->n_admitted,
        .n_preempted = plan->n_preempted,
        .n_swapped_out = plan->n_swapped_out,
        .n_swapped_in = plan->n_swapped_in,
        .n_moves = n_moves,
        .predicted_us = plan->predicted_ns / 1000,
        .took_us = us,
    };
}

/* Learn from the step's time: the cost model from steps without drafts, the drafts' costs from
 * steps without prompt rows. */
static void learn_costs(struct engine_loop *l, const struct plan *plan, uint64_t us)
{
    struct draft_step step = {.n_streams = plan->work.n_decode,
                              .n_drafts = plan->n_drafts,
                              .n_tokens = plan->n_items,
                              .keys_ns = step_costs_keys_ns(&l->limits.costs, &plan->work)};

    step.us = us - draft_learner_model_us(&l->drafts);
    if (plan->n_drafts == 0) {
        const double error = cost_observe(&l->cost, &plan->work, step.us);

        if (error >= 0)
            hist_add(&l->stats.cost_error, error);
    }
    for (uint32_t i = 0; i < plan->n_items; i++)
        step.n_tokens += l->n_accepted[i];
    if (plan->work.n_prefill == 0)
        draft_learner_observe(&l->drafts, &step);
}

static void observe(struct engine_loop *l, const struct plan *plan, uint64_t us)
{
    learn_costs(l, plan, us);
    hist_add(&l->stats.iteration_tokens, plan->n_tokens);
    hist_add(&l->stats.iteration_seconds, (double)us / 1e6);
    hist_add(&l->stats.batch_sequences, plan->n_items);
    if (log_is_on(LOG_DEBUG))
        log_debug("sched", "step=%" PRIu64 " seqs=%u tok=%u prefill=%u free=%u us=%" PRIu64,
                  plan->step, plan->n_items, plan->n_tokens, plan->work.n_prefill,
                  l->stats.blocks_free, us);
}

static void give_snapshot(struct engine_loop *l)
{
    struct snapshot *out = queue_begin_snapshot(l->opt.queue);
    const uint64_t n = l->n_steps < SNAPSHOT_STEPS ? l->n_steps : SNAPSHOT_STEPS;

    if (out == NULL)
        return;
    sched_fill_snapshot(l->sched, out, clock_us());
    out->block_bytes = l->stats.block_bytes;
    out->costs = l->limits.costs;
    out->draft_costs = l->drafts.costs;
    out->n_steps = (uint32_t)n;
    for (uint64_t i = 0; i < n; i++)
        out->steps[i] = l->steps[(l->n_steps - n + i) % SNAPSHOT_STEPS];
    queue_end_snapshot(l->opt.queue);
    queue_publish(l->opt.queue, &l->stats);
}

/* ---- one iteration ---- */

/* Plan a step. A stream waits for the steps of all engines that have work, so each of them gets an
 * even part of the target. */
static const struct plan *make_plan(struct engine_loop *l, uint64_t now)
{
    const uint32_t n = 1 + engine_arbiter_n_rivals(l->opt.arbiter, l->opt.engine);
    const struct plan *plan;

    draft_learner_begin_step(&l->drafts);
    l->limits = (struct sched_limits){.target_us = l->stats.target_us / n,
                                      .is_shared = n > 1,
                                      .costs = cost_get(&l->cost),
                                      .drafts = &l->drafts.costs};
    l->stats.costs = l->limits.costs;
    plan = sched_plan(l->sched, now, &l->limits);
    journal_plan(l->opt.journal, plan, now, &l->limits);
    emit_ends(l); /* requests that expired while waiting */
    return plan;
}

static void compute(struct engine_loop *l, const struct plan *plan)
{
    uint32_t n_events;

    plan_batch_build(l->batch, plan);
    memset(l->n_accepted, 0, plan->n_items * sizeof(*l->n_accepted));
    runner_step(l->opt.runner, l->batch);
    plan_batch_settle(plan);
    n_events = l->batch->n_outputs;
    for (uint32_t i = 0; i < plan->n_items; i++)
        n_events += reports(&plan->items[i]);
    queue_wait_room(l->opt.queue, n_events);
    emit_outputs(l, plan);
}

/* End requests whose constraint allows no further token, or has failed. The plan's requests live
 * until their ends are emitted. The journal notes a cancel, because a replay knows tokens and no
 * grammars. */
static void end_complete(struct engine_loop *l, const struct plan *plan, uint64_t now)
{
    for (uint32_t i = 0; i < l->batch->n_outputs; i++) {
        const struct batch_output *o = &l->batch->outputs[i];
        const uint64_t id = plan->items[o->seq].request->id;
        const enum finish why = o->is_broken ? FINISH_ERROR : FINISH_STOP;

        if (o->is_void || (!o->is_complete && !o->is_broken))
            continue;
        if (o->is_broken)
            log_error("loop", "request=%" PRIu64 " event=constraint_broken token=%d", id, o->token);
        journal_cancel(l->opt.journal, id, why, now);
        sched_cancel(l->sched, id, why, now);
    }
}

static void commit(struct engine_loop *l, const struct plan *plan, uint64_t us)
{
    const uint64_t now = clock_us();

    sched_account(l->sched, &l->limits.costs, us);
    journal_commit(l->opt.journal, plan, l->tokens, l->n_accepted, now);
    sched_commit(l->sched, l->tokens, l->n_accepted, is_eog, l, now);
    end_complete(l, plan, now);
    assert(sched_check(l->sched));
}

/* End requests that expire while another engine computes. There is no plan, so the journal notes a
 * cancel for each. */
static void end_expired(struct engine_loop *l, uint64_t now)
{
    enum finish why;
    uint64_t id;

    while (sched_next_expired(l->sched, now, &id, &why)) {
        journal_cancel(l->opt.journal, id, why, now);
        sched_cancel(l->sched, id, why, now);
    }
    emit_ends(l);
}

/* True: this engine may plan a step now. An idle scheduler always may: its plan is empty, uses no
 * compute threads, and needs no turn. */
static bool take_turn(struct engine_loop *l, uint64_t now)
{
    bool may_plan = true;

    if (sched_is_idle(l->sched))
        engine_arbiter_end(l->opt.arbiter, l->opt.engine, 0, false);
    else
        may_plan = engine_arbiter_ask(l->opt.arbiter, l->opt.engine);
    if (!may_plan && l->asked_us == 0)
        l->asked_us = now;
    if (may_plan && l->asked_us > 0) {
        l->stats.turn_wait_us += now - l->asked_us;
        l->asked_us = 0;
    }
    return may_plan;
}

/* Make one step. Returns 0, or ERR_AGAIN: the thread has to wait until the inbox has something or
 * its turn comes. */
static int engine_loop_step(struct engine_loop *l)
{
    const uint64_t from = clock_us();
    const struct plan *plan;
    uint32_t n_moves;

    take_inbox(l, from);
    if (!take_turn(l, from)) {
        end_expired(l, from);
        publish(l);
        give_snapshot(l);
        return ERR_AGAIN;
    }
    plan = make_plan(l, from);
    l->stats.busy = plan->n_items > 0;
    n_moves = plan->n_moves;
    move_blocks(l, plan);
    start_io(l);
    tell_store(l);
    emit_begins(l, plan);
    publish(l);
    give_snapshot(l);
    if (plan->n_items == 0) {
        engine_arbiter_end(l->opt.arbiter, l->opt.engine, clock_us() - from, false);
        return ERR_AGAIN;
    }
    compute(l, plan);
    l->stats.last_step_us = clock_us();
    observe(l, plan, l->stats.last_step_us - from);
    remember(l, plan, n_moves, from, l->stats.last_step_us - from);
    commit(l, plan, l->stats.last_step_us - from);
    l->stats.busy = false;
    publish(l);
    emit_ends(l);
    publish(l);
    engine_arbiter_end(l->opt.arbiter, l->opt.engine, clock_us() - from, !sched_is_idle(l->sched));
    return 0;
}

static void *engine_loop_main(void *ud)
{
    struct engine_loop *l = ud;

    float_mode_set();
    for (;;) {
        int rc;

        assert(float_mode_is_set());
        mem_guard_begin("engine step");
        rc = engine_loop_step(l);
        mem_guard_end();
        if (rc == 0)
            continue;
        if (l->closed && sched_is_idle(l->sched))
            break;
        queue_wait_inbox(l->opt.queue, l->asked_us > 0                    ? TURN_TICK_MS
                                       : sched_waits_for_store(l->sched) ? STORE_TICK_MS
                                                                         : 0);
    }
    engine_arbiter_end(l->opt.arbiter, l->opt.engine, 0, false); /* the turn may have been granted
                                                                  * after its requests expired */
    return NULL;
}

int engine_loop_start(struct engine_loop *l)
{
    publish(l); /* so that statistics before the first step have the true number of blocks */
    return pthread_create(&l->thread, NULL, engine_loop_main, l) == 0 ? 0 : ERR_INTERNAL;
}

void engine_loop_join(struct engine_loop *l)
{
    pthread_join(l->thread, NULL);
}
