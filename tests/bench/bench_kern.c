/* tests/bench/bench_kern.c - every kernel of kernels.inc against the limits of this machine.
 *
 * usage: bench_kern [--quick] [--isa scalar|avx2|avxvnni|avx512] [--threads N] [NAME...]
 * The limits are measured in the same run: integer and FMA rate from registers only, read rate
 * from memory. Weights are cycled through a region larger than the caches. A NAME selects the
 * lines whose name contains it. The best of several runs counts; wants a quiet machine.
 */
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "kernels/kernels.h"

#define MAX_THREADS 64
#define COUNT(array) (sizeof(array) / sizeof *(array))

struct bench {
    struct kern_table t;
    enum kern_isa isa;
    unsigned n_thread;
    size_t weight_bytes; /* the region that products cycle through */
    double run_seconds;  /* of one run */
    double case_seconds; /* of all runs of a measurement */
    double peak_int;     /* Gop/s, n_thread threads */
    double peak_fma;     /* Gflop/s */
    double read_rate;    /* GB/s */
};

/* ---- running one thing on n threads, often enough to time it */

/* The share of call number `rep` that thread `i` of `n` does. */
typedef void (*work_fn)(void *arg, unsigned i, unsigned n, size_t rep);

struct team {
    work_fn work;
    void *arg;
    unsigned n;
    size_t first; /* number of the first call: runs go on where the last one ended */
    size_t reps;
    pthread_barrier_t start;
};
struct member {
    struct team *team;
    unsigned i;
    pthread_t thread;
    double seconds;
};

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct team *team = m->team;

    pthread_barrier_wait(&team->start);
    const double t0 = now(CLOCK_THREAD_CPUTIME_ID);
    for (size_t r = 0; r < team->reps; r++)
        team->work(team->arg, m->i, team->n, team->first + r);
    m->seconds = now(CLOCK_THREAD_CPUTIME_ID) - t0;
    return NULL;
}

/* The processor time of the thread that took most. The threads never wait for each other, so on a
 * quiet machine it is the time passed; other processes make that longer, but this hardly. */
static double run_team(work_fn work, void *arg, unsigned n, size_t reps)
{
    static size_t calls;
    struct team team = {.work = work, .arg = arg, .n = n, .first = calls, .reps = reps};
    struct member members[MAX_THREADS];
    double longest = 0;

    calls += reps;
    pthread_barrier_init(&team.start, NULL, n);
    for (unsigned i = 0; i < n; i++)
        members[i] = (struct member){.team = &team, .i = i};
    for (unsigned i = 1; i < n; i++)
        pthread_create(&members[i].thread, NULL, member_main, &members[i]);
    member_main(&members[0]);
    for (unsigned i = 0; i < n; i++) {
        if (i > 0)
            pthread_join(members[i].thread, NULL);
        if (members[i].seconds > longest)
            longest = members[i].seconds;
    }
    pthread_barrier_destroy(&team.start);
    return longest;
}

/* Seconds a call: the best of several short runs, most of which another process may disturb. */
static double measure(const struct bench *b, work_fn work, void *arg, unsigned n)
{
    size_t reps = 1;
    double s = run_team(work, arg, n, reps);
    double best = s;

    while (s < b->run_seconds / 8 && reps < (size_t)1 << 30) {
        reps *= 4;
        s = run_team(work, arg, n, reps);
    }
    if (s < b->run_seconds / 2)
        reps = (size_t)((double)reps * b->run_seconds / s) + 1;
    const double end = now(CLOCK_MONOTONIC) + b->case_seconds;
    do {
        s = run_team(work, arg, n, reps) / (double)reps;
        if (s < best)
            best = s;
    } while (now(CLOCK_MONOTONIC) < end);
    return best;
}

/* ---- the machine's limits */

#define PEAK_LOOP 4096

/* Twelve independent accumulators hide the latency of any of these instructions. The factor is
 * made unknown in every turn, so that nothing can be folded; the results are used at the end. */
