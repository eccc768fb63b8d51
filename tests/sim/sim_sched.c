/* tests/sim/sim_sched.c - the scheduler without a model: scripted arrivals, made-up tokens.
 *
 * The cache's bytes are played by numbers: a slot of a block holds the hash of all tokens up to
 * its position. Moves between blocks, RAM slots and file slots are carried out on them. So every
 * run, through step(), checks after each plan and commit: blocks add up (P3, T3, S2.30), what a
 * sequence reads is its own past wherever it came from (prefix hits, copies, swaps), positions
 * follow one another and each row is written once, by a sequence that alone holds the block (T2,
 * S2.5), no running stream is left out of a step unless it was preempted (P7), every request ends
 * exactly once (P2).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "scheduler/journal.h"
#include "scheduler/sched.h"

#define MAX_REQUESTS 4096
#define MAX_BLOCKS 2048
#define EOG 7
#define NO_BUDGET UINT32_MAX

struct record { /* what the simulator knows of a request, by id */
    uint32_t n_prompt, max_tokens;
    enum priority priority;
    uint32_t next_pos;     /* position that must be computed next */
    bool anywhere;         /* it may begin wherever its past is there */
    uint32_t n_tokens;     /* tokens it got */
    uint32_t n_preempted;
    uint32_t n_cached;
    uint32_t ends;
    enum finish finish;
    bool running;
    uint64_t end_step, first_step;
};

typedef uint64_t cells[BLOCK_TOKENS];

struct sim {
    struct kv_manager *kv;
    struct sched *sched;
    struct sched_options opt;
    struct sched_limits limits;
    struct record rec[MAX_REQUESTS + 1];
    cells blocks[MAX_BLOCKS + 1], ram[MAX_BLOCKS], file[MAX_BLOCKS];
    struct swap_io io[SWAP_MAX_IO];
    uint32_t n_io;
    uint32_t io_fail_percent;
    uint64_t n_ids;
    uint64_t now, steps;
    uint64_t rng;
    uint64_t hash; /* of all plans */
    uint32_t n_ended;
    int32_t tokens[MAX_REQUESTS];
    uint64_t last_items[MAX_REQUESTS];
    uint32_t n_last;
    uint32_t eog_percent;
    uint32_t n_words; /* of the made-up vocabulary */
};

static uint32_t rnd(struct sim *s, uint32_t n)
{
    s->rng = s->rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((s->rng >> 33) % n);
}

struct sim_options {
    uint32_t n_blocks, max_sequences, batch, chunk;
    enum sched_policy policy;
    enum sched_preemption preemption;
    bool prefix_cache;
    uint32_t n_ram, n_file, max_tenants;
};

static struct sim *sim_open(const struct sim_options *o)
{
    const struct kv_manager_options ko = {.n_blocks = o->n_blocks,
                                          .prefix_cache = o->prefix_cache,
                                          .n_ram = o->n_ram,
                                          .n_file = o->n_file,
                                          .max_sequences = MAX_REQUESTS,
                                          .max_table = 4096 / BLOCK_TOKENS,
                                          .low_percent = 30,
                                          .critical_percent = 10};
    struct sim *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    assert_int_equal(kv_manager_create(&s->kv, &ko), 0);
    sched_options_default(&s->opt);
    s->opt.kv = s->kv;
    s->opt.policy = o->policy;
    s->opt.preemption = o->preemption;
    s->opt.max_sequences = o->max_sequences;
    s->opt.max_requests = MAX_REQUESTS;
    s->opt.max_context = 4096;
    s->opt.max_batch_tokens = o->batch;
    s->opt.prefill_chunk = o->chunk;
    s->opt.max_tenants = o->max_tenants > 0 ? o->max_tenants : 1;
    assert_int_equal(sched_create(&s->sched, &s->opt), 0);
    s->rng = 1;
    s->now = 1000;
    s->n_words = 1000;
    return s;
}

static struct sim *sim_new(uint32_t n_blocks, uint32_t max_sequences, uint32_t batch,
                           uint32_t chunk, enum sched_policy policy)
{
    return sim_open(&(struct sim_options){.n_blocks = n_blocks, .max_sequences = max_sequences,
                                          .batch = batch, .chunk = chunk, .policy = policy,
                                          .preemption = SCHED_RECOMPUTE});
}

static uint32_t n_held(const struct sim *s)
{
    return kv_manager_stats(s->kv).pool.n_held;
}

static void sim_free(struct sim *s)
{
    assert_int_equal(n_held(s), 0);
    sched_destroy(&s->sched);
    assert_true(kv_manager_check(s->kv));
    kv_manager_destroy(&s->kv);
    free(s);
}

static struct request *make(struct sim *s, uint32_t n_prompt, uint32_t max_tokens,
                            enum priority priority)
{
    const struct request_size size = {.n_prompt = n_prompt, .max_tokens = max_tokens};
    struct request *r;

    assert_int_equal(request_create(&r, &size), 0);
    r->id = ++s->n_ids;
    r->arrival_us = s->now;
    r->priority = priority;
    for (uint32_t i = 0; i < n_prompt; i++)
        r->ids[i] = (int32_t)(10 + rnd(s, s->n_words));
    return r;
}

static uint64_t post(struct sim *s, struct request *r)
{
    s->rec[r->id] = (struct record){.n_prompt = r->n_prompt, .max_tokens = r->max_tokens,
                                    .priority = r->priority, .anywhere = true};
    assert_int_equal(sched_add(s->sched, r, s->now), 0);
    return s->n_ids;
}

static uint64_t add(struct sim *s, uint32_t n_prompt, uint32_t max_tokens, enum priority priority)
{
    return post(s, make(s, n_prompt, max_tokens, priority));
}

