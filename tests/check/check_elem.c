/* tests/check/check_elem.c - the kernels between the products, and the functions of kernels.c. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"
#include "tests/check/decode.h"

static float *floats(size_t n)
{
    return check_alloc(n * sizeof(float), 4);
}

static float *outs(size_t n)
{
    return check_out(n * sizeof(float), 4);
}

/* The outputs must be equal and the guards whole. */
static void same(struct check *c, const float *got, const float *want, size_t n, const char *what)
{
    const size_t at = check_diff(got, want, n);

    check_that(c, check_guard(got), "%s n=%zu wrote before out", what, n);
    check_that(c, at == n, "%s n=%zu: [%zu] %.9g, scalar %.9g", what, n, at,
               (double)got[at == n ? 0 : at], (double)want[at == n ? 0 : at]);
}

/* ---- quantise */

static const char *const QUANTISE_FILL[] = {"normal", "zero", "tiny", "huge", "ties", "one"};

static void fill_quantise(struct check *c, int fill, float *x, size_t k)
{
    for (size_t i = 0; i < k; i++)
        switch (fill) {
        case 0:
            x[i] = check_normal(c);
            break;
        case 1:
            x[i] = i % 2 ? 0.0f : -0.0f;
            break;
        case 2: /* around the limit under which a group is zero, and subnormal */
            x[i] = check_uniform(c, -1, 1) * (i / 32 % 2 ? 0x1p-100f : 0x1p-130f);
            break;
        case 3:
            x[i] = check_uniform(c, -1, 1) * FLT_MAX;
            break;
        case 4: /* halves, with scale exactly 1 */
            x[i] = i % 32 == 31 ? 127 : (float)((int)check_below(c, 507) - 253) * 0.5f;
            break;
        default:
            x[i] = i % 32 == i / 32 % 32 ? -3 : 0;
            break;
        }
}

static void quantise_formula(struct check *c, const uint8_t *row, const float *x, size_t k, int f)
{
    const int8_t *code = (const int8_t *)row;
    const float *scale = (const float *)(const void *)(row + k);
    const int32_t *sum = (const int32_t *)(const void *)(scale + k / 32);

    for (size_t g = 0; g < k / 32; g++) {
        float a = 0;

        for (size_t i = 0; i < 32; i++)
            a = fmaxf(a, fabsf(x[32 * g + i]));
        const bool zero = a < 0x1p-100f;
        check_that(c, scale[g] == (zero ? 0 : a / 127), "%s scale[%zu] %g of max %g",
                   QUANTISE_FILL[f], g, (double)scale[g], (double)a);
        for (size_t h = 0; h < 2; h++) {
            int32_t want = 0;

            for (size_t i = 0; i < 16; i++)
                want += code[32 * g + 16 * h + i];
            check_that(c, sum[2 * g + h] == want, "%s sum[%zu] %d, want %d", QUANTISE_FILL[f],
                       2 * g + h, sum[2 * g + h], want);
        }
        for (size_t i = 32 * g; i < 32 * g + 32; i++) {
            const double v = zero ? 0 : (double)x[i] * (double)(127 / a);
            const double ulp = fabs(v) * 0x1p-23; /* 127 / a and the product are rounded */

            check_that(c, fabs(code[i] - v) <= 0.5 + ulp, "%s code[%zu] %d of %.9g",
                       QUANTISE_FILL[f], i, code[i], v);
            if (f == 4)
                check_that(c, code[i] == (int)nearbyint((double)x[i]), "tie %g gives %d",
                           (double)x[i], code[i]);
        }
    }
}