#define PEAK(name, isa, type, start, step)                                                         \
    __attribute__((target(isa))) static void name(void)                                            \
    {                                                                                              \
        const type ones = start;                                                                   \
        type a[12];                                                                                \
        type x = start;                                                                            \
                                                                                                   \
        for (int j = 0; j < 12; j++)                                                               \
            a[j] = x;                                                                              \
        for (int i = 0; i < PEAK_LOOP; i++) {                                                      \
            __asm__ volatile("" : "+v"(x));                                                        \
            _Pragma("GCC unroll 12") for (int j = 0; j < 12; j++) a[j] = step;                     \
        }                                                                                          \
        for (int j = 0; j < 12; j++)                                                               \
            __asm__ volatile("" : : "v"(a[j]), "v"(ones));                                         \
    }

PEAK(int_avx512, "avx512f,avx512bw,avx512vnni", __m512i, _mm512_set1_epi16(1),
     _mm512_dpbusd_epi32(a[j], x, x))
PEAK(int_avx512vl, "avx512vl,avx512vnni", __m256i, _mm256_set1_epi16(1),
     _mm256_dpbusd_epi32(a[j], x, x))
PEAK(int_avxvnni, "avxvnni", __m256i, _mm256_set1_epi16(1), _mm256_dpbusd_avx_epi32(a[j], x, x))
PEAK(fma_avx512, "avx512f", __m512, _mm512_set1_ps(0.5f), _mm512_fmadd_ps(a[j], x, x))
PEAK(fma_avx2, "avx2,fma", __m256, _mm256_set1_ps(0.5f), _mm256_fmadd_ps(a[j], x, x))

/* Without VNNI a dot takes three instructions; each accumulator gets its own products. */
PEAK(int_avx2, "avx2", __m256i, _mm256_set1_epi16(1),
     _mm256_add_epi32(a[j], _mm256_madd_epi16(_mm256_maddubs_epi16(x, a[j]), ones)))

/* No vector limit to compare with: one multiplication and addition after another. */
static void scalar_peak(void)
{
    float a[12] = {0};

    for (int i = 0; i < PEAK_LOOP; i++)
#pragma GCC unroll 12
        for (int j = 0; j < 12; j++) {
            a[j] = a[j] * 0.5f + 0.5f;
            __asm__ volatile("" : "+x"(a[j]));
        }
}

static void call_peak(void *arg, unsigned i, unsigned n, size_t rep)
{
    void (*const *f)(void) = arg;

    (void)i;
    (void)n;
    (void)rep;
    (*f)();
}

/* Gop/s of n threads, a multiplication and an addition counting two. */
static double peak(const struct bench *b, void (*f)(void), double lanes, unsigned n)
{
    return 2 * lanes * 12 * PEAK_LOOP * n / measure(b, call_peak, &f, n) * 1e-9;
}

struct region {
    uint8_t *p;
    size_t bytes;
};

static void call_read(void *arg, unsigned i, unsigned n, size_t rep)
{
    const struct region *r = arg;
    const size_t part = r->bytes / n / 4096 * 4096;
    const __m128i *p = (const __m128i *)(const void *)(r->p + i * part);
    __m128i s[4] = {_mm_setzero_si128()};

    (void)rep;
    for (size_t j = 0; j < part / 16; j += 4)
        for (int l = 0; l < 4; l++)
            s[l] = _mm_xor_si128(s[l], _mm_load_si128(p + j + l));
    s[0] = _mm_xor_si128(_mm_xor_si128(s[0], s[1]), _mm_xor_si128(s[2], s[3]));
    __asm__ volatile("" : : "x"(s[0]));
}

static double read_rate(const struct bench *b, struct region *r, unsigned n)
{
    return (double)r->bytes / measure(b, call_read, r, n) * 1e-9;
}