static void take_ends(struct sim *s)
{
    struct sched_end end;

    while (sched_next_end(s->sched, &end)) {
        struct record *rec = &s->rec[end.request->id];
        const struct event_times *t = &end.times;

        rec->ends++;
        rec->running = false;
        rec->finish = end.finish;
        rec->end_step = s->steps;
        rec->n_cached = t->n_cached;
        s->n_ended++;
        assert_int_equal(rec->ends, 1);
        assert_int_equal(t->queue_us + t->prefill_us + t->decode_us + t->preempted_us,
                         s->now - end.request->arrival_us);
        assert_int_equal(t->n_preempted, rec->n_preempted);
        request_destroy(&end.request);
    }
}

static bool is_eog(void *ud, int32_t token)
{
    (void)ud;
    return token == EOG;
}

static void mix(struct sim *s, uint64_t v)
{
    s->hash = (s->hash ^ v) * 1099511628211u;
}

/* ---- bytes ---- */

static void run_moves(struct sim *s, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_moves; i++) {
        const struct kv_move *m = &p->moves[i];

        switch (m->kind) {
        case KV_COPY:
            memcpy(s->blocks[m->to], s->blocks[m->from], sizeof(cells));
            break;
        case KV_SAVE:
            memcpy(s->ram[m->to], s->blocks[m->from], sizeof(cells));
            break;
        case KV_LOAD:
            memcpy(s->blocks[m->to], s->ram[m->from], sizeof(cells));
            break;
        }
    }
    if (p->n_moves > 0)
        sched_moves_done(s->sched);
}

/* One transfer ends, well or not. */
static void end_io(struct sim *s, uint32_t at)
{
    const struct swap_io io = s->io[at];
    const bool ok = rnd(s, 100) >= s->io_fail_percent;

    for (uint32_t i = 0; i < io.n && ok; i++) {
        if (io.is_write)
            memcpy(s->file[io.file[i]], s->ram[io.ram[i]], sizeof(cells));
        else
            memcpy(s->ram[io.ram[i]], s->file[io.file[i]], sizeof(cells));
    }
    s->io[at] = s->io[--s->n_io];
    sched_io_done(s->sched, io.copy, ok ? 0 : ERR_IO);
}

static void run_io(struct sim *s)
{
    while (s->n_io < SWAP_MAX_IO && sched_next_io(s->sched, &s->io[s->n_io]))
        s->n_io++;
    if (s->n_io > 0 && rnd(s, 2) == 0)
        end_io(s, rnd(s, s->n_io));
}

/* What a slot holds after the token at its position: a hash of all tokens so far. */
static uint64_t cell_of(uint64_t before, int32_t token)
{
    return (before ^ (uint64_t)(uint32_t)token) * 0x9e3779b97f4a7c15u + 1;
}

/* Read the past, write the item's rows. */
static void compute(struct sim *s, const struct plan_item *item)
{
    const struct request *r = item->request;
    uint64_t cell = 0;

    for (uint32_t pos = 0; pos < item->first + item->n; pos++) {
        uint64_t *slot = &s->blocks[item->table[pos / BLOCK_TOKENS]][pos % BLOCK_TOKENS];

        cell = cell_of(cell, r->ids[pos]);
        if (pos < item->first)
            assert_true(*slot == cell);
        *slot = cell;
    }
}

/* ---- plans ---- */

static bool has(const uint64_t *ids, uint32_t n, uint64_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static void check_preempted(struct sim *s, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_preempted; i++) {
        struct record *rec = &s->rec[p->preempted[i]];

        rec->running = false;
        rec->anywhere = true;
        rec->n_preempted++;
    }
    for (uint32_t i = 0; i < p->n_swapped_out; i++)
        assert_true(has(p->preempted, p->n_preempted, p->swapped_out[i]));
    for (uint32_t i = 0; i < p->n_swapped_in; i++)
        assert_true(has(p->admitted, p->n_admitted, p->swapped_in[i]));
}

static void check_item(struct sim *s, const struct plan_item *item)
{
    struct record *rec = &s->rec[item->request->id];
    const struct block_pool *pool = kv_manager_pool(s->kv);
    const uint32_t known = rec->n_prompt + rec->n_tokens, end = item->first + item->n;

    assert_true(rec->anywhere || item->first == rec->next_pos); /* each once, in order */
    assert_true(item->n > 0 && end <= known);
    assert_int_equal(item->wants_token, end == known && rec->max_tokens > 0);
    for (uint32_t b = 0; b <= (end - 1) / BLOCK_TOKENS; b++) {
        const uint32_t holders = block_pool_holders(pool, item->table[b]);

        assert_true(b < item->first / BLOCK_TOKENS ? holders > 0 : holders == 1);
    }
    rec->next_pos = end;
    rec->anywhere = false;
    rec->running = true;
    if (rec->first_step == 0)
        rec->first_step = s->steps + 1;
    rec->n_tokens += item->wants_token;
    mix(s, item->request->id);
    mix(s, item->first);
    mix(s, item->n);
}

/* P7: who decoded before decodes again, unless it ended or was preempted. */
static void check_no_stall(struct sim *s, const struct plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_last; i++) {
        const struct record *rec = &s->rec[s->last_items[i]];
        bool found = rec->ends > 0 || !rec->running;

        for (uint32_t j = 0; j < p->n_items && !found; j++)
            found = p->items[j].request->id == s->last_items[i];
        assert_true(found);
    }
    for (uint32_t j = 0; j < p->n_items; j++)
        if (p->items[j].wants_token)
            s->last_items[n++] = p->items[j].request->id;
    s->n_last = n;
}

/* The sums of the plan are those of its items. */
static void check_sums(const struct sim *s, const struct plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_items; i++)
        n += p->items[i].n;
    assert_int_equal(n, p->n_tokens);
    assert_int_equal(p->work.n_prefill + p->work.n_decode, n);
    assert_true(n <= s->opt.max_batch_tokens && p->work.n_prefill <= s->opt.prefill_chunk);
}

