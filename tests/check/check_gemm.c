/* tests/check/check_gemm.c - packing and matrix products. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"
#include "tests/check/decode.h"

#define MAX_M 40

/* The numbers with which weights and activations of a case are filled. */
enum fill { FILL_PLAIN, FILL_ZERO, FILL_LOW, FILL_HIGH, FILL_HUGE, FILL_TINY, N_FILL };
static const char *const FILL_NAME[] = {"plain", "zero", "low", "high", "huge", "tiny"};

struct gemm_case {
    enum kern_weight w;
    enum fill fill;
    size_t k;
    size_t n_panels;
    size_t out_stride;
    size_t x_stride;
    uint8_t *blocks; /* GGUF rows, [16 * n_panels][row_bytes] */
    size_t row_bytes;
    void *panels;
    uint8_t *x; /* [MAX_M] rows, x_stride apart */
};

static uint16_t random_scale(struct check *c, enum fill fill)
{
    const uint16_t sign = (uint16_t)(check_rand(c) & 0x8000u);

    switch (fill) {
    case FILL_ZERO:
        return 0;
    case FILL_HUGE:
        return sign | 0x7bff; /* 65504 */
    case FILL_TINY:
        return sign | (uint16_t)(1 + check_below(c, 0x3ff)); /* subnormal */
    default:
        return sign | (uint16_t)(0x1400 + check_below(c, 0x1000)); /* 0.001 .. 0.016 */
    }
}

static void fill_float_row(struct check *c, enum kern_weight w, enum fill fill, uint8_t *row,
                           size_t k)
{
    const float scale = fill == FILL_HUGE ? 1e4f : fill == FILL_TINY ? 1e-7f : 0.05f;

    for (size_t j = 0; j < k; j++) {
        const float f = fill == FILL_ZERO ? 0 : check_normal(c) * scale;
        uint16_t h;

        if (w == KERN_F32) {
            memcpy(row + 4 * j, &f, 4);
            continue;
        }
        h = w == KERN_F16 ? check_to_half(f) : check_to_bf16(f);
        memcpy(row + 2 * j, &h, 2);
    }
}

static void fill_row(struct check *c, enum kern_weight w, enum fill fill, uint8_t *row, size_t k)
{
    const struct decode_format *f = &decode_formats[w];

    if (!kern_weight_is_quantised(w)) {
        fill_float_row(c, w, fill, row, k);
        return;
    }
    if (decode_head(w) > 0)
        decode_put_row_scale(row, random_scale(c, fill));
    row += decode_head(w);
    for (size_t b = 0; b < k / f->elems; b++, row += f->bytes) {
        for (size_t i = 0; i < f->bytes; i++)
            row[i] = fill == FILL_LOW ? 0 : fill == FILL_HIGH ? 0xff : (uint8_t)check_rand(c);
        for (size_t i = 0; i < f->n_scale; i++)
            decode_put_scale(w, row, i, random_scale(c, fill));
    }
}

/* Any codes in -127 .. 127, built here and not by kern.quantise. */
static void fill_qrow(struct check *c, enum fill fill, uint8_t *row, size_t k)
{
    int8_t *code = (int8_t *)row;
    float *scale = (float *)(void *)(row + k);
    int32_t *sum = (int32_t *)(void *)(scale + k / KERN_GROUP);

    for (size_t i = 0; i < k; i++)
        code[i] = (int8_t)(fill == FILL_LOW    ? -127
                           : fill == FILL_HIGH ? 127
                                               : (int)check_below(c, 255) - 127);
    for (size_t g = 0; g < k / KERN_GROUP; g++)
        scale[g] = fill == FILL_ZERO   ? 0
                   : fill == FILL_HUGE ? check_uniform(c, 0, 1e30f)
                   : fill == FILL_TINY ? check_uniform(c, 0, 1e-30f)
                                       : check_uniform(c, 0, 0.1f);
    for (size_t h = 0; h < k / 16; h++) {
        sum[h] = 0;
        for (size_t i = 0; i < 16; i++)
            sum[h] += code[16 * h + i];
    }
}