void check_quantise(struct check *c)
{
    static const size_t SIZES[] = {32, 64, 96, 256, 896, 1120};

    for (size_t s = 0; s < CHECK_COUNT(SIZES); s++)
        for (int f = 0; f < (int)CHECK_COUNT(QUANTISE_FILL); f++) {
            const size_t k = SIZES[s];
            const size_t bytes = k + k / 8 + k / 4; /* without the padding */
            float *x = floats(k);
            uint8_t *want = check_out(bytes, 4);
            uint8_t *got = check_out(bytes, 4);

            fill_quantise(c, f, x, k);
            const size_t cut = 32 * check_below(c, (uint32_t)(k / 32) + 1);
            c->ref->quantise(want, k, x, 0, k);
            c->test->quantise(got, k, x + cut, cut, k - cut);
            c->test->quantise(got, k, x, 0, cut);
            check_that(c, check_guard(got), "k=%zu wrote before qrow", k);
            check_that(c, memcmp(got, want, bytes) == 0, "%s k=%zu differs from scalar",
                       QUANTISE_FILL[f], k);
            if (c->isa == KERN_ISA_SCALAR)
                quantise_formula(c, want, x, k, f);
        }
    check_that(c, kern_qrow_bytes(32) == 64 && kern_qrow_bytes(896) == 1280, "qrow_bytes");
}

/* ---- rmsnorm */

void check_rmsnorm(struct check *c)
{
    static const float SCALES[] = {1, 1e-4f, 1e15f, 0};

    for (size_t s = 0; s < check_n_sizes * CHECK_COUNT(SCALES); s++) {
        const size_t n = check_sizes[s / CHECK_COUNT(SCALES)];
        const float scale = SCALES[s % CHECK_COUNT(SCALES)];
        float *x = floats(n);
        float *w = floats(n);
        float *want = outs(n);
        float *got = outs(n);
        double ss = 0;

        check_fill(c, x, n, scale);
        check_fill(c, w, n, 1);
        c->ref->rmsnorm(want, x, w, n, 1e-6f);
        c->test->rmsnorm(got, x, w, n, 1e-6f);
        same(c, got, want, n, "apart");
        if (c->isa == KERN_ISA_SCALAR) {
            for (size_t i = 0; i < n; i++)
                ss += (double)x[i] * x[i];
            for (size_t i = 0; i < n; i++) {
                const double y = x[i] / sqrt(ss / (double)n + 1e-6) * w[i];

                check_that(c, fabs(want[i] - y) <= 1e-5 * fabs(y), "n=%zu [%zu] %.9g, formula %.9g",
                           n, i, (double)want[i], y);
            }
        }
        memcpy(got, x, n * sizeof *got);
        c->test->rmsnorm(got, got, w, n, 1e-6f);
        same(c, got, want, n, "in place");
    }
}

/* ---- layernorm */

static void layernorm_formula(struct check *c, const float *got, const float *x, const float *w,
                              const float *b, size_t n, float eps)
{
    double mean = 0, ss = 0;

    for (size_t i = 0; i < n; i++)
        mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        ss += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
    const double root = sqrt(ss + (double)eps);
    for (size_t i = 0; i < n; i++) {
        const double y = ((double)x[i] - mean) / root * (double)w[i];
        const double most = 1e-5 * fabs(y) + 2e-6 * fabs(mean) / root * fabs((double)w[i]) + 1e-6;

        check_that(c, fabs((double)got[i] - (y + (b ? (double)b[i] : 0))) <= most,
                   "n=%zu [%zu] %.9g, formula %.9g", n, i, (double)got[i],
                   y + (b ? (double)b[i] : 0));
    }
}

void check_layernorm(struct check *c)
{
    static const float SCALES[] = {1, 1e-4f, 1e15f, 0};

    for (size_t s = 0; s < check_n_sizes * CHECK_COUNT(SCALES) * 2; s++) {
        const size_t n = check_sizes[s / 2 / CHECK_COUNT(SCALES)];
        const float scale = SCALES[s / 2 % CHECK_COUNT(SCALES)];
        float *x = floats(n);
        float *w = floats(n);
        float *b = s % 2 ? floats(n) : NULL;
        float *want = outs(n);
        float *got = outs(n);

        check_fill(c, x, n, scale);
        for (size_t i = 0; i < n; i++) /* a mean that is not nothing */
            x[i] += scale * 0.7f;
        check_fill(c, w, n, 1);
        if (b)
            check_fill(c, b, n, 1);
        c->ref->layernorm(want, x, w, b, n, 1e-5f);
        c->test->layernorm(got, x, w, b, n, 1e-5f);
        same(c, got, want, n, b ? "with a bias" : "apart");
        if (c->isa == KERN_ISA_SCALAR)
            layernorm_formula(c, want, x, w, b, n, 1e-5f);
        memcpy(got, x, n * sizeof *got);
        c->test->layernorm(got, got, w, b, n, 1e-5f);
        same(c, got, want, n, "in place");
        check_free_all();
    }
}

