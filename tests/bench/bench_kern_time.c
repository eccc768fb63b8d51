/* tests/bench/bench_kern_time.c - runs of a kernel beside runs of what limits it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/bench/bench_kern.h"
#include "tests/fixtures/seconds.h"

#define MAX_RUNS 64
#define PIECE ((size_t)8 << 20) /* bytes that one call of reading takes */

/* The cycles that the processor's clock counts at a constant rate: of aarch64's, CNTFRQ_EL0 a
 * second. */
static uint64_t counter_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t n;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(n));
    return n;
#endif
}

struct run {
    const struct work *work;
    double seconds[MAX_THREADS];
    double cycles[MAX_THREADS];
};

static void run_share(void *ud, struct thread_pool_worker *w)
{
    struct run *run = ud;
    const struct work *work = run->work;
    const uint32_t n = thread_pool_n_threads(w->pool);

    thread_pool_barrier(w);
    const double t0 = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    const uint64_t c0 = counter_now();
    for (size_t r = 0; r < work->reps; r++)
        work->call(work->arg, w->index, n, work->next + r);
    run->cycles[w->index] = (double)(counter_now() - c0);
    run->seconds[w->index] = seconds_of(CLOCK_THREAD_CPUTIME_ID) - t0;
}

/* Seconds and cycles a call. The processor time of the thread that took most: the threads never
 * wait for each other, so on a quiet machine it is the time passed; other processes make that
 * longer, but this hardly. */
static double run_once(struct thread_pool *pool, struct work *work, double *cycles)
{
    struct run run = {.work = work};
    double seconds = 0;

    *cycles = 0;
    thread_pool_run(pool, run_share, &run);
    work->next += work->reps;
    for (uint32_t i = 0; i < thread_pool_n_threads(pool); i++) {
        seconds = run.seconds[i] > seconds ? run.seconds[i] : seconds;
        *cycles = run.cycles[i] > *cycles ? run.cycles[i] : *cycles;
    }
    *cycles /= (double)work->reps;
    return seconds / (double)work->reps;
}

/* As many calls as fill a run. */
static void set_reps(const struct bench *b, struct thread_pool *pool, struct work *work)
{
    double cycles, s;

    work->reps = 1;
    s = run_once(pool, work, &cycles);
    while (s * (double)work->reps < b->run_seconds / 8 && work->reps < (size_t)1 << 30) {
        work->reps *= 4;
        s = run_once(pool, work, &cycles);
    }
    work->reps = (size_t)(b->run_seconds / s) + 1;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return v[n / 2];
}

/* Long calls get fewer runs, but three. */
static bool enough(const struct bench *b, int n, double begin)
{
    if (n >= b->n_runs || n >= MAX_RUNS)
        return true;
    return n >= 3 && seconds_of(CLOCK_MONOTONIC) - begin > 4 * b->n_runs * b->run_seconds;
}

struct timing time_beside(const struct bench *b, struct thread_pool *pool, struct work *work,
                          struct work *limit)
{
    const double begin = seconds_of(CLOCK_MONOTONIC);
    double seconds[MAX_RUNS], cycles[MAX_RUNS], limits[MAX_RUNS], shares[MAX_RUNS], unused;
    struct timing t = {0};
    int n = 0;

    if (work->reps == 0)
        set_reps(b, pool, work);
    if (limit && limit->reps == 0)
        set_reps(b, pool, limit);
    for (; !enough(b, n, begin); n++) {
        seconds[n] = run_once(pool, work, &cycles[n]);
        limits[n] = limit ? limit->units / run_once(pool, limit, &unused) : 0;
        shares[n] = limit ? work->units / seconds[n] / limits[n] : 0;
    }
    t.seconds = median(seconds, n);
    t.cycles = median(cycles, n);
    t.rate = work->units / t.seconds * 1e-9;
    t.limit = median(limits, n) * 1e-9;
    t.share = 100 * median(shares, n);
    return t;
}

static void call_peak(void *arg, uint32_t i, uint32_t n, size_t rep)
{
    const struct peak_loop *l = arg;

    (void)i;
    (void)n;
    (void)rep;
    limits_run_peak(l->isa, l->product);
}

struct work peaking(const struct peak_loop *l, uint32_t n)
{
    return (struct work){.call = call_peak,
                         .arg = (void *)(uintptr_t)l,
                         .units = n * limits_run_peak(l->isa, l->product)};
}

static void call_read(void *arg, uint32_t i, uint32_t n, size_t rep)
{
    const struct region *r = arg;
    const size_t part = PIECE / n / 64 * 64;

    limits_run_read(r->p + rep % (r->bytes / PIECE) * PIECE + i * part, part);
}

struct work reading(const struct region *r)
{
    return (struct work){.call = call_read, .arg = (void *)(uintptr_t)r, .units = PIECE};
}

void *want(void *p)
{
    if (p)
        return p;
    fputs("bench_kern: no memory\n", stderr);
    exit(2);
}

uint32_t next_random(void)
{
    static uint32_t state = 1;

    state = state * 1664525u + 1013904223u;
    return state >> 8;
}
