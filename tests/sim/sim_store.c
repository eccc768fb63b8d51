/* tests/sim/sim_store.c - prompts whose beginning is in the block store: who waits, for how long,
 * and that what comes in is what would have been computed. The store answers late, in parts, with
 * less than it said, not at all, or when nobody asks any more. */
#include "tests/sim/sim.h"

enum { EACH = 2, WAIT_MS = 30, MAX_READS = 64 };

struct asked { /* by request id */
    int32_t *ids;
    uint32_t n_records; /* that the store has of it, from the first on */
    bool is_known;      /* the answer was given */
};

struct read { /* under way */
    uint64_t id;
    uint32_t first, n;
};

struct store {
    struct sim *s;
    struct asked asked[MAX_REQUESTS + 1];
    struct read reads[MAX_READS];
    uint32_t n_reads;
    uint64_t n_fetches, n_drops, n_entered;
};

static struct store *new_store(const struct sim_options *o)
{
    struct store *st = calloc(1, sizeof(*st));

    assert_non_null(st);
    st->s = sim_open(o);
    return st;
}

static struct sim_options options(void)
{
    return (struct sim_options){.n_blocks = 200, .max_sequences = 4, .batch = 64, .chunk = 32,
                                .policy = SCHED_FCFS, .preemption = SCHED_RECOMPUTE,
                                .prefix_cache = true, .store_blocks = EACH,
                                .store_wait_ms = WAIT_MS};
}

static void free_store(struct store *st)
{
    for (uint64_t i = 0; i <= MAX_REQUESTS; i++)
        free(st->asked[i].ids);
    sim_free(st->s);
    free(st);
}

/* A request of which the store has so many records. */
static uint64_t ask(struct store *st, struct request *r, uint32_t n_records)
{
    struct asked *a = &st->asked[r->id];

    r->asks_store = true;
    a->ids = malloc(r->n_prompt * sizeof(*a->ids));
    memcpy(a->ids, r->ids, r->n_prompt * sizeof(*a->ids));
    a->n_records = n_records;
    return post(st->s, r);
}

static void answer(struct store *st, uint64_t id)
{
    st->asked[id].is_known = true;
    sched_stored(st->s->sched, id, st->asked[id].n_records * EACH);
}

/* What the scheduler wants is noted. */
static void pump(struct store *st)
{
    struct sched_fetch f;

    while (sched_next_fetch(st->s->sched, &f)) {
        if (f.n == 0) {
            st->n_drops++;
            continue;
        }
        assert_true(st->asked[f.request].is_known && f.first % EACH == 0 && f.n % EACH == 0);
        assert_true(f.first + f.n <= st->asked[f.request].n_records * EACH);
        assert_true(st->n_reads < MAX_READS);
        st->reads[st->n_reads++] = (struct read){f.request, f.first, f.n};
        st->n_fetches++;
    }
}

/* The bytes of a block: as if they had been computed. */
static void fill_block(struct store *st, uint64_t id, uint32_t block, block_id to)
{
    uint64_t cell = 0;

    for (uint32_t pos = 0; pos < (block + 1) * BLOCK_TOKENS; pos++) {
        cell = cell_of(cell, st->asked[id].ids[pos]);
        if (pos >= block * BLOCK_TOKENS)
            st->s->blocks[to][pos % BLOCK_TOKENS] = cell;
    }
}

/* So many blocks of a read come; fewer than wanted and is_last: it has failed behind them. */
static void give(struct store *st, uint32_t at, uint32_t n, bool is_last)
{
    struct read *r = &st->reads[at];
    const block_id *ids;
    uint32_t from;
    const uint32_t n_new =
        sched_fetched(st->s->sched, r->id, r->first, n, is_last, &from, &ids);

    for (uint32_t i = 0; i < n_new; i++)
        fill_block(st, r->id, from + i, ids[i]);
    st->n_entered += n_new;
    assert_true(sched_check(st->s->sched));
    r->first += n;
    r->n -= n;
    if (is_last)
        st->reads[at] = st->reads[--st->n_reads];
}

static bool turn(struct store *st)
{
    const bool did = step(st->s, NO_BUDGET);

    pump(st);
    return did;
}

static struct engine_stats stats_of(const struct store *st)
{
    struct engine_stats stats = {0};

    sched_fill_stats(st->s->sched, &stats);
    return stats;
}

static void finish(struct store *st)
{
    for (int i = 0; i < 1000 && !sched_is_idle(st->s->sched); i++)
        turn(st);
    assert_int_equal(st->s->n_ended, st->s->n_ids);
}

/* ---- one after the other ---- */