/* ---- rope */

static void rope_formula(struct check *c, const float *was, const float *is, size_t head_dim,
                         size_t n_rot, const float *cosine, const float *sine, bool neox)
{
    const size_t n_pair = n_rot / 2;

    for (size_t j = 0; j < n_pair; j++) {
        const size_t ia = neox ? j : 2 * j;
        const size_t ib = neox ? j + n_pair : 2 * j + 1;
        const double a = (double)was[ia] * cosine[j] - (double)was[ib] * sine[j];
        const double b = (double)was[ia] * sine[j] + (double)was[ib] * cosine[j];

        check_that(c, fabs(is[ia] - a) < 1e-6 && fabs(is[ib] - b) < 1e-6,
                   "neox=%d n_rot=%zu pair %zu: (%g, %g), formula (%g, %g)", neox, n_rot, j,
                   (double)is[ia], (double)is[ib], a, b);
    }
    for (size_t d = n_rot; d < head_dim; d++)
        check_that(c, is[d] == was[d], "n_rot=%zu changed dimension %zu", n_rot, d);
}

void check_rope(struct check *c)
{
    static const size_t ROT[] = {2, 4, 6, 10, 16, 24, 32, 40, 64, 80, 96, 128};

    for (size_t r = 0; r < CHECK_COUNT(ROT) * 2; r++) {
        const bool neox = r % 2;
        const size_t n_rot = ROT[r / 2];
        const size_t head_dim = (n_rot + 7) / 8 * 8 + 8 * check_below(c, 3);
        const size_t n_head = 1 + check_below(c, 4);
        const size_t n = n_head * head_dim;
        float *x = floats(n);
        float *cosine = floats(n_rot / 2);
        float *sine = floats(n_rot / 2);
        float *want = outs(n);
        float *got = outs(n);

        check_fill(c, x, n, 1);
        for (size_t j = 0; j < n_rot / 2; j++) {
            const float angle = check_uniform(c, -3, 3);

            cosine[j] = cosf(angle);
            sine[j] = sinf(angle);
        }
        memcpy(want, x, n * sizeof *x);
        memcpy(got, x, n * sizeof *x);
        c->ref->rope(want, n_head, head_dim, n_rot, cosine, sine, neox);
        c->test->rope(got, n_head, head_dim, n_rot, cosine, sine, neox);
        same(c, got, want, n, neox ? "neox" : "pairs");
        if (c->isa == KERN_ISA_SCALAR)
            for (size_t h = 0; h < n_head; h++)
                rope_formula(c, x + h * head_dim, want + h * head_dim, head_dim, n_rot, cosine,
                             sine, neox);
    }
}

/* ---- act */

/* Compute an activation in double; *most is the largest difference that a kernel may have. */
static double act_formula(enum kern_act act, double g, double u, double *most)
{
    double y = 0, tilt = 0; /* by how much the argument of exp may be wrong, in parts of y */

    switch (act) {
    case KERN_ACT_SILU:
        y = g / (1 + exp(-g)) * u;
        break;
    case KERN_ACT_GELU:
        tilt = g < 0 ? 2e-7 * fabs(1.6 * (g + 0.044715 * g * g * g)) : 0;
        y = g / (1 + exp(-2 * 0.7978845608028654 * (g + 0.044715 * g * g * g))) * u;
        break;
    case KERN_ACT_GELU_ERF:
        tilt = g < 0 ? 3e-6 + 1e-7 * g * g : 0;
        y = 0.5 * g * erfc(-g / sqrt(2)) * u;
        break;
    case KERN_ACT_SWIGLU_CLAMPED:
        g = fmin(g, 7);
        y = g / (1 + exp(-1.702 * g)) * (fmin(fmax(u, -7), 7) + 1);
        tilt = 3e-7 * fabs(g);
        break;
    case KERN_ACT_SIGMOID:
        y = 1 / (1 + exp(-g)) * u;
        break;
    case KERN_ACT_RELU_SQR:
        y = fmax(g, 0) * fmax(g, 0) * u;
        break;
    case KERN_ACT_RELU:
        y = fmax(g, 0) * u;
        break;
    case KERN_ACT_LINEAR:
        y = g * u;
        break;
    default:
        abort();
    }
    *most = (4e-7 + tilt) * fabs(y) + 1e-36 * fmax(fabs(u), 1);
    return y;
}

