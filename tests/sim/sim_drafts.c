/* tests/sim/sim_drafts.c - guessed tokens in the plan: the books, and what they gain or cost.
 *
 * First with guesses at random, all of which are computed, in caches of all kinds (sim.h checks
 * what stays). Then in virtual time, where a step takes what a made-up machine needs for its rows:
 * guesses must pay where they can, and cost next to nothing where they cannot.
 */
#include "tests/sim/sim.h"

#include "scheduler/drafts/draft_learner.h"
#include "scheduler/drafts/draft_costs.h"
#include "scheduler/drafts/draft_model.h"

/* ---- the books ---- */

static void traffic(const struct sim_options *o, uint64_t seed, uint32_t right_percent)
{
    struct sim *s = sim_open(o);
    const bool may_shift = o->states.n_slots == 0;

    s->rng = seed;
    s->eog_percent = 1;
    s->draft_percent = 70;
    s->right_percent = right_percent;
    for (uint32_t i = 0; i < 150; i++) {
        const uint32_t n_prompt = 1 + rnd(s, 60), max_tokens = 1 + rnd(s, 120);
        const struct request_size size = {
            .n_prompt = n_prompt, .max_tokens = max_tokens,
            .max_known = may_shift && rnd(s, 4) == 0 ? n_prompt + 1 + rnd(s, max_tokens) : 0};
        struct request *r = make_sized(s, &size);

        r->priority = (enum priority)rnd(s, PRIORITY_COUNT);
        begin_like(r, rnd(s, 3), rnd(s, 60));
        r->n_stop_ids = rnd(s, 5) == 0;
        r->stop_ids[0] = (int32_t)(10 + rnd(s, s->n_words));
        post(s, r);
        for (uint32_t k = rnd(s, 6); k > 0; k--)
            step(s, rnd(s, 2) == 0 ? NO_BUDGET : 1 + rnd(s, 40));
        if (rnd(s, 10) == 0)
            sched_cancel(s->sched, 1 + rnd(s, (uint32_t)s->n_ids), FINISH_CANCELLED, s->now);
        take_ends(s);
    }
    run_dry(s, 100000);
    assert_true(o->states.n_slots > 0 ? s->n_drafts == 0 : s->n_drafts > 100);
    assert_true(s->n_right * 100 <= s->n_drafts * (right_percent + 2));
    sim_free(s);
}

static void books_are_kept(void **state)
{
    static const struct sim_options kinds[] = {
        {.n_blocks = 200, .prefix_cache = true},
        {.n_blocks = 24, .prefix_cache = true},
        {.n_blocks = 30, .n_ram = 20, .n_file = 30, .preemption = SCHED_SWAP},
        {.n_blocks = 60, .prefix_cache = true, .groups = {.n = 2, .n_window = 1, .window = 40}},
        {.n_blocks = 60, .prefix_cache = true, .groups = {.n = 1, .n_window = 1, .window = 24}},
        {.n_blocks = 60, .prefix_cache = true,
         .states = {.n_slots = 20, .interval = 2, .n_parts = 1}},
    };
    (void)state;

    for (uint32_t seed = 1; seed <= 12; seed++)
        for (uint32_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            struct sim_options o = kinds[k];

            o.max_sequences = 8;
            o.batch = seed % 3 == 0 ? 9 : 64;
            o.chunk = seed % 2 == 0 ? 5 : 32;
            o.policy = (enum sched_policy)(seed % 4);
            traffic(&o, seed, seed % 4 * 33);
        }
}

/* ---- gain and loss ---- */

struct machine {
    const char *name;
    double first, row, next_tile; /* ms: a step of one row, a row more, and beyond 8 and 16 rows */
    uint32_t noise_percent;
    uint32_t interrupted_percent; /* of the steps: they take three times as long */
};

static const struct machine reads = {"bound by reading", 10, 0.3, 1, 10, 0};
static const struct machine computes = {"bound by arithmetic", 10, 8, 0, 10, 0};
static const struct machine shared = {"shared with others", 10, 2.2, 0, 10, 5};

static double cost_of(const struct machine *m, uint32_t n_rows, uint64_t *rng)
{
    const double noise = m->noise_percent * (double)random_below(rng, 1000) / 1e5;
    const double times = random_below(rng, 100) < m->interrupted_percent ? 3 : 1;

    return times * (1 + noise) *
           (m->first + m->row * (n_rows - 1) + m->next_tile * ((n_rows > 8) + (n_rows > 16)));
}

#define WORLD_STREAMS 64

/* A draft model: of the machine's time for as many rows, so much of 1. */
struct small_model {
    double weight; /* 0: there is none */
    uint32_t right_percent;
};

/* Streams that each have a guess in each step, or a draft model. */
struct world {
    struct kv_manager *kv;
    struct sched *sched;
    struct draft_learner learner;
    struct draft_model_costs guess_costs;
    struct sched_limits limits;
    const struct machine *machine;
    const struct small_model *small;
    uint32_t n_taken_in[WORLD_STREAMS + 1]; /* by request */
    uint32_t right_percent;
    uint64_t rng, n_tokens;
    double ms;
};

