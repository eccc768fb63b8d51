/* tests/check/check_recurrent.c - convolution and Mamba's scans: random shapes and strides, against
 * the definition bit by bit and against formulas in double; and rows cut into runs, which must not
 * show. */
#include <math.h>
#include <string.h>

#include "tests/check/rows.h"

#define N_CASES 120

/* ---- convolution */

static struct kern_conv conv_case(struct check *c)
{
    const uint32_t n_tap = check_below(c, 2) ? 4 - check_below(c, 2) : 2 + check_below(c, 7);
    const uint32_t n_channel = rows_width(c, 200);
    const uint32_t n_row = rows_count(c);
    const struct rows x = rows_filled(c, n_row, n_channel, 2);
    const struct rows w = rows_filled(c, n_tap, n_channel, 0.5f);
    const struct rows bias = rows_filled(c, 1, n_channel, 1);

    return (struct kern_conv){.x = x.p,
                              .x_stride = x.stride,
                              .w = w.p,
                              .w_stride = w.stride,
                              .bias = check_below(c, 2) ? bias.p : NULL,
                              .n_row = n_row,
                              .n_channel = n_channel,
                              .n_tap = n_tap,
                              .silu = check_below(c, 2)};
}

static void conv_formula(struct check *c, const struct kern_conv *a, const struct rows *tail)
{
    for (size_t t = 0; t < a->n_row; t++)
        for (size_t i = 0; i < a->n_channel; i++) {
            double y = a->bias ? (double)a->bias[i] : 0;

            for (size_t j = 0; j < a->n_tap; j++) {
                const size_t row = t + j;
                const float x = row < a->n_tap - 1
                                    ? tail->p[row * tail->stride + i]
                                    : a->x[(row - (a->n_tap - 1)) * a->x_stride + i];

                y += (double)a->w[j * a->w_stride + i] * (double)x;
            }
            rows_near(c, a->out[t * a->out_stride + i], a->silu ? y / (1 + exp(-y)) : y, 1, "conv");
        }
}

/* The first rows, then the others. */
static void conv_cut(const struct kern_table *k, struct kern_conv a, uint32_t at)
{
    const uint32_t n = a.n_row;

    a.n_row = at;
    k->conv(&a);
    a.x += at * a.x_stride;
    a.out += at * a.out_stride;
    a.n_row = n - at;
    k->conv(&a);
}

static void check_conv_case(struct check *c)
{
    struct kern_conv a = conv_case(c);
    const struct rows tail = rows_filled(c, a.n_tap - 1, a.n_channel, 2);
    const struct rows out = rows_of(c, a.n_row, a.n_channel, true);
    const struct rows want_tail = rows_copy(&tail), got_tail = rows_copy(&tail);
    const struct rows cut_tail = rows_copy(&tail), cut = rows_copy(&out), got = rows_copy(&out);

    a.tail_stride = tail.stride;
    a.out_stride = out.stride;
    a.out = out.p;
    a.tail = want_tail.p;
    c->ref->conv(&a);
    if (c->isa == KERN_ISA_SCALAR)
        conv_formula(c, &a, &tail);
    a.out = got.p;
    a.tail = got_tail.p;
    c->test->conv(&a);
    rows_same(c, &got, &out, "out");
    rows_same(c, &got_tail, &want_tail, "tail");
    a.out = cut.p;
    a.tail = cut_tail.p;
    conv_cut(c->test, a, check_below(c, a.n_row + 1));
    rows_same(c, &cut, &out, "cut");
    rows_same(c, &cut_tail, &want_tail, "tail, cut");
}

static void check_conv_in_place(struct check *c)
{
    struct kern_conv a = conv_case(c);
    const struct rows tail = rows_filled(c, a.n_tap - 1, a.n_channel, 2);
    const struct rows other = rows_copy(&tail);
    const size_t n = (a.n_row - 1) * a.x_stride + a.n_channel;
    const struct rows x = {(float *)(uintptr_t)a.x, a.x_stride, n};
    const struct rows both = rows_copy(&x), want = rows_copy(&x);

    a.tail_stride = tail.stride;
    a.out_stride = a.x_stride;
    a.tail = tail.p;
    a.out = want.p;
    c->ref->conv(&a);
    a.tail = other.p;
    a.x = a.out = both.p;
    c->test->conv(&a);
    rows_same(c, &both, &want, "in place");
}

void check_conv(struct check *c)
{
    for (int i = 0; i < N_CASES; i++) {
        check_conv_case(c);
        check_conv_in_place(c);
        check_free_all();
    }
}

/* ---- Mamba */

static struct kern_mamba1 mamba1_case(struct check *c)
{
    const uint32_t n_row = rows_count(c), n_channel = rows_width(c, 200);
    const uint32_t n_state = check_below(c, 2) ? 16 : 1 + check_below(c, 40);
    const struct rows x = rows_filled(c, n_row, n_channel, 1);
    const struct rows dt = rows_filled(c, n_row, n_channel, 1);
    const struct rows bc = rows_filled(c, n_row, 2 * n_state, 1);
    const struct rows a = rows_state(c, n_state, n_channel, 1);
    const struct rows d = rows_filled(c, 1, n_channel, 1);

    rows_positive(c, &dt, check_below(c, 4) ? 0.3f : 20);
    rows_negative(c, &a, 16);
    return (struct kern_mamba1){.x = x.p,
                                .dt = dt.p,
                                .b = bc.p,
                                .c = bc.p + n_state,
                                .x_stride = x.stride,
                                .dt_stride = dt.stride,
                                .bc_stride = bc.stride,
                                .a = a.p,
                                .d = d.p,
                                .n_row = n_row,
                                .n_channel = n_channel,
                                .n_state = n_state};
}