/* Numbers as gates have them, and such that are not numbers. */
static void fill_gate(struct check *c, float *g, float *u, size_t n)
{
    static const float EXTREME[] = {INFINITY, -INFINITY, NAN,    0,       -0.0f,   FLT_MAX,
                                    -FLT_MAX, FLT_MIN,   1e-45f, 1e20f,   -1e20f,  88.7f,
                                    -88.7f,   -87.3f,    -13.5f, 1.4142f, -1.4143f};

    check_fill(c, u, n, 4);
    for (size_t i = 0; i < n; i++)
        g[i] = i % 5 == 4 ? check_uniform(c, -200, 200) : check_normal(c) * 3;
    for (size_t i = 0; i < CHECK_COUNT(EXTREME) && 3 * i + 2 < n; i++) {
        g[3 * i] = EXTREME[i];
        g[3 * i + 1] = EXTREME[i];
        u[3 * i + 1] = EXTREME[i];
        u[3 * i + 2] = EXTREME[i];
    }
}

static void check_act_values(struct check *c, enum kern_act act, const float *got, const float *g,
                             const float *u, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double up = u ? (double)u[i] : 1;
        double most;
        const double y = act_formula(act, (double)g[i], up, &most);

        if (isfinite(g[i]) && isfinite(up) && fabs(y) < (double)FLT_MAX)
            check_that(c, fabs((double)got[i] - y) <= most, "g=%.9g u=%.9g: %.9g, formula %.9g",
                       (double)g[i], up, (double)got[i], y);
    }
}

static void check_act(struct check *c, enum kern_act act)
{
    for (size_t s = 0; s < check_n_sizes * 2; s++) {
        const size_t n = check_sizes[s / 2];
        float *g = floats(n);
        float *u = floats(n);
        float *want = outs(n);
        float *got = outs(n);

        fill_gate(c, g, u, n);
        if (s % 2 && act != KERN_ACT_SWIGLU_CLAMPED)
            u = NULL;
        c->ref->act[act](want, g, u, n);
        c->test->act[act](got, g, u, n);
        same(c, got, want, n, "apart");
        memcpy(got, g, n * sizeof *g);
        c->test->act[act](got, got, u, n);
        same(c, got, want, n, "in place");
        if (u) {
            memcpy(got, u, n * sizeof *u);
            c->test->act[act](got, g, got, n);
            same(c, got, want, n, "in place of up");
        }
        if (c->isa == KERN_ISA_SCALAR)
            check_act_values(c, act, want, g, u, n);
    }
}

/* Many arguments, close to each other where the function bends. */
static void check_act_range(struct check *c, enum kern_act act)
{
    enum { N = 1 << 16 };
    float *g = floats(N);
    float *u = floats(N);
    float *want = outs(N);
    float *got = outs(N);

    for (size_t i = 0; i < N; i++) {
        g[i] = ((float)i - N / 2) * (13.0f / (N / 2));
        u[i] = 1;
    }
    c->ref->act[act](want, g, u, N);
    c->test->act[act](got, g, u, N);
    same(c, got, want, N, "range");
    check_act_values(c, act, want, g, u, N);
    for (size_t i = 0; act == KERN_ACT_GELU_ERF && i < N; i++) {
        const double erf_of = (double)want[i] / (0.5 * (double)g[i]) - 1;

        check_that(c, g[i] == 0 || fabs(erf_of - erf((double)g[i] / sqrt(2))) <= 3e-7,
                   "erf(%.9g / sqrt(2)): %.9g", (double)g[i], erf_of);
    }
}

void check_act_silu(struct check *c)
{
    check_act(c, KERN_ACT_SILU);
    check_act_range(c, KERN_ACT_SILU);
}

void check_act_gelu(struct check *c)
{
    check_act(c, KERN_ACT_GELU);
    check_act_range(c, KERN_ACT_GELU);
}