static void pack_all(struct gemm_case *g)
{
    for (size_t p = 0; p < g->n_panels; p++) {
        const void *rows[KERN_LANES];

        for (size_t lane = 0; lane < KERN_LANES; lane++)
            rows[lane] = g->blocks + (16 * p + lane) * g->row_bytes;
        if (p + 1 == g->n_panels) /* the last rows are past the matrix */
            rows[14] = rows[15] = NULL;
        kern_pack(g->w, (uint8_t *)g->panels + p * kern_panel_bytes(g->w, g->k), rows, g->k);
    }
}

static void make_case(struct check *c, struct gemm_case *g, enum kern_weight w, enum fill fill,
                      size_t k, size_t n_panels)
{
    const bool quantised = kern_weight_is_quantised(w);
    const size_t x_bytes = quantised ? kern_qrow_bytes(k) : k * sizeof(float);

    *g = (struct gemm_case){.w = w, .fill = fill, .k = k, .n_panels = n_panels};
    g->out_stride = 16 * n_panels + check_below(c, 3);
    g->x_stride = x_bytes + 4 * check_below(c, 5);
    g->row_bytes = decode_row_bytes(w, k);
    g->blocks = check_alloc(16 * n_panels * g->row_bytes, 1);
    /* All sizes are multiples of 16 and the end is a page's: so the panels may stand at 16. */
    g->panels = check_alloc(n_panels * kern_panel_bytes(w, k), 16);
    g->x = check_alloc((MAX_M - 1) * g->x_stride + x_bytes, 4);
    for (size_t r = 0; r < 16 * n_panels; r++)
        fill_row(c, w, fill, g->blocks + r * g->row_bytes, k);
    pack_all(g);
    for (size_t i = 0; i < MAX_M; i++) {
        uint8_t *row = g->x + i * g->x_stride;

        if (quantised)
            fill_qrow(c, fill, row, k);
        else
            check_fill(c, (float *)(void *)row, k, fill == FILL_HUGE ? 1e20f : 1);
    }
}

static void run_case(const struct kern_table *t, const struct gemm_case *g, float *out, size_t i0,
                     size_t m)
{
    /* what a hint names changes nothing, whatever its length */
    const struct kern_range ranges[] = {{g->panels, i0 * 100}, {out, 0}, {g->x, 64}};
    const struct kern_prefetch next = {ranges, i0 % 4};

    t->gemm[g->w](out, g->out_stride, g->x + i0 * g->x_stride, g->x_stride, m, g->panels,
                  g->n_panels, g->k, &next);
}

/* Activation j of row i as a double. */
static double activation(const struct gemm_case *g, size_t i, size_t j)
{
    const uint8_t *row = g->x + i * g->x_stride;

    if (!kern_weight_is_quantised(g->w))
        return ((const float *)(const void *)row)[j];
    return (double)(int8_t)row[j] * ((const float *)(const void *)(row + g->k))[j / KERN_GROUP];
}

/* One output row of scalar against the GGUF blocks, decoded here, in double. */
static void check_formula(struct check *c, const struct gemm_case *g, const float *out, size_t i)
{
    double *w = malloc(g->k * sizeof *w);
    double *size = malloc(g->k * sizeof *size);
    const double eps = 0x1p-24 * (kern_weight_is_quantised(g->w) ? (double)g->k / 10 + 6 : 260);

    for (size_t r = 0; r < 16 * g->n_panels; r++) {
        const bool zero_row = r >= 16 * g->n_panels - 2;
        double want = 0;
        double mass = 0;

        decode_row(g->w, g->blocks + r * g->row_bytes, w, size, g->k);
        for (size_t j = 0; j < g->k; j++) {
            want += w[j] * activation(g, i, j);
            mass += size[j] * fabs(activation(g, i, j));
        }
        if (zero_row)
            want = mass = 0;
        if (mass < 1e37) /* else a partial sum may leave the range of float */
            check_that(c, fabs(out[r] - want) <= mass * eps + 1e-37,
                       "%s k=%zu row=%zu col=%zu: %.9g, formula %.9g", FILL_NAME[g->fill], g->k, i,
                       r, (double)out[r], want);
    }
    free(w);
    free(size);
}

