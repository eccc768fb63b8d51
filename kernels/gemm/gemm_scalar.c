/* kernels/gemm/gemm_scalar.c - matrix products: the definition.
 *
 * One output element at a time, as kernels.h writes the formulas down: integer sums over a group of
 * 32 columns (or its halves) are exact in any order, and the floats that finish a group are one
 * chain of fmaf over the groups in ascending order. Vector bodies keep that chain for each element,
 * so tiles, panels and threads cannot change a bit.
 */
#include "kernels/gemm/panel_values.h"
#include "kernels/kern_math.h"
#include "kernels/kernels_impl.h"

/* Return the sum of (code - offset) * x code over half h of group g. */
static int32_t half_sum(const struct kern_qrow *x, size_t g, size_t h, kern_code_fn code,
                        int offset, const uint8_t *codes, size_t lane)
{
    int32_t n = 0;

    for (size_t i = 16 * h; i < 16 * h + 16; i++)
        n += (code(codes, lane, i) - offset) * x->code[32 * g + i];
    return n;
}

static int32_t group_sum(const struct kern_qrow *x, size_t g, kern_code_fn code, int offset,
                         const uint8_t *codes, size_t lane)
{
    return half_sum(x, g, 0, code, offset, codes, lane) +
           half_sum(x, g, 1, code, offset, codes, lane);
}

/* Return xs[g] times the sum of the group's x codes, which minima are multiplied by. */
static float scaled_sum(const struct kern_qrow *x, size_t g)
{
    return x->scale[g] * (float)(x->sum[2 * g] + x->sum[2 * g + 1]);
}

/* Returns one output element: quantised row x times lane `lane` of a panel of k columns. */
typedef float (*dot_fn)(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k);

/* For types with a scale for each group of 32. */
static float dot_scaled(const struct kern_qrow *x, const uint8_t *panel, size_t bytes,
                        kern_code_fn code, int offset, size_t lane, size_t k)
{
    float s = 0;

    for (size_t g = 0; g < k / 32; g++, panel += bytes) {
        const float d = kern_load_f16(panel + 2 * lane);
        const int32_t n = group_sum(x, g, code, offset, panel + 32, lane);

        s = fmaf((float)n, d * x->scale[g], s);
    }
    return s;
}

static float dot_q8_0(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    return dot_scaled(x, panel, KERN_Q8_0_GROUP, kern_code_8, 128, lane, k);
}

static float dot_q4_0(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    return dot_scaled(x, panel, KERN_Q4_0_GROUP, kern_code_4, 8, lane, k);
}

static float dot_q5_0(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    return dot_scaled(x, panel, KERN_Q5_0_GROUP, kern_code_5, 16, lane, k);
}

/* For types with a scale and a minimum for each group of 32. */
static float dot_minimum(const struct kern_qrow *x, const uint8_t *panel, size_t bytes,
                         kern_code_fn code, size_t lane, size_t k)
{
    float s = 0;

    for (size_t g = 0; g < k / 32; g++, panel += bytes) {
        const float d = kern_load_f16(panel + 2 * lane);
        const float m = kern_load_f16(panel + KERN_Q4_1_MIN + 2 * lane);
        const int32_t n = group_sum(x, g, code, 0, panel + KERN_Q4_1_CODES, lane);

        s = fmaf((float)n, d * x->scale[g], s);
        s = fmaf(m, scaled_sum(x, g), s);
    }
    return s;
}

static float dot_q4_1(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    return dot_minimum(x, panel, KERN_Q4_1_GROUP, kern_code_4, lane, k);
}

static float dot_q5_1(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    return dot_minimum(x, panel, KERN_Q5_1_GROUP, kern_code_5, lane, k);
}

/* For types with eight scales and eight minima for 256 columns, themselves multiplied by d and
 * dmin. */