/* Let beside streams only `rows` prompt rows fit into the time of a step. */
static void set_budget(struct sim *s, uint32_t rows)
{
    s->limits = (struct sched_limits){0};
    s->limits.costs = (struct step_costs){.is_known = true, .prefill_ns = 1000000,
                                          .swap_ns = 1000};
    if (rows != NO_BUDGET)
        s->limits.target_us = (uint64_t)rows * 1000 + 1;
}

/* One turn; false when there was nothing to do. */
static bool step(struct sim *s, uint32_t budget)
{
    const struct plan *p;

    s->now += 1000;
    set_budget(s, budget);
    p = sched_plan(s->sched, s->now, &s->limits);
    take_ends(s);
    check_preempted(s, p);
    check_sums(s, p);
    assert_true(sched_check(s->sched));
    check_no_stall(s, p);
    run_moves(s, p);
    run_io(s);
    for (uint32_t i = 0; i < p->n_items; i++) {
        check_item(s, &p->items[i]);
        compute(s, &p->items[i]);
        s->tokens[i] = rnd(s, 100) < s->eog_percent ? EOG : (int32_t)(10 + rnd(s, s->n_words));
    }
    if (p->n_items == 0)
        return false;
    sched_commit(s->sched, s->tokens, is_eog, NULL, s->now);
    s->steps++;
    assert_true(sched_check(s->sched));
    take_ends(s);
    return true;
}

static void run_dry(struct sim *s, uint64_t limit)
{
    for (uint64_t i = 0; i < limit && !sched_is_idle(s->sched); i++)
        if (!step(s, NO_BUDGET)) /* something waits or runs: planned, or I/O is awaited */
            assert_true(s->n_io > 0 || sched_is_idle(s->sched));
    assert_true(sched_is_idle(s->sched));
    assert_int_equal(s->n_ended, s->n_ids);
}

/* D2.1: prompts around and far over the chunk are computed whole, in chunks. */
static void long_prompts_are_chunked(void **state)
{
    static const uint32_t lengths[] = {1, 15, 16, 17, 511, 512, 513, 1500, 4000};
    (void)state;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct sim *s = sim_new(300, 4, 600, 512, SCHED_PRIORITY);
        const uint64_t id = add(s, lengths[i], 5, PRIORITY_NORMAL);

        run_dry(s, 1000);
        assert_int_equal(s->rec[id].n_tokens, 5);
        assert_int_equal(s->rec[id].finish, FINISH_LENGTH);
        assert_int_equal(s->steps, (lengths[i] + 511) / 512 + 4);
        sim_free(s);
    }
}

/* S2.9: a decode follows a prefill without a gap, and a second request joins while one runs. */
static void requests_join_running_batches(void **state)
{
    struct sim *s = sim_new(100, 8, 64, 32, SCHED_PRIORITY);
    (void)state;

    add(s, 10, 20, PRIORITY_NORMAL);
    assert_true(step(s, NO_BUDGET));
    assert_true(step(s, NO_BUDGET));
    add(s, 12, 20, PRIORITY_NORMAL);
    assert_true(step(s, NO_BUDGET));
    assert_int_equal(s->rec[1].n_tokens, 3);
    assert_int_equal(s->rec[2].n_tokens, 1);
    run_dry(s, 100);
    sim_free(s);
}

/* D2.2: blocks are taken as tokens come, not for max_tokens. */
static void blocks_are_taken_on_demand(void **state)
{
    struct sim *s = sim_new(100, 4, 64, 32, SCHED_PRIORITY);
    (void)state;

    add(s, 16, 1000, PRIORITY_NORMAL);
    assert_true(step(s, NO_BUDGET));
    assert_int_equal(n_held(s), 1);
    assert_true(step(s, NO_BUDGET));
    assert_int_equal(n_held(s), 2);
    sched_cancel(s->sched, 1, FINISH_CANCELLED, s->now);
    take_ends(s);
    assert_int_equal(n_held(s), 0);
    sim_free(s);
}

/* S2.19, T6: high before low; within a level first come, first served. */
static void priorities_order_admission(void **state)
{
    struct sim *s = sim_new(100, 1, 64, 32, SCHED_PRIORITY);
    (void)state;

    add(s, 8, 2, PRIORITY_NORMAL); /* 1 runs first: nothing else is there */
    assert_true(step(s, NO_BUDGET));
    add(s, 8, 2, PRIORITY_LOW);    /* 2 */
    add(s, 8, 2, PRIORITY_NORMAL); /* 3 */
    add(s, 8, 2, PRIORITY_NORMAL); /* 4 */
    run_dry(s, 100);
    assert_true(s->rec[1].end_step < s->rec[3].end_step);
    assert_true(s->rec[3].end_step < s->rec[4].end_step);
    assert_true(s->rec[4].end_step < s->rec[2].end_step);
    sim_free(s);
}

static void fcfs_ignores_priorities(void **state)
{
    struct sim *s = sim_new(100, 1, 64, 32, SCHED_FCFS);
    (void)state;

    add(s, 8, 2, PRIORITY_LOW);
    add(s, 8, 2, PRIORITY_CRITICAL);
    run_dry(s, 100);
    assert_true(s->rec[1].end_step < s->rec[2].end_step);
    assert_int_equal(s->rec[1].n_preempted, 0);
    sim_free(s);
}

/* S2.21: a strictly higher priority takes the slot of a lower one, which comes back. */
static void critical_preempts_low(void **state)
{
    struct sim *s = sim_new(100, 1, 64, 32, SCHED_PRIORITY);
    (void)state;

    add(s, 8, 50, PRIORITY_LOW);
    for (int i = 0; i < 10; i++)
        assert_true(step(s, NO_BUDGET));
    add(s, 8, 5, PRIORITY_CRITICAL);
    assert_true(step(s, NO_BUDGET));
    assert_int_equal(s->rec[1].n_preempted, 1);
    assert_int_equal(s->rec[2].n_tokens, 1);
    run_dry(s, 200);
    assert_int_equal(s->rec[1].n_tokens, 50);
    assert_int_equal(s->rec[1].n_preempted, 1);
    sim_free(s);
}