static void mamba1_formula(struct check *c, const void *call, const struct rows *before)
{
    const struct kern_mamba1 *a = call;

    for (size_t i = 0; i < a->n_channel; i++) {
        double s[64];

        for (size_t j = 0; j < a->n_state; j++)
            s[j] = (double)before->p[rows_place(j, i, a->n_state)];
        for (size_t t = 0; t < a->n_row; t++) {
            const double x = (double)a->x[t * a->x_stride + i];
            const double dt = (double)a->dt[t * a->dt_stride + i];
            double y = (double)a->d[i] * x;

            for (size_t j = 0; j < a->n_state; j++) {
                s[j] = s[j] * exp(dt * (double)a->a[rows_place(j, i, a->n_state)]) +
                       dt * (double)a->b[t * a->bc_stride + j] * x;
                y += s[j] * (double)a->c[t * a->bc_stride + j];
            }
            rows_near(c, a->out[t * a->out_stride + i], y, 20, "mamba1");
        }
    }
}

static void mamba1_cut(struct check *c, const void *call)
{
    struct kern_mamba1 a = *(const struct kern_mamba1 *)call;
    const uint32_t n = a.n_row, at = check_below(c, n + 1);

    a.n_row = at;
    c->test->mamba1(&a);
    a.x += at * a.x_stride;
    a.dt += at * a.dt_stride;
    a.b += at * a.bc_stride;
    a.c += at * a.bc_stride;
    a.out += at * a.out_stride;
    a.n_row = n - at;
    c->test->mamba1(&a);
}

static void mamba1_run(const struct kern_table *k, const void *call)
{
    k->mamba1(call);
}

static void check_mamba1_case(struct check *c)
{
    struct kern_mamba1 a = mamba1_case(c);
    const struct scan s = {.call = &a,
                           .out = &a.out,
                           .state = &a.state,
                           .out_stride = &a.out_stride,
                           .n_row = a.n_row,
                           .width = a.n_channel,
                           .n_state = a.n_state,
                           .fill = 1,
                           .run = mamba1_run,
                           .cut = mamba1_cut,
                           .formula = mamba1_formula};

    rows_scan(c, &s);
}

void check_mamba1(struct check *c)
{
    for (int i = 0; i < N_CASES; i++) {
        check_mamba1_case(c);
        check_free_all();
    }
}

static struct kern_mamba2 mamba2_case(struct check *c)
{
    const uint32_t n_row = rows_count(c), head_dim = rows_width(c, 130);
    const uint32_t n_state = check_below(c, 2) ? 128 : 1 + check_below(c, 140);
    const struct rows x = rows_filled(c, n_row, head_dim, 1);
    const struct rows bc = rows_filled(c, n_row, 2 * n_state, 0.3f);
    const struct rows dt = rows_of(c, n_row, 1, false);

    rows_positive(c, &dt, check_below(c, 4) ? 0.3f : 20);
    return (struct kern_mamba2){.x = x.p,
                                .x_stride = x.stride,
                                .b = bc.p,
                                .c = bc.p + n_state,
                                .bc_stride = bc.stride,
                                .dt = dt.p,
                                .dt_stride = dt.stride,
                                .a = -check_uniform(c, 0.01f, 16),
                                .d = check_normal(c),
                                .n_row = n_row,
                                .head_dim = head_dim,
                                .n_state = n_state};
}

static void mamba2_formula(struct check *c, const void *call, const struct rows *before)
{
    const struct kern_mamba2 *a = call;

    for (size_t i = 0; i < a->head_dim; i++) {
        double s[160];

        for (size_t j = 0; j < a->n_state; j++)
            s[j] = (double)before->p[rows_place(j, i, a->n_state)];
        for (size_t t = 0; t < a->n_row; t++) {
            const double x = (double)a->x[t * a->x_stride + i];
            const double dt = (double)a->dt[t * a->dt_stride];
            double y = (double)a->d * x;

            for (size_t j = 0; j < a->n_state; j++) {
                s[j] = s[j] * exp(dt * (double)a->a) + dt * (double)a->b[t * a->bc_stride + j] * x;
                y += s[j] * (double)a->c[t * a->bc_stride + j];
            }
            rows_near(c, a->out[t * a->out_stride + i], y, 20, "mamba2");
        }
    }
}

static void mamba2_cut(struct check *c, const void *call)
{
    struct kern_mamba2 a = *(const struct kern_mamba2 *)call;
    const uint32_t n = a.n_row, at = check_below(c, n + 1);

    a.n_row = at;
    c->test->mamba2(&a);
    a.x += at * a.x_stride;
    a.dt += at * a.dt_stride;
    a.b += at * a.bc_stride;
    a.c += at * a.bc_stride;
    a.out += at * a.out_stride;
    a.n_row = n - at;
    c->test->mamba2(&a);
}

static void mamba2_run(const struct kern_table *k, const void *call)
{
    k->mamba2(call);
}

static void check_mamba2_case(struct check *c)
{
    struct kern_mamba2 a = mamba2_case(c);
    const struct scan s = {.call = &a,
                           .out = &a.out,
                           .state = &a.state,
                           .out_stride = &a.out_stride,
                           .n_row = a.n_row,
                           .width = a.head_dim,
                           .n_state = a.n_state,
                           .fill = 1,
                           .run = mamba2_run,
                           .cut = mamba2_cut,
                           .formula = mamba2_formula};

    rows_scan(c, &s);
}

void check_mamba2(struct check *c)
{
    for (int i = 0; i < N_CASES; i++) {
        check_mamba2_case(c);
        check_free_all();
    }
}
