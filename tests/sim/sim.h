/* tests/sim/sim.h - the scheduler without a model: scripted arrivals, made-up tokens.
 *
 * The cache's bytes are played by numbers: a slot of a block holds the hash of all tokens up to its
 * position, and the group of layers; a recurrent state, of the last one's. Moves between blocks,
 * states, RAM slots and file slots are carried out on them. So every run, through step(), checks
 * after each plan and commit: blocks add up (P3, T3, S2.30), what a sequence reads is its own past
 * wherever it came from (prefix hits, copies, swaps), positions follow one another and each row is
 * written once, by a sequence that alone holds the block (T2, S2.5), no running stream is left out
 * of a step unless it was preempted (P7), every request ends exactly once (P2).
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

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
#include "scheduler/scheduler.h"
#include "tests/fixtures/random.h"

#define MAX_REQUESTS 4096
#define MAX_BLOCKS 2048
#define MAX_STATES 512
#define EOG 7
#define NO_BUDGET UINT32_MAX

struct record { /* what the simulator knows of a request, by id */
    uint32_t n_prompt, max_tokens;
    enum priority priority;
    uint32_t max_known, n_discard; /* of a context shift */
    uint32_t n_known;
    uint32_t n_shifted;
    uint32_t next_pos;     /* position that must be computed next */
    bool anywhere;         /* it may begin wherever its past is there */
    uint32_t n_tokens;     /* tokens it got */
    uint32_t n_preempted;
    uint32_t n_cached;
    uint32_t ends;
    enum finish finish;
    bool running;
    bool was_running; /* scratch of check_running() */
    uint64_t end_step, first_step;
};

typedef uint64_t cells[BLOCK_TOKENS];

struct sim {
    struct kv_manager *kv;
    struct sched *sched;
    struct kv_groups groups;
    struct kv_state_options states;
    struct sched_options opt;
    struct sched_limits limits;
    struct record rec[MAX_REQUESTS + 1];
    cells blocks[MAX_BLOCKS + 1], ram[MAX_BLOCKS], file[MAX_BLOCKS];
    uint64_t state[MAX_STATES + 1];
    uint64_t stepped[MAX_STATES + 1]; /* 1 + the step in which a slot was last written */
    struct swap_io io[SWAP_MAX_IO];
    uint32_t n_io;
    uint32_t io_fail_percent;
    bool hangs; /* the disk reads nothing */
    uint64_t n_ids;
    uint64_t now, steps;
    uint64_t rng;
    uint64_t hash; /* of all plans */
    uint32_t n_ended;
    int32_t tokens[MAX_REQUESTS];
    uint32_t n_accepted[MAX_REQUESTS];
    uint32_t pin_percent; /* of requests that pin beginnings of their prompts */
    uint64_t n_pinned;    /* tokens that they have pinned */
    uint32_t draft_percent; /* of streams that get a guess in a step */
    uint32_t right_percent; /* of its tokens that are right, as long as those before them are */
    uint64_t n_drafts, n_right;
    struct usage used;                  /* of what has ended */
    uint64_t rows_us, n_rows, n_chosen; /* time, rows and tokens of all steps */
    uint64_t last_items[MAX_REQUESTS];
    uint32_t n_last;
    uint32_t eog_percent;
    uint32_t n_words; /* of the made-up vocabulary */
};

static inline uint32_t rnd(struct sim *s, uint32_t n)
{
    return random_below(&s->rng, n);
}

/* Any words; whether they are right is the simulator's to say (accept_drafts). */
static inline struct draft sim_propose(void *ud, struct request *r, uint32_t n_known, uint32_t most)
{
    struct sim *s = ud;
    uint32_t n = rnd(s, 100) < s->draft_percent ? 1 + rnd(s, most) : 0;

    for (uint32_t i = 0; i < n; i++)
        r->ids[n_known + i] = (int32_t)(10 + rnd(s, s->n_words));
    n = draft_before_end(r->ids + n_known, n, r->stop_ids, r->n_stop_ids);
    return draft_behind_match(n, DRAFT_LOOKUP, 1 + rnd(s, 20));
}

struct sim_options {
    uint32_t n_blocks, max_sequences, batch, chunk;
    enum sched_policy policy;
    enum sched_preemption preemption;
    bool prefix_cache;
    uint32_t n_ram, n_file, max_tenants;
    struct kv_groups groups;
    struct kv_state_options states;
    struct kv_pin_options pins;
    uint32_t store_blocks, store_wait_ms;
};

