/* tests/bench/bench_kern.h - what the parts of bench_kern share: settings, timing, the lines.
 *
 * A measurement is a number of short runs, and where it is compared with a limit of the machine, a
 * run of that limit after each of them. Medians count, the share being that of neighbours, so a
 * host that is slow for a while slows both and spoils neither.
 *
 * Thread: one, which is thread 0 of the teams.
 * Memory: a line's data is freed when it has been printed.
 * Errors: no memory ends the program.
 */
#ifndef TESTS_BENCH_BENCH_KERN_H
#define TESTS_BENCH_BENCH_KERN_H

#include <stddef.h>
#include <stdint.h>

#include "core/runtime/limits/limits.h"
#include "core/runtime/limits/peaks.h"
#include "core/runtime/thread_pool.h"
#include "kernels/kernels.h"

#define MAX_THREADS 64

/* The share of call number `rep` that thread `i` of `n` does. */
typedef void (*work_fn)(void *arg, uint32_t i, uint32_t n, size_t rep);

struct work {
    work_fn call;
    void *arg;
    double units; /* operations or bytes of a call, all threads together */
    size_t reps;  /* calls of a run; 0 until it has been timed first */
    size_t next;  /* number of the next call: runs go on where the last one ended */
};

struct peak_loop {
    enum kern_isa isa;
    enum kern_product product;
};

struct bench {
    struct kern_table t;
    enum kern_isa isa;
    uint32_t n_thread;
    struct thread_pool *pool; /* n_thread threads */
    struct thread_pool *lone; /* one */
    struct limits limits;
    struct peak_loop loop[KERN_N_PRODUCT]; /* by enum kern_product, as the next */
    struct work peak[KERN_N_PRODUCT];
    uint8_t *weights;    /* [weight_bytes]: the region that products cycle through */
    size_t weight_bytes; /* room for the largest matrix, and more than any cache */
    double run_seconds;
    int n_runs;
    double longest_call; /* products that take more seconds are left out */
    bool cycles;         /* print those of products too */
};

struct timing {
    double seconds; /* of a call, like the rest */
    double cycles;  /* of the time stamp counter */
    double rate;    /* 10^9 units a second */
    double limit;   /* the same of the limit */
    double share;   /* percent */
};

/* `limit` may be NULL. */
struct timing time_beside(const struct bench *b, struct thread_pool *pool, struct work *work,
                          struct work *limit);

/* A peak's loop on n threads. Borrows l, as the next does r. */
struct work peaking(const struct peak_loop *l, uint32_t n);

/* limits_run_read(), piece after piece of a region. */
struct region {
    const uint8_t *p;
    size_t bytes;
};
struct work reading(const struct region *r);

/* Ends the program when p is NULL. */
void *want(void *p);
uint32_t next_random(void);

/* The lines: products of a weight type, every other kernel by its name. */
void bench_gemm(const struct bench *b, enum kern_weight w);
#define KERN_GEMM(weight, name)
#define KERN_OP(member, result, params) void bench_##member(const struct bench *b);
#include "kernels/kernels.inc"

#endif
