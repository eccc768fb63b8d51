/* tests/sim/sim_load.c - load in virtual time: what the policies promise, and keep.
 *
 * The machine: 15 ms a step for the weights, 1.4 ms a prompt row, 2 ms a stream, 1 and 0.4 us a
 * thousand keys, 50 us a block to RAM, 500 us a block to the file. QUIRE_SIM_REQUESTS sets the size
 * of the large runs (5,000).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/forecast.h"
#include "scheduler/replay/simulate.h"
#include "tests/fixtures/random.h"

#define SECOND ((uint64_t)1000000)
#define MS ((uint64_t)1000)
#define FOREVER UINT64_MAX

static const struct step_costs machine = {
    .is_known = true,
    .step_ns = 15000000,
    .prefill_ns = 1400000,
    .decode_ns = 2000000,
    .kv_decode_ps = 1000,
    .kv_prefill_ps = 400,
    .swap_ns = 50000,
    .file_ns = 500000,
};

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
    return random_below(&rng, n);
}

/* Exponentially distributed with this mean, by adding up halvings: no libm needed. */
static uint64_t gap(uint64_t mean)
{
    uint64_t t = rnd(2000) * mean / 2886; /* 0 .. ln 2 of the mean */

    while (rnd(2) == 0)
        t += mean * 693 / 1000;
    return t;
}

static uint32_t n_requests(void)
{
    const char *text = getenv("QUIRE_SIM_REQUESTS");
    const unsigned long n = text != NULL ? strtoul(text, NULL, 10) : 5000;

    return n >= 100 && n <= 10000000 ? (uint32_t)n : 5000;
}

/* A server with 32 slots and plenty of blocks. */
static struct simulate_options server(enum sched_policy policy)
{
    struct simulate_options o = {.truth = machine, .target_us = 200 * MS, .seed = 1};

    sched_options_default(&o.sched);
    o.sched.policy = policy;
    o.sched.max_sequences = 32;
    o.sched.max_requests = 4096;
    o.sched.max_context = 4096;
    o.sched.max_tenants = 8;
    o.kv = (struct kv_manager_options){.n_blocks = 8192, .prefix_cache = true,
        .max_sequences = 256, .max_table = 256, .low_percent = 30, .critical_percent = 10};
    return o;
}

static struct simulate *new_sim(const struct simulate_options *o)
{
    struct simulate *s;

    assert_int_equal(simulate_create(&s, o), 0);
    return s;
}

static size_t add(struct simulate *s, const struct simulate_arrival *a)
{
    const int64_t i = simulate_add(s, a);

    assert_true(i >= 0);
    return (size_t)i;
}

static struct simulate_arrival an_arrival(uint64_t at_us, uint32_t n_prompt, uint32_t n_output)
{
    static uint64_t seed;

    return (struct simulate_arrival){.at_us = at_us, .n_prompt = n_prompt, .n_output = n_output,
        .max_tokens = n_output, .priority = PRIORITY_NORMAL, .seed = ++seed};
}

