/* tests/check/checkkern.c - check every kernel on every ISA of this machine.
 *
 * usage: checkkern [--list] [--isa LEVEL] [--seed N] [--every N] [NAME...]
 * A NAME selects the checks whose name contains it. --every: of the products' and attention's cases
 * one in N, for emulators. Exit 1 when a check fails.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/kernels_impl.h"
#include "tests/check/check.h"
#include "tests/check/levels.h"

#define GUARD 256 /* bytes before an output */
#define PATTERN 0xa5
#define MAX_SHOWN 5
#define MAX_MAPS 4096

const size_t check_sizes[] = {1,  2,  3,  5,  7,   8,   15,  16,  17,  31,  32,
                              33, 63, 64, 65, 127, 129, 255, 257, 896, 1023};
const size_t check_n_sizes = CHECK_COUNT(check_sizes);

static struct {
    void *base;
    size_t bytes;
} maps[MAX_MAPS];
static size_t n_maps;
static const char *current = "";

static uint8_t *map_before_hole(size_t bytes, size_t align)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t body = (bytes + align + page - 1) / page * page;
    uint8_t *base =
        mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED || n_maps == MAX_MAPS || mprotect(base + body, page, PROT_NONE) != 0) {
        perror("checkkern: mmap");
        exit(2);
    }
    maps[n_maps].base = base;
    maps[n_maps++].bytes = body + page;
    return base + (body - bytes) / align * align;
}

void *check_alloc(size_t bytes, size_t align)
{
    return map_before_hole(bytes, align);
}

void *check_out(size_t bytes, size_t align)
{
    uint8_t *p = map_before_hole(bytes + GUARD, align);

    /* The room must keep the alignment, so it is a multiple of every one that is asked for. */
    check_refill(p + GUARD, bytes);
    return p + GUARD;
}

void check_refill(void *out, size_t bytes)
{
    memset((uint8_t *)out - GUARD, PATTERN, GUARD + bytes);
}

bool check_untouched(const void *p, size_t bytes)
{
    const uint8_t *b = p;

    for (size_t i = 0; i < bytes; i++)
        if (b[i] != PATTERN)
            return false;
    return true;
}

bool check_guard(const void *out)
{
    return check_untouched((const uint8_t *)out - GUARD, GUARD);
}

void check_free_all(void)
{
    while (n_maps > 0) {
        n_maps--;
        munmap(maps[n_maps].base, maps[n_maps].bytes);
    }
}

uint32_t check_rand(struct check *c) /* splitmix64, upper half */
{
    uint64_t z = c->rng += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

uint32_t check_below(struct check *c, uint32_t n)
{
    return (uint32_t)((uint64_t)check_rand(c) * n >> 32);
}

float check_uniform(struct check *c, float lo, float hi)
{
    return lo + (hi - lo) * ((float)(check_rand(c) >> 8) * 0x1p-24f);
}

float check_normal(struct check *c)
{
    float s = 0;

    for (int i = 0; i < 6; i++)
        s += check_uniform(c, -1, 1);
    return s * 0.70710678f;
}

void check_fill(struct check *c, float *x, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] = check_normal(c) * scale;
}

bool check_level(struct check *c, unsigned i)
{
    if (i >= c->n_levels)
        return false;
    c->test = &c->tables[i];
    c->isa = c->levels[i];
    return true;
}

bool check_is_due(struct check *c)
{
    return c->n_case++ % c->every == 0;
}

bool check_that(struct check *c, bool ok, const char *fmt, ...)
{
    va_list args;

    if (ok)
        return true;
    if (c->n_fail++ >= MAX_SHOWN)
        return false;
    printf("  %s %s: ", current, kern_isa_name(c->isa));
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    return false;
}

size_t check_diff(const float *a, const float *b, size_t n)
{
    size_t i = 0;

    while (i < n && (memcmp(&a[i], &b[i], sizeof *a) == 0 || (a[i] != a[i] && b[i] != b[i])))
        i++;
    return i;
}

/* A check that can run: of a kernel of the registry, or an extra one. One of the two functions is
 * not NULL. */
struct line {
    const char *name;
    void (*gemm)(struct check *c, enum kern_weight w);
    void (*op)(struct check *c);
    enum kern_weight weight;
    bool scalar_only;
};

static const struct line LINES[] = {
#define KERN_GEMM(weight, name) {"gemm_" #name, check_gemm, NULL, weight, false},
#define KERN_OP(member, result, params) {#member, NULL, check_##member, 0, false},
#include "kernels/kernels.inc"
#define KERN_GEMM(weight, name) {"pack_" #name, check_pack, NULL, weight, true},
#define KERN_OP(member, result, params)
#include "kernels/kernels.inc"
    {"exp", NULL, check_exp, 0, true},
    {"log", NULL, check_log, 0, true},
    {"isa", NULL, check_isa, 0, true},
};

/* The places of the kernels of the first lines in the table. */
static const size_t PLACES[] = {
#define KERN_FILL(place, body) offsetof(struct kern_table, place),
#include "kernels/kernels.inc"
};

struct options {
    int isa; /* -1: all */
    uint64_t seed;
    unsigned every;
    bool list;
    char **names;
    int n_names;
};

static int usage(void)
{
    fputs("usage: checkkern [--list] [--isa LEVEL] [--seed N] [--every N] [NAME...]\n", stderr);
    return 2;
}