static uint32_t world_n_behind(void *ud, const struct draft_stream *s)
{
    const uint32_t n = ((struct world *)ud)->n_taken_in[s->item->request->id];

    return n < s->n_known - 1 ? s->n_known - 1 - n : 0;
}

static bool world_take_in(void *ud, const struct draft_stream *s, uint32_t n)
{
    struct world *w = ud;
    const double ms = w->small->weight * cost_of(w->machine, n, &w->rng) / 4;

    w->n_taken_in[s->item->request->id] += n;
    w->ms += ms;
    draft_model_costs_took_in(&w->guess_costs, n, (uint64_t)(ms * 1000));
    return true;
}

static void world_guess(void *ud, struct draft_stream *streams, uint32_t n, uint32_t depth)
{
    struct world *w = ud;

    for (uint32_t k = 0; k < depth; k++) {
        const double ms = w->small->weight * cost_of(w->machine, n, &w->rng);

        w->ms += ms;
        draft_model_costs_guessed(&w->guess_costs, n, (uint64_t)(ms * 1000));
    }
    for (uint32_t i = 0; i < n; i++) {
        struct draft_stream *s = &streams[i];

        s->draft = (struct draft){0};
        for (uint32_t k = 0; k < depth && k < s->most; k++) {
            draft_add(&s->draft, DRAFT_MODEL, 3);
            s->item->request->ids[s->n_known + k] = 10;
        }
        w->n_taken_in[s->item->request->id] = s->n_known;
    }
}

static struct draft propose_never(void *ud, struct request *r, uint32_t n_known, uint32_t most)
{
    (void)ud;
    (void)r;
    (void)n_known;
    (void)most;
    return (struct draft){0};
}

static struct draft propose_always(void *ud, struct request *r, uint32_t n_known, uint32_t most)
{
    (void)ud;
    for (uint32_t i = 0; i < most; i++)
        r->ids[n_known + i] = 10;
    return draft_behind_match(most, DRAFT_LOOKUP, 4);
}

static void post_streams(struct world *w, uint32_t n_streams, uint32_t n_prompt, uint32_t n_tokens)
{
    for (uint32_t i = 0; i < n_streams; i++) {
        const struct request_size size = {.n_prompt = n_prompt, .max_tokens = n_tokens};
        struct request *r;

        assert_int_equal(request_create(&r, &size), 0);
        r->id = i + 1;
        for (uint32_t k = 0; k < n_prompt; k++)
            r->ids[k] = 10;
        r->drafts = true;
        assert_int_equal(sched_add(w->sched, r, 0), 0);
    }
}

static void open_world(struct world *w, bool drafts)
{
    const struct kv_manager_options ko = {.n_blocks = 65536, .max_table = 1024, .max_chunk = 512};
    struct sched_options so;

    assert_int_equal(kv_manager_create(&w->kv, &ko), 0);
    sched_options_default(&so);
    so.kv = w->kv;
    so.max_context = 16384;
    so.max_requests = so.max_sequences = WORLD_STREAMS;
    if (drafts)
        so.drafter.propose = w->small != NULL ? propose_never : propose_always;
    if (drafts && w->small != NULL)
        so.model = (struct draft_model){w, DRAFT_MODEL, world_n_behind, world_take_in, world_guess};
    w->guess_costs.weight = w->small != NULL ? w->small->weight : 0;
    w->learner.model = &w->guess_costs;
    assert_int_equal(sched_create(&w->sched, &so), 0);
}

static void close_world(struct world *w)
{
    struct sched_end end;

    while (sched_next_end(w->sched, &end))
        request_destroy(&end.request);
    sched_destroy(&w->sched);
    kv_manager_destroy(&w->kv);
}

/* Of a guess's tokens in a row. */
static uint32_t n_right(struct world *w, uint32_t n)
{
    const uint32_t percent = w->small != NULL ? w->small->right_percent : w->right_percent;
    uint32_t i = 0;

    while (i < n && random_below(&w->rng, 100) < percent)
        i++;
    return i;
}

static const struct plan *plan_step(struct world *w)
{
    draft_learner_begin_step(&w->learner);
    w->limits = (struct sched_limits){.costs = {.is_known = true}, .drafts = &w->learner.costs};
    return sched_plan(w->sched, (uint64_t)(w->ms * 1000), &w->limits);
}

static void step_world(struct world *w)
{
    static int32_t tokens[WORLD_STREAMS];
    static uint32_t accepted[WORLD_STREAMS];
    const struct plan *p = plan_step(w);
    uint32_t n = 0;
    double ms;

    for (uint32_t i = 0; i < p->n_items; i++) {
        tokens[i] = 10;
        accepted[i] = n_right(w, p->items[i].n_drafts);
        n += p->items[i].wants_token + accepted[i];
    }
    ms = cost_of(w->machine, p->n_tokens, &w->rng);
    w->ms += ms;
    if (p->work.n_prefill == 0)
        draft_learner_observe(&w->learner, &(struct draft_step){.n_streams = p->n_items,
                                                                .n_drafts = p->n_drafts,
                                                                .n_tokens = n,
                                                                .us = (uint64_t)(ms * 1000)});
    w->n_tokens += n;
    sched_commit(w->sched, tokens, accepted, NULL, NULL, (uint64_t)(w->ms * 1000));
}