/* D2.6, T6: equal priorities never push each other out for a slot; all finish. */
static void equals_wait_for_slots(void **state)
{
    struct sim *s = sim_new(1000, 4, 64, 32, SCHED_PRIORITY);
    (void)state;

    for (int i = 0; i < 40; i++)
        add(s, 20, 30, PRIORITY_NORMAL);
    run_dry(s, 2000);
    for (uint64_t id = 1; id <= 40; id++)
        assert_int_equal(s->rec[id].n_preempted, 0);
    sim_free(s);
}

/* T5, D2.7: the pool holds a quarter of what runs; everybody finishes with all tokens, victims
 * longer than the prefill budget included, and the oldest is never a victim. */
static void small_pool_preempts_and_finishes(void **state)
{
    struct sim *s = sim_new(20, 8, 40, 16, SCHED_PRIORITY);
    uint32_t n_preempted = 0;
    (void)state;

    for (int i = 0; i < 8; i++)
        add(s, 20 + (uint32_t)i, 200, PRIORITY_NORMAL);
    run_dry(s, 20000);
    for (uint64_t id = 1; id <= 8; id++) {
        assert_int_equal(s->rec[id].n_tokens, 200);
        n_preempted += s->rec[id].n_preempted;
    }
    assert_true(n_preempted > 0);
    assert_int_equal(s->rec[1].n_preempted, 0);
    sim_free(s);
}

/* T7, D2.8: what can never fit is refused, and says so before it is posted. */
static void too_large_is_refused(void **state)
{
    struct sim *s = sim_new(10, 2, 64, 32, SCHED_PRIORITY);
    const struct request_size size = {.n_prompt = 100, .max_tokens = 61};
    struct request *r;
    (void)state;

    assert_false(sched_can_ever_fit(&s->opt, 100, 61));
    assert_true(sched_can_ever_fit(&s->opt, 100, 60));
    assert_false(sched_can_ever_fit(&s->opt, 0, 5));
    assert_int_equal(request_create(&r, &size), 0);
    r->id = 99;
    assert_int_equal(sched_add(s->sched, r, s->now), ERR_RANGE);
    request_destroy(&r);
    add(s, 100, 60, PRIORITY_NORMAL);
    run_dry(s, 1000);
    sim_free(s);
}

static void deadlines_end_requests(void **state)
{
    struct sim *s = sim_new(100, 1, 64, 32, SCHED_PRIORITY);
    const struct request_size size = {.n_prompt = 8, .max_tokens = 1000};
    struct request *r;
    (void)state;

    for (uint64_t i = 0; i < 2; i++) { /* one expires running, one waiting */
        assert_int_equal(request_create(&r, &size), 0);
        r->id = ++s->n_ids;
        r->arrival_us = s->now;
        r->deadline_us = s->now + 20000;
        s->rec[r->id] = (struct record){.n_prompt = 8, .max_tokens = 1000};
        assert_int_equal(sched_add(s->sched, r, s->now), 0);
    }
    for (int i = 0; i < 30; i++)
        step(s, NO_BUDGET);
    assert_int_equal(s->rec[1].finish, FINISH_TIMEOUT);
    assert_int_equal(s->rec[2].finish, FINISH_TIMEOUT);
    assert_int_equal(s->rec[2].n_tokens, 0);
    sim_free(s);
}

/* max_tokens 0: the prompt is computed and nothing is generated. min_tokens and ignore_eos. */
static void stops_follow_the_request(void **state)
{
    struct sim *s = sim_new(100, 4, 64, 32, SCHED_PRIORITY);
    const struct request_size size = {.n_prompt = 8, .max_tokens = 20};
    struct request *r;
    (void)state;

    s->eog_percent = 100;
    add(s, 40, 0, PRIORITY_NORMAL);
    add(s, 8, 20, PRIORITY_NORMAL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(request_create(&r, &size), 0);
        r->id = ++s->n_ids;
        r->arrival_us = s->now;
        r->min_tokens = i == 0 ? 5 : 0;
        r->ignore_eos = i == 1;
        s->rec[r->id] = (struct record){.n_prompt = 8, .max_tokens = 20};
        assert_int_equal(sched_add(s->sched, r, s->now), 0);
    }
    run_dry(s, 100);
    assert_int_equal(s->rec[1].n_tokens, 0);
    assert_int_equal(s->rec[1].finish, FINISH_LENGTH);
    assert_int_equal(s->rec[2].n_tokens, 1);
    assert_int_equal(s->rec[2].finish, FINISH_STOP);
    assert_int_equal(s->rec[3].n_tokens, 6);
    assert_int_equal(s->rec[4].n_tokens, 20);
    assert_int_equal(s->rec[4].finish, FINISH_LENGTH);
    sim_free(s);
}

/* ---- sharing ---- */

/* A request that begins with the first `shared` tokens of text number `text`. */
static struct request *make_like(struct sim *s, uint32_t text, uint32_t shared, uint32_t n_prompt,
                                 uint32_t max_tokens)
{
    struct request *r = make(s, n_prompt, max_tokens, PRIORITY_NORMAL);

    for (uint32_t i = 0; i < shared && i < n_prompt; i++)
        r->ids[i] = (int32_t)(10 + (text * 7919 + i * i * 31 + i) % 900);
    return r;
}

static struct sim *sim_shared(uint32_t n_blocks, uint32_t max_sequences)
{
    return sim_open(&(struct sim_options){.n_blocks = n_blocks, .max_sequences = max_sequences,
                                          .batch = 600, .chunk = 512, .prefix_cache = true,
                                          .policy = SCHED_PRIORITY});
}

/* T9: equal prompts share full blocks and never the last token; a part of a block is copied. The
 * number of cached tokens is exact for every length. */
