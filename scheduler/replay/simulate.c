/* scheduler/replay/simulate.c - see simulate.h. The order of calls is that of engine_loop.c.
 *
 * Time jumps from event to event: an arrival, a client that leaves, the end of a transfer or of a
 * step. begin_step() makes a plan and sets when it ends, end_step() commits it; an empty plan lets
 * the simulation wait for the next event. Prompts and answers without a recorded text are made from
 * seeds when they are needed.
 */
#include "scheduler/replay/simulate.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/cost_model.h"
#include "scheduler/journal.h"
#include "scheduler/replay/quantiles.h"
#include "scheduler/replay/time_heap.h"

#include <string.h>

#define END_TOKEN INT32_MAX /* the token that ends a generation; made-up tokens are smaller */
#define VOCABULARY 32000    /* made-up tokens are below this */

static const int32_t end_token = END_TOKEN;

struct transfer {
    bool is_used;
    uint32_t copy, n;
    uint64_t due_us, took_us;
};

struct simulate {
    struct simulate_options opt;
    struct kv_manager *kv;
    struct sched *sched;
    struct cost_model cost;
    struct sched_limits limits;
    uint64_t now_us, disk_free_us;
    const struct plan *plan; /* the plan that is computed until due_us, or NULL */
    uint64_t due_us;
    bool is_waiting; /* the latest plan was empty: no plan is made before the next event */
    uint64_t n_steps, busy_us, rng;
    size_t n_of[2];      /* next index in each of opt.paces */
    uint64_t least_pace; /* least time of a step, in thousandths of `truth` */
    struct simulate_arrival *arrivals; /* [cap] */
    struct simulate_result *results;   /* [cap] */
    size_t n, cap;
    struct time_heap coming, leaving;  /* arrivals by the time of arriving, or of leaving */
    struct time_heap ending;           /* arrivals by the number of the first step at whose end they
                                        * can end */
    uint64_t *rows;                    /* [max_tenants] rows computed */
    struct transfer io[SWAP_MAX_IO];
    int32_t *tokens;                   /* [max_sequences] */
    struct quantiles itl;
    int rc; /* the first failure */
};

int simulate_create(struct simulate **out, const struct simulate_options *options)
{
    struct simulate *s = mem_calloc(1, sizeof(*s));
    int rc = ERR_NOMEM;

    *out = NULL;
    if (s == NULL)
        return ERR_NOMEM;
    s->opt = *options;
    s->rng = options->seed;
    s->least_pace = 10 * (100 - options->noise_percent);
    for (int kind = 0; kind < 2; kind++) {
        s->n_of[kind] = options->seed * 7919;
        for (size_t i = 0; i < options->paces[kind].n; i++)
            if (options->paces[kind].v[i] < s->least_pace)
                s->least_pace = options->paces[kind].v[i];
    }
    s->tokens = mem_calloc(options->sched.max_sequences, sizeof(*s->tokens));
    s->rows = mem_calloc(options->sched.max_tenants, sizeof(*s->rows));
    if (s->tokens == NULL || s->rows == NULL)
        goto fail;
    rc = kv_manager_create(&s->kv, &options->kv);
    if (rc < 0)
        goto fail;
    s->opt.sched.kv = s->kv;
    rc = sched_create(&s->sched, &s->opt.sched);
    if (rc < 0)
        goto fail;
    if (options->on_block != NULL)
        kv_manager_watch(s->kv, options->on_block, options->ud);
    cost_init(&s->cost);
    if (s->opt.sched.whole_prompts)
        cost_expect_no_streams(&s->cost);
    journal_start(s->opt.journal, &s->opt.sched, &s->opt.kv, &end_token, 1, 0);
    *out = s;
    return 0;

fail:
    simulate_destroy(&s);
    return rc;
}