/* It is read and not computed; others go on meanwhile. */
static void a_prefix_comes_from_the_store(void **state)
{
    const struct sim_options o = options();
    struct store *st = new_store(&o);
    uint64_t id, other;
    (void)state;

    other = add(st->s, 8, 50, PRIORITY_NORMAL);
    id = ask(st, make_like(st->s, 1, 100, 100, 3), 3);
    for (int i = 0; i < 5; i++) {
        assert_true(turn(st)); /* the stream goes on */
        assert_int_equal(st->s->rec[id].first_step, 0);
    }
    assert_int_equal(st->s->rec[other].n_tokens, 5);
    answer(st, id);
    assert_true(turn(st));
    assert_int_equal(st->n_reads, 1);
    assert_int_equal(st->reads[0].first, 0);
    assert_int_equal(st->reads[0].n, 6);
    give(st, 0, 2, false);
    assert_true(turn(st));
    assert_int_equal(st->s->rec[id].first_step, 0);
    give(st, 0, 4, true);
    finish(st);
    assert_int_equal(st->n_entered, 6);
    assert_int_equal(st->s->rec[id].n_cached, 96);
    assert_int_equal(stats_of(st).fetched_blocks, 6);
    assert_int_equal(st->n_drops, 0);
    free_store(st);
}

/* Nothing there, or nothing that the cache lacks: it goes on at once. */
static void what_is_not_there_is_not_waited_for(void **state)
{
    const struct sim_options o = options();
    struct store *st = new_store(&o);
    uint64_t id;
    (void)state;

    id = ask(st, make_like(st->s, 1, 100, 100, 3), 0);
    assert_false(turn(st));
    assert_true(sched_waits_for_store(st->s->sched));
    answer(st, id);
    assert_true(turn(st));
    assert_false(sched_waits_for_store(st->s->sched));
    finish(st);
    assert_int_equal(st->n_drops, 1);
    id = ask(st, make_like(st->s, 1, 100, 100, 3), 3); /* all of it is cached */
    assert_true(turn(st));
    finish(st);
    assert_int_equal(st->n_drops, 2);
    assert_int_equal(st->n_fetches, 0);
    assert_int_equal(st->s->rec[id].n_cached, 96);
    free_store(st);
}

/* No answer, and a read that does not end: the prompt is computed once its time is over. */
static void time_runs_out(void **state)
{
    const struct sim_options o = options();
    struct store *st = new_store(&o);
    uint64_t id;
    (void)state;

    for (int reads = 0; reads < 2; reads++) {
        const uint64_t begin = st->s->now;

        id = ask(st, make_like(st->s, (uint32_t)reads, 100, 100, 3), 3);
        if (reads == 1) {
            assert_false(turn(st));
            answer(st, id);
        }
        while (!turn(st))
            assert_true(st->s->now - begin <= (WAIT_MS + 2) * 1000);
        assert_true(st->s->now - begin >= WAIT_MS * 1000);
        finish(st);
        assert_int_equal(stats_of(st).store_timeouts, reads + 1);
        assert_int_equal(st->n_drops, reads + 1);
    }
    assert_int_equal(st->n_reads, 1);
    give(st, 0, 6, true); /* too late: nobody minds */
    assert_int_equal(st->n_entered, 0);
    assert_int_equal(st->s->rec[id].n_cached, 0);
    free_store(st);
}

/* The costs of the plan decide. */
static void computing_may_be_cheaper(void **state)
{
    const struct sim_options o = options();
    struct store *st = new_store(&o);
    struct sched_limits limits = {
        .costs = {.is_known = true, .prefill_ns = 1000, .fetch_ns = 20000, .fetch_delay_ns = 1000}};
    uint64_t id;
    (void)state;

    for (int i = 0; i < 2; i++) { /* 96 tokens: 96 us, against 121 and 61 */
        id = ask(st, make_like(st->s, (uint32_t)i, 100, 100, 0), 3);
        answer(st, id);
        limits.costs.fetch_ns = i == 0 ? 20000 : 10000;
        st->s->now += 1000;
        assert_int_equal(sched_plan(st->s->sched, st->s->now, &limits)->n_items, i == 0);
        sched_cancel(st->s->sched, id, FINISH_CANCELLED, st->s->now);
        take_ends(st->s);
        pump(st);
        assert_int_equal(st->n_fetches, i);
        assert_int_equal(stats_of(st).store_declined, i == 0);
        sched_destroy(&st->s->sched); /* the plan was not committed */
        assert_int_equal(sched_create(&st->s->sched, &st->s->opt), 0);
    }
    free_store(st);
}

/* Of those that begin alike one reads, and the others find what it has brought. */
static void the_same_is_read_once(void **state)
{
    const struct sim_options o = options();
    struct store *st = new_store(&o);
    uint64_t ids[3];
    (void)state;

    for (int i = 0; i < 3; i++)
        ids[i] = ask(st, make_like(st->s, 1, 100, 100 + (uint32_t)i, 3), 3);
    for (int i = 0; i < 3; i++)
        answer(st, ids[i]);
    assert_false(turn(st));
    assert_int_equal(st->n_fetches, 1);
    give(st, 0, 6, true);
    finish(st);
    assert_int_equal(st->n_fetches, 1);
    for (int i = 0; i < 3; i++)
        assert_true(st->s->rec[ids[i]].n_cached >= 96);
    free_store(st);
}

