/* scheduler/replay/simulate.c - see simulate.h. The order of calls is that of engine_loop.c. */
#include "scheduler/replay/simulate.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/cost_model.h"
#include "scheduler/journal.h"
#include "scheduler/replay/quantiles.h"

#include <string.h>

#define END_TOKEN INT32_MAX /* ends a generation; no made-up token is this one */
#define VOCABULARY 32000    /* of made-up tokens */

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
    uint64_t n_steps, rng;
    struct simulate_arrival *arrivals; /* [cap] */
    struct simulate_result *results;   /* [cap] */
    size_t n, cap;
    size_t *coming, n_coming;          /* [cap] heap of those to come, by time, then number */
    size_t *leaving, n_leaving;        /* [cap] of those that will leave, by that time */
    uint64_t *rows;                    /* [max_tenants] computed */
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
    cost_init(&s->cost);
    if (s->opt.sched.whole_prompts)
        cost_expect_no_streams(&s->cost);
    journal_start(s->opt.journal, &s->opt.sched, &s->opt.kv, &end_token, 1);
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
    mem_free(s->coming);
    mem_free(s->leaving);
    mem_free(s->tokens);
    mem_free(s->rows);
    mem_free(s);
    *simulate = NULL;
}

/* ---- what is to come: two heaps of arrival numbers ---- */

static uint64_t due(const struct simulate *s, const size_t *heap, size_t i)
{
    return heap == s->coming ? s->arrivals[heap[i]].at_us : s->arrivals[heap[i]].leave_us;
}

static bool goes_before(const struct simulate *s, const size_t *heap, size_t i, size_t j)
{
    const uint64_t a = due(s, heap, i), b = due(s, heap, j);

    return a != b ? a < b : heap[i] < heap[j];
}

static void swap(size_t *heap, size_t i, size_t j)
{
    const size_t keep = heap[i];

    heap[i] = heap[j];
    heap[j] = keep;
}

static void heap_add(const struct simulate *s, size_t *heap, size_t *n, size_t value)
{
    size_t at = (*n)++;

    heap[at] = value;
    for (; at > 0 && goes_before(s, heap, at, (at - 1) / 2); at = (at - 1) / 2)
        swap(heap, at, (at - 1) / 2);
}

static size_t heap_take(const struct simulate *s, size_t *heap, size_t *n)
{
    const size_t first = heap[0];
    size_t at = 0;

    heap[0] = heap[--*n];
    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < *n && goes_before(s, heap, child + 1, child))
            child++;
        if (child >= *n || !goes_before(s, heap, child, at))
            return first;
        swap(heap, at, child);
        at = child;
    }
}

static int grow_one(void **array, size_t cap, size_t bytes)
{
    void *p = mem_realloc(*array, cap * bytes);

    if (p == NULL)
        return ERR_NOMEM;
    *array = p;
    return 0;
}

static int grow(struct simulate *s)
{
    const size_t cap = s->cap > 0 ? 2 * s->cap : 64;

    if (grow_one((void **)&s->arrivals, cap, sizeof(*s->arrivals)) < 0 ||
        grow_one((void **)&s->results, cap, sizeof(*s->results)) < 0 ||
        grow_one((void **)&s->coming, cap, sizeof(*s->coming)) < 0 ||
        grow_one((void **)&s->leaving, cap, sizeof(*s->leaving)) < 0)
        return ERR_NOMEM;
    s->cap = cap;
    return 0;
}

int64_t simulate_add(struct simulate *s, const struct simulate_arrival *a)
{
    if (s->n == s->cap && grow(s) < 0)
        return ERR_NOMEM;
    s->arrivals[s->n] = *a;
    if (a->at_us < s->now_us)
        s->arrivals[s->n].at_us = s->now_us;
    s->results[s->n] = (struct simulate_result){.arrival_us = s->arrivals[s->n].at_us};
    heap_add(s, s->coming, &s->n_coming, s->n);
    return (int64_t)s->n++;
}

/* ---- requests ---- */