static void cached_tokens_are_exact(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= 100; n++) {
        struct sim *s = sim_shared(200, 4);
        uint64_t id;

        post(s, make_like(s, 1, 100, 100, 8)); /* 107 tokens are computed, 96 in full blocks */
        run_dry(s, 100);
        id = post(s, make_like(s, 1, n, 101, 2));
        run_dry(s, 100);
        assert_int_equal(s->rec[id].n_cached, n < 96 ? n : 96);
        id = post(s, make_like(s, 1, n, n > 0 ? n : 1, 2)); /* nothing but what is cached */
        run_dry(s, 100);
        assert_int_equal(s->rec[id].n_cached, n <= 1 ? 0 : n - 1 < 96 ? n - 1 : 96);
        sim_free(s);
    }
}

/* Other salts (tenants) do not see it. */
static void salts_keep_apart(void **state)
{
    struct sim *s = sim_shared(200, 4);
    struct request *r;
    uint64_t id;
    (void)state;

    post(s, make_like(s, 1, 100, 100, 2));
    run_dry(s, 100);
    r = make_like(s, 1, 100, 100, 2);
    r->key.salt = 5;
    id = post(s, r);
    run_dry(s, 100);
    assert_int_equal(s->rec[id].n_cached, 0);
    sim_free(s);
}

/* A cancelled prefill leaves its complete blocks and nothing else. */
static void cancelled_prefill_leaves_full_blocks(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 200, .max_sequences = 4,
                                                   .batch = 64, .chunk = 40, .prefix_cache = true});
    uint64_t id;
    (void)state;

    id = post(s, make_like(s, 1, 300, 300, 2));
    assert_true(step(s, NO_BUDGET)); /* 40 tokens: two blocks and a half */
    sched_cancel(s->sched, id, FINISH_CANCELLED, s->now);
    take_ends(s);
    assert_int_equal(n_held(s), 0);
    assert_int_equal(kv_manager_stats(s->kv).pool.n_cached, 2);
    id = post(s, make_like(s, 1, 300, 300, 2));
    run_dry(s, 100);
    assert_int_equal(s->rec[id].n_cached, 32);
    sim_free(s);
}

/* Parallel choices: the first computes the prompt, the others take over its blocks, the partial one
 * too, and part from it at the first write (S3.7, T9). */
static void choices_fork(void **state)
{
    struct sim *s = sim_shared(200, 8);
    uint64_t first;
    (void)state;

    first = post(s, make_like(s, 3, 100, 100, 20));
    for (int i = 0; i < 3; i++) {
        struct request *r = make_like(s, 3, 100, 100, 20);

        r->leader = first;
        post(s, r);
    }
    assert_true(step(s, NO_BUDGET));
    assert_int_equal(n_held(s), 7);
    assert_true(step(s, NO_BUDGET)); /* the others: six shared blocks, one of their own each */
    assert_int_equal(n_held(s), 6 + 4);
    run_dry(s, 100);
    for (uint64_t id = first + 1; id <= first + 3; id++)
        assert_int_equal(s->rec[id].n_cached, 99);
    sim_free(s);
}

/* The leader goes while its prompt is computed: the next one leads. */
static void followers_outlive_their_leader(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 200, .max_sequences = 8,
                                                   .batch = 64, .chunk = 32, .prefix_cache = true});
    uint64_t first;
    (void)state;

    first = post(s, make_like(s, 3, 100, 100, 5));
    for (int i = 0; i < 3; i++) {
        struct request *r = make_like(s, 3, 100, 100, 5);

        r->leader = first;
        post(s, r);
    }
    assert_true(step(s, NO_BUDGET));
    sched_cancel(s->sched, first + 2, FINISH_CANCELLED, s->now); /* one that is held back */
    sched_cancel(s->sched, first, FINISH_CANCELLED, s->now);
    take_ends(s);
    assert_true(sched_check(s->sched));
    run_dry(s, 100);
    assert_int_equal(s->rec[first + 1].n_tokens, 5);
    assert_int_equal(s->rec[first + 3].n_tokens, 5);
    assert_int_equal(s->rec[first + 3].n_cached, 99);
    sim_free(s);
}

/* Eight come at once with 512 tokens in common: they are computed once. */
static void a_stampede_computes_once(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 400, .max_sequences = 16,
                                                   .batch = 300, .chunk = 256,
                                                   .prefix_cache = true});
    struct engine_stats stats = {0};
    (void)state;

    for (int i = 0; i < 8; i++)
        post(s, make_like(s, 5, 512, 544, 4));
    assert_true(step(s, NO_BUDGET));
    assert_true(step(s, NO_BUDGET)); /* the 512 are there, and nobody else has any */
    assert_int_equal(n_held(s), 32);
    run_dry(s, 100);
    sched_fill_stats(s->sched, &stats);
    assert_int_equal(stats.prompt_tokens, 512 + 8 * 32);
    assert_int_equal(stats.cached_tokens, 7 * 512);
    sim_free(s);
}

/* The one that computes it leaves half way: another one goes on from there. */
static void a_stampede_outlives_its_first(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 400, .max_sequences = 16,
                                                   .batch = 300, .chunk = 256,
                                                   .prefix_cache = true});
    struct engine_stats stats = {0};
    (void)state;

    for (int i = 0; i < 8; i++)
        post(s, make_like(s, 5, 512, 544, 4));
    assert_true(step(s, NO_BUDGET));
    sched_cancel(s->sched, 1, FINISH_CANCELLED, s->now);
    take_ends(s);
    run_dry(s, 100);
    sched_fill_stats(s->sched, &stats);
    assert_int_equal(stats.prompt_tokens, 512 + 7 * 32);
    sim_free(s);
}

/* ---- policies ---- */

/* Order in which requests that all wait get their first step. */
static void assert_order(struct sim *s, const uint64_t *ids, size_t n)
{
    for (size_t i = 1; i < n; i++)
        assert_true(s->rec[ids[i - 1]].first_step < s->rec[ids[i]].first_step);
}

