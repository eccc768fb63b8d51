/* tests/sim/sim_sched.c - requests from arrival to end, and storms of everything; see sim.h. */
#include "tests/sim/sim.h"

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

/* S2.23: no plan of an empty queue has rows, neither at the start nor after the last end. */
static void nothing_to_do_is_an_empty_plan(void **state)
{
    struct sim *s = sim_new(10, 2, 64, 32, SCHED_PRIORITY);
    (void)state;

    assert_true(sched_is_idle(s->sched));
    assert_false(step(s, NO_BUDGET));
    add(s, 8, 1, PRIORITY_NORMAL);
    assert_true(step(s, NO_BUDGET));
    assert_true(sched_is_idle(s->sched));
    assert_false(step(s, NO_BUDGET));
    assert_int_equal(s->steps, 1);
    sim_free(s);
}

/* S2.17: a decode follows a prefill without a gap, and a second request joins while one runs. */
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

/* T7, D2.8: what can never fit is refused, and says so before it is posted. */
static void too_large_is_refused(void **state)
{
    struct sim *s = sim_new(10, 2, 64, 32, SCHED_PRIORITY);
    const struct request_size size = {.n_prompt = 100, .max_tokens = 61};
    struct request *r;
    (void)state;

    assert_false(sched_can_ever_fit(&s->opt, 100, 161));
    assert_true(sched_can_ever_fit(&s->opt, 100, 160));
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
        expect(s, r);
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
        expect(s, r);
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

static void carry_out(struct sim *s, const struct plan *p)
{
    for (uint32_t k = 0; k < p->n_items; k++) {
        check_item(s, &p->items[k]);
        compute(s, &p->items[k]);
        s->tokens[k] = 11;
    }
    account(s, p);
    sched_commit(s->sched, s->tokens, NULL, NULL, NULL, s->now);
    take_ends(s);
}

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
        carry_out(s, p);
    }
    assert_true(s->rec[2].n_tokens > 0);
    run_dry(s, 1000);
    sim_free(s);
}

static uint32_t first_chunk(struct sim *s, const struct sched_limits *limits)
{
    const struct plan *p = sched_plan(s->sched, s->now += 1000, limits);
    const uint32_t n = p->work.n_prefill;

    check_preempted(s, p);
    carry_out(s, p);
    return n;
}

/* The streams of another engine wait for a step as well, if it has streams of its own or not. */
static void chunks_fit_into_a_shared_step(void **state)
{
    struct sim *s = sim_new(300, 4, 600, 512, SCHED_PRIORITY);
    struct sched_limits limits = {
        .target_us = 50000,
        .costs = {.is_known = true, .step_ns = 5000000, .prefill_ns = 500000}};
    (void)state;

    add(s, 1500, 5, PRIORITY_NORMAL);
    assert_int_equal(first_chunk(s, &limits), 512);
    limits.is_shared = true;
    assert_int_equal(first_chunk(s, &limits), 90); /* 5 + 90 / 2 ms */
    limits.costs.is_known = false;
    assert_int_equal(first_chunk(s, &limits), SCHED_MIN_CHUNK);
    limits.target_us = 0;
    assert_int_equal(first_chunk(s, &limits), 512);
    run_dry(s, 1000);
    sim_free(s);
}

/* ---- context shift ---- */

static struct request *make_shifting(struct sim *s, uint32_t n_prompt, uint32_t max_tokens,
                                     uint32_t max_known)
{
    const struct request_size size = {.n_prompt = n_prompt, .max_tokens = max_tokens,
                                      .max_known = max_known, .penalties = true};

    return make_sized(s, &size);
}

struct text { /* what a request has in ids, told by a list of all its tokens */
    struct { int32_t id; bool is_prompt; } tokens[512];
    uint32_t n;
};

static void discard(struct text *t, uint32_t from, uint32_t n)
{
    for (uint32_t i = from; i + n < t->n; i++)
        t->tokens[i] = t->tokens[i + n];
    t->n -= n;
}