static inline struct sim *sim_open(const struct sim_options *o)
{
    const struct kv_manager_options ko = {.n_blocks = o->n_blocks,
                                          .prefix_cache = o->prefix_cache,
                                          .n_ram = o->n_ram,
                                          .n_file = o->n_file,
                                          .max_sequences = MAX_REQUESTS,
                                          .max_table = 4096 / BLOCK_TOKENS,
                                          .groups = o->groups,
                                          .states = o->states,
                                          .pins = o->pins,
                                          .max_chunk = o->chunk,
                                          .low_percent = 30,
                                          .critical_percent = 10};
    struct sim *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    assert_int_equal(kv_manager_create(&s->kv, &ko), 0);
    s->groups = o->groups;
    s->states = o->states;
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
    s->opt.store_blocks = o->store_blocks;
    s->opt.store_wait_ms = o->store_wait_ms;
    s->opt.drafter = (struct drafter){s, sim_propose, true};
    assert_int_equal(sched_create(&s->sched, &s->opt), 0);
    s->rng = 1;
    s->now = 1000;
    s->n_words = 1000;
    return s;
}

static inline struct sim *sim_new(uint32_t n_blocks, uint32_t max_sequences, uint32_t batch,
                           uint32_t chunk, enum sched_policy policy)
{
    return sim_open(&(struct sim_options){.n_blocks = n_blocks, .max_sequences = max_sequences,
                                          .batch = batch, .chunk = chunk, .policy = policy,
                                          .preemption = SCHED_RECOMPUTE});
}

static inline uint32_t n_held(const struct sim *s)
{
    return kv_manager_stats(s->kv).pool.n_held;
}

static inline void sim_free(struct sim *s)
{
    assert_int_equal(n_held(s), 0);
    assert_int_equal(kv_manager_stats(s->kv).states.slots.n_held, 0);
    sched_destroy(&s->sched);
    assert_true(kv_manager_check(s->kv));
    kv_manager_destroy(&s->kv);
    free(s);
}

static inline struct request *make_sized(struct sim *s, const struct request_size *size)
{
    struct request *r;

    assert_int_equal(request_create(&r, size), 0);
    r->id = ++s->n_ids;
    r->arrival_us = s->now;
    r->drafts = true;
    for (uint32_t i = 0; i < size->n_prompt; i++)
        r->ids[i] = (int32_t)(10 + rnd(s, s->n_words));
    return r;
}

static inline struct request *make(struct sim *s, uint32_t n_prompt, uint32_t max_tokens,
                            enum priority priority)
{
    const struct request_size size = {.n_prompt = n_prompt, .max_tokens = max_tokens};
    struct request *r = make_sized(s, &size);

    r->priority = priority;
    return r;
}

static inline void expect(struct sim *s, const struct request *r)
{
    s->rec[r->id] = (struct record){.n_prompt = r->n_prompt, .max_tokens = r->max_tokens,
                                    .max_known = r->max_known, .n_discard = r->n_discard,
                                    .n_known = request_n_given(r), .n_tokens = r->n_resumed,
                                    .priority = r->priority,
                                    .anywhere = true};
}

static inline uint64_t post(struct sim *s, struct request *r)
{
    expect(s, r);
    assert_int_equal(sched_add(s->sched, r, s->now), 0);
    return s->n_ids;
}

static inline uint64_t add(struct sim *s, uint32_t n_prompt, uint32_t max_tokens,
                           enum priority priority)
{
    return post(s, make(s, n_prompt, max_tokens, priority));
}

static inline void take_ends(struct sim *s)
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
        for (uint32_t i = 0; i < REQUEST_MAX_PINS; i++) {
            s->n_pinned += end.pins.n_tokens[i];
            assert_true(i < end.request->n_pins
                            ? end.pins.n_tokens[i] <= end.request->pins[i].n_tokens
                            : end.pins.n_tokens[i] == 0);
        }
        assert_int_equal(rec->ends, 1);
        assert_true(t->swapped_us <= t->preempted_us);
        assert_int_equal(t->queue_us + t->prefill_us + t->decode_us + t->preempted_us,
                         s->now - end.request->arrival_us);
        assert_int_equal(t->n_preempted, rec->n_preempted);
        usage_add(&s->used, &end.usage);
        request_destroy(&end.request);
    }
}

