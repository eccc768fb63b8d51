/* core/runtime/limits/limits.c - see limits.h.
 *
 * A probe is a function that all threads of a pool run many times between two barriers; thread 0
 * keeps the shortest time from barrier to barrier. Peaks of products run in registers alone;
 * reading streams over a region in 64 KiB units, whose pages are filled first, because untouched
 * pages would all be the same zero page.
 */
#include "core/runtime/limits/limits.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/numa.h"
#include "core/runtime/limits/peaks.h"
#include "core/runtime/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define PEAK_ROUNDS 8 /* rounds over all kinds of products: a host that is slow for a while slows
                       * all kinds */
#define PEAK_RUNS 20  /* runs of a kind in a round */
#define READ_RUNS 30
#define QUICK_READ_RUNS 8
#define READ_AHEAD 4096 /* bytes that are prefetched ahead, as products of one row prefetch their
                         * weights */

typedef uint64_t vector __attribute__((vector_size(16), may_alias));

void limits_run_read(const void *bytes, size_t n_bytes)
{
    const vector *at = bytes;
    const vector *end = at + n_bytes / sizeof(*at);
    vector s[4] = {{0}};

    for (; at < end; at += 4) {
        __builtin_prefetch((const char *)at + READ_AHEAD, 0, 3);
        for (int i = 0; i < 4; i++)
            s[i] ^= at[i];
    }
    s[0] ^= s[1] ^ s[2] ^ s[3];
    __asm__ volatile("" : : "r"(s[0][0] ^ s[0][1]));
}

struct probe {
    enum kern_isa isa;
    enum kern_product product;
    const uint8_t *bytes; /* not NULL: the region to read, [n_bytes], 64-byte aligned */
    uint8_t *room;        /* the same region, to be filled */
    size_t n_bytes;
    int n_runs;
    double ops;  /* operations of a thread in a run */
    double best; /* seconds of the best run */
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Read 64 KiB units in the order of memory: the threads' shares are contiguous. */
static void read_share(const struct probe *p, struct thread_pool_worker *w)
{
    uint32_t from, to;

    while (thread_pool_take(w, (uint32_t)(p->n_bytes >> 16), 64, &from, &to))
        limits_run_read(p->bytes + ((size_t)from << 16), (size_t)(to - from) << 16);
}

static void run_probe(void *ud, struct thread_pool_worker *w)
{
    struct probe *p = ud;

    for (int i = 0; i < p->n_runs; i++) {
        double begin, seconds, ops = 0;

        thread_pool_barrier(w);
        begin = now();
        if (p->bytes != NULL)
            read_share(p, w);
        else
            ops = limits_run_peak(p->isa, p->product);
        thread_pool_barrier(w);
        seconds = now() - begin;
        if (w->index == 0 && (i == 0 || seconds < p->best)) {
            p->best = seconds;
            p->ops = ops;
        }
    }
}

/* Return the rate in 10^9 operations a second. */
static double peak_rate(struct thread_pool *t, enum kern_isa isa, enum kern_product product)
{
    struct probe p = {.isa = isa, .product = product, .n_runs = PEAK_RUNS};

    thread_pool_run(t, run_probe, &p);
    return p.ops * thread_pool_n_threads(t) / p.best * 1e-9;
}

static void fill_share(void *ud, struct thread_pool_worker *w)
{
    const struct probe *p = ud;
    uint32_t from, to;

    while (thread_pool_take(w, (uint32_t)(p->n_bytes >> 16), 64, &from, &to))
        memset(p->room + ((size_t)from << 16), 1, (size_t)(to - from) << 16);
    thread_pool_barrier(w);
}

static int measure_reading(double *gbps, uint32_t threads, const struct numa *numa, size_t n_bytes,
                           int n_runs)
{
    const struct thread_pool_options options = {
        .n_threads = threads, .keep_nodes = numa != NULL && numa->mode == NUMA_LOCAL};
    uint8_t *region = mem_map(n_bytes);
    struct probe p = {.bytes = region, .room = region, .n_bytes = n_bytes, .n_runs = n_runs};
    struct thread_pool *t = NULL;
    const int rc = region == NULL ? ERR_NOMEM : thread_pool_create(&t, &options);

    if (rc == 0) {
        (void)numa_place(numa, region, n_bytes);
        thread_pool_run(t, fill_share, &p); /* writes to the pages, which else would all be the zero
                                             * page */
        thread_pool_run(t, run_probe, &p);
        *gbps = (double)n_bytes / p.best * 1e-9;
    }
    thread_pool_destroy(&t);
    mem_unmap(region, n_bytes);
    return rc;
}

/* The pool also keeps the calling thread on a node. Its CPU set is restored afterwards, because
 * cpus_read() asks the calling thread for its CPUs. */
int limits_measure_reading(double *gbps, uint32_t threads, const struct numa *numa, size_t n_bytes,
                           int n_runs)
{
    cpu_set_t before[8]; /* 8,192 CPUs, the kernel's most */
    const bool is_known = pthread_getaffinity_np(pthread_self(), sizeof(before), before) == 0;
    const int rc = measure_reading(gbps, threads, numa, n_bytes, n_runs);

    if (is_known)
        (void)pthread_setaffinity_np(pthread_self(), sizeof(before), before);
    return rc;
}

int limits_measure(struct limits *l, enum kern_isa isa, uint32_t threads, const struct numa *numa,
                   bool quick)
{
    struct thread_pool *t;
    int rc = thread_pool_create(&t, &(struct thread_pool_options){.n_threads = threads});

    memset(l, 0, sizeof(*l));
    if (rc < 0)
        return rc;
    for (int i = 0; i < PEAK_ROUNDS * KERN_N_PRODUCT; i++) {
        const double rate = peak_rate(t, isa, (enum kern_product)(i % KERN_N_PRODUCT));
        double *best = &l->gops[i % KERN_N_PRODUCT];

        *best = rate > *best ? rate : *best;
    }
    thread_pool_destroy(&t);
    return limits_measure_reading(&l->read_gbps, threads, numa, (size_t)(quick ? 512 : 1024) << 20,
                                  quick ? QUICK_READ_RUNS : READ_RUNS);
}
