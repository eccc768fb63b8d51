/* server/cli/bench_topology.c - see bench_impl.h.
 *
 * It prints the topology and a prediction for other numbers of threads. In the prediction, each
 * product takes the time of its operations divided among the threads, or the time to read its
 * bytes, whichever is longer. Each barrier of a step takes the time of its arrivals at one word,
 * one after the other (barrier_tree.h), and on average half a panel more, for which the last thread
 * is waited for. The constants are measured with the threads of this machine. It is not known how
 * the memory's speed grows with more threads, so both extremes are shown: not at all, and in
 * proportion.
 */
#include "server/cli/bench_impl.h"

#include "core/base/clock.h"
#include "core/base/cpus.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/model/model.h"
#include "core/runtime/thread_pool.h"
#include "core/runtime/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BARRIERS 200 /* in one run, short enough not to be interrupted by the system */
#define BARRIER_RUNS 100
#define PREFILL_ROWS 512
#define STEPS 8 /* measured steps of one stream */

/* ---- what there is ---- */

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

static void print_memory(const struct cpus *c, const struct instance *e)
{
    const struct numa *numa = &e->numa;

    if (numa->local_gbps > 0)
        printf("Reading: %.1f GB/s local, %.1f interleaved.\n", numa->local_gbps,
               numa->interleaved_gbps);
    switch (numa->mode) {
    case NUMA_OFF:
        puts(cpus_n_nodes(c) == 1 ? "Memory: on the only node.\n"
                                  : "Memory: placed by the system.\n");
        break;
    case NUMA_INTERLEAVE:
        printf("Memory: weights and KV blocks interleaved over %u nodes.\n\n", numa->n);
        break;
    case NUMA_LOCAL:
        printf("Memory: weights in %u part%s, each on its threads' node (%.1f %% of the pages that "
               "were looked\nat); KV blocks interleaved.\n\n",
               numa->n, plural(numa->n), model_placed_share(e->model, numa) * 100);
        break;
    }
}

static void print_cpus(const struct cpus *c, uint32_t n_threads)
{
    printf("CPUs: %u, on %u core%s with %u last-level cache%s and %u memory node%s; ", c->n,
           c->n_cores, plural(c->n_cores), cpus_n_caches(c), plural(cpus_n_caches(c)),
           cpus_n_nodes(c), plural(cpus_n_nodes(c)));
    if (c->quota > 0)
        printf("the control group grants the time of %u.\n", c->quota);
    else
        puts("no quota.");
    printf("Threads: %u compute; `threads = 0` chooses %u. The I/O thread %s.\n", n_threads,
           cpus_threads(c),
           n_threads < c->n_cores ? "has cores of its own" : "shares their cores");
}

static int print_groups(const struct cpus *c, uint32_t n_threads)
{
    struct topology_group *groups = mem_calloc(n_threads, sizeof(*groups));
    uint32_t n;

    if (groups == NULL)
        return ERR_NOMEM;
    n = topology_groups(groups, c, n_threads);
    puts("| group | threads | node | CPUs that they are meant for |\n"
         "|------:|--------:|-----:|------------------------------|");
    for (uint32_t g = 0; g < n; g++) {
        const uint32_t end = groups[g].first + groups[g].n;

        printf("| %5u | %7u | %4u |", g, groups[g].n, groups[g].node);
        for (uint32_t i = groups[g].first; i < end && i < c->n; i++)
            printf(" %u", c->cpu[i].id);
        puts(end > c->n ? " (not all have one) |" : " |");
    }
    mem_free(groups);
    return 0;
}

/* ---- what is measured ---- */

struct constants {
    struct limits one, all; /* with one thread; with all threads of this machine */
    uint32_t n_all;
    double barrier_s;  /* with two threads */
    double n_barriers; /* in a step */
    double step_s;     /* duration of a step of one stream */
};

static void pass_barriers(void *ud, struct thread_pool_worker *w)
{
    double *best = ud;

    for (int run = 0; run < BARRIER_RUNS; run++) {
        const uint64_t from = clock_ns();

        for (int i = 0; i < BARRIERS; i++)
            thread_pool_barrier(w);
        if (w->index == 0) {
            const double s = (double)(clock_ns() - from) * 1e-9 / BARRIERS;

            *best = run == 0 || s < *best ? s : *best;
        }
    }
}

static int measure_barrier(struct constants *k)
{
    struct thread_pool *t;
    const int rc = thread_pool_create(&t, &(struct thread_pool_options){.n_threads = 2});

    if (rc < 0)
        return rc;
    thread_pool_run(t, pass_barriers, &k->barrier_s);
    thread_pool_destroy(&t);
    return 0;
}