/* The counts are those of the tokens that are left, each where it came from. */
static void check_text(const struct text *t, struct request *r)
{
    uint64_t n_counted = 0;

    for (uint32_t i = 0; i < t->n; i++) {
        const int32_t id = t->tokens[i].id;
        uint32_t n_prompt = 0, n_generated = 0;

        for (uint32_t j = 0; j < t->n; j++) {
            n_prompt += t->tokens[j].id == id && t->tokens[j].is_prompt;
            n_generated += t->tokens[j].id == id && !t->tokens[j].is_prompt;
        }
        assert_int_equal(r->ids[i], id);
        assert_int_equal(token_counts_at(&r->counts, id)->n_prompt, n_prompt);
        assert_int_equal(token_counts_at(&r->counts, id)->n_generated, n_generated);
    }
    for (uint32_t i = 0; i < r->counts.n; i++)
        n_counted += r->counts.list[i].n_prompt + r->counts.list[i].n_generated;
    assert_int_equal(n_counted, t->n);
}

static void follow(struct sim *s, struct text *t, const struct plan *p)
{
    const struct plan_item *item = &p->items[0];
    struct request *r = item->request;

    if (p->n_shifted > 0)
        discard(t, r->n_keep, r->n_discard);
    check_shifted(s, p);
    check_text(t, r);
    run_moves(s, p);
    check_item(s, item);
    compute(s, item);
    s->tokens[0] = 10 + (int32_t)rnd(s, 12);
    if (item->wants_token) {
        t->tokens[t->n].is_prompt = false;
        t->tokens[t->n++].id = s->tokens[0];
    }
    account(s, p);
    sched_commit(s->sched, s->tokens, NULL, NULL, NULL, s->now);
    assert_true(sched_check(s->sched));
    take_ends(s);
}

/* The first n_keep tokens stay, n_discard behind them go, whenever max_known are there and more are
 * to come: with one that is in the prefix cache, the kept blocks are found there. */
static void shift_one(uint32_t n_prompt, uint32_t n_keep, uint32_t n_discard, uint32_t max_tokens)
{
    struct sim *s = sim_open(&(struct sim_options){.n_blocks = 40, .max_sequences = 4, .batch = 64,
                                                   .chunk = 16, .prefix_cache = true});
    struct request *r = make_shifting(s, n_prompt, max_tokens, 64);
    const uint32_t n_all = n_prompt + max_tokens, n_shifts = (n_all - 65) / n_discard + 1;
    struct engine_stats stats = {0};
    struct text t = {.n = n_prompt};
    const uint64_t id = r->id;

    r->n_keep = n_keep;
    r->n_discard = n_discard;
    assert_int_equal(request_n_shifts(n_all, 64, n_discard), n_shifts);
    for (uint32_t i = 0; i < n_prompt; i++) {
        t.tokens[i].id = r->ids[i] = (int32_t)(10 + i % 9);
        t.tokens[i].is_prompt = true;
    }
    post(s, r);
    for (int i = 0; i < 3000 && !sched_is_idle(s->sched); i++) {
        set_budget(s, NO_BUDGET);
        follow(s, &t, sched_plan(s->sched, s->now += 1000, &s->limits));
    }
    sched_fill_stats(s->sched, &stats);
    assert_int_equal(s->rec[id].ends, 1);
    assert_int_equal(s->rec[id].finish, FINISH_LENGTH);
    assert_int_equal(s->rec[id].n_tokens, max_tokens);
    assert_int_equal(s->rec[id].n_shifted, n_shifts);
    assert_int_equal(stats.context_shifts, n_shifts);
    assert_int_equal(stats.prompt_tokens, n_prompt);
    assert_int_equal(stats.generation_tokens, max_tokens);
    assert_true(stats.recomputed_tokens <= n_shifts * (63 - n_discard - n_keep / 16 * 16));
    sim_free(s);
}