/* Wherever it is: the store is told, and what comes later is ignored. */
static void whoever_leaves_is_forgotten(void **state)
{
    const struct sim_options o = options();
    struct store *st = new_store(&o);
    uint64_t asked, reading, late;
    (void)state;

    asked = ask(st, make_like(st->s, 1, 100, 100, 3), 3);
    reading = ask(st, make_like(st->s, 2, 100, 100, 3), 3);
    answer(st, reading);
    assert_false(turn(st));
    sched_cancel(st->s->sched, asked, FINISH_CANCELLED, st->s->now);
    sched_cancel(st->s->sched, reading, FINISH_CANCELLED, st->s->now);
    pump(st);
    assert_int_equal(st->n_drops, 2);
    answer(st, asked);
    give(st, 0, 6, true);
    late = ask(st, make_like(st->s, 3, 100, 100, 3), 3);
    sched_cancel_all(st->s->sched, FINISH_CANCELLED, st->s->now);
    take_ends(st->s);
    pump(st);
    assert_int_equal(st->n_drops, 3);
    answer(st, late);
    assert_true(sched_is_idle(st->s->sched));
    assert_int_equal(st->n_entered, 0);
    finish(st);
    free_store(st);
}

/* ---- storms ---- */

static void answer_at_random(struct store *st)
{
    struct sim *s = st->s;

    for (uint64_t id = s->n_ids > 8 ? s->n_ids - 8 : 1; id <= s->n_ids; id++)
        if (st->asked[id].ids != NULL && !st->asked[id].is_known && rnd(s, 3) == 0)
            answer(st, id);
    if (st->n_reads > 0 && rnd(s, 3) > 0) {
        const uint32_t at = rnd(s, st->n_reads), left = st->reads[at].n / EACH;
        const uint32_t n = rnd(s, left + 1);

        give(st, at, n * EACH, n == left || rnd(s, 8) == 0);
    }
    if (st->n_reads > MAX_READS / 2) /* some never end */
        st->n_reads--;
}

static void add_at_random(struct store *st)
{
    struct sim *s = st->s;
    const uint32_t n = 1 + rnd(s, 200);
    struct request *r = make_like(s, rnd(s, 4), rnd(s, n + 1), n, rnd(s, 30));

    r->priority = (enum priority)rnd(s, PRIORITY_COUNT);
    r->score_prompt = rnd(s, 20) == 0;
    if (rnd(s, 20) == 0)
        r->deadline_us = s->now + rnd(s, 60000);
    if (rnd(s, 3) == 0)
        post(s, r);
    else
        ask(st, r, rnd(s, n / BLOCK_TOKENS / EACH + 1));
}

static void storm(struct store *st, uint64_t seed, uint32_t n_requests)
{
    struct sim *s = st->s;
    uint64_t idle = 0;

    s->rng = seed;
    s->eog_percent = 1;
    while (s->n_ids < n_requests || !sched_is_idle(s->sched)) {
        for (uint32_t k = rnd(s, 4); k > 0 && s->n_ids < n_requests; k--)
            add_at_random(st);
        if (s->n_ids > 0 && rnd(s, 8) == 0)
            sched_cancel(s->sched, 1 + rnd(s, (uint32_t)s->n_ids), FINISH_CANCELLED, s->now);
        answer_at_random(st);
        take_ends(s);
        pump(st);
        idle = turn(st) ? 0 : idle + 1;
        assert_true(idle == 0 || s->n_io > 0 || sched_waits_for_store(s->sched) ||
                    sched_is_idle(s->sched));
        assert_true(idle < 1000);
    }
    for (uint64_t id = 1; id <= s->n_ids; id++)
        assert_int_equal(s->rec[id].ends, 1);
    while (s->n_io > 0)
        end_io(s, 0);
}

/* T3: nothing is lost, and no sequence reads anything but its own past. */
static void random_answers_lose_nothing(void **state)
{
    uint64_t n_entered = 0, n_timeouts = 0, n_cached = 0, n_drops = 0;
    (void)state;

    for (uint32_t seed = 1; seed <= 30; seed++) {
        struct sim_options o = options();
        struct store *st;

        o.n_blocks = 24 + 8 * seed;
        o.max_sequences = 2 + seed % 6;
        o.policy = (enum sched_policy)(seed % 4);
        o.preemption = (enum sched_preemption)(seed / 2 % 3);
        o.n_ram = seed % 3 * 20;
        st = new_store(&o);
        storm(st, seed, 400);
        n_entered += st->n_entered;
        n_drops += st->n_drops;
        n_timeouts += stats_of(st).store_timeouts;
        n_cached += stats_of(st).cached_tokens;
        free_store(st);
    }
    printf("note: 30 storms: %u blocks from the store, %u waited in vain, %u tokens cached\n",
           (unsigned)n_entered, (unsigned)n_timeouts, (unsigned)n_cached);
    assert_true(n_entered > 0 && n_timeouts > 0 && n_drops > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefix_comes_from_the_store),
        cmocka_unit_test(what_is_not_there_is_not_waited_for),
        cmocka_unit_test(time_runs_out),
        cmocka_unit_test(computing_may_be_cheaper),
        cmocka_unit_test(the_same_is_read_once),
        cmocka_unit_test(whoever_leaves_is_forgotten),
        cmocka_unit_test(random_answers_lose_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