/* S2.14: shortest prompt + max_tokens first, equals by arrival. */
static void sjf_takes_the_shortest(void **state)
{
    struct sim *s = sim_new(100, 1, 64, 64, SCHED_SJF);
    (void)state;

    add(s, 30, 30, PRIORITY_NORMAL);
    add(s, 8, 20, PRIORITY_LOW);
    add(s, 20, 4, PRIORITY_NORMAL);
    add(s, 4, 20, PRIORITY_CRITICAL);
    run_dry(s, 200);
    assert_order(s, (const uint64_t[]){3, 4, 2, 1}, 4);
    sim_free(s);
}

/* S2.14, D2.9: adaptive is neither fcfs nor priority: length counts too. */
static void adaptive_weighs_length(void **state)
{
    struct sim *s = sim_new(300, 1, 64, 64, SCHED_ADAPTIVE);
    (void)state;

    add(s, 30, 3000, PRIORITY_NORMAL); /* one level and a half */
    add(s, 10, 5, PRIORITY_NORMAL);
    add(s, 10, 5, PRIORITY_HIGH);
    run_dry(s, 4000);
    assert_order(s, (const uint64_t[]){3, 2, 1}, 3);
    sim_free(s);
}

/* T6: with a level worth ten seconds, a low request that has waited thirty goes before a fresh
 * critical one; with ageing off it never does. */
static void ageing_lifts_the_low(void **state)
{
    (void)state;
    for (int aging = 0; aging < 2; aging++) {
        struct sim *s = sim_new(100, 1, 64, 64, SCHED_PRIORITY);

        sched_destroy(&s->sched);
        s->opt.aging_milli = aging ? 100 : 0;
        assert_int_equal(sched_create(&s->sched, &s->opt), 0);
        add(s, 8, 4, PRIORITY_CRITICAL); /* has the slot */
        assert_true(step(s, NO_BUDGET));
        add(s, 8, 2, PRIORITY_LOW);
        s->now += 31 * 1000000;
        add(s, 8, 2, PRIORITY_CRITICAL);
        run_dry(s, 100);
        assert_int_equal(s->rec[2].first_step < s->rec[3].first_step, aging);
        sim_free(s);
    }
}

/* Among equals the earliest deadline goes first; without one, max_wait after the arrival. */
static void earliest_deadline_first(void **state)
{
    static const uint64_t seconds[] = {0, 20, 5, 10, 0, 100};
    struct sim *s = sim_new(100, 1, 64, 64, SCHED_PRIORITY);
    (void)state;

    for (int i = 0; i < 6; i++) {
        struct request *r = make(s, 8, 2, PRIORITY_NORMAL);

        r->deadline_us = seconds[i] != 0 ? s->now + seconds[i] * 1000000 : 0;
        post(s, r);
    }
    run_dry(s, 100);
    assert_order(s, (const uint64_t[]){3, 4, 2, 1, 5, 6}, 6);
    sim_free(s);
}

/* max_queue_ms: only the wait counts. */
static void queue_limit_ends_the_waiting(void **state)
{
    struct sim *s = sim_new(100, 1, 64, 64, SCHED_PRIORITY);
    (void)state;

    for (int i = 0; i < 2; i++) {
        struct request *r = make(s, 8, 50, PRIORITY_NORMAL);

        r->queue_until_us = s->now + 10000;
        post(s, r);
    }
    run_dry(s, 100);
    assert_int_equal(s->rec[1].n_tokens, 50);
    assert_int_equal(s->rec[2].finish, FINISH_QUEUE_TIMEOUT);
    assert_int_equal(s->rec[2].n_tokens, 0);
    sim_free(s);
}

/* Two tenants, one slot: turns by tokens served over weight, not by who asks more. */
static void tenants_take_turns(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 100, .max_sequences = 1,
                                                   .batch = 64, .chunk = 64, .max_tenants = 2,
                                                   .policy = SCHED_PRIORITY});
    uint32_t n[2] = {0, 0};
    (void)state;

    for (uint32_t i = 0; i < 100; i++) {
        struct request *r = make(s, 10, 10, PRIORITY_NORMAL);

        r->tenant = i < 80 ? 0 : 1;
        r->weight = i < 80 ? 1 : 3;
        post(s, r);
    }
    while (s->n_ended < 24)
        assert_true(step(s, NO_BUDGET));
    for (uint64_t id = 1; id <= 100; id++)
        n[id > 80] += s->rec[id].ends;
    assert_in_range(n[0], 5, 7);
    assert_in_range(n[1], 17, 19);
    run_dry(s, 4000);
    sim_free(s);
}

/* ---- preemption ---- */

/* With room for copies nothing is computed twice (S2.29). */
static void swapping_recomputes_nothing(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 20, .max_sequences = 8, .batch = 40,
                                                   .chunk = 16, .preemption = SCHED_SWAP,
                                                   .policy = SCHED_PRIORITY, .n_ram = 200});
    struct engine_stats stats = {0};
    (void)state;

    for (int i = 0; i < 8; i++)
        add(s, 20 + (uint32_t)i, 200, PRIORITY_NORMAL);
    run_dry(s, 20000);
    sched_fill_stats(s->sched, &stats);
    assert_true(stats.preemptions_swap > 0);
    assert_int_equal(stats.preemptions_recompute, 0);
    assert_int_equal(stats.recomputed_tokens, 0);
    assert_int_equal(stats.swap.ram_used, 0);
    sim_free(s);
}

/* The way back that costs less is taken: computing again when the tier is slow. */
static void mode_follows_cost(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct sim *s = sim_open(&(struct sim_options){.n_blocks = 40, .max_sequences = 8,
                                                       .batch = 64, .chunk = 64, .n_ram = 200,
                                                       .policy = SCHED_PRIORITY});
        const struct sched_limits limits = {
            .costs = {.is_known = true, .prefill_ns = 1000, .swap_ns = slow ? 1000000 : 1000}};
        const struct plan *p;

        add(s, 300, 10, PRIORITY_LOW);
        while (s->rec[1].n_tokens == 0)
            assert_true(step(s, NO_BUDGET));
        add(s, 600, 10, PRIORITY_HIGH); /* needs nearly all blocks */
        p = sched_plan(s->sched, s->now += 1000, &limits);
        assert_int_equal(p->n_preempted, 1);
        assert_int_equal(p->n_swapped_out, slow ? 0 : 1);
        check_preempted(s, p);
        run_moves(s, p);
        for (uint32_t i = 0; i < p->n_items; i++) {
            check_item(s, &p->items[i]);
            compute(s, &p->items[i]);
            s->tokens[i] = 11;
        }
        sched_commit(s->sched, s->tokens, NULL, NULL, s->now);
        run_dry(s, 200);
        sim_free(s);
    }
}