struct load {
    uint32_t n_streams, n_prompt, n_tokens;
};

/* The time of a load, beside that without drafts. */
static double speedup_of(const struct machine *m, const struct load *load,
                         const struct small_model *small, uint32_t right_percent, uint64_t seed)
{
    double ms[2];

    for (int drafts = 0; drafts < 2; drafts++) {
        struct world w = {
            .machine = m, .right_percent = right_percent, .rng = seed, .small = small};

        open_world(&w, drafts != 0);
        post_streams(&w, load->n_streams, load->n_prompt, load->n_tokens);
        while (!sched_is_idle(w.sched))
            step_world(&w);
        assert_int_equal(w.n_tokens, load->n_tokens * load->n_streams);
        ms[drafts] = w.ms;
        close_world(&w);
    }
    return ms[0] / ms[1];
}

static double speedup(const struct machine *m, uint32_t n_streams, uint32_t right_percent)
{
    return speedup_of(m, &(struct load){n_streams, 1, 3000}, NULL, right_percent, 5);
}

/* Where a row more is nearly free, right guesses make one stream several times as fast. */
static void right_guesses_pay(void **state)
{
    (void)state;
    assert_true(speedup(&reads, 1, 95) > 4);
    assert_true(speedup(&reads, 1, 70) > 1.9);
    assert_true(speedup(&reads, 4, 90) > 2.5);
}

/* A step that was interrupted says nothing of its number of rows for long. Most that there is to
 * gain: 16 tokens in the time of 4.3. */
static void interruptions_are_forgotten(void **state)
{
    double sum = 0;
    (void)state;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        const double s = speedup_of(&shared, &(struct load){1, 1, 600}, NULL, 99, seed);

        assert_true(s > 2);
        sum += s;
    }
    assert_true(sum / 40 > 3);
}

/* Whatever the machine, the number of streams and the guesses: never 2 per cent slower. */
static void wrong_guesses_cost_little(void **state)
{
    static const uint32_t streams[] = {1, 4, 16, 60}, percents[] = {0, 5, 20, 40, 60, 80, 95};
    static const struct machine *const machines[] = {&reads, &computes};
    (void)state;

    for (int m = 0; m < 2; m++)
        for (uint32_t i = 0; i < 4; i++)
            for (uint32_t k = 0; k < 7; k++) {
                const double s = speedup(machines[m], streams[i], percents[k]);

                if (s < 0.98)
                    fail_msg("%s, %u streams, %u %% right: %.3f", machines[m]->name, streams[i],
                             percents[k], s);
            }
}

/* ---- with a draft model ---- */

static void a_good_draft_model_pays(void **state)
{
    const struct small_model small = {0.1, 85}, tiny = {0.02, 70};
    const struct load one = {1, 200, 3000}, four = {4, 200, 3000}, brief = {1, 1000, 300};
    (void)state;

    assert_true(speedup_of(&reads, &one, &small, 0, 5) > 2);
    assert_true(speedup_of(&reads, &four, &small, 0, 5) > 1.6);
    assert_true(speedup_of(&reads, &one, &tiny, 0, 5) > 2);
    assert_true(speedup_of(&reads, &brief, &small, 0, 5) > 1.3);
}

/* However large and wrong it is: never 2 per cent slower, in the long run. */
static void a_bad_draft_model_costs_little(void **state)
{
    static const struct small_model smalls[] = {{0.02, 0}, {0.1, 0},  {0.1, 40}, {0.1, 60},
                                                {0.3, 50}, {0.3, 80}, {1, 100},  {3, 90}};
    static const struct load loads[] = {{1, 1, 3000}, {1, 500, 3000}, {4, 500, 3000},
                                        {16, 200, 3000}, {60, 100, 1000}};
    static const struct machine *const machines[] = {&reads, &computes};
    (void)state;

    for (int m = 0; m < 2; m++)
        for (uint32_t i = 0; i < sizeof(smalls) / sizeof(smalls[0]); i++)
            for (uint32_t k = 0; k < sizeof(loads) / sizeof(loads[0]); k++) {
                const double s = speedup_of(machines[m], &loads[k], &smalls[i], 0, 5);

                if (s < 0.98)
                    fail_msg("%s, weight %.2f, %u %% right, %u streams: %.3f", machines[m]->name,
                             smalls[i].weight, smalls[i].right_percent, loads[k].n_streams, s);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(books_are_kept),
        cmocka_unit_test(right_guesses_pay),
        cmocka_unit_test(interruptions_are_forgotten),
        cmocka_unit_test(wrong_guesses_cost_little),
        cmocka_unit_test(a_good_draft_model_pays),
        cmocka_unit_test(a_bad_draft_model_costs_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