void check_act_gelu_erf(struct check *c)
{
    check_act(c, KERN_ACT_GELU_ERF);
    check_act_range(c, KERN_ACT_GELU_ERF);
}

void check_act_swiglu_clamped(struct check *c)
{
    check_act(c, KERN_ACT_SWIGLU_CLAMPED);
    check_act_range(c, KERN_ACT_SWIGLU_CLAMPED);
}

void check_act_sigmoid(struct check *c)
{
    check_act(c, KERN_ACT_SIGMOID);
    check_act_range(c, KERN_ACT_SIGMOID);
}

void check_act_relu_sqr(struct check *c)
{
    check_act(c, KERN_ACT_RELU_SQR);
    check_act_range(c, KERN_ACT_RELU_SQR);
}

void check_act_relu(struct check *c)
{
    check_act(c, KERN_ACT_RELU);
    check_act_range(c, KERN_ACT_RELU);
}

void check_act_linear(struct check *c)
{
    check_act(c, KERN_ACT_LINEAR);
    check_act_range(c, KERN_ACT_LINEAR);
}

/* ---- add, scale, cap, max, sum_exp */

void check_add(struct check *c)
{
    for (size_t s = 0; s < check_n_sizes * 2; s++) {
        const size_t n = check_sizes[s / 2];
        const float scale = s % 2 ? check_uniform(c, -3, 3) : 1;
        float *x = floats(n);
        float *was = floats(n);
        float *want = outs(n);
        float *got = outs(n);

        check_fill(c, x, n, 1);
        check_fill(c, was, n, 1e3f);
        memcpy(want, was, n * sizeof *x);
        memcpy(got, was, n * sizeof *x);
        c->ref->add(want, x, scale, n);
        c->test->add(got, x, scale, n);
        same(c, got, want, n, "add");
        for (size_t i = 0; c->isa == KERN_ISA_SCALAR && i < n; i++) {
            const double y = (double)was[i] + (double)x[i] * (double)scale;

            check_that(c, want[i] == (float)y || (s % 2 && fabs((double)want[i] - y) < 1e-4),
                       "[%zu]", i);
            check_that(c, s % 2 || want[i] == was[i] + x[i], "[%zu]: not a plain sum", i);
        }
    }
}

void check_scale(struct check *c)
{
    for (size_t s = 0; s < check_n_sizes; s++) {
        const size_t n = check_sizes[s];
        const float scale = check_uniform(c, -50, 50);
        float *want = outs(n);
        float *got = outs(n);

        check_fill(c, want, n, 1);
        memcpy(got, want, n * sizeof *got);
        for (size_t i = 0; i < n; i++)
            want[i] = (float)((double)want[i] * (double)scale);
        c->test->scale(got, scale, n);
        same(c, got, want, n, "scale");
    }
}

void check_cap(struct check *c)
{
    static const float EXTREME[] = {0, -0.0f, INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, 1e-45f};

    for (size_t s = 0; s < check_n_sizes * 2; s++) {
        const size_t n = check_sizes[s / 2];
        const float cap = s % 2 ? 30 : check_uniform(c, 0.1f, 100);
        float *x = floats(n);
        float *want = outs(n);
        float *got = outs(n);

        for (size_t i = 0; i < n; i++)
            x[i] = i % 4 == 3 && i / 4 < CHECK_COUNT(EXTREME) ? EXTREME[i / 4]
                                                              : check_normal(c) * cap;
        memcpy(want, x, n * sizeof *x);
        memcpy(got, x, n * sizeof *x);
        c->ref->cap(want, cap, n);
        c->test->cap(got, cap, n);
        same(c, got, want, n, "cap");
        for (size_t i = 0; c->isa == KERN_ISA_SCALAR && i < n; i++)
            check_that(c,
                       x[i] != x[i] ||
                           fabs((double)want[i] - (double)cap * tanh((double)x[i] / (double)cap)) <=
                               3e-7 * (double)cap,
                       "%.9g capped at %.9g: %.9g", (double)x[i], (double)cap, (double)want[i]);
    }
}

static float naive_max(const float *x, size_t n)
{
    float m = -INFINITY;

    for (size_t i = 0; i < n; i++)
        m = fmaxf(m, x[i]);
    return m;
}