static float dot_k_minimum(const struct kern_qrow *x, const uint8_t *panel, size_t bytes,
                           size_t sub_bytes, kern_code_fn code, size_t lane, size_t k)
{
    float s = 0;

    for (size_t g = 0; g < k / 32; g++) {
        const uint8_t *super = panel + g / 8 * bytes;
        const uint8_t *codes = super + KERN_Q4_K_CODES + g % 8 * sub_bytes;
        const float d = kern_load_f16(super + 2 * lane);
        const float dmin = kern_load_f16(super + KERN_Q4_K_DMIN + 2 * lane);
        const float sc = super[KERN_Q4_K_SC + g % 8 * 16 + lane];
        const float mn = super[KERN_Q4_K_MN + g % 8 * 16 + lane];
        const int32_t n = group_sum(x, g, code, 0, codes, lane);

        s = fmaf((float)n, (d * sc) * x->scale[g], s);
        s = fmaf(-(dmin * mn), scaled_sum(x, g), s);
    }
    return s;
}

static float dot_q4_k(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    return dot_k_minimum(x, panel, KERN_Q4_K_GROUP, KERN_Q4_K_SUB, kern_code_4, lane, k);
}

static float dot_q5_k(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    return dot_k_minimum(x, panel, KERN_Q5_K_GROUP, KERN_Q5_K_SUB, kern_code_5, lane, k);
}

/* For types with sixteen signed scales for 256 columns. */
static float dot_halves(const struct kern_qrow *x, const uint8_t *panel, size_t bytes,
                        size_t sub_bytes, kern_code_fn code, int offset, size_t lane, size_t k)
{
    float s = 0;

    for (size_t g = 0; g < k / 32; g++) {
        const uint8_t *super = panel + g / 8 * bytes;
        const uint8_t *codes = super + KERN_Q6_K_CODES + g % 8 * sub_bytes;
        const uint8_t *sc = super + KERN_Q6_K_SC + g % 8 * 32 + lane;
        const float d = kern_load_f16(super + 2 * lane);
        const float a = (float)half_sum(x, g, 0, code, offset, codes, lane);
        const float b = (float)half_sum(x, g, 1, code, offset, codes, lane);
        const float t = fmaf(a, d * (float)(int8_t)sc[0], b * (d * (float)(int8_t)sc[16]));

        s = fmaf(t, x->scale[g], s);
    }
    return s;
}

static float dot_q6_k(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    return dot_halves(x, panel, KERN_Q6_K_GROUP, KERN_Q6_K_SUB, kern_code_6, 32, lane, k);
}

static float dot_q3_k(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    return dot_halves(x, panel, KERN_Q3_K_GROUP, KERN_Q3_K_SUB, kern_code_3, 4, lane, k);
}

static float dot_q2_k(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    float s = 0;

    for (size_t g = 0; g < k / 32; g++) {
        const uint8_t *super = panel + g / 8 * KERN_Q2_K_GROUP;
        const uint8_t *codes = super + KERN_Q2_K_CODES + g % 8 * KERN_Q2_K_SUB;
        const uint8_t *sm = super + KERN_Q2_K_SM + g % 8 * 32 + lane;
        const float d = kern_load_f16(super + 2 * lane);
        const float dmin = kern_load_f16(super + KERN_Q2_K_DMIN + 2 * lane);
        const int32_t n = (sm[0] & 15) * half_sum(x, g, 0, kern_code_2, 0, codes, lane) +
                          (sm[16] & 15) * half_sum(x, g, 1, kern_code_2, 0, codes, lane);

        s = fmaf((float)n, d * x->scale[g], s);
        for (size_t h = 0; h < 2; h++)
            s = fmaf(-(dmin * (float)(sm[16 * h] >> 4)),
                     x->scale[g] * (float)x->sum[2 * g + h], s);
    }
    return s;
}

/* For types whose codes stand for values: return the sum of value * x code over half h of group
 * g. */