/* Measure the shortest of several steps of one stream, and count the barriers of a step. */
static int measure_step(struct bench *b, struct constants *k, uint32_t depth)
{
    uint32_t before = 0;
    int rc = bench_begin_streams(b, 1, depth, 0);

    for (uint32_t i = 0; i <= STEPS && rc == 0; i++) { /* the first one is the warm-up */
        double s;

        batch_clear(b->batch);
        rc = bench_add_span(b, &b->streams[0], 1, 1);
        before = thread_pool_n_barriers(b->e.own_pool);
        s = rc == 0 ? bench_step(b) : 0;
        k->step_s = i <= 1 || s < k->step_s ? s : k->step_s;
    }
    k->n_barriers = thread_pool_n_barriers(b->e.own_pool) - before;
    bench_end_streams(b, 1);
    return rc;
}

/* ---- the model ---- */

struct team {
    const struct constants *k;
    double n, read_gbps;
    double seconds;           /* for the products */
    double alone_s, n_panels; /* time of all products on one thread, and their number of panels */
};

static void add_product(void *ud, const struct matrix *m, double rows, double n_read)
{
    struct team *t = ud;
    const double ops = 2 * rows * m->n_in * m->n_out * 1e-9;
    const double bytes = n_read * (double)m->n_panels * (double)m->panel_bytes * 1e-9;
    const double alone = ops / t->k->one.gops[kern_weight_product(m->type)];
    const double read = bytes / t->read_gbps;

    t->seconds += alone / t->n > read ? alone / t->n : read;
    t->alone_s += alone > bytes / t->k->one.read_gbps ? alone : bytes / t->k->one.read_gbps;
    t->n_panels += n_read * m->n_panels;
}

/* Arrivals at the same word happen one after the other. */
static double barrier_s(const struct constants *k, uint32_t n)
{
    const uint32_t groups = (n + TOPOLOGY_GROUP - 1) / TOPOLOGY_GROUP;

    return k->barrier_s * ((n + groups - 1) / groups - 1 + groups - 1);
}

static double read_gbps(const struct constants *k, uint32_t n, bool in_proportion)
{
    const double alone = n * k->one.read_gbps, here = k->all.read_gbps;
    const double most = in_proportion && n > k->n_all ? here * n / k->n_all : here;

    return alone < most ? alone : most;
}

static double step_s(const struct bench *b, const struct constants *k, uint32_t n, double rows,
                     bool in_proportion)
{
    struct team t = {.k = k, .n = n, .read_gbps = read_gbps(k, n, in_proportion)};

    bench_each_product(b->e.model, rows, rows == PREFILL_ROWS ? 1 : rows, 1, add_product, &t);
    return t.seconds +
           k->n_barriers * (barrier_s(k, n) + 0.5 * (n - 1) / n * t.alone_s / t.n_panels);
}

static void print_model(const struct bench *b, const struct constants *k)
{
    static const double rows[] = {1, 16, PREFILL_ROWS};
    static const uint32_t threads[] = {1, 2, 4, 8, 16, 32, 64, 128};

    printf("\nMeasured: a barrier of two threads %.2f us; %.0f barriers a step; reading %.1f GB/s "
           "with one\nthread, %.1f with %u. A step of one stream takes %.2f ms here, of which the "
           "model has %.2f.\n",
           k->barrier_s * 1e6, k->n_barriers, k->one.read_gbps, k->all.read_gbps, k->n_all,
           k->step_s * 1e3, step_s(b, k, k->n_all, 1, false) * 1e3);
    puts("\nThe model: times as fast as with one thread, where memory is no faster than here, and "
         "where it\ngrows with the cores.\n\n"
         "|         | one stream    | one stream    | 16 streams    | 16 streams    | prefill, 512 "
         "| prefill, 512  |\n"
         "| threads | memory stays  | in proportion | memory stays  | in proportion | memory stays "
         "| in proportion |\n"
         "|--------:|--------------:|--------------:|--------------:|--------------:|-------------:"
         "|--------------:|");
    for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
        printf("| %7u |", threads[i]);
        for (int j = 0; j < 6; j++)
            printf(" %*.1f |", j == 4 ? 12 : 13,
                   step_s(b, k, 1, rows[j / 2], false) /
                       step_s(b, k, threads[i], rows[j / 2], j % 2 == 1));
        putchar('\n');
    }
}

int bench_topology(struct bench *b, const struct bench_spec *spec)
{
    const uint32_t depth = (uint32_t)spec->depth;
    struct constants k = {.all = b->report.limits, .n_all = b->e.threads};
    int rc;

    if (!bench_fits(b, "the step", 1, (uint64_t)depth + STEPS + 1, 0))
        return 0;
    printf("quire %s, %s, %s\n\n", b->report.version, b->report.cpu, b->report.isa);
    print_cpus(&b->cpus, b->e.threads);
    print_memory(&b->cpus, &b->e);
    rc = print_groups(&b->cpus, b->e.threads);
    if (rc == 0)
        rc = limits_measure(&k.one, b->e.isa, 1, NULL, spec->quick);
    if (rc == 0)
        rc = measure_barrier(&k);
    if (rc == 0)
        rc = measure_step(b, &k, depth);
    if (rc == 0)
        print_model(b, &k);
    return rc;
}
