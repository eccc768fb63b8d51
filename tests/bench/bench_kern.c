/* tests/bench/bench_kern.c - every kernel of kernels.inc against the limits of this machine.
 *
 * usage: bench_kern [--quick] [--cycles] [--isa LEVEL] [--threads N] [NAME...]
 * The limits (core/runtime/limits/limits.h) are measured in the same run: for each kind of product
 * a rate from registers only, and the read rate from memory, first alone, then beside each line
 * that is compared with one: of a product of one row the rate of reading from the weights' own
 * memory.
 * Weights are cycled through a region larger than the caches. A NAME selects the lines whose name
 * contains it; --cycles adds those of the time stamp counter to the products. Takes minutes, with
 * --quick 20 s.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench_kern.h"
#include "core/base/mem.h"
#include "core/runtime/limits/cpu_name.h"

static void die(const char *what)
{
    fprintf(stderr, "bench_kern: %s\n", what);
    exit(2);
}

/* The first timing says how often a run repeats them. */
static void make_peaks(struct bench *b)
{
    for (int i = 0; i < KERN_N_PRODUCT; i++) {
        b->loop[i] = (struct peak_loop){b->isa, (enum kern_product)i};
        b->peak[i] = peaking(&b->loop[i], b->n_thread);
        (void)time_beside(b, b->pool, &b->peak[i], NULL);
    }
}

static void measure_limits(struct bench *b, bool quick)
{
    struct limits one;
    char name[CPU_NAME_BYTES];

    cpu_name_read(name);
    printf("%s, %s, %u threads\n", name, kern_isa_name(b->isa), b->n_thread);
    fflush(stdout);
    if (limits_measure(&one, b->isa, 1, NULL, quick) < 0 ||
        limits_measure(&b->limits, b->isa, b->n_thread, NULL, quick) < 0)
        die("the limits cannot be measured");
    printf("limits:            1 thread   %2u threads\n", b->n_thread);
    for (int i = 0; i < KERN_N_PRODUCT; i++)
        printf("  %-13s Gop/s %6.0f   %10.0f\n", kern_product_name((enum kern_product)i),
               one.gops[i], b->limits.gops[i]);
    printf("  read GB/s        %8.1f   %10.1f\n", one.read_gbps, b->limits.read_gbps);
}

struct line {
    const char *name;
    void (*gemm)(const struct bench *b, enum kern_weight w);
    void (*op)(const struct bench *b);
    enum kern_weight weight;
};

static const struct line LINES[] = {
#define KERN_GEMM(weight, name) {"gemm_" #name, bench_gemm, NULL, weight},
#define KERN_OP(member, result, params) {#member, NULL, bench_##member, 0},
#include "kernels/kernels.inc"
};

static bool selected(const char *name, char **names, int n)
{
    for (int i = 0; i < n; i++)
        if (strstr(name, names[i]))
            return true;
    return n == 0;
}

static int known_isa(const char *name)
{
    const int isa = kern_isa_parse(name);

    return isa >= 0 && kern_isa_exists((enum kern_isa)isa) ? isa : -1;
}

/* The index of the first name, or -1. */
static int read_options(struct bench *b, bool *quick, int argc, char **argv)
{
    int i;

    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            *quick = true;
        else if (strcmp(argv[i], "--cycles") == 0)
            b->cycles = true;
        else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc && known_isa(argv[i + 1]) >= 0)
            b->isa = (enum kern_isa)known_isa(argv[++i]);
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            b->n_thread = (uint32_t)strtoul(argv[++i], NULL, 10);
        else
            return -1;
    }
    return b->n_thread >= 1 && b->n_thread <= MAX_THREADS ? i : -1;
}

static void bench_lines(const struct bench *b, char **names, int n)
{
    for (size_t l = 0; l < sizeof LINES / sizeof *LINES; l++) {
        if (!selected(LINES[l].name, names, n))
            continue;
        if (LINES[l].gemm)
            LINES[l].gemm(b, LINES[l].weight);
        else
            LINES[l].op(b);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    const long n_cpu = sysconf(_SC_NPROCESSORS_ONLN);
    struct bench b = {.isa = kern_isa_best(),
                      .n_thread = n_cpu < MAX_THREADS ? (uint32_t)n_cpu : MAX_THREADS,
                      .weight_bytes = (size_t)1 << 30,
                      .run_seconds = 0.008,
                      .n_runs = 17,
                      .longest_call = 1};
    bool quick = false;
    const int first = read_options(&b, &quick, argc, argv);

    if (first < 0) {
        fputs("usage: bench_kern [--quick] [--cycles] [--isa NAME] [--threads N] [NAME...]\n",
              stderr);
        return 2;
    }
    if (quick) {
        b.weight_bytes = (size_t)512 << 20;
        b.run_seconds = 0.0015;
        b.n_runs = 5;
        b.longest_call = b.isa == KERN_ISA_SCALAR ? 0.01 : 0.06;
    }
    b.weights = want(mem_map(b.weight_bytes));
    kern_init(&b.t, b.isa);
    measure_limits(&b, quick);
    if (thread_pool_create(&b.pool, &(struct thread_pool_options){.n_threads = b.n_thread}) < 0 ||
        thread_pool_create(&b.lone, &(struct thread_pool_options){.n_threads = 1}) < 0)
        die("no threads");
    make_peaks(&b);
    bench_lines(&b, argv + first, argc - first);
    thread_pool_destroy(&b.pool);
    thread_pool_destroy(&b.lone);
    mem_unmap(b.weights, b.weight_bytes);
    return 0;
}
