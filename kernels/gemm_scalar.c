/* kernels/gemm_scalar.c - matrix products: the definition, one output element at a time. */
#include "kernels/kern_internal.h"
#include "kernels/kern_math.h"

/* One output element: quantised row x times lane `lane` of a panel with n_groups groups. */
typedef float (*dot_fn)(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k);

static int nibble(const uint8_t *codes, size_t lane, size_t i)
{
    const uint8_t b = codes[i % 16 / 4 * 64 + lane * 4 + i % 4];

    return i < 16 ? b & 15 : b >> 4;
}

static float dot_q8_0(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    float s = 0;

    for (size_t g = 0; g < k / 32; g++, panel += KERN_Q8_0_GROUP) {
        const float d = kern_load_f16(panel + 2 * lane);
        int32_t n = 0;

        for (size_t i = 0; i < 32; i++)
            n += (panel[32 + i / 4 * 64 + lane * 4 + i % 4] - 128) * x->code[32 * g + i];
        s = fmaf((float)n, d * x->scale[g], s);
    }
    return s;
}

static float dot_q4_0(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    float s = 0;

    for (size_t g = 0; g < k / 32; g++, panel += KERN_Q4_0_GROUP) {
        const float d = kern_load_f16(panel + 2 * lane);
        int32_t n = 0;

        for (size_t i = 0; i < 32; i++)
            n += (nibble(panel + 32, lane, i) - 8) * x->code[32 * g + i];
        s = fmaf((float)n, d * x->scale[g], s);
    }
    return s;
}

static float dot_q4_k(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    float s = 0;

    for (size_t g = 0; g < k / 32; g++) {
        const uint8_t *super = panel + g / 8 * KERN_Q4_K_GROUP;
        const uint8_t *codes = super + KERN_Q4_K_CODES + g % 8 * 256;
        const float d = kern_load_f16(super + 2 * lane);
        const float dmin = kern_load_f16(super + KERN_Q4_K_DMIN + 2 * lane);
        const float sc = super[KERN_Q4_K_SC + g % 8 * 16 + lane];
        const float mn = super[KERN_Q4_K_MN + g % 8 * 16 + lane];
        const int32_t sum = x->sum[2 * g] + x->sum[2 * g + 1];
        int32_t n = 0;

        for (size_t i = 0; i < 32; i++)
            n += nibble(codes, lane, i) * x->code[32 * g + i];
        s = fmaf((float)n, (d * sc) * x->scale[g], s);
        s = fmaf(-(dmin * mn), x->scale[g] * (float)sum, s);
    }
    return s;
}

static float dot_q6_k(const struct kern_qrow *x, const uint8_t *panel, size_t lane, size_t k)
{
    float s = 0;

    for (size_t g = 0; g < k / 32; g++) {
        const uint8_t *super = panel + g / 8 * KERN_Q6_K_GROUP;
        const uint8_t *codes = super + KERN_Q6_K_CODES + g % 8 * KERN_Q6_K_SUB;
        const uint8_t *scales = super + KERN_Q6_K_SC + g % 8 * 32 + lane;
        const float d = kern_load_f16(super + 2 * lane);
        int32_t n = 0;

        for (size_t i = 0; i < 32; i++) {
            const uint8_t high = codes[KERN_Q6_K_HIGH + i / 16 * 64 + lane * 4 + i % 4];
            const int pair = high >> (i % 16 / 4 * 2) & 3;
            const int code = (nibble(codes, lane, i) | pair << 4) - 32;

            n += (int8_t)scales[i / 16 * 16] * code * x->code[32 * g + i];
        }
        s = fmaf((float)n, d * x->scale[g], s);
    }
    return s;
}

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

/* Element (j, lane) of a float panel. */
static float weight_at(enum kern_weight w, const uint8_t *panel, size_t j, size_t lane)
{
    const size_t i = j * KERN_LANES + lane;

    if (w == KERN_F32)
        return ((const float *)(const void *)panel)[i];
    return w == KERN_F16 ? kern_load_f16(panel + 2 * i)
                         : kern_bf16_to_f32(kern_load16(panel + 2 * i));
}

static float dot_float(enum kern_weight w, const float *x, const uint8_t *panel, size_t lane,
                       size_t k)
{
    float s = 0;

    for (size_t j0 = 0; j0 < k; j0 += 256) {
        const size_t end = j0 + 256 < k ? j0 + 256 : k;
        float c = 0;

        for (size_t j = j0; j < end; j++)
            c = fmaf(x[j], weight_at(w, panel, j, lane), c);
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
        gemm_quantised(weight, dot_##name, out, out_stride, x, x_stride, m, panels, n_panels, k);  \
    }
#define FLOAT(weight, name)                                                                        \
    void kern_gemm_##name##_scalar KERN_GEMM_PARAMS                                                \
    {                                                                                              \
        gemm_float(weight, out, out_stride, x, x_stride, m, panels, n_panels, k);                  \
    }

FLOAT(KERN_F32, f32)
FLOAT(KERN_F16, f16)
FLOAT(KERN_BF16, bf16)
QUANTISED(KERN_Q8_0, q8_0)
QUANTISED(KERN_Q4_0, q4_0)
QUANTISED(KERN_Q4_K, q4_k)
QUANTISED(KERN_Q6_K, q6_k)