static void finish(struct simulate *const *s)
{
    struct engine_stats stats;

    assert_int_equal(simulate_run(*s, FOREVER), 0);
    simulate_stats(*s, &stats);
    assert_int_equal(stats.blocks_held, 0);
    assert_int_equal(stats.blocks_free + stats.blocks_cached, stats.blocks_total);
    assert_int_equal(stats.swap.n_copies, 0);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static uint64_t quantile(uint64_t *v, size_t n, uint32_t percent)
{
    assert_true(n > 0);
    qsort(v, n, sizeof(*v), by_value);
    return v[(n - 1) * percent / 100];
}

/* ---- nothing is lost ---- */

/* A fifth of the memory that the slots could use, both tiers, everything that can happen. */
static struct simulate_options crowded(enum sched_policy policy)
{
    struct simulate_options o = server(policy);

    o.noise_percent = 10;
    o.kv.n_blocks = 320;
    o.kv.n_ram = 64;
    o.kv.n_file = 128;
    return o;
}

static struct simulate_arrival anything(uint64_t at_us)
{
    struct simulate_arrival a = an_arrival(at_us, 1 + rnd(rnd(10) == 0 ? 1500 : 200), 0);

    a.max_tokens = rnd(300);
    a.n_output = rnd(a.max_tokens + 1);
    a.priority = (enum priority)rnd(PRIORITY_COUNT);
    a.tenant = rnd(8);
    a.weight = 1 + a.tenant;
    a.shared_seed = rnd(5);
    a.n_shared = rnd(3) * 100;
    a.salt = rnd(2);
    a.score_prompt = rnd(20) == 0;
    if (rnd(10) == 0)
        a.deadline_us = at_us + 1 + rnd(60000000);
    if (rnd(10) == 0)
        a.queue_until_us = at_us + 1 + rnd(5000000);
    if (rnd(10) == 0)
        a.leave_us = at_us + 1 + rnd(20000000);
    return a;
}

/* Each ended once, for a reason that it gave, with the tokens that it should have. */
static void check_ends(const struct simulate *s)
{
    for (size_t i = 0; i < simulate_n(s); i++) {
        const struct simulate_arrival *a = simulate_arrival(s, i);
        const struct simulate_result *r = simulate_result(s, i);

        assert_int_equal(r->n_ends, 1);
        switch (r->finish) {
        case FINISH_LENGTH:
        case FINISH_STOP:
            assert_int_equal(r->n_tokens,
                             a->n_output > 0 || a->max_tokens == 0 ? a->n_output : 1);
            break;
        case FINISH_TIMEOUT:
            assert_true(a->deadline_us > 0 && a->at_us + r->finish_us >= a->deadline_us);
            break;
        case FINISH_QUEUE_TIMEOUT:
            assert_true(a->queue_until_us > 0 && r->n_tokens == 0);
            break;
        case FINISH_CANCELLED:
            assert_true(a->leave_us > 0 && a->at_us + r->finish_us >= a->leave_us);
            break;
        case FINISH_NONE:
        case FINISH_ERROR:
        case FINISH_DRY_RUN:
            fail_msg("request %zu ended as %s", i, finish_name(r->finish));
        }
    }
}

/* P2, P3 in Poisson load at about 80 % of what the machine can do. */
static void poisson_arrivals_lose_nothing(void **state)
{
    (void)state;
    for (enum sched_policy policy = SCHED_FCFS; policy <= SCHED_ADAPTIVE; policy++) {
        struct simulate_options o = crowded(policy);
        struct simulate *s;
        uint64_t t = 0;

        rng = policy + 1;
        o.check_every = 1 + n_requests() / 250;
        s = new_sim(&o);
        for (uint32_t i = 0; i < n_requests() / 4; i++) {
            const struct simulate_arrival a = anything(t += gap(1500 * MS));

            add(s, &a);
        }
        finish(&s);
        check_ends(s);
        simulate_destroy(&s);
    }
}

/* The same when 300 come at once, every five minutes, with check_every = 1 for a while. */
static void bursts_lose_nothing(void **state)
{
    (void)state;
    for (enum sched_preemption way = SCHED_AUTO; way <= SCHED_SWAP; way++) {
        struct simulate_options o = crowded(SCHED_PRIORITY);
        struct simulate *s;

        rng = way + 1;
        o.sched.preemption = way;
        o.check_every = 40;
        s = new_sim(&o);
        for (uint32_t i = 0; i < 900; i++) {
            const struct simulate_arrival a = anything(i / 300 * 300 * SECOND);

            add(s, &a);
        }
        finish(&s);
        check_ends(s);
        simulate_destroy(&s);
    }
}

/* ---- nobody starves ---- */

struct flood { /* clients that ask again as soon as they have their answer */
    uint64_t until_us;
    enum priority least; /* of those clients; what is below is somebody else's */
};

static void ask_again(void *ud, struct simulate *s, size_t i)
{
    const struct flood *flood = ud;
    struct simulate_arrival a = *simulate_arrival(s, i);

    if (a.priority < flood->least || simulate_now(s) >= flood->until_us)
        return;
    a.at_us = simulate_now(s);
    a.seed = a.seed * 31 + 7;
    a.n_output = 1 + a.max_tokens / 2 + (uint32_t)(a.seed >> 8) % (a.max_tokens / 2);
    add(s, &a);
}

static void start_clients(struct simulate *s, uint32_t n, const struct simulate_arrival *like)
{
    for (uint32_t i = 0; i < n; i++) {
        struct simulate_arrival a = *like;

        a.seed = i + 1000 * (1 + like->tenant);
        a.n_output = 1 + i * 997 % a.max_tokens;
        add(s, &a);
    }
}

/* 64 clients that want nothing but critical answers, for ten minutes, eight at a time, and every
 * twenty seconds a low one, of the tenant `low`. Returns the longest wait of a low one; *round_us
 * is the longest time that eight requests need. */
static uint64_t wait_in_flood(uint32_t aging_milli, uint32_t low_tenant, uint64_t *round_us)
{
    struct simulate_options o = server(SCHED_PRIORITY);
    struct flood flood = {.until_us = 600 * SECOND, .least = PRIORITY_CRITICAL};
    struct simulate_arrival critical = an_arrival(0, 50, 40);
    uint64_t longest = 0;
    struct simulate *s;

    critical.priority = PRIORITY_CRITICAL;
    o.sched.max_sequences = 8;
    o.sched.aging_milli = aging_milli;
    o.on_end = ask_again;
    o.ud = &flood;
    s = new_sim(&o);
    start_clients(s, 64, &critical);
    for (uint64_t i = 0; i < 20; i++) {
        struct simulate_arrival low = an_arrival((10 + i * 20) * SECOND, 50, 40);

        low.priority = PRIORITY_LOW;
        low.tenant = low_tenant;
        add(s, &low);
    }
    finish(&s);
    *round_us = 0;
    for (size_t i = 0; i < simulate_n(s); i++) {
        const struct simulate_result *r = simulate_result(s, i);
        const uint64_t service = r->finish_us - r->start_us;

        assert_int_equal(r->n_ends, 1);
        if (simulate_arrival(s, i)->priority == PRIORITY_LOW)
            longest = r->start_us > longest ? r->start_us : longest;
        else
            *round_us = service > *round_us ? service : *round_us;
    }
    simulate_destroy(&s);
    return longest;
}

/* T6: with a tenth of a level a second a low one is overtaken by what comes within 30 s after it
 * and by no more: then 64 at most are before it, eight at a time. That strict levels starve it
 * shows that the flood is one. */
static void ageing_bounds_the_wait(void **state)
{
    (void)state;
    for (uint32_t tenant = 0; tenant < 2; tenant++) {
        uint64_t round_us, longest = wait_in_flood(100, tenant, &round_us);

        print_message("ageing: longest wait of a low one %.1f s\n", (double)longest / 1e6);
        assert_true(longest <= 30 * SECOND + (64 / 8 + 1) * round_us);
        assert_true(wait_in_flood(0, tenant, &round_us) > 300 * SECOND);
    }
}

/* S2.21, D2.6: a pool that holds one sequence at its end, eight equals and a critical one that
 * comes last: no livelock, the critical one overtakes, nobody is thrown out for ever. */
static void a_tiny_pool_does_not_livelock(void **state)
{
    (void)state;
    for (enum sched_preemption way = SCHED_AUTO; way <= SCHED_SWAP; way++) {
        struct simulate_options o = server(SCHED_PRIORITY);
        struct simulate_arrival critical = an_arrival(SECOND, 90, 60);
        struct simulate *s;
        size_t last;

        o.sched.preemption = way;
        o.sched.max_context = 160;
        o.check_every = 1;
        o.kv.n_blocks = 10;
        o.kv.n_ram = way == SCHED_RECOMPUTE ? 0 : 20;
        s = new_sim(&o);
        for (uint64_t i = 0; i < 8; i++) {
            const struct simulate_arrival a = an_arrival(i, 20 + (uint32_t)i * 8, 80);

            add(s, &a);
        }
        critical.priority = PRIORITY_CRITICAL;
        last = add(s, &critical);
        finish(&s);
        check_ends(s);
        assert_int_equal(simulate_result(s, last)->n_preempted, 0);
        for (size_t i = 0; i < 8; i++) {
            const struct simulate_result *r = simulate_result(s, i);

            assert_true(r->n_preempted <= o.sched.max_preemptions + 1); /* and by the critical */
            assert_true(r->arrival_us + r->finish_us >
                        critical.at_us + simulate_result(s, last)->finish_us);
        }
        simulate_destroy(&s);
    }
}

/* ---- tenants ---- */

/* Three tenants that always have something waiting, of quite different kinds, for five minutes.
 * rows[] is what was computed for each. */
static void share(const uint32_t *weights, uint64_t *rows)
{
    static const struct {
        uint32_t n_clients, n_prompt, n_output;
    } kinds[3] = {{64, 60, 30}, {40, 400, 10}, {80, 30, 100}};
    struct simulate_options o = server(SCHED_PRIORITY);
    struct flood flood = {.until_us = 300 * SECOND};
    struct simulate *s;

    o.sched.max_sequences = 16;
    o.on_end = ask_again;
    o.ud = &flood;
    s = new_sim(&o);
    for (uint32_t t = 0; t < 3; t++) {
        struct simulate_arrival a = an_arrival(0, kinds[t].n_prompt, kinds[t].n_output);

        a.tenant = t;
        a.weight = weights[t];
        start_clients(s, kinds[t].n_clients, &a);
    }
    assert_int_equal(simulate_run(s, flood.until_us), 0);
    for (uint32_t t = 0; t < 3; t++)
        rows[t] = simulate_tenant_rows(s, t);
    simulate_destroy(&s);
}

/* Jain's index of what each got for its weight. */
static double jain(const uint64_t *rows, const uint32_t *weights)
{
    double sum = 0, squares = 0;

    for (int t = 0; t < 3; t++) {
        const double x = (double)rows[t] / weights[t];

        sum += x;
        squares += x * x;
    }
    return sum * sum / (3 * squares);
}

static void tenants_share_by_weight(void **state)
{
    static const uint32_t equal[] = {1, 1, 1}, unequal[] = {1, 2, 4};
    uint64_t rows[3];
    (void)state;

    share(equal, rows);
    print_message("equal: %lu %lu %lu rows\n", rows[0], rows[1], rows[2]);
    assert_true(jain(rows, equal) > 0.95);
    share(unequal, rows);
    print_message("1:2:4: %lu %lu %lu rows\n", rows[0], rows[1], rows[2]);
    for (int t = 0; t < 3; t++)
        assert_in_range(rows[t] * 7 / unequal[t], (rows[0] + rows[1] + rows[2]) * 9 / 10,
                        (rows[0] + rows[1] + rows[2]) * 11 / 10);
}

/* Tenant B's 95th percentile of the time to the first token, one request at a time for five
 * minutes, beside n clients of tenant A. */
static uint64_t ttft_beside(uint32_t n_clients, uint32_t n_prompt, uint32_t max_tokens)
{
    struct simulate_options o = server(SCHED_PRIORITY);
    struct flood flood = {.until_us = 300 * SECOND};
    struct simulate_arrival a = an_arrival(0, n_prompt, max_tokens),
                            b = an_arrival(SECOND, 200, 50);
    static uint64_t ttft[2000];
    struct simulate *s;
    size_t n = 0;

    o.sched.max_sequences = 256;
    o.on_end = ask_again;
    o.ud = &flood;
    s = new_sim(&o);
    start_clients(s, n_clients, &a);
    b.tenant = 1;
    add(s, &b);
    finish(&s);
    for (size_t i = 0; i < simulate_n(s); i++)
        if (simulate_arrival(s, i)->tenant == 1 && n < 2000)
            ttft[n++] = simulate_result(s, i)->first_us;
    simulate_destroy(&s);
    return quantile(ttft, n, 95);
}

/* Alone B needs 295 ms: one step. Beside A's streams a step is 200 ms and has time for half of B's
 * prompt, the prompt that A is at goes first, and B arrives in the middle of a step. */
static void a_flood_does_not_drown_the_others(void **state)
{
    static const struct {
        uint32_t n_prompt, max_tokens, times;
    } floods[] = {{100, 20, 3}, {300, 50, 4}};
    const uint64_t alone = ttft_beside(0, 1, 1);
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        const uint64_t beside = ttft_beside(64, floods[i].n_prompt, floods[i].max_tokens);

        print_message("TTFT p95 alone %.3f s, beside 64 clients %.3f s: %.2f times\n",
                      (double)alone / 1e6, (double)beside / 1e6, (double)beside / (double)alone);
        assert_true(beside <= floods[i].times * alone);
    }
}