/* D2.6, T6: equal priorities, a pool that holds one and a half: everybody ends, nobody is thrown
 * out more often than the bound says. */
static void preemptions_are_bounded(void **state)
{
    (void)state;
    for (int swap = 0; swap < 2; swap++) {
        struct sim *s = sim_open(&(struct sim_options){
            .n_blocks = 30, .max_sequences = 16, .batch = 64, .chunk = 32, .n_ram = swap ? 400 : 0,
            .preemption = swap ? SCHED_SWAP : SCHED_RECOMPUTE, .policy = SCHED_PRIORITY});

        for (int i = 0; i < 60; i++)
            add(s, 10 + rnd(s, 60), 100 + rnd(s, 200), PRIORITY_NORMAL);
        run_dry(s, 40000);
        for (uint64_t id = 1; id <= 60; id++)
            assert_in_range(s->rec[id].n_preempted, 0, s->opt.max_preemptions);
        assert_int_equal(s->rec[1].n_preempted, 0);
        sim_free(s);
    }
}

/* Low requests are pushed out to the file by high ones and come back later; what the disk does not
 * take stays in RAM, and what it does not give back is computed again. */
static void lost_copies_are_recomputed(void **state)
{
    struct sim *s = sim_open(&(struct sim_options){
        .n_blocks = 120, .max_sequences = 16, .batch = 64, .chunk = 64, .n_ram = 22, .n_file = 400,
        .preemption = SCHED_SWAP, .policy = SCHED_PRIORITY});
    struct engine_stats stats = {0};
    (void)state;

    s->io_fail_percent = 40;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 8; i++)
            add(s, 100, 60, PRIORITY_LOW);
        for (int i = 0; i < 30; i++)
            step(s, NO_BUDGET);
        for (int i = 0; i < 8; i++)
            add(s, 150, 60, PRIORITY_HIGH);
        run_dry(s, 4000);
    }
    sched_fill_stats(s->sched, &stats);
    assert_true(stats.swap.n_write_errors > 0 && stats.swap.n_read_errors > 0);
    assert_true(stats.swap_fallbacks > 0 && stats.recomputed_tokens > 0);
    sim_free(s);
}

/* ---- time ---- */

/* P7, T8: beside a stream a chunk takes no longer than the step target leaves; alone it may. */
static void chunks_fit_into_the_step(void **state)
{
    struct sim *s = sim_new(300, 4, 600, 512, SCHED_PRIORITY);
    const struct sched_limits limits = {
        .target_us = 50000,
        .costs = {.is_known = true, .step_ns = 5000000, .prefill_ns = 500000,
                  .decode_ns = 1000000, .kv_prefill_ps = 1000000}};
    const struct plan *p;
    (void)state;

    add(s, 8, 200, PRIORITY_NORMAL);
    assert_true(step(s, NO_BUDGET));
    add(s, 1500, 5, PRIORITY_NORMAL);
    for (int i = 0; i < 50; i++) {
        p = sched_plan(s->sched, s->now += 1000, &limits);
        check_preempted(s, p);
        assert_true(p->predicted_ns <= 50000000);
        assert_true(p->work.n_prefill == 0 || p->work.n_prefill >= SCHED_MIN_CHUNK ||
                    s->rec[2].next_pos + p->work.n_prefill == 1500);
        assert_int_equal(p->items[0].request->id, 1);
        for (uint32_t k = 0; k < p->n_items; k++) {
            check_item(s, &p->items[k]);
            compute(s, &p->items[k]);
            s->tokens[k] = 11;
        }
        sched_commit(s->sched, s->tokens, NULL, NULL, s->now);
        take_ends(s);
    }
    assert_true(s->rec[2].n_tokens > 0);
    run_dry(s, 1000);
    sim_free(s);
}

/* ---- everything at once ---- */

static void add_at_random(struct sim *s)
{
    const uint32_t n = 1 + rnd(s, rnd(s, 10) == 0 ? 300 : 40);
    struct request *r = make_like(s, rnd(s, 3), rnd(s, 2) * rnd(s, n + 1), n, rnd(s, 60));
    uint64_t id;

    r->priority = (enum priority)rnd(s, PRIORITY_COUNT);
    r->tenant = rnd(s, s->opt.max_tenants);
    r->weight = 1 + r->tenant;
    r->score_prompt = rnd(s, 10) == 0;
    if (rnd(s, 20) == 0)
        r->deadline_us = s->now + rnd(s, 200000);
    if (rnd(s, 20) == 0)
        r->queue_until_us = s->now + rnd(s, 100000);
    id = post(s, r);
    for (uint32_t k = rnd(s, 6) == 0 ? rnd(s, 4) : 0; k > 0; k--) {
        struct request *twin = make(s, n, 1 + rnd(s, 60), PRIORITY_NORMAL);

        memcpy(twin->ids, r->ids, n * sizeof(*twin->ids));
        twin->leader = id;
        twin->tenant = r->tenant;
        twin->weight = r->weight;
        post(s, twin);
    }
}