void check_max(struct check *c)
{
    for (size_t s = 0; s < check_n_sizes * 8; s++) {
        const size_t n = check_sizes[s / 8];
        float *x = floats(n);
        float got;

        for (size_t i = 0; i < n; i++)
            x[i] = s % 8 == 5   ? -1e30f * check_uniform(c, 0.5f, 1)
                   : s % 8 == 6 ? (i % 3 ? 0.0f : -0.0f)
                                : check_normal(c);
        if (s % 8 < 3) /* the maximum in any lane */
            x[check_below(c, (uint32_t)n)] = 100;
        for (size_t i = 0; s % 8 == 3 && i < n; i += 2)
            x[i] = NAN;
        for (size_t i = 0; s % 8 == 4 && i < n; i++)
            x[i] = NAN;
        got = c->test->max(x, n);
        check_that(c, got == naive_max(x, n), "kind %zu n=%zu: %.9g, want %.9g", s % 8, n,
                   (double)got, (double)naive_max(x, n));
        check_that(c, got != 0 || !signbit(got), "kind %zu n=%zu: -0", s % 8, n);
    }
}

/* Values few enough that most are there more than once, and some not at all. */
void check_find(struct check *c)
{
    for (size_t s = 0; s < check_n_sizes * 8; s++) {
        const size_t n = check_sizes[s / 8];
        const float value = s % 8 == 7 ? -INFINITY : (float)check_below(c, 6) - 1;
        float *x = floats(n);
        size_t want = n;

        for (size_t i = 0; i < n; i++) {
            const uint32_t r = check_below(c, s % 8 == 0 ? 1000 : 7);

            x[i] = r == 0 ? NAN : r == 1 ? -INFINITY : r == 2 ? -0.0f : (float)r - 2;
        }
        for (size_t i = n; i-- > 0;)
            want = x[i] == value ? i : want;
        check_that(c, c->test->find(x, n, value) == want, "kind %zu n=%zu: %g at %zu, want %zu",
                   s % 8, n, (double)value, c->test->find(x, n, value), want);
        check_that(c, c->test->find(x, n, NAN) == n, "n=%zu: found a NaN", n);
    }
}

void check_sum_exp(struct check *c)
{
    for (size_t s = 0; s < check_n_sizes * 4; s++) {
        const size_t n = check_sizes[s / 4];
        const float scale = s % 4 == 1 ? 1.7f : s % 4 == 2 ? 40.0f : 1;
        float *x = floats(n);
        double formula = 0;

        check_fill(c, x, n, s % 4 == 3 ? 100 : 3);
        if (s % 4 == 3 && n > 2)
            x[n / 2] = -INFINITY; /* a masked token */
        const float max = naive_max(x, n);
        const float want = c->ref->sum_exp(x, n, max, scale);
        const float got = c->test->sum_exp(x, n, max, scale);
        check_that(c, check_diff(&got, &want, 1) == 1, "n=%zu: %.9g, scalar %.9g", n, (double)got,
                   (double)want);
        for (size_t i = 0; i < n; i++)
            formula += exp((double)((x[i] - max) * scale));
        check_that(c, fabs(got - formula) < 1e-5 * formula, "n=%zu: %.9g, formula %.9g", n,
                   (double)got, formula);
    }
    /* One number is the vector's exp of it: sweep all exponents and the limits. */
    for (uint32_t bits = 0; bits < 0xffff0000u; bits += 20011) {
        float x;

        memcpy(&x, &bits, sizeof x);
        const float got = c->test->sum_exp(&x, 1, 0, 1);
        const float want = kern_exp(x);
        check_that(c, check_diff(&got, &want, 1) == 1, "exp(%.9g): %.9g, scalar %.9g", (double)x,
                   (double)got, (double)want);
    }
    for (int i = -400; i <= 400; i++) {
        const float x = (i % 2 ? -87.33f : 88.72f) * (1 + (float)i * 0x1p-22f);
        const float got = c->test->sum_exp(&x, 1, 0, 1);
        const float want = kern_exp(x);

        check_that(c, check_diff(&got, &want, 1) == 1, "exp(%.9g): %.9g, scalar %.9g", (double)x,
                   (double)got, (double)want);
    }
}

/* ---- kernels.c */

