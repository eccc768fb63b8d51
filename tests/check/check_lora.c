/* tests/check/check_lora.c - the second half of LoRA, in each type of an adapter's numbers. */
#include <math.h>
#include <string.h>

#include "tests/check/check.h"
#include "tests/check/decode.h"

struct lora {
    enum kern_weight w;
    size_t m, n_panels, k, out_stride, x_stride;
    float scale;
    uint8_t *rows; /* [16 * n_panels][k] as in a file */
    void *panels;
    float *x;
    float *before; /* what `out` held */
};

static size_t element_bytes(enum kern_weight w)
{
    return w == KERN_F32 || w == KERN_Q8_0 ? 4 : 2;
}

/* Floats are quantised as the panels are packed. */
static void fill_quantised(struct check *c, struct lora *l)
{
    float *rows = (float *)(void *)l->rows;

    check_fill(c, rows, KERN_LANES * l->n_panels * l->k, 0.05f);
    for (size_t p = 0; p < l->n_panels; p++) {
        const float *lanes[KERN_LANES];

        for (size_t lane = 0; lane < KERN_LANES; lane++)
            lanes[lane] = lane + p == 7 ? NULL : rows + (KERN_LANES * p + lane) * l->k;
        if (p <= 7)
            memset(rows + (KERN_LANES * p + 7 - p) * l->k, 0, l->k * sizeof(*rows));
        kern_lora_pack_q8_0((uint8_t *)l->panels + p * kern_lora_panel_bytes(KERN_Q8_0, l->k),
                            lanes, l->k);
    }
}

static void fill_weights(struct check *c, struct lora *l)
{
    const size_t size = element_bytes(l->w), panel_bytes = kern_panel_bytes(l->w, l->k);

    for (size_t i = 0; i < KERN_LANES * l->n_panels * l->k; i++) {
        const float f = check_normal(c) * 0.05f;
        const uint16_t h = l->w == KERN_F16 ? check_to_half(f) : check_to_bf16(f);

        memcpy(l->rows + i * size, l->w == KERN_F32 ? (const void *)&f : &h, size);
    }
    for (size_t p = 0; p < l->n_panels; p++) {
        const void *rows[KERN_LANES];

        for (size_t lane = 0; lane < KERN_LANES; lane++)
            rows[lane] = l->rows + (KERN_LANES * p + lane) * l->k * size;
        kern_pack(l->w, (uint8_t *)l->panels + p * panel_bytes, rows, l->k);
    }
}

static void make(struct check *c, struct lora *l)
{
    const size_t width = KERN_LANES * l->n_panels;

    l->scale = check_uniform(c, -2, 2);
    l->out_stride = width + check_below(c, 3);
    l->x_stride = l->k + check_below(c, 5);
    l->rows = check_alloc(width * l->k * element_bytes(l->w), 4);
    l->panels = check_alloc(l->n_panels * kern_lora_panel_bytes(l->w, l->k), 16);
    l->x = check_alloc(((l->m - 1) * l->x_stride + l->k) * sizeof(float), 4);
    l->before = check_alloc(((l->m - 1) * l->out_stride + width) * sizeof(float), 4);
    if (l->w == KERN_Q8_0)
        fill_quantised(c, l);
    else
        fill_weights(c, l);
    check_fill(c, l->x, (l->m - 1) * l->x_stride + l->k, 1);
    check_fill(c, l->before, (l->m - 1) * l->out_stride + width, 1);
}

/* Rows from row i on. */
static void run(const struct kern_table *t, const struct lora *l, float *out, size_t i, size_t m)
{
    memcpy(out, l->before + i * l->out_stride,
           ((m - 1) * l->out_stride + KERN_LANES * l->n_panels) * sizeof *out);
    t->lora_expand[l->w](out, l->out_stride, l->x + i * l->x_stride, l->x_stride, m, l->panels,
                         l->n_panels, l->k, l->scale);
}

static void check_formula(struct check *c, const struct lora *l, const float *out, size_t i)
{
    double w[256], size[256];

    for (size_t r = 0; r < KERN_LANES * l->n_panels; r++) {
        const float before = l->before[i * l->out_stride + r];
        double sum = 0, mass = fabs((double)before), most = 0, rounding = 0;

        decode_row(l->w == KERN_Q8_0 ? KERN_F32 : l->w, l->rows + r * l->k * element_bytes(l->w), w,
                   size, l->k);
        for (size_t j = 0; j < l->k; j++)
            most = fmax(most, fabs(w[j]));
        for (size_t j = 0; j < l->k; j++) {
            const double x = l->x[i * l->x_stride + j];

            sum += w[j] * x;
            mass += size[j] * fabs(x) * fabs((double)l->scale);
            if (l->w == KERN_Q8_0) /* half a code each */
                rounding += most / 254 * fabs(x) * fabs((double)l->scale);
        }
        check_that(c,
                   fabs(out[i * l->out_stride + r] - (before + sum * (double)l->scale)) <=
                       mass * 0x1p-24 * 260 + rounding * 1.001,
                   "k=%zu row=%zu col=%zu: %.9g", l->k, i, r, (double)out[i * l->out_stride + r]);
    }
}

static void check_case(struct check *c, const struct lora *l)
{
    const size_t width = KERN_LANES * l->n_panels, n = (l->m - 1) * l->out_stride + width;
    float *want = check_out(n * sizeof *want, 4);
    float *got = check_out(n * sizeof *got, 4);
    float *alone = check_out(width * sizeof *alone, 4);

    run(c->ref, l, want, 0, l->m);
    run(c->test, l, got, 0, l->m);
    check_that(c, check_guard(got), "k=%zu m=%zu wrote before out", l->k, l->m);
    check_that(c, check_diff(got, want, n) == n, "k=%zu m=%zu panels=%zu differs at %zu", l->k,
               l->m, l->n_panels, check_diff(got, want, n));
    for (size_t i = 0; i < l->m; i++) { /* P1, and nothing between rows */
        run(c->test, l, alone, i, 1);
        check_that(c, check_diff(alone, want + i * l->out_stride, width) == width,
                   "k=%zu row %zu alone differs", l->k, i);
        check_that(c,
                   i + 1 == l->m || memcmp(got + i * l->out_stride + width,
                                           l->before + i * l->out_stride + width,
                                           (l->out_stride - width) * sizeof *got) == 0,
                   "k=%zu wrote behind row %zu", l->k, i);
        if (c->isa == KERN_ISA_SCALAR)
            check_formula(c, l, want, i);
    }
}

static void check_lora(struct check *c, enum kern_weight w)
{
    static const size_t K[] = {1, 2, 7, 8, 16, 64, 255, 256};

    for (size_t i = 0; i < CHECK_COUNT(K); i++)
        for (size_t m = 1; m <= 19; m += m < 9 ? 1 : 5) {
            struct lora l = {
                .w = w, .m = m, .k = K[i], .n_panels = 1 + check_below(c, K[i] > 64 ? 9 : 20)};

            make(c, &l);
            check_case(c, &l);
            check_free_all();
        }
}

void check_lora_expand_f32(struct check *c)
{
    check_lora(c, KERN_F32);
}

void check_lora_expand_f16(struct check *c)
{
    check_lora(c, KERN_F16);
}

void check_lora_expand_bf16(struct check *c)
{
    check_lora(c, KERN_BF16);
}

void check_lora_expand_q8_0(struct check *c)
{
    check_lora(c, KERN_Q8_0);
}