static void cpu_name(char name[49])
{
    uint32_t r[12] = {0};

    for (uint32_t i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    memcpy(name, r, 48);
    name[48] = 0;
}

/* The integer loop of a level; at avxvnni in the encoding that kern_init() takes. */
static void (*peak_ints(enum kern_isa isa))(void)
{
    uint32_t a, b, c, d;

    switch (isa) {
    case KERN_ISA_SCALAR:
        return scalar_peak;
    case KERN_ISA_AVX2:
        return int_avx2;
    case KERN_ISA_AVXVNNI:
        return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1) ? int_avxvnni
                                                                       : int_avx512vl;
    case KERN_ISA_AVX512:
        return int_avx512;
    }
    return scalar_peak;
}

static void limits(struct bench *b, bool quick)
{
    void (*const ints)(void) = peak_ints(b->isa);
    void (*const fmas)(void) = b->isa == KERN_ISA_AVX512   ? fma_avx512
                               : b->isa == KERN_ISA_SCALAR ? scalar_peak
                                                           : fma_avx2;
    const double lanes = b->isa == KERN_ISA_AVX512 ? 16 : b->isa == KERN_ISA_SCALAR ? 1 : 8;
    const double dots = b->isa == KERN_ISA_SCALAR ? 1 : 4 * lanes;
    struct region r = {.bytes = quick ? (size_t)256 << 20 : (size_t)1 << 30};
    char name[49];

    cpu_name(name);
    printf("%s, %s, %u threads\n", name, kern_isa_name(b->isa), b->n_thread);
    r.p = mem_map(r.bytes);
    if (!r.p) {
        fputs("bench_kern: no memory\n", stderr);
        exit(2);
    }
    memset(r.p, 1, r.bytes);
    b->peak_int = peak(b, ints, dots, b->n_thread);
    b->peak_fma = peak(b, fmas, lanes, b->n_thread);
    b->read_rate = read_rate(b, &r, b->n_thread);
    printf("limits:            1 thread   %2u threads\n", b->n_thread);
    printf("  int8 Gop/s       %8.0f   %10.0f\n", peak(b, ints, dots, 1), b->peak_int);
    printf("  fp32 Gflop/s     %8.0f   %10.0f\n", peak(b, fmas, lanes, 1), b->peak_fma);
    printf("  read GB/s        %8.1f   %10.1f\n", read_rate(b, &r, 1), b->read_rate);
    mem_unmap(r.p, r.bytes);
}

/* ---- matrix products */

static const size_t M[] = {1, 4, 8, 12, 16, 64, 512};
static const struct {
    size_t n;
    size_t k;
} SHAPE[] = {{896, 896}, {4864, 896}, {896, 4864}, {102400, 896}};

struct product {
    const struct bench *b;
    enum kern_weight w;
    uint8_t *region;
    size_t n_copy; /* of the matrix in the region */
    size_t n_panels;
    size_t k;
    uint8_t *x;
    size_t x_stride;
    float *out; /* [512][16 * n_panels] */
    size_t m;
};

static void call_product(void *arg, unsigned i, unsigned n, size_t rep)
{
    const struct product *p = arg;
    const size_t panel_bytes = kern_panel_bytes(p->w, p->k);
    const size_t first = p->n_panels * i / n;
    const size_t last = p->n_panels * (i + 1) / n;
    const uint8_t *matrix = p->region + rep % p->n_copy * p->n_panels * panel_bytes;

    p->b->t.gemm[p->w](p->out + 16 * first, 16 * p->n_panels, p->x, p->x_stride, p->m,
                       matrix + first * panel_bytes, last - first, p->k);
}

