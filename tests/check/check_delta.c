/* tests/check/check_delta.c - the delta rule, and what makes its inputs: as check_recurrent.c, and
 * columns divided among threads. */
#include <math.h>
#include <string.h>

#include "tests/check/rows.h"

#define N_CASES 120

static float *outs(size_t n)
{
    return check_out(n * sizeof(float), 4);
}

/* ---- delta rule */

/* Keys of length 1 and queries of length 1 / 8, as models make them. */
static void make_unit(const struct rows *r, size_t n_row, size_t n, float length)
{
    for (size_t t = 0; t < n_row; t++) {
        double ss = 1e-6;

        for (size_t i = 0; i < n; i++)
            ss += (double)r->p[t * r->stride + i] * (double)r->p[t * r->stride + i];
        for (size_t i = 0; i < n; i++)
            r->p[t * r->stride + i] *= length / (float)sqrt(ss);
    }
}

static struct kern_delta delta_case(struct check *c)
{
    const uint32_t n_row = rows_count(c), value_dim = rows_width(c, 200);
    const uint32_t key_dim = check_below(c, 3) ? rows_width(c, 130) : 1 + check_below(c, 256);
    const bool is_per_key = check_below(c, 2);
    const struct rows qk = rows_filled(c, n_row, 2 * key_dim, 1);
    const struct rows v = rows_filled(c, n_row, value_dim, 1);
    const struct rows g = rows_of(c, n_row, is_per_key ? key_dim : 1, false);
    const struct rows beta = rows_of(c, n_row, 1, false);
    const struct rows k = {qk.p + key_dim, qk.stride, 0};

    rows_positive(c, &g, 1);
    rows_positive(c, &beta, 1);
    make_unit(&qk, n_row, key_dim, 0.125f);
    make_unit(&k, n_row, key_dim, 1);
    return (struct kern_delta){.q = qk.p,
                               .k = k.p,
                               .v = v.p,
                               .qk_stride = qk.stride,
                               .v_stride = v.stride,
                               .g = g.p,
                               .g_stride = g.stride,
                               .is_per_key = is_per_key,
                               .beta = beta.p,
                               .beta_stride = beta.stride,
                               .n_row = n_row,
                               .value_dim = value_dim,
                               .key_dim = key_dim};
}

/* The rule as it is published: the state fades, learns, and is asked. */
static double delta_step(const struct kern_delta *a, double *s, size_t t, size_t j)
{
    const float *k = a->k + t * a->qk_stride;
    const float *q = a->q + t * a->qk_stride;
    const float *g = a->g + t * a->g_stride;
    double m = 0, o = 0;

    for (size_t i = 0; i < a->key_dim; i++) {
        s[i] *= (double)g[a->is_per_key ? i : 0];
        m += s[i] * (double)k[i];
    }
    const double e = (double)a->beta[t * a->beta_stride] * ((double)a->v[t * a->v_stride + j] - m);
    for (size_t i = 0; i < a->key_dim; i++) {
        s[i] += (double)k[i] * e;
        o += s[i] * (double)q[i];
    }
    return o;
}

static void delta_formula(struct check *c, const void *call, const struct rows *before)
{
    const struct kern_delta *a = call;

    for (size_t j = 0; j < a->value_dim; j++) {
        double s[KERN_MAX_STATE];

        for (size_t i = 0; i < a->key_dim; i++)
            s[i] = (double)before->p[rows_place(i, j, a->key_dim)];
        for (size_t t = 0; t < a->n_row; t++)
            rows_near(c, a->out[t * a->out_stride + j], delta_step(a, s, t, j), 0.5, "delta");
        for (size_t i = 0; i < a->key_dim; i++)
            rows_near(c, a->state[rows_place(i, j, a->key_dim)], s[i], 0.5, "delta's state");
    }
}

static void delta_cut(const struct kern_table *k, struct kern_delta a, uint32_t at)
{
    const uint32_t n = a.n_row;

    a.n_row = at;
    k->delta(&a);
    a.q += at * a.qk_stride;
    a.k += at * a.qk_stride;
    a.v += at * a.v_stride;
    a.g += at * a.g_stride;
    a.beta += at * a.beta_stride;
    a.out += at * a.out_stride;
    a.n_row = n - at;
    k->delta(&a);
}

/* The first columns, then the others, as threads share a head. */
static void delta_columns(const struct kern_table *k, struct kern_delta a, uint32_t at)
{
    const uint32_t n = a.value_dim;

    a.value_dim = at;
    k->delta(&a);
    a.v += at;
    a.out += at;
    a.state += at * a.key_dim;
    a.value_dim = n - at;
    k->delta(&a);
}

static void delta_run(const struct kern_table *k, const void *call)
{
    k->delta(call);
}