/* ---- policies ---- */

/* One slot and n requests at once; order[i] is the place of request i. */
static void order_of(enum sched_policy policy, uint32_t aging_milli,
                     const struct simulate_arrival *arrivals, size_t n, size_t *order)
{
    struct simulate_options o = server(policy);
    struct simulate *s;

    o.sched.max_sequences = 1;
    o.sched.aging_milli = aging_milli;
    s = new_sim(&o);
    for (size_t i = 0; i < n; i++)
        add(s, &arrivals[i]);
    finish(&s);
    for (size_t i = 0; i < n; i++) {
        order[i] = 0;
        for (size_t j = 0; j < n; j++)
            order[i] += simulate_result(s, j)->start_us < simulate_result(s, i)->start_us;
    }
    simulate_destroy(&s);
}

#define N_ORDER 24

/* S2.14: what has to come before what, for every pair. */
static void orders_are_exact(void **state)
{
    struct simulate_arrival a[N_ORDER];
    size_t fcfs[N_ORDER], sjf[N_ORDER], priority[N_ORDER], adaptive[N_ORDER];
    (void)state;

    rng = 77;
    for (size_t i = 0; i < N_ORDER; i++) {
        a[i] = an_arrival(SECOND, 1 + rnd(100), 1 + rnd(50));
        a[i].priority = (enum priority)rnd(PRIORITY_COUNT);
    }
    order_of(SCHED_FCFS, 100, a, N_ORDER, fcfs);
    order_of(SCHED_SJF, 100, a, N_ORDER, sjf);
    order_of(SCHED_PRIORITY, 100, a, N_ORDER, priority);
    order_of(SCHED_ADAPTIVE, 100, a, N_ORDER, adaptive);
    for (size_t i = 0; i < N_ORDER; i++)
        for (size_t j = 0; j < i; j++) {
            const uint32_t li = a[i].n_prompt + a[i].max_tokens,
                           lj = a[j].n_prompt + a[j].max_tokens;

            assert_true(fcfs[j] < fcfs[i]);
            assert_true(li < lj ? sjf[i] < sjf[j] : sjf[j] < sjf[i]);
            assert_true(a[i].priority > a[j].priority ? priority[i] < priority[j]
                                                      : priority[j] < priority[i]);
        }
    /* D2.9 */
    assert_memory_not_equal(adaptive, fcfs, sizeof(fcfs));
    assert_memory_not_equal(adaptive, priority, sizeof(priority));
}