static inline bool is_eog(void *ud, int32_t token)
{
    (void)ud;
    return token == EOG;
}

static inline void mix(struct sim *s, uint64_t v)
{
    s->hash = (s->hash ^ v) * 1099511628211u;
}

/* ---- bytes ---- */

static inline void run_moves(struct sim *s, const struct plan *p)
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
        case KV_COPY_STATE:
            s->state[m->to] = s->state[m->from];
            break;
        case KV_SAVE_STATE:
            s->ram[m->to][0] = s->state[m->from] + m->part;
            break;
        case KV_LOAD_STATE:
            if (m->part == 0)
                s->state[m->to] = s->ram[m->from][0];
            assert_true(s->state[m->to] + m->part == s->ram[m->from][0]);
            break;
        }
    }
    if (p->n_moves > 0)
        sched_moves_done(s->sched);
}

/* One transfer ends, well or not. */
static inline void end_io(struct sim *s, uint32_t at)
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

static inline void run_io(struct sim *s)
{
    while (s->n_io < SWAP_MAX_IO && sched_next_io(s->sched, &s->io[s->n_io]))
        s->n_io++;
    if (s->n_io > 0 && rnd(s, 2) == 0) {
        const uint32_t at = rnd(s, s->n_io);

        if (s->io[at].is_write || !s->hangs)
            end_io(s, at);
    }
}

/* What a slot holds after the token at its position: a hash of all tokens so far. */
static inline uint64_t cell_of(uint64_t before, int32_t token)
{
    return (before ^ (uint64_t)(uint32_t)token) * 0x9e3779b97f4a7c15u + 1;
}

/* The block of a position in a group, and whether the item's first row looks there. */
static inline block_id block_at(const struct plan_item *item, uint32_t group, uint32_t pos)
{
    return item->table[group * item->group_stride + pos / BLOCK_TOKENS];
}

static inline bool is_seen(const struct sim *s, const struct plan_item *item, uint32_t group,
                           uint32_t pos)
{
    return group < kv_groups_n_full(&s->groups) || pos + s->groups.window > item->first;
}

/* The state is that behind the tokens before, and becomes that behind the item's; no other item of
 * the step has the slot. */
static inline void compute_state(struct sim *s, const struct plan_item *item, uint64_t before,
                                 uint64_t behind)
{
    assert_true((item->state != STATE_NONE) == (s->states.n_slots > 0));
    if (item->state == STATE_NONE)
        return;
    assert_true(item->first == 0 || s->state[item->state] == before);
    assert_true(s->stepped[item->state] != s->steps + 1);
    s->stepped[item->state] = s->steps + 1;
    s->state[item->state] = behind;
}

/* Read the past as far as it is seen, write the item's rows. */
static inline void compute(struct sim *s, const struct plan_item *item)
{
    const uint32_t n_groups = s->states.is_alone ? 0 : kv_groups_n(&s->groups);
    const struct request *r = item->request;
    uint64_t cell = 0, before = 0;

    for (uint32_t pos = 0; pos < item->first + item->n; pos++) {
        before = pos == item->first ? cell : before;
        cell = cell_of(cell, r->ids[pos]);
        for (uint32_t group = 0; group < n_groups; group++) {
            const block_id block = block_at(item, group, pos);
            uint64_t *slot = &s->blocks[block][pos % BLOCK_TOKENS];

            if (pos < item->first && !is_seen(s, item, group, pos))
                continue;
            assert_true(block != BLOCK_NONE);
            if (pos < item->first)
                assert_true(*slot == cell + group);
            *slot = cell + group;
        }
    }
    compute_state(s, item, before, cell);
}

/* ---- plans ---- */

static inline bool has(const uint64_t *ids, uint32_t n, uint64_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static inline uint32_t count(const uint64_t *ids, uint32_t n, uint64_t id)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < n; i++)
        found += ids[i] == id;
    return found;
}

/* Who is admitted runs, with rows in that plan or without, unless it is preempted again. */
static inline void note_running(struct sim *s, const struct plan *p, uint64_t id)
{
    struct record *rec = &s->rec[id];
    const uint32_t came = rec->running + count(p->admitted, p->n_admitted, id);
    const uint32_t went = count(p->preempted, p->n_preempted, id);

    assert_true(came == went || came == went + 1);
    rec->was_running = came > went;
}

