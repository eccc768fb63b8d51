/* tests/sim/sim_traffic.c - traffic in virtual time: what the policies promise, kept under load.
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
#include "scheduler/simulate.h"

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
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rng >> 33) % n);
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

static void finish(struct simulate **s)
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

/* P2, P3 in Poisson traffic at about 80 % of what the machine can do. */
static void poisson_traffic_loses_nothing(void **state)
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
    uint32_t n_sent;
};

static void ask_again(void *ud, struct simulate *s, size_t i)
{
    struct flood *flood = ud;
    struct simulate_arrival a = *simulate_arrival(s, i);

    if (a.tenant == 7 || simulate_now(s) >= flood->until_us)
        return; /* tenant 7: not one of those clients */
    flood->n_sent++;
    a.at_us = simulate_now(s);
    a.seed = a.seed * 31 + 7;
    add(s, &a);
}

static void start_flood(struct simulate *s, uint32_t n, const struct simulate_arrival *like)
{
    for (uint32_t i = 0; i < n; i++) {
        struct simulate_arrival a = *like;

        a.seed = i + 1000;
        add(s, &a);
    }
}

/* T6: 64 clients that ask for nothing but critical answers. With ageing of a tenth of a level a
 * second a low one is overtaken by what comes within 30 s after it, not by more: its wait is
 * bounded by these and the 64 that can be there already, eight at a time. Strict levels starve it,
 * which shows that the flood is one. */
static void ageing_bounds_the_wait(void **state)
{
    for (int strict = 0; strict < 2; strict++) {
        struct simulate_options o = server(SCHED_PRIORITY);
        struct flood flood = {.until_us = 600 * SECOND};
        struct simulate_arrival critical = an_arrival(0, 50, 40);
        uint64_t longest = 0, round = 0;
        struct simulate *s;
        (void)state;

        critical.priority = PRIORITY_CRITICAL;
        o.sched.max_sequences = 8;
        o.sched.aging_milli = strict ? 0 : 100;
        o.on_end = ask_again;
        o.ud = &flood;
        s = new_sim(&o);
        start_flood(s, 64, &critical);
        for (uint64_t i = 0; i < 20; i++) {
            struct simulate_arrival low = an_arrival(10 * SECOND + i * 20 * SECOND, 50, 40);

            low.priority = PRIORITY_LOW;
            low.tenant = 7;
            low.weight = 1;
            low.max_tokens = 41;
            add(s, &low);
        }
        finish(&s);
        for (size_t i = 0; i < simulate_n(s); i++) {
            const struct simulate_result *r = simulate_result(s, i);

            assert_int_equal(r->n_ends, 1);
            if (simulate_arrival(s, i)->tenant == 7)
                longest = r->start_us > longest ? r->start_us : longest;
            else
                round = r->finish_us - r->start_us > round ? r->finish_us - r->start_us : round;
        }
        print_message("strict %d: longest wait of a low one %.1f s, longest service %.1f s, %u "
                      "critical ones\n", strict, (double)longest / 1e6, (double)round / 1e6,
                      flood.n_sent);
        simulate_destroy(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(poisson_traffic_loses_nothing),
        cmocka_unit_test(bursts_lose_nothing),
        cmocka_unit_test(ageing_bounds_the_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
