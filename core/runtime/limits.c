/* core/runtime/limits.c - see limits.h. */
#include "core/runtime/limits.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/runtime/thread_pool.h"

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <time.h>

#define PEAK_LOOP 65536 /* iterations of a run: a quarter of a millisecond or more */
#define PEAK_RUNS 60
#define READ_RUNS 30

/* Twelve independent accumulators hide the latency of any of these instructions. Each is made
 * opaque in every iteration, so that the compiler neither folds nor merges any. */
#define PEAK(name, isa, type, start, step)                                                         \
    __attribute__((target(isa))) static void name(void)                                            \
    {                                                                                              \
        const type x = start;                                                                      \
        type a[12];                                                                                \
                                                                                                   \
        _Pragma("GCC unroll 12") for (int j = 0; j < 12; j++) a[j] = x;                            \
        for (int i = 0; i < PEAK_LOOP; i++)                                                        \
            _Pragma("GCC unroll 12") for (int j = 0; j < 12; j++)                                  \
            {                                                                                      \
                __asm__ volatile("" : "+v"(a[j]));                                                 \
                a[j] = step;                                                                       \
            }                                                                                      \
        _Pragma("GCC unroll 12") for (int j = 0; j < 12; j++)                                      \
            __asm__ volatile("" : : "v"(a[j]));                                                    \
    }

PEAK(int_avx512, "avx512f,avx512bw,avx512vnni", __m512i, _mm512_set1_epi16(1),
     _mm512_dpbusd_epi32(a[j], x, x))
PEAK(int_avx512vl, "avx2,avx512vl,avx512vnni", __m256i, _mm256_set1_epi16(1),
     _mm256_dpbusd_epi32(a[j], x, x))
PEAK(int_avxvnni, "avx2,avxvnni", __m256i, _mm256_set1_epi16(1),
     _mm256_dpbusd_avx_epi32(a[j], x, x))
PEAK(fma_avx512, "avx512f", __m512, _mm512_set1_ps(0.5f), _mm512_fmadd_ps(a[j], x, x))
PEAK(fma_avx2, "avx2,fma", __m256, _mm256_set1_ps(0.5f), _mm256_fmadd_ps(a[j], x, x))

/* Without VNNI a dot takes three instructions; each accumulator gets its own products. */
PEAK(int_avx2, "avx2", __m256i, _mm256_set1_epi16(1),
     _mm256_add_epi32(a[j], _mm256_madd_epi16(_mm256_maddubs_epi16(x, a[j]), x)))

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

/* By name, so that a level without a row of its own is measured as the one below. */
static const struct level {
    const char *isa;
    void (*ints)(void);
    void (*fmas)(void);
    double dots, lanes; /* products an instruction, int8 and fp32 */
} LEVELS[] = {
    {"scalar", scalar_peak, scalar_peak, 1, 1},
    {"avx2", int_avx2, fma_avx2, 32, 8},
    {"avxvnni", int_avxvnni, fma_avx2, 32, 8},
    {"avx512", int_avx512, fma_avx512, 64, 16},
};

/* The level below 512 bits, where the instruction exists in AVX-512's encoding only. */
static const struct level AVX512VL = {"avxvnni", int_avx512vl, fma_avx2, 32, 8};

static bool has_avx_vnni(void)
{
    uint32_t a, b, c, d;

    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

static const struct level *level_of(enum kern_isa isa)
{
    const size_t n = sizeof(LEVELS) / sizeof(LEVELS[0]);

    if (isa == KERN_ISA_AVXVNNI && !has_avx_vnni())
        return &AVX512VL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(LEVELS[i].isa, kern_isa_name(isa)) == 0)
            return &LEVELS[i];
    return &LEVELS[0];
}

double limits_run_peak(enum kern_isa isa, enum limits_peak which)
{
    const struct level *level = level_of(isa);

    if (which == LIMITS_INT8)
        level->ints();
    else
        level->fmas();
    return 2.0 * 12 * PEAK_LOOP * (which == LIMITS_INT8 ? level->dots : level->lanes);
}

void limits_run_read(const void *bytes, size_t n_bytes)
{
    const __m128i *at = bytes;
    const __m128i *end = at + n_bytes / 16;
    __m128i s[4] = {_mm_setzero_si128()};

    for (; at < end; at += 4)
        for (int i = 0; i < 4; i++)
            s[i] = _mm_xor_si128(s[i], _mm_load_si128(at + i));
    s[0] = _mm_xor_si128(_mm_xor_si128(s[0], s[1]), _mm_xor_si128(s[2], s[3]));
    __asm__ volatile("" : : "x"(s[0]));
}

struct probe {
    enum kern_isa isa;
    enum limits_peak which;
    const uint8_t *bytes; /* not NULL: reading, [n_bytes], 64-byte aligned */
    size_t n_bytes;
    int n_runs;
    double ops;  /* of a thread in a run */
    double best; /* seconds of a run */
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* 64 KiB at a time, in the order of memory: the shares are contiguous. */
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
            ops = limits_run_peak(p->isa, p->which);
        thread_pool_barrier(w);
        seconds = now() - begin;
        if (w->index == 0 && (i == 0 || seconds < p->best)) {
            p->best = seconds;
            p->ops = ops;
        }
    }
}

/* Operations a second, in 10^9. */
static double peak_rate(struct thread_pool *t, enum kern_isa isa, enum limits_peak which)
{
    struct probe p = {.isa = isa, .which = which, .n_runs = PEAK_RUNS};

    thread_pool_run(t, run_probe, &p);
    return p.ops * thread_pool_n_threads(t) / p.best * 1e-9;
}

static int measure_reading(struct limits *l, struct thread_pool *t, bool quick)
{
    const size_t bytes = (size_t)(quick ? 512 : 1024) << 20;
    uint8_t *region = mem_map(bytes);
    struct probe p = {.bytes = region, .n_bytes = bytes, .n_runs = READ_RUNS};

    if (region == NULL)
        return ERR_NOMEM;
    (void)mem_spread(region, bytes);
    memset(region, 1, bytes); /* else all pages would be one */
    thread_pool_run(t, run_probe, &p);
    l->read_gbps = (double)bytes / p.best * 1e-9;
    mem_unmap(region, bytes);
    return 0;
}

int limits_measure(struct limits *l, enum kern_isa isa, uint32_t threads, bool quick)
{
    struct thread_pool *t;
    int rc = thread_pool_create(&t, &(struct thread_pool_options){.n_threads = threads});

    memset(l, 0, sizeof(*l));
    if (rc < 0)
        return rc;
    l->int8_gops = peak_rate(t, isa, LIMITS_INT8);
    l->fp32_gflops = peak_rate(t, isa, LIMITS_FP32);
    rc = measure_reading(l, t, quick);
    thread_pool_destroy(&t);
    return rc;
}

void limits_cpu_name(char name[49])
{
    uint32_t r[12] = {0};
    size_t n;

    for (uint32_t i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    memcpy(name, r, 48);
    name[48] = '\0';
    for (n = strlen(name); n > 0 && name[n - 1] == ' '; n--)
        name[n - 1] = '\0';
}