static bool parse(struct options *o, int argc, char **argv)
{
    int i;

    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            o->list = true;
        } else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc) {
            o->isa = kern_isa_parse(argv[++i]);
            if (o->isa < 0 || !levels_has((enum kern_isa)o->isa))
                return false;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            o->seed = strtoull(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--every") == 0 && i + 1 < argc) {
            o->every = (unsigned)strtoul(argv[++i], NULL, 0);
            if (o->every == 0)
                return false;
        } else {
            return false;
        }
    }
    o->names = argv + i;
    o->n_names = argc - i;
    return true;
}

static bool selected(const struct options *o, const char *name)
{
    for (int i = 0; i < o->n_names; i++)
        if (strstr(name, o->names[i]))
            return true;
    return o->n_names == 0;
}

/* One line, to be written in one piece: other processes write theirs. */
static void print_result(const struct line *l, const struct check *c)
{
    char levels[64] = "";

    for (unsigned i = 0; i < c->n_levels; i++)
        snprintf(levels + strlen(levels), sizeof levels - strlen(levels), " %s",
                 kern_isa_name(c->levels[i]));
    printf("%-4s %-18s%s\n", c->n_fail ? "FAIL" : "ok", l->name, levels);
    fflush(stdout);
}

/* Check the line's kernel at the levels that c has. */
static bool run(const struct line *l, struct check *c, uint64_t seed)
{
    struct kern_table ref;

    kern_init(&ref, KERN_ISA_SCALAR);
    c->ref = &ref;
    c->rng = seed;
    c->n_fail = 0;
    for (unsigned i = 0; i < c->n_levels; i++)
        levels_fill(&c->tables[i], c->levels[i]);
    check_level(c, 0);
    current = l->name;
    if (l->gemm)
        l->gemm(c, l->weight);
    else
        l->op(c);
    check_free_all();
    print_result(l, c);
    return c->n_fail == 0;
}

/* ---- all of it, on every core ---- */

/* The memory that the processes share; they tell each other nothing else. */
struct shared {
    atomic_uint next; /* item to be taken: a line, at a level or at all of them */
    atomic_uint passed, failed; /* lines times levels */
};

/* True: at this level the line's kernel is that of a lower level, where it is checked already. */
static bool is_same_as_below(const struct line *l, enum kern_isa isa)
{
    const enum kern_isa below = levels_base(isa);
    const size_t i = (size_t)(l - LINES);
    struct kern_table lower, higher;

    if (below == isa || i >= CHECK_COUNT(PLACES))
        return false;
    levels_fill(&lower, below);
    levels_fill(&higher, isa);
    return memcmp((char *)&lower + PLACES[i], (char *)&higher + PLACES[i],
                  sizeof(void (*)(void))) == 0;
}

static bool is_wanted(const struct options *o, const struct line *l, int isa)
{
    return selected(o, l->name) && (o->isa < 0 || isa == o->isa) &&
           levels_has((enum kern_isa)isa) &&
           !(l->scalar_only && isa != 0) && !is_same_as_below(l, (enum kern_isa)isa);
}

/* Does the check itself go through the levels? */
static bool takes_all_levels(const struct line *l)
{
    return l->gemm == check_gemm || l->op == check_attn_f16 || l->op == check_attn_bf16 ||
           l->op == check_attn_q8_0 || l->op == check_attn_q4_0 || l->op == check_attn_f32;
}

/* Item `isa` of a line: the line at that level, or with item 0 at all of them. */
static void run_item(const struct options *o, struct shared *s, const struct line *l, int isa)
{
    struct check c = {.every = o->every};
    const int to = takes_all_levels(l) ? (int)levels_highest() : isa;

    if (takes_all_levels(l) && isa > 0)
        return;
    for (int i = isa; i <= to; i++)
        if (is_wanted(o, l, i))
            c.levels[c.n_levels++] = (enum kern_isa)i;
    if (c.n_levels > 0)
        atomic_fetch_add(run(l, &c, o->seed) ? &s->passed : &s->failed, c.n_levels);
}

/* The last ones first: of those that take long, few are among the first. */
static void run_items(const struct options *o, struct shared *s)
{
    const unsigned n_isa = (unsigned)levels_highest() + 1, n = CHECK_COUNT(LINES) * n_isa;
    unsigned i;

    while ((i = atomic_fetch_add(&s->next, 1)) < n)
        run_item(o, s, &LINES[(n - 1 - i) / n_isa], (int)((n - 1 - i) % n_isa));
}

/* A process for each core; one that dies has failed. */
static void run_all(const struct options *o, struct shared *s)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    int status;

    for (long i = 0; i < n; i++)
        if (fork() == 0) {
            run_items(o, s);
            _exit(0);
        }
    while (wait(&status) > 0)
        if (status != 0)
            atomic_fetch_add(&s->failed, 1);
    run_items(o, s); /* what is left where no process could be made */
}

static int list(const struct options *o)
{
    for (size_t i = 0; i < CHECK_COUNT(LINES); i++)
        if (selected(o, LINES[i].name))
            puts(LINES[i].name);
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = {.isa = -1, .seed = 20240229, .every = 1};
    struct shared *s;

    if (!parse(&o, argc, argv))
        return usage();
    if (o.list)
        return list(&o);
    s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return 2;
    printf("checkkern: best isa %s, seed %llu\n", kern_isa_name(kern_isa_best()),
           (unsigned long long)o.seed);
    fflush(stdout);
    levels_prepare();
    run_all(&o, s);
    if (s->passed + s->failed == 0) {
        fputs("checkkern: nothing selected\n", stderr);
        return 2;
    }
    printf("%u passed, %u failed\n", s->passed, s->failed);
    return s->failed != 0;
}