static void delta_halves(struct check *c, const void *call)
{
    const struct kern_delta *a = call;

    if (check_below(c, 2))
        delta_cut(c->test, *a, check_below(c, a->n_row + 1));
    else
        delta_columns(c->test, *a, check_below(c, a->value_dim / 16 + 1) * 16);
}

static void check_delta_case(struct check *c)
{
    struct kern_delta a = delta_case(c);
    const struct scan s = {.call = &a,
                           .out = &a.out,
                           .state = &a.state,
                           .out_stride = &a.out_stride,
                           .n_row = a.n_row,
                           .width = a.value_dim,
                           .n_state = a.key_dim,
                           .fill = 0.3f,
                           .run = delta_run,
                           .cut = delta_halves,
                           .formula = delta_formula};

    rows_scan(c, &s);
}

void check_delta(struct check *c)
{
    for (int i = 0; i < N_CASES; i++) {
        check_delta_case(c);
        check_free_all();
    }
}

/* ---- before them */

void check_l2norm(struct check *c)
{
    for (size_t s = 0; s < check_n_sizes; s++) {
        const size_t n = check_sizes[s];
        const struct rows x = rows_filled(c, 1, n, s % 3 ? 2 : 1e-4f);
        const struct rows want = {outs(n), n, n}, got = {outs(n), n, n}, both = rows_copy(&x);
        const float scale = s % 2 ? 0.125f : 1;
        double ss = 1e-6;

        c->ref->l2norm(want.p, x.p, n, 1e-6f, scale);
        c->test->l2norm(got.p, x.p, n, 1e-6f, scale);
        c->test->l2norm(both.p, both.p, n, 1e-6f, scale);
        rows_same(c, &got, &want, "apart");
        rows_same(c, &both, &want, "in place");
        for (size_t i = 0; i < n; i++)
            ss += (double)x.p[i] * (double)x.p[i];
        for (size_t i = 0; i < n; i++)
            rows_near(c, want.p[i], (double)x.p[i] * (double)scale / sqrt(ss), 1e-3, "l2norm");
    }
}

static void check_softplus_values(struct check *c, const float *got, const float *x, const float *b,
                                  const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double z = (double)(x[i] + b[i]);
        const double y = z > 30 ? z : log1p(exp(z));
        const double want = a ? exp((double)a[i] * y) : y;
        const double most = a ? 1e-6 + 4e-7 * fabs((double)a[i] * y) : 3e-7;

        check_that(c, fabs((double)got[i] - want) <= most * want + 1e-37,
                   "z=%.9g: %.9g, formula %.9g", z, (double)got[i], want);
    }
}

static void check_softplus_case(struct check *c, const struct rows *x, bool is_kept)
{
    const size_t n = x->n;
    const struct rows b = rows_filled(c, 1, n, 1), decay = rows_filled(c, 1, n, 1);
    const struct rows want = {outs(n), n, n}, got = {outs(n), n, n}, both = rows_copy(x);
    const float *a = is_kept ? decay.p : NULL;

    rows_negative(c, &decay, 16);
    c->ref->softplus(want.p, x->p, b.p, a, n);
    c->test->softplus(got.p, x->p, b.p, a, n);
    c->test->softplus(both.p, both.p, b.p, a, n);
    rows_same(c, &got, &want, "apart");
    rows_same(c, &both, &want, "in place");
    if (c->isa == KERN_ISA_SCALAR)
        check_softplus_values(c, want.p, x->p, b.p, a, n);
}

void check_softplus(struct check *c)
{
    static const float EXTREME[] = {INFINITY, -INFINITY, NAN,    0,    -0.0f,
                                    3e38f,    -3e38f,    -87.4f, 88.8f};
    const struct rows odd = {check_alloc(sizeof EXTREME, 4), 0, CHECK_COUNT(EXTREME)};
    const struct rows want = {outs(odd.n), 0, odd.n}, got = {outs(odd.n), 0, odd.n};
    float zero[CHECK_COUNT(EXTREME)] = {0};

    for (size_t s = 0; s < check_n_sizes; s++) {
        const struct rows x = rows_filled(c, 1, check_sizes[s], s % 3 ? 4 : 40);

        check_softplus_case(c, &x, false);
        check_softplus_case(c, &x, true);
    }
    memcpy(odd.p, EXTREME, sizeof EXTREME);
    c->ref->softplus(want.p, odd.p, zero, NULL, odd.n);
    c->test->softplus(got.p, odd.p, zero, NULL, odd.n);
    rows_same(c, &got, &want, "extremes");
    check_that(c, isinf(want.p[0]) && want.p[1] == 0 && isnan(want.p[2]), "extremes");
}