void simulate_destroy(struct simulate **simulate)
{
    struct simulate *s = simulate != NULL ? *simulate : NULL;

    if (s == NULL)
        return;
    sched_destroy(&s->sched);
    kv_manager_destroy(&s->kv);
    mem_free(s->arrivals);
    mem_free(s->results);
    time_heap_release(&s->coming);
    time_heap_release(&s->leaving);
    time_heap_release(&s->ending);
    mem_free(s->tokens);
    mem_free(s->rows);
    mem_free(s);
    *simulate = NULL;
}

/* ---- arrivals ---- */

static int grow_one(void **array, size_t cap, size_t bytes)
{
    void *p = mem_realloc(*array, cap * bytes);

    if (p == NULL)
        return ERR_NOMEM;
    *array = p;
    return 0;
}

static int grow_simulation(struct simulate *s)
{
    const size_t cap = s->cap > 0 ? 2 * s->cap : 64;

    if (grow_one((void **)&s->arrivals, cap, sizeof(*s->arrivals)) < 0 ||
        grow_one((void **)&s->results, cap, sizeof(*s->results)) < 0)
        return ERR_NOMEM;
    s->cap = cap;
    return 0;
}

int64_t simulate_add(struct simulate *s, const struct simulate_arrival *a)
{
    if (s->n == s->cap && grow_simulation(s) < 0)
        return ERR_NOMEM;
    s->arrivals[s->n] = *a;
    if (a->at_us < s->now_us)
        s->arrivals[s->n].at_us = s->now_us;
    s->results[s->n] = (struct simulate_result){.arrival_us = s->arrivals[s->n].at_us};
    if (time_heap_add(&s->coming, s->arrivals[s->n].at_us, s->n) < 0)
        return ERR_NOMEM;
    return (int64_t)s->n++;
}

/* ---- requests ---- */