/* Numbers of rows between two that are tried. The definition takes long, and so does a model of
 * instructions, which is asked for every one of them: all numbers where there is little to do. */
static size_t rows_left_out(const struct check *c, const struct gemm_case *g)
{
    const bool is_modelled = c->isa == KERN_ISA_AMX && !kern_isa_exists(c->isa);

    if (c->isa == KERN_ISA_SCALAR)
        return 12;
    return is_modelled && g->k * g->n_panels > 1024 ? 14 : 0; /* 1, 16, 31 */
}

/* At one level: 1 to MAX_M rows, or some of these, and rows alone. */
static void check_level_of(struct check *c, const struct gemm_case *g, const float *want,
                           float *got, float *alone)
{
    const size_t n = MAX_M * g->out_stride;
    const size_t width = 16 * g->n_panels;

    for (size_t m = 1; m <= MAX_M; m++) {
        check_refill(got, n * sizeof *got);
        run_case(c->test, g, got, 0, m);
        check_that(c, check_guard(got), "k=%zu m=%zu panels=%zu wrote before out", g->k, m,
                   g->n_panels);
        check_that(c, check_untouched(got + m * g->out_stride, (n - m * g->out_stride) * 4),
                   "k=%zu m=%zu panels=%zu wrote past row m", g->k, m, g->n_panels);
        for (size_t i = 0; i < m; i++) {
            const float *row = got + i * g->out_stride;
            const size_t at = check_diff(row, want + i * g->out_stride, width);

            check_that(c, at == width, "%s k=%zu m=%zu panels=%zu: [%zu][%zu] %.9g, scalar %.9g",
                       FILL_NAME[g->fill], g->k, m, g->n_panels, i, at,
                       (double)row[at == width ? 0 : at],
                       (double)want[i * g->out_stride + (at == width ? 0 : at)]);
            check_that(c, check_untouched(row + width, (g->out_stride - width) * 4),
                       "k=%zu m=%zu panels=%zu wrote between rows", g->k, m, g->n_panels);
        }
        m += rows_left_out(c, g);
    }
    /* P1: a row alone, and in a batch that starts elsewhere, is the row in the full batch. */
    for (size_t i = 0; i < MAX_M; i += 13) {
        run_case(c->test, g, alone, i, 1);
        check_that(c, check_diff(alone, want + i * g->out_stride, width) == width,
                   "k=%zu row %zu alone differs", g->k, i);
    }
    run_case(c->test, g, got, 5, 11);
    check_that(c, check_diff(got, want + 5 * g->out_stride, width) == width,
               "k=%zu row 5 first in a batch of 11 differs", g->k);
}

static void check_case(struct check *c, const struct gemm_case *g)
{
    const size_t n = MAX_M * g->out_stride;
    float *want = check_out(n * sizeof *want, 4);
    float *got = check_out(n * sizeof *got, 4);
    float *alone = check_out(g->out_stride * sizeof *alone, 4);

    run_case(c->ref, g, want, 0, MAX_M);
    for (unsigned i = 0; check_level(c, i); i++) {
        check_level_of(c, g, want, got, alone);
        for (size_t row = 0; c->isa == KERN_ISA_SCALAR && row < MAX_M; row += 19)
            check_formula(c, g, want + row * g->out_stride, row);
    }
}

/* A chunk of columns of the vector bodies holds a whole number of 256; these lengths end before,
 * at and after one, and after the longest that one row can have. */
static const size_t LONG_K[] = {256, 512, 768, 1280, 1536, 17664};
static const size_t GROUP_K[] = {32, 64, 96, 288, 896, 2080};
static const size_t FLOAT_K[] = {1, 2, 7, 31, 255, 257, 300, 513, 1000, 6401};