static int32_t value_sum(enum kern_weight w, const struct kern_qrow *x, size_t g, size_t h,
                         const uint8_t *block, size_t lane)
{
    const size_t in_block = g % (kern_weight_group(w) / 32);
    int32_t n = 0;

    for (size_t i = 16 * h; i < 16 * h + 16; i++)
        n += kern_value(w, block, in_block, lane, i) * x->code[32 * g + i];
    return n;
}

static bool has_half_scales(enum kern_weight w)
{
    return w == KERN_IQ2_S || w == KERN_IQ2_XS || w == KERN_IQ1_M || w == KERN_NVFP4 ||
           (kern_values_shift(w) > 0 && !kern_has_row_scale(w));
}

static float dot_values(enum kern_weight w, const struct kern_qrow *x, const uint8_t *panel,
                        size_t lane, size_t k)
{
    const size_t groups = kern_weight_group(w) / 32;
    const size_t bytes = kern_panel_bytes(w, 32 * groups);
    float s = 0;

    for (size_t g = 0; g < k / 32; g++) {
        const uint8_t *block = panel + g / groups * bytes;
        const float d = kern_value_scale(w, block, g % groups, 0, lane);
        const int32_t a = value_sum(w, x, g, 0, block, lane);
        const int32_t b = value_sum(w, x, g, 1, block, lane);

        if (has_half_scales(w)) {
            const float last = (float)b * kern_value_scale(w, block, g % groups, 1, lane);

            s = fmaf(fmaf((float)a, d, last), x->scale[g], s);
            continue;
        }
        s = fmaf((float)(a + b), d * x->scale[g], s);
        if (w == KERN_IQ1_S) {
            const float t = (float)kern_value_shift(block, g % groups, lane);

            s = fmaf(kern_load_f16(block + 2 * lane) * t * 0.125f, scaled_sum(x, g), s);
        }
    }
    return s;
}

#define VALUES(weight, name)                                                                       \
    static float dot_##name(const struct kern_qrow *x, const uint8_t *panel, size_t lane,          \
                            size_t k)                                                              \
    {                                                                                              \
        return dot_values(weight, x, panel, lane, k);                                              \
    }

VALUES(KERN_IQ4_NL, iq4_nl)
VALUES(KERN_IQ4_XS, iq4_xs)
VALUES(KERN_MXFP4, mxfp4)
VALUES(KERN_TQ2_0, tq2_0)
VALUES(KERN_TQ1_0, tq1_0)
VALUES(KERN_IQ3_S, iq3_s)
VALUES(KERN_IQ3_XXS, iq3_xxs)
VALUES(KERN_IQ2_S, iq2_s)
VALUES(KERN_IQ2_XS, iq2_xs)
VALUES(KERN_IQ2_XXS, iq2_xxs)
VALUES(KERN_IQ1_S, iq1_s)
VALUES(KERN_IQ1_M, iq1_m)
VALUES(KERN_Q2_0, q2_0)
VALUES(KERN_Q1_0, q1_0)
VALUES(KERN_NVFP4, nvfp4)
VALUES(KERN_IQ4_K, iq4_k)
VALUES(KERN_IQ3_K, iq3_k)
VALUES(KERN_IQ2_K, iq2_k)
VALUES(KERN_IQ6_K, iq6_k)
VALUES(KERN_IQ5_K, iq5_k)
VALUES(KERN_IQ5_KS, iq5_ks)
VALUES(KERN_IQ4_KS, iq4_ks)

static void gemm_quantised(enum kern_weight w, dot_fn dot, float *out, size_t out_stride,
                           const uint8_t *x, size_t x_stride, size_t m, const uint8_t *panels,
                           size_t n_panels, size_t k)
{
    const size_t panel_bytes = kern_panel_bytes(w, k);

    for (size_t i = 0; i < m; i++) {
        const struct kern_qrow row = kern_qrow(x + i * x_stride, k);

        for (size_t p = 0; p < n_panels; p++)
            for (size_t lane = 0; lane < KERN_LANES; lane++)
                out[i * out_stride + 16 * p + lane] = dot(&row, panels + p * panel_bytes, lane, k);
    }
}