/* Adaptive: the short one of a level first, but a level weighs more than a short prompt. */
static void adaptive_looks_at_both(void **state)
{
    struct simulate_arrival a[3] = {an_arrival(SECOND, 1500, 10), an_arrival(SECOND, 20, 10),
                                    an_arrival(SECOND, 1500, 10)};
    size_t place[3];
    (void)state;

    a[2].priority = PRIORITY_HIGH;
    order_of(SCHED_ADAPTIVE, 100, a, 3, place);
    assert_int_equal(place[2], 0);
    assert_int_equal(place[1], 1);
    assert_int_equal(place[0], 2);
}

static double mean_ttft(enum sched_policy policy)
{
    struct simulate_options o = server(policy);
    struct simulate *s;
    uint64_t t = 0;
    double sum = 0;

    rng = 5;
    o.sched.max_sequences = 4;
    s = new_sim(&o);
    for (uint32_t i = 0; i < 600; i++) {
        const bool is_long = rnd(5) == 0;
        const struct simulate_arrival a =
            an_arrival(t += gap(600 * MS), is_long ? 1000 : 40, is_long ? 200 : 20);

        add(s, &a);
    }
    finish(&s);
    for (size_t i = 0; i < simulate_n(s); i++)
        sum += (double)simulate_result(s, i)->first_us;
    simulate_destroy(&s);
    return sum / 600;
}