static uint32_t next_random(void)
{
    static uint32_t state = 1;

    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Rows with plausible scales, so that no product meets infinities or subnormals. */
static void fill_panel(enum kern_weight w, uint8_t *panel, size_t k)
{
    /* Of a block: numbers, bytes, where its scale lies. */
    static const size_t BLOCK[KERN_N_WEIGHT][3] = {
        [KERN_F32] = {1, 4},      [KERN_F16] = {1, 2},           [KERN_BF16] = {1, 2},
        [KERN_Q8_0] = {32, 34},   [KERN_Q4_0] = {32, 18},        [KERN_Q4_K] = {256, 144},
        [KERN_Q4_1] = {32, 20},   [KERN_Q6_K] = {256, 210, 208}, [KERN_Q5_0] = {32, 22},
        [KERN_Q5_1] = {32, 24},   [KERN_Q5_K] = {256, 176},      [KERN_Q3_K] = {256, 110, 108},
        [KERN_Q2_K] = {256, 84, 80}};
    const bool has_minimum = w == KERN_Q4_K || w == KERN_Q5_K || w == KERN_Q2_K ||
                             w == KERN_Q4_1 || w == KERN_Q5_1;
    const size_t bytes = k / BLOCK[w][0] * BLOCK[w][1];
    const uint16_t d = w == KERN_BF16 ? 0x3c00 : 0x2000; /* about 0.008 in either */
    uint8_t *row = mem_alloc(bytes);
    const void *rows[KERN_LANES];

    for (size_t i = 0; i < bytes; i++)
        row[i] = (uint8_t)next_random();
    for (size_t i = 0; i < bytes; i += BLOCK[w][1]) {
        const float f = 0.008f;

        memcpy(row + i + BLOCK[w][2], &d, 2);
        if (has_minimum)
            memcpy(row + i + BLOCK[w][2] + 2, &d, 2);
        if (w == KERN_F32)
            memcpy(row + i, &f, 4);
    }
    for (size_t i = 0; i < KERN_LANES; i++)
        rows[i] = row;
    kern_pack(w, panel, rows, k);
    mem_free(row);
}

static void *want(void *p)
{
    if (p)
        return p;
    fputs("bench_kern: no memory\n", stderr);
    exit(2);
}

static void bench_shape(const struct bench *b, enum kern_weight w, size_t n, size_t k)
{
    const bool quantised = kern_weight_is_quantised(w);
    const size_t panel_bytes = kern_panel_bytes(w, k);
    struct product p = {.b = b, .w = w, .n_panels = n / 16, .k = k};
    const size_t matrix = p.n_panels * panel_bytes;
    const size_t m_max = n > 10000 ? 16 : 512;
    float *x = want(mem_alloc(k * sizeof *x));

    p.n_copy = b->weight_bytes / matrix + 1;
    p.region = want(mem_map(p.n_copy * matrix));
    p.x_stride = quantised ? kern_qrow_bytes(k) : k * sizeof *x;
    p.x = want(mem_aligned(m_max, p.x_stride));
    p.out = want(mem_map(m_max * n * sizeof *p.out));
    fill_panel(w, p.region, k);
    for (size_t i = 1; i < p.n_copy * p.n_panels; i++)
        memcpy(p.region + i * panel_bytes, p.region, panel_bytes);
    for (size_t i = 0; i < m_max; i++) {
        for (size_t j = 0; j < k; j++)
            x[j] = (float)next_random() * 0x1p-23f - 1;
        if (quantised)
            b->t.quantise(p.x + i * p.x_stride, k, x, 0, k);
        else
            memcpy(p.x + i * p.x_stride, x, p.x_stride);
    }

    printf("%-5s %6zu x %-4zu", kern_weight_name(w), n, k);
    for (size_t i = 0; i < COUNT(M) && M[i] <= m_max; i++) {
        p.m = M[i];
        const double s = measure(b, call_product, &p, b->n_thread);
        const double rate = 2.0 * (double)(n * k * p.m) / s * 1e-9;
        const double bytes = (double)matrix / s * 1e-9;

        if (p.m == 1)
            printf(" %6.1f %3.0f%%", bytes, 100 * bytes / b->read_rate);
        else
            printf(" %6.0f %3.0f%%", rate, 100 * rate / (quantised ? b->peak_int : b->peak_fma));
        fflush(stdout);
    }
    putchar('\n');
    mem_unmap(p.region, p.n_copy * matrix);
    mem_unmap(p.out, m_max * n * sizeof *p.out);
    mem_free(p.x);
    mem_free(x);
}

static void bench_gemm(const struct bench *b, enum kern_weight w)
{
    static bool headed;

    if (!headed) {
        printf("\nproducts, Gop/s and share of the peak; m=1: GB/s of weights, share of reading\n");
        printf("%-18s", "type    rows x k");
        for (size_t i = 0; i < COUNT(M); i++)
            printf("     m=%-4zu", M[i]);
        putchar('\n');
        headed = true;
    }
    const size_t group = kern_weight_group(w); /* 896 is no multiple of 256: K formats get 1024 */
    for (size_t i = 0; i < COUNT(SHAPE); i++)
        bench_shape(b, w, SHAPE[i].n, (SHAPE[i].k + group - 1) / group * group);
}

/* ---- the rest: one thread, in cache */

struct elem {
    const struct bench *b;
    size_t n;
    float *x;
    float *y;
    float *z;
    void *out;
    uint8_t *keys;
    uint8_t *values;
    float result;
};

static void bench_elem(const struct bench *b, const char *name, work_fn work, size_t n,
                       double bytes_each)
{
    static bool headed;
    struct elem e = {.b = b, .n = n};

    if (!headed)
        printf("\nelementwise, one thread, in cache\n%-10s %8s %10s %10s\n", "kernel", "n", "ns",
               "GB/s");
    headed = true;
    e.x = want(mem_aligned(n, sizeof *e.x));
    e.y = want(mem_aligned(n, sizeof *e.y));
    e.z = want(mem_aligned(n, sizeof *e.z));
    e.out = want(mem_aligned(n, 2 * sizeof *e.x));
    e.keys = want(mem_aligned(n * KERN_BLOCK, sizeof(uint16_t)));
    e.values = want(mem_aligned(n * KERN_BLOCK, sizeof(uint16_t)));
    for (size_t i = 0; i < n; i++) {
        e.x[i] = (float)next_random() * 0x1p-23f - 1;
        e.y[i] = (float)next_random() * 0x1p-23f - 1;
    }
    const double s = measure(b, work, &e, 1);
    printf("%-10s %8zu %10.0f %10.1f\n", name, n, s * 1e9, bytes_each * (double)n / s * 1e-9);
    mem_free(e.x);
    mem_free(e.y);
    mem_free(e.z);
    mem_free(e.out);
    mem_free(e.keys);
    mem_free(e.values);
}

#define ELEM(name, call, size, bytes_each)                                                         \
    static void call_##name(void *arg, unsigned i, unsigned n, size_t rep)                         \
    {                                                                                              \
        struct elem *e = arg;                                                                      \
                                                                                                   \
        (void)i;                                                                                   \
        (void)n;                                                                                   \
        (void)rep;                                                                                 \
        call;                                                                                      \
    }                                                                                              \
    static void bench_##name(const struct bench *b)                                                \
    {                                                                                              \
        bench_elem(b, #name, call_##name, size, bytes_each);                                       \
    }

/* Bytes read and written per number. */
ELEM(quantise, e->b->t.quantise(e->out, e->n, e->x, 0, e->n), 4864, 5.4)
ELEM(rmsnorm, e->b->t.rmsnorm(e->z, e->x, e->y, e->n, 1e-6f), 896, 12)
ELEM(rope, e->b->t.rope(e->x, e->n / 64, 64, 64, e->y, e->y + 32, true), 1024, 8)
ELEM(kv_write, e->b->t.kv_write(e->keys, e->values, 5, e->x, e->y, e->n / 64, 64), 128, 12)
ELEM(kv_write_q8, e->b->t.kv_write_q8(e->keys, e->values, 5, e->x, e->y, e->n / 64, 64), 128, 10)
ELEM(silu_mul, e->b->t.silu_mul(e->z, e->x, e->y, e->n), 4864, 12)
ELEM(add, e->b->t.add(e->z, e->x, e->n), 896, 12)
ELEM(max, e->result = e->b->t.max(e->x, e->n), 102400, 4)
ELEM(find, e->result = (float)e->b->t.find(e->x, e->n, 2), 102400, 4)
ELEM(sum_exp, e->result = e->b->t.sum_exp(e->x, e->n, 1, 1), 102400, 4)

/* ---- attention: one KV head of a group of 7, each thread its own */

#define HEADS 7
#define DIM 64

struct attention {
    const struct bench *b;
    enum kern_kv kv_type;
    size_t key_bytes;
    size_t block_bytes;
    size_t pos0;
    size_t n_row;
    size_t n_seq; /* sequences, taken in turn */
    size_t n_block;
    uint8_t *kv;     /* [n_seq][n_block][block_bytes] */
    uint32_t *table; /* [n_seq][n_block] */
    float *q[MAX_THREADS];
    float *out[MAX_THREADS];
    float *scratch[MAX_THREADS];
};

static void call_attention(void *arg, unsigned i, unsigned n, size_t rep)
{
    const struct attention *t = arg;
    const struct kern_attn a = {.q = t->q[i],
                                .out = t->out[i],
                                .q_stride = HEADS * DIM,
                                .out_stride = HEADS * DIM,
                                .keys = t->kv,
                                .values = t->kv + t->key_bytes,
                                .block_stride = t->block_bytes,
                                .table = t->table + (rep * n + i) % t->n_seq * t->n_block,
                                .pos0 = (uint32_t)t->pos0,
                                .n_row = (uint32_t)t->n_row,
                                .n_head = HEADS,
                                .head_dim = DIM,
                                .scale = 0.125f,
                                .seg1 = UINT32_MAX,
                                .scratch = t->scratch[i]};

    (t->kv_type == KERN_KV_F16 ? t->b->t.attn : t->b->t.attn_q8)(&a);
}

static void make_sequences(struct attention *t, size_t n_seq)
{
    const size_t n = n_seq * t->n_block;

    t->n_seq = n_seq;
    t->kv = want(mem_map(n * t->block_bytes));
    t->table = want(mem_aligned(n, sizeof *t->table));
    for (size_t i = 0; i < n * t->block_bytes; i += 2) { /* halves from 1/8 to 1/2, or codes */
        const uint16_t half = (uint16_t)(0x3000 + next_random() % 0x800);

        memcpy(t->kv + i, &half, sizeof half);
    }
    for (size_t i = 0; i < n; i++) /* neighbours in a sequence are not neighbours in memory */
        t->table[i] = (uint32_t)(i % t->n_block * n_seq + i / t->n_block);
}

static void bench_length(const struct bench *b, enum kern_kv kv, size_t pos0, size_t n_row,
                         size_t n_seq)
{
    const size_t n_tok = pos0 + n_row;
    const size_t width = HEADS * DIM;
    struct attention t = {.b = b, .kv_type = kv, .pos0 = pos0, .n_row = n_row};

    t.n_block = (n_tok + KERN_BLOCK - 1) / KERN_BLOCK;
    t.key_bytes = kern_kv_key_bytes(kv, DIM);
    t.block_bytes = t.key_bytes + kern_kv_value_bytes(kv, DIM);
    make_sequences(&t, n_seq);
    for (unsigned i = 0; i < b->n_thread; i++) {
        t.q[i] = want(mem_aligned(n_row * width, sizeof(float)));
        t.out[i] = want(mem_aligned(n_row * width, sizeof(float)));
        t.scratch[i] = want(mem_aligned(kern_attn_scratch((uint32_t)n_row, HEADS, DIM), 1));
        for (size_t j = 0; j < n_row * width; j++)
            t.q[i][j] = (float)next_random() * 0x1p-23f - 1;
    }
    const double s = measure(b, call_attention, &t, b->n_thread);
    const double seen = (double)n_row * (double)pos0 + (double)n_row * (double)(n_row + 1) / 2;
    const double flops = 4 * seen * HEADS * DIM * b->n_thread;
    const double bytes = (double)n_tok / KERN_BLOCK * (double)t.block_bytes * b->n_thread;
    printf("%8zu %6zu %6s %10.1f %10.1f %3.0f%% %8.1f %3.0f%%\n", pos0, n_row,
           n_seq > 1 ? "memory" : "cache", s * 1e6, flops / s * 1e-9,
           100 * flops / s * 1e-9 / b->peak_fma, bytes / s * 1e-9,
           100 * bytes / s * 1e-9 / b->read_rate);
    for (unsigned i = 0; i < b->n_thread; i++) {
        mem_free(t.q[i]);
        mem_free(t.out[i]);
        mem_free(t.scratch[i]);
    }
    mem_unmap(t.kv, n_seq * t.n_block * t.block_bytes);
    mem_free(t.table);
}

static void bench_store(const struct bench *b, enum kern_kv kv)
{
    static const size_t CASES[][3] = {{127, 1, 1},     {1023, 1, 1},     {4095, 1, 1},
                                      {127, 1, 4096},  {511, 1, 1024},   {4095, 1, 128},
                                      {1023, 8, 1},    {3584, 24, 1},    {3584, 24, 128},
                                      {0, 512, 1},     {3584, 512, 1}};

    printf("\nattention, %d heads of %d, %s keys and values, all threads\n"
           "%8s %6s %6s %10s %10s %4s %8s %4s\n",
           HEADS, DIM, kern_kv_name(kv), "pos0", "rows", "KV in", "us", "Gflop/s", "peak",
           "KV GB/s", "read");
    for (size_t i = 0; i < COUNT(CASES); i++)
        bench_length(b, kv, CASES[i][0], CASES[i][1], CASES[i][2]);
}

static void bench_attn(const struct bench *b)
{
    bench_store(b, KERN_KV_F16);
}

static void bench_attn_q8(const struct bench *b)
{
    bench_store(b, KERN_KV_Q8_0);
}

#define PARTS 16

static void call_merge(void *arg, unsigned i, unsigned n, size_t rep)
{
    struct elem *e = arg;

    (void)i;
    (void)n;
    (void)rep;
    e->b->t.attn_merge(e->z, e->x, PARTS, DIM);
}

static void bench_attn_merge(const struct bench *b)
{
    struct elem e = {.b = b, .n = PARTS * KERN_ATTN_PART(DIM)};

    e.x = want(mem_aligned(e.n, sizeof(float)));
    e.z = want(mem_aligned(DIM, sizeof(float)));
    for (size_t i = 0; i < e.n; i++)
        e.x[i] = 1 + (float)i * 0x1p-10f;
    printf("attn_merge, %d segments: %.0f ns\n", PARTS, 1e9 * measure(b, call_merge, &e, 1));
    mem_free(e.x);
    mem_free(e.z);
}

/* ---- the registry */

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

int main(int argc, char **argv)
{
    struct bench b = {.isa = kern_isa_best(),
                      .n_thread = (unsigned)sysconf(_SC_NPROCESSORS_ONLN),
                      .weight_bytes = (size_t)320 << 20,
                      .run_seconds = 0.008,
                      .case_seconds = 0.12};
    bool quick = false;
    int i;

    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            quick = true;
        } else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc &&
                   kern_isa_parse(argv[i + 1]) >= 0 &&
                   kern_isa_parse(argv[i + 1]) <= (int)kern_isa_best()) {
            b.isa = (enum kern_isa)kern_isa_parse(argv[++i]);
        } else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
            b.n_thread = (unsigned)strtoul(argv[++i], NULL, 10);
        } else {
            fputs("usage: bench_kern [--quick] [--isa NAME] [--threads N] [NAME...]\n", stderr);
            return 2;
        }
    }
    if (b.n_thread < 1 || b.n_thread > MAX_THREADS)
        b.n_thread = 2;
    if (quick) {
        b.weight_bytes = (size_t)64 << 20;
        b.run_seconds = 0.002;
        b.case_seconds = 0.01;
    }
    kern_init(&b.t, b.isa);
    limits(&b, quick);
    for (size_t l = 0; l < COUNT(LINES); l++) {
        if (!selected(LINES[l].name, argv + i, argc - i))
            continue;
        if (LINES[l].gemm)
            LINES[l].gemm(&b, LINES[l].weight);
        else
            LINES[l].op(&b);
    }
    return 0;
}