void check_exp(struct check *c)
{
    double worst = 0;

    for (uint32_t i = 0; i < 3000000; i++) {
        const float x = check_uniform(c, -87.33f, 88.72f) * (i % 4 ? 1 : 0.01f);
        const double want = exp((double)x);
        const double ulp = ldexp(1, ilogb(want) - 23);
        const double error = fabs(kern_exp(x) - want) / ulp;

        if (error > worst)
            worst = error;
        check_that(c, error < 2, "exp(%.9g) is %.2f ulp off", (double)x, error);
    }
    check_that(c, kern_exp(-87.34f) == 0 && kern_exp(-INFINITY) == 0, "exp below the range");
    check_that(c, kern_exp(-87.33f) > 0 && isfinite(kern_exp(88.72f)), "exp at its limits");
    check_that(c, isinf(kern_exp(88.73f)) && isinf(kern_exp(INFINITY)), "exp above the range");
    check_that(c, isnan(kern_exp(NAN)), "exp(NaN)");
    check_that(c, kern_exp(0.0f) == 1 && kern_exp(-0.0f) == 1, "exp(0)");
}

void check_log(struct check *c)
{
    for (uint32_t i = 0; i < 500000; i++) {
        const double mantissa = 1 + (double)check_rand(c) * 0x1p-32;
        const int e = i % 3 ? -(int)check_below(c, 40) : (int)check_below(c, 2097) - 1073;
        const double x = i % 7 ? ldexp(mantissa, e) : 1 + (mantissa - 1.5) * 1e-3;
        const double want = log(x);

        check_that(c, fabs(kern_log(x) - want) <= 4e-16 * fabs(want) + 1e-19,
                   "log(%.17g): %.17g, want %.17g", x, kern_log(x), want);
    }
    check_that(c, kern_log(1) == 0, "log(1)");
    check_that(c,
               kern_lanes_sum((const float[16]){1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048,
                                                4096, 8192, 16384, 32768}) == 65535,
               "lanes_sum");
    /* The tree, not another order: 0 + 8 and 4 + 12 cancel before the small ones are added. */
    check_that(c, kern_lanes_sum((const float[16]){1e8f, 1, 0, 0, 0, 0, 0, 0, -1e8f, 1}) == 2,
               "lanes_sum order");
}

void check_isa(struct check *c)
{
    const int best = (int)kern_isa_best();
    struct kern_table t;
    struct kern_table capped;

    check_that(c, kern_isa_parse("scalar") == KERN_ISA_SCALAR, "scalar");
    check_that(c, kern_isa_parse("avx2") == KERN_ISA_AVX2, "avx2");
    check_that(c, kern_isa_parse("avxvnni") == KERN_ISA_AVXVNNI, "avxvnni");
    check_that(c, kern_isa_parse("avx512") == KERN_ISA_AVX512, "avx512");
    check_that(c, kern_isa_parse("amx") == KERN_ISA_AMX, "amx");
    check_that(c, kern_isa_parse("auto") < 0 && kern_isa_parse("") < 0, "unknown names");
    for (int isa = 0; isa <= KERN_ISA_AMX; isa++) {
        const void *null[sizeof t / sizeof(void *)] = {0};

        check_that(c, kern_isa_parse(kern_isa_name((enum kern_isa)isa)) == isa, "name of %d", isa);
        memset(&t, 0, sizeof t);
        kern_init(&t, (enum kern_isa)isa);
        for (size_t i = 0; i < CHECK_COUNT(null); i++)
            check_that(c,
                       memcmp((const void *const *)(const void *)&t + i, null, sizeof *null) != 0,
                       "%s: member %zu is NULL", kern_isa_name((enum kern_isa)isa), i);
        kern_init(&capped, (enum kern_isa)(isa < best ? isa : best));
        if (isa <= best || !kern_isa_exists((enum kern_isa)isa))
            check_that(c, memcmp(&t, &capped, sizeof t) == 0, "init above the best level");
    }
    check_that(c, kern_weight_is_quantised(KERN_Q4_0) && !kern_weight_is_quantised(KERN_BF16),
               "is_quantised");
    check_that(c, strcmp(kern_weight_name(KERN_Q6_K), "Q6_K") == 0, "weight name");
}