static void shortest_first_lowers_the_mean(void **state)
{
    const double fcfs = mean_ttft(SCHED_FCFS), sjf = mean_ttft(SCHED_SJF);
    (void)state;

    print_message("mean TTFT fcfs %.1f s, sjf %.1f s\n", fcfs / 1e6, sjf / 1e6);
    assert_true(sjf < fcfs * 0.8);
}

/* 40 requests at once of which each has the time that it needs if those due earlier go first. How
 * many are too late? */
static size_t n_late(enum sched_policy policy)
{
    const struct step_work prompt = {.n_prefill = 60, .kv_prefill = 60 * 61 / 2},
                           token = {.n_decode = 1, .kv_decode = 80};
    const uint64_t service =
        (step_costs_ns(&machine, &prompt) + 19 * step_costs_ns(&machine, &token)) / 1000;
    struct simulate_options o = server(policy);
    struct simulate_summary summary;
    struct simulate *s;

    rng = 9;
    o.sched.max_sequences = 1;
    s = new_sim(&o);
    for (uint64_t i = 0; i < 40; i++) { /* a shuffle: 7 and 40 have no common divisor */
        struct simulate_arrival a = an_arrival(SECOND, 60, 20);

        a.deadline_us = a.at_us + (i * 7 % 40 + 1) * (service + service / 50) + SECOND / 10;
        add(s, &a);
    }
    finish(&s);
    assert_int_equal(simulate_summarise(s, &summary), 0);
    simulate_destroy(&s);
    return summary.n_timeout;
}

