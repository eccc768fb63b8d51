/* tests/bench/bench_plan.c - what planning costs: the scheduler, the pool, the simulator.
 *
 *   bench_plan [N]
 *
 * Prints the time of sched_plan() with 256 streams and 100, 1,000 and 10,000 waiting (nothing
 * changes; and with one end, one admission and one arrival in every step), of taking and giving
 * blocks in small and large pools, and of N simulated requests (100,000).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "kvcache/kv_manager.h"
#include "scheduler/replay/simulate.h"
#include "tests/fixtures/random.h"

#define STREAMS 256
#define STEPS 2000

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void print_times(const char *what, uint64_t *ns, size_t n)
{
    qsort(ns, n, sizeof(*ns), by_value);
    printf("  %-52s %8.2f us median %8.2f us p99\n", what, (double)ns[n / 2] / 1e3,
           (double)ns[n * 99 / 100] / 1e3);
}

static void must(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench_plan: %s failed\n", what);
    exit(1);
}

/* ---- plans ---- */

struct bench {
    struct kv_manager *kv;
    struct sched *sched;
    uint64_t now_us, n_ids;
    uint32_t n_tenants;
    int32_t tokens[STREAMS];
};

static void add(struct bench *b, uint32_t max_tokens)
{
    const struct request_size size = {.n_prompt = 16, .max_tokens = max_tokens};
    struct request *r;

    must(request_create(&r, &size), "request_create");
    r->id = ++b->n_ids;
    r->arrival_us = b->now_us;
    r->priority = (enum priority)(r->id % PRIORITY_COUNT);
    r->tenant = (uint32_t)(r->id % b->n_tenants);
    for (uint32_t i = 0; i < size.n_prompt; i++)
        r->ids[i] = (int32_t)(r->id * 31 + i) & 0x7fff;
    must(sched_add(b->sched, r, b->now_us), "sched_add");
}

/* Returns what the plan took; the commit is not counted. */
static uint64_t step(struct bench *b)
{
    const struct sched_limits limits = {
        .target_us = 200000,
        .costs = {.is_known = true, .step_ns = 1000000, .prefill_ns = 10000, .decode_ns = 10000},
    };
    struct sched_end end;
    uint64_t ns;

    b->now_us += 20000;
    ns = clock_ns();
    (void)sched_plan(b->sched, b->now_us, &limits);
    ns = clock_ns() - ns;
    sched_commit(b->sched, b->tokens, NULL, NULL, NULL, b->now_us);
    while (sched_next_end(b->sched, &end)) {
        request_destroy(&end.request);
        add(b, STREAMS);
    }
    return ns;
}

/* With `churn` every request has as many tokens as there are streams, so that one ends a step. */
static void bench_plans(uint32_t n_waiting, uint32_t n_tenants, bool churn)
{
    const struct kv_manager_options ko = {.n_blocks = 65536, .prefix_cache = true,
        .max_sequences = STREAMS, .max_table = 256};
    struct bench b = {.now_us = 1000000, .n_tenants = n_tenants};
    struct sched_options so;
    static uint64_t ns[STEPS];
    char what[80];

    sched_options_default(&so);
    must(kv_manager_create(&b.kv, &ko), "kv_manager_create");
    so.kv = b.kv;
    so.max_tenants = n_tenants;
    so.max_sequences = STREAMS;
    so.max_requests = STREAMS + n_waiting;
    must(sched_create(&b.sched, &so), "sched_create");
    for (uint32_t i = 0; i < STREAMS + n_waiting; i++)
        add(&b, churn ? 1 + i % STREAMS : 4000);
    for (uint32_t i = 0; i < 2 * STREAMS; i++)
        (void)step(&b);
    for (uint32_t i = 0; i < STEPS; i++)
        ns[i] = step(&b);
    snprintf(what, sizeof(what), "%u waiting, %u tenants%s", n_waiting, n_tenants,
             churn ? ", one in and out a step" : "");
    print_times(what, ns, STEPS);
    sched_destroy(&b.sched);
    kv_manager_destroy(&b.kv);
}

/* ---- blocks ---- */