void check_gemm(struct check *c, enum kern_weight w)
{
    const size_t group = kern_weight_group(w);
    const size_t *extra = group == 1 ? FLOAT_K : group == 32 ? GROUP_K : LONG_K;
    const size_t n_extra = group == 1    ? CHECK_COUNT(FLOAT_K)
                           : group == 32 ? CHECK_COUNT(GROUP_K)
                                         : 0;
    struct gemm_case g;

    for (size_t i = 0; i < n_extra + CHECK_COUNT(LONG_K); i++) {
        const size_t k = i < n_extra ? extra[i] : LONG_K[i - n_extra];

        if (!check_is_due(c))
            continue;
        make_case(c, &g, w, FILL_PLAIN, k, k > 3000 ? 1 : 1 + check_below(c, 5));
        check_case(c, &g);
        check_free_all();
    }
    for (int fill = 0; fill < N_FILL; fill++) {
        if (!check_is_due(c))
            continue;
        make_case(c, &g, w, (enum fill)fill, 512, 3);
        check_case(c, &g);
        check_free_all();
    }
    if (!check_is_due(c))
        return;
    make_case(c, &g, w, FILL_PLAIN, 1280, 19); /* more panels than one run of a chunk */
    check_case(c, &g);
    check_free_all();
}

/* Return the most bytes that panels may take, in percent of the blocks' bytes: 105, or the number
 * that kernels.h gives with a reason. */
static size_t most_percent(enum kern_weight w)
{
    static const uint8_t MORE[KERN_N_WEIGHT] = {
        [KERN_TQ1_0] = 123,  [KERN_IQ3_S] = 122,   [KERN_IQ3_XXS] = 137, [KERN_IQ2_S] = 130,
        [KERN_IQ2_XS] = 144, [KERN_IQ2_XXS] = 155, [KERN_IQ1_S] = 140,   [KERN_IQ1_M] = 147,
        [KERN_IQ2_K] = 108};

    return MORE[w] ? MORE[w] : 105;
}

void check_pack(struct check *c, enum kern_weight w)
{
    static const size_t SIZES[] = {1, 3, 5, 17};
    const size_t group = kern_weight_group(w);

    for (size_t s = 0; s < CHECK_COUNT(SIZES) * N_FILL; s++) {
        const enum fill fill = (enum fill)(s % N_FILL);
        const size_t k = SIZES[s / N_FILL] * group;
        const size_t bytes = kern_panel_bytes(w, k);
        struct gemm_case g;
        uint8_t *panel = check_out(bytes, 16);
        float *got = check_out(k * sizeof *got, 4);
        float *want = malloc(k * sizeof *want);

        make_case(c, &g, w, fill, k, 1);
        memcpy(panel, g.panels, bytes);
        check_that(c, bytes * 100 <= most_percent(w) * 16 * g.row_bytes,
                   "k=%zu: panel of %zu bytes", k, bytes);
        check_that(c, bytes % 16 == 0, "k=%zu: panel of %zu bytes", k, bytes);
        for (size_t lane = 0; lane < KERN_LANES; lane++) {
            check_refill(got, k * sizeof *got);
            kern_unpack_row(w, panel, lane, got, k);
            decode_row_float(w, g.blocks + lane * g.row_bytes, want, k);
            if (lane >= 14)
                memset(want, 0, k * sizeof *want);
            check_that(c, check_guard(got), "k=%zu lane=%zu wrote before out", k, lane);
            for (size_t j = 0; j < k; j++)
                check_that(c, memcmp(got + j, want + j, 4) == 0,
                           "%s k=%zu lane=%zu: [%zu] %.9g, block %.9g", FILL_NAME[fill], k, lane, j,
                           (double)got[j], (double)want[j]);
        }
        free(want);
        check_free_all();
    }
    if (w != KERN_F16)
        return;
    for (uint32_t h = 0; h < 0x10000; h++) { /* every half widens exactly */
        const uint16_t one[16] = {(uint16_t)h};
        float f;

        kern_unpack_row(KERN_F16, one, 0, &f, 1);
        check_that(c, (double)f == check_half((uint16_t)h) || (f != f && (h & 0x7fff) > 0x7c00),
                   "half %04x widens to %.9g", h, (double)f);
    }
}
