/* tests/bench/bench_kern_gemm.c - products, at the shapes of a model of 0.5B parameters. */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "tests/bench/bench_kern.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const size_t M[] = {1, 4, 8, 16, 32, 512};
static const struct {
    size_t n;
    size_t k;
} SHAPE[] = {{896, 896}, {4864, 896}, {896, 4864}, {102400, 896}};

struct product {
    const struct bench *b;
    enum kern_weight w;
    size_t n_copy; /* of the matrix in the weights' region */
    size_t n_panels;
    size_t k;
    uint8_t *x;
    size_t x_stride;
    float *out; /* [m_max][16 * n_panels] */
    size_t m_max;
    size_t m;
};

static void call_product(void *arg, uint32_t i, uint32_t n, size_t rep)
{
    const struct product *p = arg;
    const size_t panel_bytes = kern_panel_bytes(p->w, p->k);
    const size_t first = p->n_panels * i / n;
    const size_t last = p->n_panels * (i + 1) / n;
    const uint8_t *matrix = p->b->weights + rep % p->n_copy * p->n_panels * panel_bytes;

    p->b->t.gemm[p->w](p->out + 16 * first, 16 * p->n_panels, p->x, p->x_stride, p->m,
                       matrix + first * panel_bytes, last - first, p->k, NULL);
}

/* Rows with plausible scales, so that no product meets infinities or subnormals. */
static void fill_panel(enum kern_weight w, uint8_t *panel, size_t k)
{
    /* Of a block: numbers, bytes, where its scale lies. */
    static const size_t BLOCK[KERN_N_WEIGHT][3] = {
        [KERN_F32] = {1, 4},         [KERN_F16] = {1, 2},           [KERN_BF16] = {1, 2},
        [KERN_Q8_0] = {32, 34},      [KERN_Q4_0] = {32, 18},        [KERN_Q4_K] = {256, 144},
        [KERN_Q4_1] = {32, 20},      [KERN_Q6_K] = {256, 210, 208}, [KERN_Q5_0] = {32, 22},
        [KERN_Q5_1] = {32, 24},      [KERN_Q5_K] = {256, 176},      [KERN_Q3_K] = {256, 110, 108},
        [KERN_Q2_K] = {256, 84, 80}, [KERN_IQ4_NL] = {32, 18},      [KERN_IQ4_XS] = {256, 136},
        [KERN_MXFP4] = {32, 17},     [KERN_TQ2_0] = {256, 66, 64},  [KERN_TQ1_0] = {256, 54, 52},
        [KERN_IQ3_S] = {256, 110},   [KERN_IQ3_XXS] = {256, 98},    [KERN_IQ2_S] = {256, 82},
        [KERN_IQ2_XS] = {256, 74},   [KERN_IQ2_XXS] = {256, 66},    [KERN_IQ1_S] = {256, 50},
        [KERN_Q2_0] = {64, 18},      [KERN_Q1_0] = {128, 18},       [KERN_NVFP4] = {64, 36},
        [KERN_IQ4_K] = {256, 144},   [KERN_IQ3_K] = {256, 110},     [KERN_IQ2_K] = {256, 76},
        [KERN_IQ6_K] = {256, 212},   [KERN_IQ5_K] = {256, 176},     [KERN_IQ5_KS] = {256, 168},
        [KERN_IQ4_KS] = {256, 136},
        [KERN_IQ1_M] = {256, 56, 54}}; /* there the top of a scale that is spread out */
    const bool has_minimum = w == KERN_Q4_K || w == KERN_Q5_K || w == KERN_Q2_K ||
                             w == KERN_Q4_1 || w == KERN_Q5_1;
    const bool has_row_scale = w == KERN_IQ4_KS || w == KERN_IQ5_KS;
    const size_t head = has_row_scale ? 4 : 0;
    const size_t bytes = head + k / BLOCK[w][0] * BLOCK[w][1];
    const uint16_t d = w == KERN_BF16 ? 0x3c00 : 0x2000; /* about 0.008 in either */
    uint8_t *row = mem_alloc(bytes);
    const void *rows[KERN_LANES];

    for (size_t i = 0; i < bytes; i++)
        row[i] = (uint8_t)next_random();
    for (size_t i = head; i < bytes; i += BLOCK[w][1]) {
        const float f = 0.008f;

        if (has_row_scale) {
            memcpy(row, &f, 4);
            break;
        }
        memcpy(row + i + BLOCK[w][2], &d, 2);
        if (has_minimum)
            memcpy(row + i + BLOCK[w][2] + 2, &d, 2);
        if (w == KERN_F32)
            memcpy(row + i, &f, 4);
        if (w == KERN_MXFP4)
            row[i] = 121;
    }
    for (size_t i = 0; i < KERN_LANES; i++)
        rows[i] = row;
    kern_pack(w, panel, rows, k);
    mem_free(row);
}