static void full_contexts_lose_their_middle(void **state)
{
    (void)state;
    shift_one(20, 0, 32, 45);
    shift_one(20, 0, 32, 150);
    shift_one(20, 20, 22, 150);
    shift_one(63, 7, 40, 150);
    shift_one(40, 48, 5, 100);
    shift_one(1, 0, 63, 300);  /* only the last token stays */
    shift_one(1, 62, 1, 100);  /* all but one do */
    shift_one(33, 16, 1, 60);
}

/* The tenant pays for what is computed again. A request that ends in time is not shifted. */
static void only_full_contexts_are_shifted(void **state)
{
    struct sim *s = sim_new(40, 4, 64, 32, SCHED_PRIORITY);
    struct engine_stats stats = {0};
    struct request *r = make_shifting(s, 20, 100, 64);
    (void)state;

    r->stop_ids[0] = 5; /* comes 64 - 20 tokens in */
    r->n_stop_ids = 1;
    post(s, r);
    for (int i = 0; i < 44; i++) {
        const struct plan *p = sched_plan(s->sched, s->now += 1000, &s->limits);

        assert_int_equal(p->n_shifted, 0);
        run_moves(s, p);
        s->tokens[0] = i == 43 ? 5 : 11;
        account(s, p);
        sched_commit(s->sched, s->tokens, NULL, NULL, NULL, s->now);
    }
    take_ends(s);
    assert_int_equal(s->rec[1].finish, FINISH_STOP);
    sched_fill_stats(s->sched, &stats);
    assert_int_equal(stats.context_shifts, 0);
    sim_free(s);
}

/* ---- storms ---- */

/* Every fourth of those that want many tokens goes on beyond its context. */
static struct request *make_at_random(struct sim *s, uint32_t n)
{
    const uint32_t max_tokens = rnd(s, 60), text = rnd(s, 3), shared = rnd(s, 2) * rnd(s, n + 1);
    struct request *r;

    if (max_tokens < 20 || rnd(s, 4) > 0)
        return make_like(s, text, shared, n, max_tokens);
    r = make_shifting(s, n, 4 * max_tokens, n + 2 + rnd(s, 60));
    begin_like(r, text, shared);
    r->n_keep = rnd(s, r->max_known - 1);
    r->n_discard = 1 + rnd(s, r->max_known - 1 - r->n_keep);
    return r;
}

/* Of every seventh some of the answer's tokens are there already. */
static void resume_some(const struct sim *s, struct request *r)
{
    if (r->max_tokens < 2 || request_may_shift(r) || r->id % 7 > 0)
        return;
    r->n_resumed = 1 + (uint32_t)r->id % (r->max_tokens - 1);
    for (uint32_t i = 0; i < r->n_resumed; i++)
        r->ids[r->n_prompt + i] = (int32_t)(10 + i % s->n_words);
}

/* Pin up to four beginnings of the prompt, for 500 steps at most. */
static void pin_some(struct sim *s, struct request *r)
{
    uint32_t n = 0;

    if (s->pin_percent == 0 || rnd(s, 100) >= s->pin_percent)
        return;
    r->n_pins = 1 + rnd(s, REQUEST_MAX_PINS);
    for (uint32_t i = 0; i < r->n_pins; i++) {
        n += 1 + rnd(s, r->n_prompt);
        n = n > r->n_prompt ? r->n_prompt : n;
        r->pins[i] = (struct request_pin){n, 1 + rnd(s, 500000)};
    }
}

