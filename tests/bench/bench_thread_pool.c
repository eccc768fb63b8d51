/* tests/bench/bench_thread_pool.c - what the thread pool itself costs, and how its split scales.
 *
 *   bench_thread_pool [--threads N]
 *
 * Measured on this machine: a barrier, an empty region (a take that finds nothing, a barrier), a
 * region of 64 empty items, and an empty run, with 1 to N threads (N: threads that `threads = 0`
 * takes); medians of many short series. Wants a quiet machine.
 *
 * Simulated, because cores are lacking: one step of products on 1 to 16 workers. Every worker has a
 * clock of its own; whoever's clock is lowest takes next, with the real thread_pool_take(), and
 * each item adds a fixed time to its taker's clock. So the split, the grain and the stealing are
 * real; that each worker has a core and that memory keeps up are assumptions. A barrier adds, for
 * each worker but the first, what one of two threads was measured to cost: arrivals change one word
 * in turn.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/cpus.h"
#include "core/runtime/thread_pool.h"

#define SERIES 201
#define REPS 200
#define MAX_WORKERS 16

static double now_us(void)
{
    return (double)clock_ns() / 1e3;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

static struct thread_pool *make(uint32_t n_threads)
{
    struct thread_pool *t;

    if (thread_pool_create(&t, &(struct thread_pool_options){.n_threads = n_threads}) < 0) {
        fprintf(stderr, "bench_thread_pool: cannot make %u threads\n", n_threads);
        exit(1);
    }
    return t;
}

/* ---- measured ---- */

struct series {
    uint32_t n_items; /* of each region */
    bool takes;       /* else a bare barrier */
    double us[SERIES];
};

static void regions(void *ud, struct thread_pool_worker *w)
{
    struct series *s = ud;
    uint32_t from, to;

    for (uint32_t i = 0; i < SERIES; i++) {
        const double begin = now_us();

        for (uint32_t r = 0; r < REPS; r++) {
            while (s->takes && thread_pool_take(w, s->n_items, 4, &from, &to))
                ;
            thread_pool_barrier(w);
        }
        if (w->index == 0)
            s->us[i] = (now_us() - begin) / REPS;
    }
}

static void nothing(void *ud, struct thread_pool_worker *w)
{
    (void)ud;
    (void)w;
}

static double region_us(struct thread_pool *t, bool takes, uint32_t n_items)
{
    struct series *s = calloc(1, sizeof(*s));
    double us;

    s->takes = takes;
    s->n_items = n_items;
    thread_pool_run(t, regions, s);
    us = median(s->us, SERIES);
    free(s);
    return us;
}

static double run_us(struct thread_pool *t)
{
    double us[SERIES];

    for (uint32_t i = 0; i < SERIES; i++) {
        const double begin = now_us();

        for (uint32_t r = 0; r < REPS; r++)
            thread_pool_run(t, nothing, NULL);
        us[i] = (now_us() - begin) / REPS;
    }
    return median(us, SERIES);
}

/* The barrier's cost with two threads. */
static double measure(uint32_t n_max)
{
    double of_two = 0;

    printf("thread pool, microseconds (medians)\n%7s %9s %13s %10s %10s\n", "threads", "barrier",
           "empty region", "64 items", "empty run");
    for (uint32_t n = 1; n <= n_max; n++) {
        struct thread_pool *t = make(n);
        const double barrier = region_us(t, false, 0);

        of_two = n == 2 ? barrier : of_two;
        printf("%7u %9.2f %13.2f %10.2f %10.2f\n", n, barrier, region_us(t, true, 0),
               region_us(t, true, 64), run_us(t));
        thread_pool_destroy(&t);
    }
    return of_two;
}

/* ---- simulated ---- */

/* The products of a layer of the 0.5B shape in a decode step: panels of 16 rows, and what one panel
 * takes when a core streams 16 GB/s of 8-bit panels. */
static const struct {
    uint32_t n_panels;
    double item_us;
} LAYER[] = {
    {72, 0.95},  /* q, k, v: 1,152 x 896 */
    {56, 0.95},  /* out: 896 x 896 */
    {608, 0.95}, /* gate and up: 9,728 x 896 */
    {56, 5.17},  /* down: 896 x 4,864 */
};
#define N_REGIONS (sizeof(LAYER) / sizeof(LAYER[0]))

/* One region: the end of the last worker. Worker 0 takes `slow` times as long for each item. */
static double simulate_region(uint32_t n_workers, uint32_t n, double item_us, double slow)
{
    const uint32_t grain = n / (n_workers * 4) > 0 ? n / (n_workers * 4) : 1;
    struct thread_pool *t = make(n_workers);
    struct thread_pool_worker w[MAX_WORKERS];
    double clock[MAX_WORKERS] = {0}, end = 0;
    uint32_t from, to, next = 0;

    for (uint32_t i = 0; i < n_workers; i++)
        w[i] = (struct thread_pool_worker){.pool = t, .index = i};
    while (thread_pool_take(&w[next], n, grain, &from, &to)) {
        clock[next] += (to - from) * item_us * (next == 0 ? slow : 1);
        end = clock[next] > end ? clock[next] : end;
        for (uint32_t i = 0; i < n_workers; i++)
            next = clock[i] < clock[next] ? i : next;
    }
    thread_pool_destroy(&t);
    return end;
}

static double simulate_layer(uint32_t n_workers, double barrier_us, double slow)
{
    double us = 0;

    for (size_t r = 0; r < N_REGIONS; r++)
        us += simulate_region(n_workers, LAYER[r].n_panels, LAYER[r].item_us, slow) +
              (n_workers - 1) * barrier_us;
    return us;
}

static void simulate(double barrier_us)
{
    const double alone = simulate_layer(1, barrier_us, 1);

    printf("\nsimulated: a layer of products of the 0.5B shape, one stream; a core for each worker "
           "and enough memory\nbandwidth assumed, a barrier %.2f us for each worker but the first; "
           "the speed-up, and with worker 0 at\nhalf speed\n%7s %9s %10s %6s %14s %6s\n",
           barrier_us, "workers", "us", "speed-up", "of n", "one is slow", "of n");
    for (uint32_t n = 1; n <= MAX_WORKERS; n += n < 4 ? 1 : n < 8 ? 2 : 4) {
        const double us = simulate_layer(n, barrier_us, 1);
        const double slow = simulate_layer(n, barrier_us, 2);

        printf("%7u %9.0f %10.2f %5.0f%% %14.2f %5.0f%%\n", n, us, alone / us,
               100 * alone / us / n, alone / slow, 100 * alone / slow / (n - 0.5));
    }
}

int main(int argc, char **argv)
{
    struct cpus cpus;
    uint32_t n_max;

    cpus_read(&cpus, "");
    n_max = cpus_threads(&cpus);
    if (argc == 3 && strcmp(argv[1], "--threads") == 0)
        n_max = (uint32_t)strtoul(argv[2], NULL, 10);
    if ((argc != 1 && argc != 3) || n_max < 1 || n_max > 1024) {
        fputs("usage: bench_thread_pool [--threads N]\n", stderr);
        return 2;
    }
    simulate(measure(n_max));
    return 0;
}