/* Earliest deadline first meets every set of deadlines that can be met (Liu and Layland, 1973). */
static void deadlines_that_can_be_met_are(void **state)
{
    (void)state;
    assert_int_equal(n_late(SCHED_PRIORITY), 0);
    assert_true(n_late(SCHED_FCFS) > 10);
}

/* ---- forecasts ---- */

struct guesses {
    uint64_t first_us[4000];
    uint32_t n, n_known;
};

static void guess(void *ud, struct simulate *s, size_t i)
{
    struct guesses *g = ud;
    const struct simulate_arrival *a = simulate_arrival(s, i);
    const struct forecast_ask ask = {.n_prompt = a->n_prompt, .max_tokens = a->max_tokens,
        .priority = a->priority, .max_batch_tokens = 1024, .prefill_chunk = 512,
        .max_sequences = 32};
    struct engine_stats stats;
    struct forecast f;

    simulate_stats(s, &stats);
    f = forecast_make(&stats, &ask);
    g->first_us[i] = f.is_known ? f.first_us + simulate_now(s) - a->at_us : 0;
    g->n_known += f.is_known;
}

/* The ratio of what was foretold to what happened, in thousandths: median of 2,000 arrivals. */
static uint64_t forecast_ratio(uint64_t mean_gap_us)
{
    struct simulate_options o = server(SCHED_PRIORITY);
    static struct guesses g;
    static uint64_t ratio[4000];
    struct simulate *s;
    uint64_t t = 0;
    size_t n = 0;

    rng = 13;
    memset(&g, 0, sizeof(g));
    o.on_arrive = guess;
    o.ud = &g;
    o.noise_percent = 5;
    s = new_sim(&o);
    for (uint32_t i = 0; i < 2000; i++) {
        const struct simulate_arrival a =
            an_arrival(t += gap(mean_gap_us), 20 + rnd(400), 1 + rnd(150));

        add(s, &a);
    }
    finish(&s);
    assert_true(g.n_known > 1900);
    for (size_t i = 0; i < 2000; i++)
        if (g.first_us[i] > 0)
            ratio[n++] = g.first_us[i] * 1000 / simulate_result(s, i)->first_us;
    simulate_destroy(&s);
    return quantile(ratio, n, 50);
}

static void forecasts_come_true(void **state)
{
    static const uint64_t gaps_ms[] = {5000, 1500, 700, 550};
    (void)state;

    for (size_t i = 0; i < sizeof(gaps_ms) / sizeof(gaps_ms[0]); i++) {
        const uint64_t ratio = forecast_ratio(gaps_ms[i] * MS);

        print_message("one every %lu ms: foretold / happened, median %.2f\n", gaps_ms[i],
                      (double)ratio / 1000);
        assert_in_range(ratio, 700, 1400);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(poisson_arrivals_lose_nothing),
        cmocka_unit_test(bursts_lose_nothing),
        cmocka_unit_test(ageing_bounds_the_wait),
        cmocka_unit_test(a_tiny_pool_does_not_livelock),
        cmocka_unit_test(tenants_share_by_weight),
        cmocka_unit_test(a_flood_does_not_drown_the_others),
        cmocka_unit_test(orders_are_exact),
        cmocka_unit_test(adaptive_looks_at_both),
        cmocka_unit_test(shortest_first_lowers_the_mean),
        cmocka_unit_test(deadlines_that_can_be_met_are),
        cmocka_unit_test(forecasts_come_true),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