static void add_at_random(struct sim *s)
{
    const uint32_t n = 1 + rnd(s, rnd(s, 10) == 0 ? 300 : 40);
    struct request *r = make_at_random(s, n);
    uint64_t id;

    r->priority = (enum priority)rnd(s, PRIORITY_COUNT);
    r->tenant = rnd(s, s->opt.max_tenants);
    r->weight = 1 + r->tenant;
    resume_some(s, r);
    r->score_prompt = rnd(s, 10) == 0 && r->n_resumed == 0;
    pin_some(s, r);
    if (r->id % 10 == 3 && r->n_resumed == 0)
        r->rows_from = (uint32_t)(r->id * 7 % r->n_prompt);
    if (rnd(s, 20) == 0)
        r->deadline_us = s->now + rnd(s, 200000);
    if (rnd(s, 20) == 0)
        r->queue_until_us = s->now + rnd(s, 100000);
    id = post(s, r);
    for (uint32_t k = rnd(s, 6) == 0 ? rnd(s, 4) : 0; k > 0 && r->n_resumed == 0; k--) {
        struct request *twin = make(s, n, 1 + rnd(s, 60), PRIORITY_NORMAL);

        memcpy(twin->ids, r->ids, n * sizeof(*twin->ids));
        twin->prefix_owner = id;
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

/* One group without a window, one with, or several of which some have it: blocks for the same
 * number of tokens, more or less. */
static void assign_groups(struct sim_options *o, uint32_t seed)
{
    const uint32_t n = 1 + seed % 4;

    o->groups = (struct kv_groups){.n = n, .n_window = n == 1 ? 1 : 1 + seed / 4 % (n - 1)};
    o->groups.window = 1 + seed * 7 % 90;
    o->n_blocks *= n;
    o->n_ram *= n;
    o->n_file *= n;
}

/* States beside one group of layers, or several; or alone. */
static void add_states(struct sim_options *o, uint32_t seed)
{
    if (seed % 3 == 0)
        assign_groups(o, seed);
    o->states = (struct kv_state_options){.n_slots = o->max_sequences + seed % 20,
                                          .interval = 1 + seed % 5,
                                          .n_parts = 1 + seed % 4,
                                          .is_alone = seed % 3 == 1};
}

/* Pins of all tenants, which take blocks that the storm would not have without them. */
static void add_pins(struct sim_options *o, uint32_t seed)
{
    if (seed % 2 == 0)
        assign_groups(o, seed);
    if (seed % 3 == 0) {
        o->pins.most_states = 1 + seed % 5;
        o->states = (struct kv_state_options){
            .n_slots = o->max_sequences + o->pins.most_states + seed % 20,
            .interval = 1 + seed % 2,
            .n_parts = 1 + seed % 4};
    }
    o->prefix_cache = true;
    o->pins.most_blocks = 4 + o->n_blocks / (1 + seed % 4);
    o->pins.tenant_blocks = 1 + o->pins.most_blocks / (1 + seed % 3);
    if (o->pins.tenant_blocks > o->pins.most_blocks)
        o->pins.tenant_blocks = o->pins.most_blocks;
    o->pins.n_tenants = o->max_tenants;
    o->n_blocks += o->pins.most_blocks;
}

/* QUIRE_STORMS sets how many, twice as long as they are without it. */
static void run_storms(void (*change)(struct sim_options *o, uint32_t seed))
{
    const char *n = getenv("QUIRE_STORMS");
    const uint32_t n_storms = n != NULL ? (uint32_t)strtoul(n, NULL, 10) : 30;
    uint64_t preempted = 0, swapped = 0, cached = 0, from_file = 0, shifted = 0, pinned = 0;

    for (uint32_t seed = 1; seed <= n_storms; seed++) {
        struct sim_options o = storm_options(seed % 40);
        struct engine_stats stats = {0};
        struct sim *s;

        if (change != NULL)
            change(&o, seed);
        s = sim_open(&o);
        s->io_fail_percent = seed % 4 == 0 ? 20 : 0;
        s->pin_percent = o.pins.most_blocks > 0 ? 90 : 0;
        storm(s, seed, n != NULL ? 1000 : 500);
        sched_fill_stats(s->sched, &stats);
        preempted += stats.preemptions_recompute;
        swapped += stats.preemptions_swap;
        cached += stats.cached_tokens;
        from_file += stats.swap.blocks_in[1];
        shifted += stats.context_shifts;
        pinned += s->n_pinned;
        assert_int_equal(s->n_pinned > 0, o.pins.most_blocks > 0);
        sim_free(s);
    }
    printf("note: %u storms: %u preempted, %u swapped, %u tokens cached, %u blocks from file, "
           "%u contexts shifted, %u tokens pinned\n",
           n_storms, (unsigned)preempted, (unsigned)swapped, (unsigned)cached,
           (unsigned)from_file, (unsigned)shifted, (unsigned)pinned);
    assert_true(preempted > 0 && swapped > 0 && cached > 0 && from_file > 0 && shifted > 0);
}

/* T3, T6: every policy, way of preemption, tier and sharing. */
static void random_arrivals_lose_nothing(void **state)
{
    (void)state;
    run_storms(NULL);
}

/* Pins never keep a request from running, and change no answer. */
static void random_arrivals_with_pins_lose_nothing(void **state)
{
    (void)state;
    run_storms(add_pins);
}

/* The same with layers that drop what is past. */
static void random_arrivals_with_windows_lose_nothing(void **state)
{
    (void)state;
    run_storms(assign_groups);
}

/* The same with recurrent states. */
static void random_arrivals_with_states_lose_nothing(void **state)
{
    (void)state;
    run_storms(add_states);
}

static bool is_reading(const struct sim *s)
{
    for (uint32_t i = 0; i < s->n_io; i++)
        if (!s->io[i].is_write)
            return true;
    return false;
}

/* A disk that hangs holds up those whose copies are on it, however many these are, and nobody else;
 * when it reads again they go on. */
static void a_read_that_hangs_holds_up_one(void **state)
{
    const struct sim_options o = {.n_blocks = 60, .max_sequences = 6, .batch = 64, .chunk = 64,
                                  .policy = SCHED_PRIORITY, .preemption = SCHED_SWAP,
                                  .n_ram = 24, .n_file = 200, .max_tenants = 1};
    uint64_t ids[20];
    (void)state;

    for (uint32_t n_low = 3; n_low <= 12; n_low += 3) {
        struct sim *s = sim_open(&o);

        s->hangs = true;
        for (uint32_t i = 0; i < n_low; i++)
            add(s, 100, 200, PRIORITY_LOW);
        for (uint32_t i = 0; i < 400; i++) { /* they are preempted, and want to come back */
            if (i % 20 == 10)
                add(s, 150, 60, PRIORITY_HIGH);
            step(s, NO_BUDGET);
        }
        assert_true(is_reading(s));
        for (uint32_t i = 0; i < 20; i++)
            ids[i] = add(s, 20, 10, PRIORITY_LOW);
        for (uint32_t i = 0; i < 2000; i++)
            step(s, NO_BUDGET);
        assert_true(is_reading(s));
        for (uint32_t i = 0; i < 20; i++)
            assert_int_equal(s->rec[ids[i]].ends, 1);
        s->hangs = false;
        run_dry(s, 20000);
        sim_free(s);
    }
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
        cmocka_unit_test(nothing_to_do_is_an_empty_plan),
        cmocka_unit_test(requests_join_running_batches),
        cmocka_unit_test(blocks_are_taken_on_demand),
        cmocka_unit_test(too_large_is_refused),
        cmocka_unit_test(deadlines_end_requests),
        cmocka_unit_test(stops_follow_the_request),
        cmocka_unit_test(chunks_fit_into_the_step),
        cmocka_unit_test(chunks_fit_into_a_shared_step),
        cmocka_unit_test(full_contexts_lose_their_middle),
        cmocka_unit_test(only_full_contexts_are_shifted),
        cmocka_unit_test(random_arrivals_lose_nothing),
        cmocka_unit_test(random_arrivals_with_windows_lose_nothing),
        cmocka_unit_test(random_arrivals_with_pins_lose_nothing),
        cmocka_unit_test(random_arrivals_with_states_lose_nothing),
        cmocka_unit_test(a_read_that_hangs_holds_up_one),
        cmocka_unit_test(plans_are_reproducible),
        cmocka_unit_test(cancel_all_frees_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