/* Half of the pool is held, every other block; then one is given and another one taken. */
static void bench_pool(uint32_t n_blocks, enum block_placement placement, const char *name)
{
    block_id *ids = calloc(n_blocks, sizeof(*ids));
    struct block_pool *pool;
    static uint64_t ns[STEPS];
    const uint32_t at_once = placement == BLOCK_BEST_FIT ? 2 : 100; /* it looks at the whole pool */
    uint64_t seed = 1;
    char what[80];

    must(ids == NULL, "calloc");
    must(block_pool_create(&pool, n_blocks, placement), "block_pool_create");
    must(block_pool_take(pool, n_blocks, BLOCK_NONE, ids), "take");
    for (uint32_t i = 0; i < n_blocks / 2; i++) {
        must(block_pool_give(pool, &ids[2 * i + 1], 1), "give");
        ids[i] = ids[2 * i];
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        ns[i] = clock_ns();
        for (uint32_t k = 0; k < at_once; k++) {
            block_id *id = &ids[(seed = seed * 6364136223846793005u + 1) % (n_blocks / 2)];

            must(block_pool_give(pool, id, 1), "give");
            must(block_pool_take(pool, 1, *id, id), "take");
        }
        ns[i] = (clock_ns() - ns[i]) / at_once;
    }
    snprintf(what, sizeof(what), "give and take a block of %u, %s", n_blocks, name);
    print_times(what, ns, STEPS);
    must(block_pool_give(pool, ids, n_blocks / 2), "give");
    block_pool_destroy(&pool);
    free(ids);
}

/* ---- simulated requests ---- */

static uint64_t rng = 1;

static uint32_t rnd(uint32_t n)
{
    return random_below(&rng, n);
}

static void bench_simulation(uint32_t n)
{
    struct simulate_options o = {.target_us = 200000, .noise_percent = 10,
        .truth = {.is_known = true, .step_ns = 15000000, .prefill_ns = 1400000,
                  .decode_ns = 2000000, .kv_decode_ps = 1000, .kv_prefill_ps = 400,
                  .swap_ns = 50000, .file_ns = 500000}};
    struct simulate_summary summary;
    struct engine_stats stats;
    struct simulate *s;
    uint64_t t = 0, from = clock_ns();

    sched_options_default(&o.sched);
    o.sched.max_tenants = 8;
    o.sched.max_sequences = 64;
    o.sched.max_requests = 100000;
    o.kv = (struct kv_manager_options){.n_blocks = 512, .prefix_cache = true, .n_ram = 256,
        .n_file = 512, .max_sequences = 256, .max_table = 256};
    must(simulate_create(&s, &o), "simulate_create");
    for (uint32_t i = 0; i < n; i++) {
        const struct simulate_arrival a = {.at_us = t += rnd(900000), .n_prompt = 1 + rnd(400),
            .max_tokens = 200, .n_output = 1 + rnd(150), .seed = i, .shared_seed = rnd(20),
            .n_shared = rnd(100), .priority = (enum priority)rnd(PRIORITY_COUNT),
            .tenant = rnd(8)};

        must(simulate_add(s, &a) < 0, "simulate_add");
    }
    must(simulate_run(s, UINT64_MAX), "simulate_run");
    must(simulate_summarise(s, &summary), "simulate_summarise");
    simulate_stats(s, &stats);
    printf("  %zu requests, %lu steps, %lu preemptions in %.1f s (%.0f hours of load; at most "
           "60 s for 100,000)\n", summary.n_ended, stats.iterations, summary.n_preempted,
           (double)(clock_ns() - from) / 1e9, (double)summary.finish_us / 3.6e9);
    simulate_destroy(&s);
}

int main(int argc, char **argv)
{
    const unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;

    puts("plans of 256 streams (at most 50 us with 10,000 waiting)");
    for (uint32_t waiting = 100; waiting <= 10000; waiting *= 10) {
        bench_plans(waiting, 1, false);
        bench_plans(waiting, 1, true);
    }
    bench_plans(10000, 64, true);
    puts("blocks");
    bench_pool(1000, BLOCK_FIRST_FIT, "first fit");
    bench_pool(1000000, BLOCK_FIRST_FIT, "first fit");
    bench_pool(1000, BLOCK_BEST_FIT, "best fit");
    bench_pool(1000000, BLOCK_BEST_FIT, "best fit");
    bench_pool(1000, BLOCK_ROUND_ROBIN, "round robin");
    bench_pool(1000000, BLOCK_ROUND_ROBIN, "round robin");
    puts("simulated load");
    bench_simulation(n < 1000000000 ? (uint32_t)n : 100000);
    return 0;
}