static inline void check_running(struct sim *s, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_admitted; i++)
        note_running(s, p, p->admitted[i]);
    for (uint32_t i = 0; i < p->n_preempted; i++)
        note_running(s, p, p->preempted[i]);
    for (uint32_t i = 0; i < p->n_admitted; i++)
        s->rec[p->admitted[i]].running = s->rec[p->admitted[i]].was_running;
    for (uint32_t i = 0; i < p->n_preempted; i++)
        s->rec[p->preempted[i]].running = s->rec[p->preempted[i]].was_running;
}

/* Only what runs is preempted (S2.2), and then has no rows in that plan (S2.21). */
static inline void check_preempted(struct sim *s, const struct plan *p)
{
    check_running(s, p);
    for (uint32_t i = 0; i < p->n_preempted; i++) {
        struct record *rec = &s->rec[p->preempted[i]];

        assert_true(rec->ends == 0);
        for (uint32_t j = 0; j < p->n_items; j++) /* its rows are out of the plan as well */
            assert_true(p->items[j].request->id != p->preempted[i] ||
                        has(p->admitted, p->n_admitted, p->preempted[i]));
        rec->anywhere = true;
        rec->n_preempted++;
    }
    for (uint32_t i = 0; i < p->n_swapped_out; i++)
        assert_true(has(p->preempted, p->n_preempted, p->swapped_out[i]));
    for (uint32_t i = 0; i < p->n_swapped_in; i++)
        assert_true(has(p->admitted, p->n_admitted, p->swapped_in[i]));
}

/* Only one that runs, is full and is to go on throws tokens away, and each such one does. */
static inline void check_shifted(struct sim *s, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_shifted; i++) {
        struct record *rec = &s->rec[p->shifted[i]];

        assert_true(rec->running && rec->ends == 0 && rec->n_known == rec->max_known);
        rec->n_known -= rec->n_discard;
        rec->anywhere = true;
        rec->n_shifted++;
        for (uint32_t j = 0; j < s->n_last; j++) /* it is a prefill again, and no stream */
            if (s->last_items[j] == p->shifted[i])
                s->last_items[j--] = s->last_items[--s->n_last];
    }
}

static inline void check_item(struct sim *s, const struct plan_item *item)
{
    struct record *rec = &s->rec[item->request->id];
    const struct block_pool *pool = kv_manager_pool(s->kv);
    const uint32_t known = rec->n_known, end = item->first + item->n - item->n_drafts;
    const uint32_t last = end + item->n_drafts - 1;

    assert_true(rec->anywhere || item->first == rec->next_pos); /* each once, in order */
    assert_true(item->n > 0 && end <= known && known < rec->max_known + (rec->max_tokens == 0));
    assert_int_equal(item->n_discarded, rec->n_shifted * rec->n_discard);
    assert_int_equal(item->wants_token, end == known && rec->max_tokens > 0);
    assert_true(item->n_drafts == 0 ||
                (item->wants_token && item->n == 1 + item->n_drafts && s->states.n_slots == 0 &&
                 rec->n_tokens + item->n_drafts < rec->max_tokens &&
                 known + item->n_drafts < rec->max_known));
    for (uint32_t group = 0; group < kv_groups_n(&s->groups); group++)
        for (uint32_t b = 0; b <= last / BLOCK_TOKENS; b++) {
            const uint32_t pos = b * BLOCK_TOKENS;
            const uint32_t holders = block_pool_holders(pool, block_at(item, group, pos));

            if (is_seen(s, item, group, pos + BLOCK_TOKENS - 1))
                assert_true(b < item->first / BLOCK_TOKENS ? holders > 0 : holders == 1);
        }
    rec->next_pos = end;
    rec->anywhere = false;
    rec->running = true;
    if (rec->first_step == 0)
        rec->first_step = s->steps + 1;
    rec->n_tokens += item->wants_token;
    rec->n_known += item->wants_token;
    mix(s, item->request->id);
    mix(s, item->first);
    mix(s, item->n);
}

/* P7: who decoded before decodes again, unless it ended or was preempted. */
static inline void check_no_stall(struct sim *s, const struct plan *p)
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
static inline void check_sums(const struct sim *s, const struct plan *p)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_items; i++)
        n += p->items[i].n;
    assert_int_equal(n, p->n_tokens);
    assert_int_equal(p->work.n_prefill + p->work.n_decode + p->n_drafts, n);
    assert_true(n <= s->opt.max_batch_tokens && p->work.n_prefill <= s->opt.prefill_chunk);
}

