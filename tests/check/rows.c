/* tests/check/rows.c - see rows.h. */
#include "tests/check/rows.h"

#include <math.h>
#include <string.h>

static float *floats(size_t n)
{
    return check_alloc(n * sizeof(float), 4);
}

static float *outs(size_t n)
{
    return check_out(n * sizeof(float), 4);
}

struct rows rows_of(struct check *c, size_t n_row, size_t width, bool is_out)
{
    const size_t stride = width + (check_below(c, 3) ? 0 : check_below(c, 20));
    const size_t n = (n_row - 1) * stride + width;

    return (struct rows){is_out ? outs(n) : floats(n), stride, n};
}

struct rows rows_filled(struct check *c, size_t n_row, size_t width, float scale)
{
    const struct rows r = rows_of(c, n_row, width, false);

    check_fill(c, r.p, r.n, scale);
    return r;
}

struct rows rows_copy(const struct rows *r)
{
    const struct rows copy = {outs(r->n), r->stride, r->n};

    memcpy(copy.p, r->p, r->n * sizeof *r->p);
    return copy;
}

void rows_same(struct check *c, const struct rows *got, const struct rows *want, const char *what)
{
    const size_t at = check_diff(got->p, want->p, want->n);

    check_that(c, check_guard(got->p), "%s: wrote before it", what);
    check_that(c, at == want->n, "%s: [%zu of %zu, rows of %zu] %.9g, definition %.9g", what, at,
               want->n, want->stride, (double)got->p[at == want->n ? 0 : at],
               (double)want->p[at == want->n ? 0 : at]);
}

void rows_near(struct check *c, float got, double want, double scale, const char *what)
{
    check_that(c, fabs((double)got - want) <= 2e-5 * (scale + fabs(want)), "%s: %.9g, formula %.9g",
               what, (double)got, want);
}

uint32_t rows_width(struct check *c, uint32_t most)
{
    static const uint32_t WIDTHS[] = {1, 4, 15, 16, 17, 24, 32, 33, 48, 64, 80, 128};
    const uint32_t n = check_below(c, 3) ? WIDTHS[check_below(c, CHECK_COUNT(WIDTHS))]
                                         : 1 + check_below(c, 130);

    return n < most ? n : most;
}

uint32_t rows_count(struct check *c)
{
    return check_below(c, 4) == 0 ? 1 : 1 + check_below(c, check_below(c, 8) ? 19 : 150);
}

void rows_positive(struct check *c, const struct rows *r, float most)
{
    for (size_t i = 0; i < r->n; i++)
        r->p[i] = check_uniform(c, 0, most);
}

void rows_negative(struct check *c, const struct rows *r, float most)
{
    for (size_t i = 0; i < r->n; i++)
        r->p[i] = -check_uniform(c, 0.01f, most);
}

size_t rows_place(size_t row, size_t column, size_t n_row)
{
    return column / 16 * 16 * n_row + row * 16 + column % 16;
}

struct rows rows_state(struct check *c, size_t n_row, size_t n_column, float scale)
{
    const size_t n = (n_column + 15) / 16 * 16;
    const struct rows r = {floats(n_row * n), 0, n_row * n};

    check_that(c, kern_state_floats(n_row, n_column) == r.n, "kern_state_floats");
    for (size_t i = 0; i < n_row; i++)
        for (size_t j = 0; j < n_column; j++)
            r.p[rows_place(i, j, n_row)] = check_normal(c) * scale;
    return r;
}

static void aim(const struct scan *s, const struct rows *out, const struct rows *state)
{
    *s->out = out->p;
    *s->out_stride = out->stride;
    *s->state = state->p;
}

void rows_scan(struct check *c, const struct scan *s)
{
    const struct rows before = rows_state(c, s->n_state, s->width, s->fill);
    const struct rows out = rows_of(c, s->n_row, s->width, true);
    const struct rows want = rows_copy(&before), state = rows_copy(&before);
    const struct rows half = rows_copy(&before);
    const struct rows got = rows_copy(&out), cut = rows_copy(&out);

    aim(s, &out, &want);
    s->run(c->ref, s->call);
    if (c->isa == KERN_ISA_SCALAR)
        s->formula(c, s->call, &before);
    aim(s, &got, &state);
    s->run(c->test, s->call);
    rows_same(c, &got, &out, "out");
    rows_same(c, &state, &want, "state");
    aim(s, &cut, &half);
    s->cut(c, s->call);
    rows_same(c, &cut, &out, "cut");
    rows_same(c, &half, &want, "state, cut");
}