static uint32_t rnd(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

void simulate_make_prompt(const struct simulate_arrival *a, int32_t *ids)
{
    const uint32_t n_given = a->prompt == NULL ? 0 : a->n_given > 0 ? a->n_given : a->n_prompt;
    uint64_t own = a->seed * 2 + 1, shared = a->shared_seed * 2;

    if (n_given > 0)
        memcpy(ids, a->prompt, n_given * sizeof(*ids));
    for (uint32_t i = n_given; i < a->n_prompt; i++)
        ids[i] = (int32_t)rnd(i < a->n_shared ? &shared : &own, VOCABULARY);
}

static struct request *make_simulated_request(const struct simulate *s, size_t i)
{
    const struct simulate_arrival *a = &s->arrivals[i];
    const struct request_size size = {.n_prompt = a->n_prompt, .max_tokens = a->max_tokens,
                                      .max_known = a->max_known};
    struct request *r;

    if (request_create(&r, &size) < 0)
        return NULL;
    r->id = i + 1;
    r->arrival_us = a->at_us;
    r->deadline_us = a->deadline_us;
    r->first_by_us = a->first_by_us;
    r->queue_until_us = a->queue_until_us;
    r->prefix_owner = a->prefix_owner;
    r->priority = a->priority;
    r->tenant = a->tenant;
    r->weight = a->weight > 0 ? a->weight : 1;
    r->score_prompt = a->score_prompt;
    r->rows_from = a->rows_from;
    r->n_keep = a->n_keep;
    if (a->n_discard > 0)
        r->n_discard = a->n_discard;
    r->key.salt = a->salt;
    r->n_pins = a->n_pins;
    memcpy(r->pins, a->pins, sizeof(r->pins));
    simulate_make_prompt(a, r->ids);
    return r;
}

static void note_end(struct simulate *s, size_t i, enum finish finish)
{
    struct simulate_result *result = &s->results[i];

    result->n_ends++;
    result->finish = finish;
    result->finish_us = s->now_us - result->arrival_us;
    if (s->opt.on_end != NULL)
        s->opt.on_end(s->opt.ud, s, i);
}

static void take_ends(struct simulate *s)
{
    struct sched_end end;

    while (sched_next_end(s->sched, &end)) {
        const size_t i = end.request->id - 1;

        s->results[i].n_preempted = end.times.n_preempted;
        s->results[i].n_cached = end.times.n_cached;
        request_destroy(&end.request);
        note_end(s, i, end.finish);
    }
}

/* Note the earliest step at which the request can end: a step makes at most one of its tokens. */
static int note_earliest_end(struct simulate *s, size_t i)
{
    const uint32_t n_had = s->results[i].n_tokens, n_output = s->arrivals[i].n_output;

    return time_heap_add(&s->ending, s->n_steps + (n_output > n_had ? n_output - n_had : 1), i);
}

static void arrive(struct simulate *s, size_t i)
{
    struct request *r;

    if (s->opt.on_arrive != NULL)
        s->opt.on_arrive(s->opt.ud, s, i);
    r = make_simulated_request(s, i);
    if (r == NULL) {
        s->rc = ERR_NOMEM;
        return;
    }
    journal_post(s->opt.journal, r, s->now_us);
    if (sched_add(s->sched, r, s->now_us) < 0) {
        request_destroy(&r);
        note_end(s, i, FINISH_ERROR);
    } else if (note_earliest_end(s, i) < 0 ||
               (s->arrivals[i].leave_us > 0 &&
                time_heap_add(&s->leaving, s->arrivals[i].leave_us, i) < 0)) {
        s->rc = ERR_NOMEM;
    }
}

static void take_io_ends(struct simulate *s)
{
    for (int i = 0; i < SWAP_MAX_IO; i++) {
        struct transfer *t = &s->io[i];

        if (!t->is_used || t->due_us > s->now_us)
            continue;
        t->is_used = false;
        journal_io_done(s->opt.journal, t->copy, 0);
        cost_observe_swap(&s->cost, t->n, t->took_us, true);
        sched_io_done(s->sched, t->copy, 0);
    }
}

static void take_inbox(struct simulate *s)
{
    take_io_ends(s);
    while (s->coming.n > 0 && s->coming.items[0].at <= s->now_us)
        arrive(s, time_heap_take(&s->coming).id);
    while (s->leaving.n > 0 && s->leaving.items[0].at <= s->now_us) {
        const uint64_t id = time_heap_take(&s->leaving).id + 1;

        journal_cancel(s->opt.journal, id, FINISH_CANCELLED, s->now_us);
        sched_cancel(s->sched, id, FINISH_CANCELLED, s->now_us);
    }
    take_ends(s);
}

/* ---- a step ---- */

/* Account for the plan's moves. Returns the microseconds that they take. */
static uint64_t move_blocks(struct simulate *s, const struct plan *plan)
{
    const uint32_t n = kv_move_blocks(plan->moves, plan->n_moves, s->opt.kv.states.n_parts);
    const uint64_t us = n * s->opt.truth.swap_ns / 1000;

    if (n > 0) {
        cost_observe_swap(&s->cost, n, us, false);
        journal_moves_done(s->opt.journal);
        sched_moves_done(s->sched);
    }
    return us;
}

/* Start transfers, which one disk carries out one after the other. */
static void start_io(struct simulate *s)
{
    struct swap_io io;

    while (sched_next_io(s->sched, &io)) {
        const uint64_t took_us = io.n * s->opt.truth.file_ns / 1000 + 1;
        int i = 0;

        journal_io_start(s->opt.journal, &io);
        while (i + 1 < SWAP_MAX_IO && s->io[i].is_used)
            i++;
        if (s->disk_free_us < s->now_us)
            s->disk_free_us = s->now_us;
        s->disk_free_us += took_us;
        s->io[i] = (struct transfer){.is_used = true, .copy = io.copy, .n = io.n,
                                     .due_us = s->disk_free_us, .took_us = took_us};
    }
}

static uint64_t duration_us(struct simulate *s, const struct plan *plan)
{
    const uint32_t noise = s->opt.noise_percent;
    const uint64_t ns = step_costs_ns(&s->opt.truth, &plan->work);
    const bool has_prompt = plan->work.n_prefill > 0;
    const struct simulate_paces *paces = &s->opt.paces[has_prompt];

    if (paces->n > 0)
        return ns * paces->v[s->n_of[has_prompt]++ % paces->n] / 1000 / 1000 + 1;
    return ns * (100 - noise + rnd(&s->rng, 2 * noise + 1)) / 100 / 1000 + 1;
}

static void note_token(struct simulate *s, struct simulate_result *result)
{
    const uint64_t since = s->now_us - result->last_us;

    if (result->n_tokens++ == 0) {
        result->first_us = s->now_us - result->arrival_us;
    } else {
        quantiles_add(&s->itl, since);
        if (since > result->itl_max_us)
            result->itl_max_us = since;
    }
    result->last_us = s->now_us;
}

static int32_t next_token(const struct simulate *s, size_t i)
{
    const struct simulate_arrival *a = &s->arrivals[i];
    const uint32_t k = s->results[i].n_tokens;
    uint64_t state = (a->seed ^ k) * 2 + 1;

    if (k + 1 >= a->n_output && a->n_output < a->max_tokens)
        return END_TOKEN;
    return a->output != NULL && k < a->n_output ? a->output[k] : (int32_t)rnd(&state, VOCABULARY);
}

static bool is_end_token(void *ud, int32_t token)
{
    (void)ud;
    return token == END_TOKEN;
}

static void note_items(struct simulate *s, const struct plan *plan, uint64_t from_us)
{
    for (uint32_t i = 0; i < plan->n_items; i++) {
        const struct plan_item *item = &plan->items[i];
        struct simulate_result *result = &s->results[item->request->id - 1];

        if (result->start_us == 0)
            result->start_us = from_us - result->arrival_us;
        s->rows[item->request->tenant] += item->n;
        if (!item->wants_token)
            continue;
        s->tokens[i] = next_token(s, item->request->id - 1);
        note_token(s, result);
    }
}

/* Make the next plan and begin its step. False: there is nothing to compute. */
static bool begin_step(struct simulate *s)
{
    const struct plan *plan;
    uint64_t moves_us;

    take_inbox(s);
    s->limits = (struct sched_limits){.target_us = s->opt.target_us,
                                      .costs = cost_get(&s->cost)};
    plan = sched_plan(s->sched, s->now_us, &s->limits);
    journal_plan(s->opt.journal, plan, s->now_us, &s->limits);
    take_ends(s);
    moves_us = move_blocks(s, plan);
    start_io(s);
    if (plan->n_items == 0)
        return false;
    s->plan = plan;
    s->due_us = s->now_us + moves_us + duration_us(s, plan);
    return true;
}

static void end_step(struct simulate *s)
{
    const struct plan *plan = s->plan;
    const uint64_t from = s->now_us, us = s->due_us - from;

    s->plan = NULL;
    s->now_us = s->due_us;
    s->busy_us += us;
    cost_observe(&s->cost, &plan->work, us);
    note_items(s, plan, from);
    journal_commit(s->opt.journal, plan, s->tokens, NULL, s->now_us);
    sched_commit(s->sched, s->tokens, NULL, is_end_token, NULL, s->now_us);
    s->n_steps++;
    if (s->opt.check_every > 0 && s->n_steps % s->opt.check_every == 0 && !sched_check(s->sched))
        s->rc = ERR_INTERNAL;
    take_ends(s);
}

/* Return the time of the next event that is not the end of a step, or UINT64_MAX. */
static uint64_t next_event(const struct simulate *s)
{
    uint64_t next = UINT64_MAX;

    if (s->coming.n > 0)
        next = s->coming.items[0].at;
    if (s->leaving.n > 0 && s->leaving.items[0].at < next)
        next = s->leaving.items[0].at;
    for (int i = 0; i < SWAP_MAX_IO; i++)
        if (s->io[i].is_used && s->io[i].due_us < next)
            next = s->io[i].due_us;
    return next;
}

bool simulate_next(const struct simulate *s, struct simulate_event *out)
{
    const uint64_t next = s->plan != NULL ? s->due_us : s->is_waiting ? next_event(s) : s->now_us;

    out->at_us = next > s->now_us ? next : s->now_us;
    out->ends_step = s->plan != NULL;
    return next != UINT64_MAX;
}

/* Return the steps until a request can end by itself; requests that had to wait are entered again
 * with a later step. */
static uint64_t least_steps(struct simulate *s)
{
    while (s->ending.n > 0 && s->ending.items[0].at <= s->n_steps) {
        const size_t i = time_heap_take(&s->ending).id;

        if (s->results[i].n_ends == 0 && note_earliest_end(s, i) < 0)
            s->rc = ERR_NOMEM;
    }
    return s->ending.n > 0 ? s->ending.items[0].at - s->n_steps : 0;
}

uint64_t simulate_earliest_end(struct simulate *s)
{
    const struct step_work least = {.n_decode = 1};
    const uint64_t step_us = step_costs_ns(&s->opt.truth, &least) * s->least_pace / 1000 / 1000 + 1;
    const uint64_t n_steps = least_steps(s);
    uint64_t at_us = sched_next_expiry(s->sched);
    struct simulate_event next;

    if (!simulate_next(s, &next) || s->coming.n > 0 || s->rc < 0)
        return s->now_us;
    if (s->leaving.n > 0 && s->leaving.items[0].at < at_us)
        at_us = s->leaving.items[0].at;
    if (n_steps > 0 && next.at_us + (n_steps - 1) * step_us < at_us)
        at_us = next.at_us + (n_steps - 1) * step_us;
    return at_us;
}

int simulate_advance(struct simulate *s)
{
    struct simulate_event event;

    if (!simulate_next(s, &event))
        return s->rc;
    if (event.ends_step) {
        end_step(s);
        return s->rc;
    }
    s->now_us = event.at_us;
    s->is_waiting = !begin_step(s);
    if (s->is_waiting && next_event(s) == UINT64_MAX && !sched_is_idle(s->sched))
        s->rc = ERR_INTERNAL;
    return s->rc;
}

int simulate_run(struct simulate *s, uint64_t until_us)
{
    struct simulate_event event;

    while (s->rc == 0 && simulate_next(s, &event) && (event.ends_step || event.at_us < until_us))
        simulate_advance(s);
    if (s->rc == 0 && simulate_next(s, &event) && event.at_us > s->now_us)
        s->now_us = event.at_us;
    return s->rc;
}

/* ---- results ---- */

uint64_t simulate_now(const struct simulate *s)
{
    return s->now_us;
}

uint64_t simulate_busy_us(const struct simulate *s)
{
    return s->busy_us;
}

size_t simulate_n(const struct simulate *s)
{
    return s->n;
}

const struct simulate_arrival *simulate_arrival(const struct simulate *s, size_t i)
{
    return &s->arrivals[i];
}

const struct simulate_result *simulate_result(const struct simulate *s, size_t i)
{
    return &s->results[i];
}

uint64_t simulate_tenant_rows(const struct simulate *s, uint32_t tenant)
{
    return s->rows[tenant];
}

void simulate_stats(const struct simulate *s, struct engine_stats *out)
{
    memset(out, 0, sizeof(*out));
    sched_fill_stats(s->sched, out);
    out->costs = cost_get(&s->cost);
    out->target_us = s->opt.target_us;
    out->last_step_us = s->now_us;
}

const struct quantiles *simulate_itl(const struct simulate *s)
{
    return &s->itl;
}