/* Some of the item's drafts are right: as many tokens more, which were computed already. */
static inline uint32_t accept_drafts(struct sim *s, const struct plan_item *item)
{
    struct record *rec = &s->rec[item->request->id];
    uint32_t n = 0;

    while (n < item->n_drafts && rnd(s, 100) < s->right_percent)
        n++;
    rec->next_pos += n;
    rec->n_tokens += n;
    rec->n_known += n;
    s->n_drafts += item->n_drafts;
    s->n_right += n;
    return n;
}

/* Let beside streams only `rows` prompt rows fit into the time of a step. */
static inline void set_budget(struct sim *s, uint32_t rows)
{
    s->limits = (struct sched_limits){0};
    s->limits.costs = (struct step_costs){.is_known = true, .prefill_ns = 1000000,
                                          .swap_ns = 1000};
    if (rows != NO_BUDGET)
        s->limits.target_us = (uint64_t)rows * 1000 + 1;
}

/* Each step takes another time, some none at all. */
static inline void account(struct sim *s, const struct plan *p)
{
    const uint64_t us = s->steps * 7919 % 1009;

    sched_account(s->sched, &s->limits.costs, us);
    s->rows_us += us;
    s->n_rows += p->n_tokens;
    for (uint32_t i = 0; i < p->n_items; i++)
        s->n_chosen += p->items[i].wants_token + s->n_accepted[i];
}

/* What all requests have used is what the scheduler counted, and the steps took. */
static inline void check_usage(const struct sim *s)
{
    static struct engine_stats stats;

    sched_fill_stats(s->sched, &stats);
    assert_memory_equal(&s->used, &stats.usage, sizeof(stats.usage));
    assert_int_equal(s->used.compute_us, s->rows_us);
    assert_int_equal(s->used.computed_tokens, s->n_rows);
    assert_int_equal(s->used.generated_tokens, s->n_chosen);
    assert_int_equal(s->used.cached_tokens, stats.cached_tokens);
}

/* One turn; false when there was nothing to do. */
static inline bool step(struct sim *s, uint32_t budget)
{
    const struct plan *p;

    s->now += 1000;
    set_budget(s, budget);
    p = sched_plan(s->sched, s->now, &s->limits);
    take_ends(s);
    check_shifted(s, p);
    check_preempted(s, p);
    check_sums(s, p);
    assert_true(sched_check(s->sched));
    check_no_stall(s, p);
    run_moves(s, p);
    run_io(s);
    for (uint32_t i = 0; i < p->n_items; i++) {
        check_item(s, &p->items[i]);
        compute(s, &p->items[i]);
        s->n_accepted[i] = accept_drafts(s, &p->items[i]);
        s->tokens[i] = rnd(s, 100) < s->eog_percent ? EOG : (int32_t)(10 + rnd(s, s->n_words));
    }
    if (p->n_items == 0)
        return false;
    account(s, p);
    sched_commit(s->sched, s->tokens, s->n_accepted, is_eog, NULL, s->now);
    s->steps++;
    assert_true(sched_check(s->sched));
    take_ends(s);
    return true;
}

static inline void run_dry(struct sim *s, uint64_t limit)
{
    for (uint64_t i = 0; i < limit && !sched_is_idle(s->sched); i++)
        if (!step(s, NO_BUDGET)) /* something waits or runs: planned, or I/O is awaited */
            assert_true(s->n_io > 0 || sched_is_idle(s->sched));
    assert_true(sched_is_idle(s->sched));
    assert_int_equal(s->n_ended, s->n_ids);
    check_usage(s);
}

/* Its first `shared` tokens are those of text number `text`. */
static inline void begin_like(struct request *r, uint32_t text, uint32_t shared)
{
    for (uint32_t i = 0; i < shared && i < r->n_prompt; i++)
        r->ids[i] = (int32_t)(10 + (text * 7919 + i * i * 31 + i) % 900);
}

static inline struct request *make_like(struct sim *s, uint32_t text, uint32_t shared,
                                        uint32_t n_prompt, uint32_t max_tokens)
{
    struct request *r = make(s, n_prompt, max_tokens, PRIORITY_NORMAL);

    begin_like(r, text, shared);
    return r;
}

#endif