/* Random arrivals, lengths, priorities, budgets and cancels at every moment. */
static void storm(struct sim *s, uint64_t seed, uint32_t n_requests)
{
    uint64_t idle = 0;

    s->rng = seed;
    s->eog_percent = 1;
    while (s->n_ids < n_requests || !sched_is_idle(s->sched)) {
        for (uint32_t k = rnd(s, 4); k > 0 && s->n_ids < n_requests; k--)
            add_at_random(s);
        if (s->n_ids > 0 && rnd(s, 8) == 0)
            sched_cancel(s->sched, 1 + rnd(s, (uint32_t)s->n_ids), FINISH_CANCELLED, s->now);
        take_ends(s);
        assert_true(sched_check(s->sched));
        idle = step(s, rnd(s, 3) == 0 ? rnd(s, 20) : NO_BUDGET) ? 0 : idle + 1;
        assert_true(idle == 0 || s->n_io > 0 || sched_is_idle(s->sched));
        assert_true(idle < 1000 && s->steps < 200000);
    }
    for (uint64_t id = 1; id <= s->n_ids; id++)
        assert_int_equal(s->rec[id].ends, 1);
    while (s->n_io > 0)
        end_io(s, 0);
    assert_int_equal(kv_manager_stats(s->kv).swap.ram_used, 0);
    assert_int_equal(kv_manager_stats(s->kv).swap.file_used, 0);
}

static struct sim_options storm_options(uint32_t seed)
{
    return (struct sim_options){
        .n_blocks = 24 + 8 * seed,
        .max_sequences = 2 + seed,
        .batch = 48,
        .chunk = 8 + seed,
        .policy = (enum sched_policy)(seed % 4),
        .preemption = (enum sched_preemption)(seed / 2 % 3),
        .prefix_cache = seed % 3 != 0,
        .n_ram = seed % 5 == 0 ? 0 : 12 * (seed % 5),
        .n_file = seed % 5 > 2 ? 60 : 0,
        .max_tenants = 1 + seed % 3,
    };
}

/* T3, T6: every policy, way of preemption, tier and sharing. QUIRE_STORMS sets how many. */
static void random_traffic_loses_nothing(void **state)
{
    const char *n = getenv("QUIRE_STORMS");
    const uint32_t n_storms = n != NULL ? (uint32_t)strtoul(n, NULL, 10) : 30;
    uint64_t preempted = 0, swapped = 0, cached = 0, from_file = 0;
    (void)state;

    for (uint32_t seed = 1; seed <= n_storms; seed++) {
        struct sim_options o = storm_options(seed % 40);
        struct sim *s = sim_open(&o);
        struct engine_stats stats = {0};

        s->io_fail_percent = seed % 4 == 0 ? 20 : 0;
        storm(s, seed, 1000);
        sched_fill_stats(s->sched, &stats);
        preempted += stats.preemptions_recompute;
        swapped += stats.preemptions_swap;
        cached += stats.cached_tokens;
        from_file += stats.swap.blocks_in[1];
        sim_free(s);
    }
    printf("note: %u storms: %u preempted, %u swapped, %u tokens cached, %u blocks from file\n",
           n_storms, (unsigned)preempted, (unsigned)swapped, (unsigned)cached,
           (unsigned)from_file);
    assert_true(preempted > 0 && swapped > 0 && cached > 0 && from_file > 0);
}

/* The same arrivals give the same plans: what a journal replays. */
static void plans_are_reproducible(void **state)
{
    uint64_t hash[2];
    (void)state;

    for (int i = 0; i < 2; i++) {
        struct sim_options o = storm_options(23);
        struct sim *s = sim_open(&o);

        storm(s, 42, 1000);
        hash[i] = s->hash;
        sim_free(s);
    }
    assert_true(hash[0] == hash[1]);
}

static void cancel_all_frees_everything(void **state)
{
    struct sim *s = sim_new(60, 4, 64, 32, SCHED_PRIORITY);
    (void)state;

    for (int i = 0; i < 30; i++)
        add(s, 30, 30, PRIORITY_NORMAL);
    for (int i = 0; i < 5; i++)
        step(s, NO_BUDGET);
    sched_cancel_all(s->sched, FINISH_CANCELLED, s->now);
    take_ends(s);
    assert_true(sched_is_idle(s->sched));
    assert_int_equal(s->n_ended, 30);
    sched_cancel(s->sched, 3, FINISH_CANCELLED, s->now); /* unknown by now: ignored */
    sim_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_prompts_are_chunked),
        cmocka_unit_test(requests_join_running_batches),
        cmocka_unit_test(blocks_are_taken_on_demand),
        cmocka_unit_test(priorities_order_admission),
        cmocka_unit_test(fcfs_ignores_priorities),
        cmocka_unit_test(critical_preempts_low),
        cmocka_unit_test(equals_wait_for_slots),
        cmocka_unit_test(small_pool_preempts_and_finishes),
        cmocka_unit_test(too_large_is_refused),
        cmocka_unit_test(deadlines_end_requests),
        cmocka_unit_test(stops_follow_the_request),
        cmocka_unit_test(cached_tokens_are_exact),
        cmocka_unit_test(salts_keep_apart),
        cmocka_unit_test(cancelled_prefill_leaves_full_blocks),
        cmocka_unit_test(choices_fork),
        cmocka_unit_test(followers_outlive_their_leader),
        cmocka_unit_test(a_stampede_computes_once),
        cmocka_unit_test(a_stampede_outlives_its_first),
        cmocka_unit_test(sjf_takes_the_shortest),
        cmocka_unit_test(adaptive_weighs_length),
        cmocka_unit_test(ageing_lifts_the_low),
        cmocka_unit_test(earliest_deadline_first),
        cmocka_unit_test(queue_limit_ends_the_waiting),
        cmocka_unit_test(tenants_take_turns),
        cmocka_unit_test(swapping_recomputes_nothing),
        cmocka_unit_test(mode_follows_cost),
        cmocka_unit_test(preemptions_are_bounded),
        cmocka_unit_test(lost_copies_are_recomputed),
        cmocka_unit_test(chunks_fit_into_the_step),
        cmocka_unit_test(random_traffic_loses_nothing),
        cmocka_unit_test(plans_are_reproducible),
        cmocka_unit_test(cancel_all_frees_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