static uint32_t rnd(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

static void make_up(const struct simulate_arrival *a, int32_t *ids)
{
    uint64_t own = a->seed * 2 + 1, shared = a->shared_seed * 2;

    for (uint32_t i = 0; i < a->n_prompt; i++)
        ids[i] = (int32_t)rnd(i < a->n_shared ? &shared : &own, VOCABULARY);
}

static struct request *make_request(const struct simulate *s, size_t i)
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
    r->n_keep = a->n_keep;
    if (a->n_discard > 0)
        r->n_discard = a->n_discard;
    r->key.salt = a->salt;
    if (a->prompt != NULL)
        memcpy(r->ids, a->prompt, a->n_prompt * sizeof(*r->ids));
    else
        make_up(a, r->ids);
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

static void arrive(struct simulate *s, size_t i)
{
    struct request *r;

    if (s->opt.on_arrive != NULL)
        s->opt.on_arrive(s->opt.ud, s, i);
    r = make_request(s, i);
    if (r == NULL) {
        s->rc = ERR_NOMEM;
        return;
    }
    journal_post(s->opt.journal, r, s->now_us);
    if (sched_add(s->sched, r, s->now_us) < 0) {
        request_destroy(&r);
        note_end(s, i, FINISH_ERROR);
    } else if (s->arrivals[i].leave_us > 0) {
        heap_add(s, s->leaving, &s->n_leaving, i);
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
    while (s->n_coming > 0 && due(s, s->coming, 0) <= s->now_us)
        arrive(s, heap_take(s, s->coming, &s->n_coming));
    while (s->n_leaving > 0 && due(s, s->leaving, 0) <= s->now_us) {
        const uint64_t id = heap_take(s, s->leaving, &s->n_leaving) + 1;

        journal_cancel(s->opt.journal, id, FINISH_CANCELLED, s->now_us);
        sched_cancel(s->sched, id, FINISH_CANCELLED, s->now_us);
    }
    take_ends(s);
}

/* ---- a step ---- */

/* Returns what the moves took. */
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

/* One disk: transfers one after the other. */
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

static void compute(struct simulate *s, const struct plan *plan, uint64_t moves_us)
{
    const uint64_t from = s->now_us, us = moves_us + duration_us(s, plan);

    s->now_us += us;
    cost_observe(&s->cost, &plan->work, us);
    note_items(s, plan, from);
    journal_commit(s->opt.journal, plan, s->tokens, s->now_us);
    sched_commit(s->sched, s->tokens, is_end_token, NULL, s->now_us);
    s->n_steps++;
    if (s->opt.check_every > 0 && s->n_steps % s->opt.check_every == 0 && !sched_check(s->sched))
        s->rc = ERR_INTERNAL;
    take_ends(s);
}

/* The time of the next thing to happen by itself, or UINT64_MAX. */
static uint64_t next_event(const struct simulate *s)
{
    uint64_t next = UINT64_MAX;

    if (s->n_coming > 0)
        next = due(s, s->coming, 0);
    if (s->n_leaving > 0 && due(s, s->leaving, 0) < next)
        next = due(s, s->leaving, 0);
    for (int i = 0; i < SWAP_MAX_IO; i++)
        if (s->io[i].is_used && s->io[i].due_us < next)
            next = s->io[i].due_us;
    return next;
}

/* Nothing to compute: on to the next event. False: there is none. */
static bool skip(struct simulate *s)
{
    const uint64_t next = next_event(s);

    if (next == UINT64_MAX) {
        if (!sched_is_idle(s->sched))
            s->rc = ERR_INTERNAL;
        return false;
    }
    s->now_us = next > s->now_us ? next : s->now_us;
    return true;
}

/* False: everything has ended, or something went wrong. */
static bool iterate(struct simulate *s)
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
        return skip(s) && s->rc == 0;
    compute(s, plan, moves_us);
    return s->rc == 0;
}

int simulate_run(struct simulate *s, uint64_t until_us)
{
    while (s->now_us < until_us && iterate(s))
        continue;
    return s->rc;
}

/* ---- looking back ---- */

uint64_t simulate_now(const struct simulate *s)
{
    return s->now_us;
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