/* A panel is group after group, so one filling serves all shapes of a type. */
static void fill_weights(const struct bench *b, enum kern_weight w)
{
    const size_t bytes = kern_panel_bytes(w, 4096);
    size_t at;

    fill_panel(w, b->weights, 4096);
    for (at = bytes; at + bytes <= b->weight_bytes; at += bytes)
        memcpy(b->weights + at, b->weights, bytes);
    memcpy(b->weights + at, b->weights, b->weight_bytes - at);
}

static void make_rows(struct product *p)
{
    const bool quantised = kern_weight_is_quantised(p->w);
    float *x = want(mem_alloc(p->k * sizeof *x));

    p->x_stride = quantised ? kern_qrow_bytes(p->k) : p->k * sizeof *x;
    p->x = want(mem_aligned(p->m_max, p->x_stride));
    p->out = want(mem_map(p->m_max * 16 * p->n_panels * sizeof *p->out));
    for (size_t i = 0; i < p->m_max; i++) {
        for (size_t j = 0; j < p->k; j++)
            x[j] = (float)next_random() * 0x1p-23f - 1;
        if (quantised)
            p->b->t.quantise(p->x + i * p->x_stride, p->k, x, 0, p->k);
        else
            memcpy(p->x + i * p->x_stride, x, p->x_stride);
    }
    mem_free(x);
}

/* One row reads its weights once: bytes, beside reading. More: operations, beside the peak. */
static struct timing time_product(struct product *p, struct work *read)
{
    const struct bench *b = p->b;
    const size_t n = 16 * p->n_panels;
    struct work work = {.call = call_product, .arg = p, .units = 2.0 * (double)(n * p->k * p->m)};
    struct work peak = b->peak[kern_weight_product(p->w)];

    if (p->m > 1)
        return time_beside(b, b->pool, &work, &peak);
    work.units = (double)(p->n_panels * kern_panel_bytes(p->w, p->k));
    return time_beside(b, b->pool, &work, read);
}

static void print_cycles(const double *cycles, size_t n)
{
    printf("%-18s", "  1000 cycles");
    for (size_t i = 0; i < n; i++)
        printf(i == 0 ? " %10.0f      " : " %6.0f     ", cycles[i] * 1e-3);
    putchar('\n');
}

static void bench_shape(const struct bench *b, enum kern_weight w, size_t n, size_t k)
{
    struct product p = {
        .b = b, .w = w, .n_panels = n / 16, .k = k, .m_max = n > 10000 ? 32 : 512};
    double cycles[COUNT(M)], a_row = 0;
    size_t i;

    p.n_copy = b->weight_bytes / (p.n_panels * kern_panel_bytes(w, k));
    make_rows(&p);
    struct region weights = {b->weights, b->weight_bytes};
    struct work read = reading(&weights);
    printf("%-5s %6zu x %-4zu", kern_weight_name(w), n, k);
    for (i = 0; i < COUNT(M) && M[i] <= p.m_max; i++) {
        if (a_row * (double)M[i] > b->longest_call)
            break;
        p.m = M[i];
        const struct timing t = time_product(&p, &read);

        if (p.m == 1)
            printf(" %5.1f %3.0f%% %5.1f", t.rate, t.share, t.limit);
        else
            printf(" %6.0f %3.0f%%", t.rate, t.share);
        fflush(stdout);
        cycles[i] = t.cycles;
        a_row = t.seconds / (double)p.m;
    }
    for (size_t j = i; j < COUNT(M) && M[j] <= p.m_max; j++)
        printf("      -     ");
    putchar('\n');
    if (b->cycles)
        print_cycles(cycles, i);
    mem_unmap(p.out, p.m_max * n * sizeof *p.out);
    mem_free(p.x);
}

void bench_gemm(const struct bench *b, enum kern_weight w)
{
    static bool headed;

    if (!headed) {
        printf("\nproducts; m=1: GB/s of weights, share of reading them, the rate of that; else\n"
               "Gop/s and share of the peak (-: a call takes too long)\n%-18s  m=1%12s",
               "type    rows x k", "");
        for (size_t i = 1; i < COUNT(M); i++)
            printf("     m=%-4zu ", M[i]);
        putchar('\n');
        headed = true;
    }
    fill_weights(b, w);
    const size_t group = kern_weight_group(w); /* 896 is no multiple of 256: K formats get 1024 */
    for (size_t i = 0; i < COUNT(SHAPE); i++)
        bench_shape(b, w, SHAPE[i].n, (SHAPE[i].k + group - 1) / group * group);
}