static float dot_float(enum kern_weight w, const float *x, const uint8_t *panel, size_t lane,
                       size_t k)
{
    float s = 0;

    for (size_t j0 = 0; j0 < k; j0 += 256) {
        const size_t end = j0 + 256 < k ? j0 + 256 : k;
        float c = 0;

        for (size_t j = j0; j < end; j++)
            c = fmaf(x[j], kern_float_at(w, panel, j * KERN_LANES + lane), c);
        s = s + c;
    }
    return s;
}

static void gemm_float(enum kern_weight w, float *out, size_t out_stride, const uint8_t *x,
                       size_t x_stride, size_t m, const uint8_t *panels, size_t n_panels, size_t k)
{
    const size_t panel_bytes = kern_panel_bytes(w, k);

    for (size_t i = 0; i < m; i++) {
        const float *row = (const float *)(const void *)(x + i * x_stride);

        for (size_t p = 0; p < n_panels; p++)
            for (size_t lane = 0; lane < KERN_LANES; lane++)
                out[i * out_stride + 16 * p + lane] =
                    dot_float(w, row, panels + p * panel_bytes, lane, k);
    }
}

#define QUANTISED(weight, name)                                                                    \
    void kern_gemm_##name##_scalar KERN_GEMM_PARAMS                                                \
    {                                                                                              \
        (void)next; \
        gemm_quantised(weight, dot_##name, out, out_stride, x, x_stride, m, panels, n_panels, k);  \
    }
#define FLOAT(weight, name)                                                                        \
    void kern_gemm_##name##_scalar KERN_GEMM_PARAMS                                                \
    {                                                                                              \
        (void)next; \
        gemm_float(weight, out, out_stride, x, x_stride, m, panels, n_panels, k);                  \
    }

FLOAT(KERN_F32, f32)
FLOAT(KERN_F16, f16)
FLOAT(KERN_BF16, bf16)
QUANTISED(KERN_Q8_0, q8_0)
QUANTISED(KERN_Q4_0, q4_0)
QUANTISED(KERN_Q4_K, q4_k)
QUANTISED(KERN_Q6_K, q6_k)
QUANTISED(KERN_Q4_1, q4_1)
QUANTISED(KERN_Q5_0, q5_0)
QUANTISED(KERN_Q5_1, q5_1)
QUANTISED(KERN_Q5_K, q5_k)
QUANTISED(KERN_Q3_K, q3_k)
QUANTISED(KERN_Q2_K, q2_k)
QUANTISED(KERN_IQ4_NL, iq4_nl)
QUANTISED(KERN_IQ4_XS, iq4_xs)
QUANTISED(KERN_MXFP4, mxfp4)
QUANTISED(KERN_TQ2_0, tq2_0)
QUANTISED(KERN_TQ1_0, tq1_0)
QUANTISED(KERN_IQ3_S, iq3_s)
QUANTISED(KERN_IQ3_XXS, iq3_xxs)
QUANTISED(KERN_IQ2_S, iq2_s)
QUANTISED(KERN_IQ2_XS, iq2_xs)
QUANTISED(KERN_IQ2_XXS, iq2_xxs)
QUANTISED(KERN_IQ1_S, iq1_s)
QUANTISED(KERN_IQ1_M, iq1_m)
QUANTISED(KERN_Q2_0, q2_0)
QUANTISED(KERN_Q1_0, q1_0)
QUANTISED(KERN_NVFP4, nvfp4)
QUANTISED(KERN_IQ4_K, iq4_k)
QUANTISED(KERN_IQ3_K, iq3_k)
QUANTISED(KERN_IQ2_K, iq2_k)
QUANTISED(KERN_IQ6_K, iq6_k)
QUANTISED(KERN_IQ5_K, iq5_k)
QUANTISED(KERN_IQ5_KS, iq5_ks)
QUANTISED(KERN_IQ4_KS, iq4_ks)
