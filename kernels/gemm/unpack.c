/* kernels/gemm/unpack.c - reads one row of a panel as floats, for the embedding look-up.
 *
 * The inverse of pack.c, value by value. It is not vectorised, because a step reads only one row
 * per token.
 */
#include <string.h>

#include "kernels/gemm/gemm_common.h"
#include "kernels/gemm/panel_values.h"
#include "kernels/kern_math.h"
#include "kernels/kernels_impl.h"

/* The functions below unpack one group of one lane as floats; inlined with `code` known. */

GEMM_INLINE void unpack_scaled(float *out, const uint8_t *src, size_t lane, kern_code_fn code,
                               int offset)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)(code(src + 32, lane, i) - offset);
}

GEMM_INLINE void unpack_minimum(float *out, const uint8_t *src, size_t lane, kern_code_fn code)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float m = kern_load_f16(src + KERN_Q4_1_MIN + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)code(src + KERN_Q4_1_CODES, lane, i) + m;
}

GEMM_INLINE void unpack_k_minimum(float *out, const uint8_t *src, size_t lane, kern_code_fn code,
                                  size_t sub_bytes)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float dmin = kern_load_f16(src + KERN_Q4_K_DMIN + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const size_t g = i / 32;
        const float sc = d * (float)src[KERN_Q4_K_SC + 16 * g + lane];
        const float mn = dmin * (float)src[KERN_Q4_K_MN + 16 * g + lane];

        out[i] = sc * (float)code(src + KERN_Q4_K_CODES + sub_bytes * g, lane, i % 32) - mn;
    }
}

GEMM_INLINE void unpack_halves(float *out, const uint8_t *src, size_t lane, kern_code_fn code,
                               int offset, size_t sub_bytes)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const uint8_t *codes = src + KERN_Q6_K_CODES + sub_bytes * (i / 32);
        const float sc = d * (float)(int8_t)src[KERN_Q6_K_SC + 16 * (i / 16) + lane];

        out[i] = sc * (float)(code(codes, lane, i % 32) - offset);
    }
}

static void unpack_q2_k(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float dmin = kern_load_f16(src + KERN_Q2_K_DMIN + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const uint8_t *codes = src + KERN_Q2_K_CODES + KERN_Q2_K_SUB * (i / 32);
        const uint8_t sm = src[KERN_Q2_K_SM + 16 * (i / 16) + lane];

        out[i] = d * (float)(sm & 15) * (float)kern_code_2(codes, lane, i % 32) -
                 dmin * (float)(sm >> 4);
    }
}

/* Unpack a block of a type whose codes stand for numbers. All products and sums are exact, except
 * IQ6_K's last product and those with a row's scale. */
static void unpack_values(enum kern_weight w, float *out, const uint8_t *src, size_t lane)
{
    for (size_t i = 0; i < kern_weight_group(w); i++) {
        const size_t g = i / 32;
        const float d = kern_value_scale(w, src, g, i % 32 / 16, lane);

        out[i] = d * (float)kern_value(w, src, g, lane, i % 32);
    }
}

/* Unpack a block of IQ1_S. The shift is added to the number before it is multiplied by d, so that a
 * zero has the number's sign. */
static void unpack_iq1_s(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const int sc = 2 * (kern_scale_nibble(src, i / 32, lane) & 7) + 1;
        const int n = 8 * sc * kern_value(KERN_IQ1_S, src, i / 32, lane, i % 32);

        out[i] = d * (float)(n + kern_value_shift(src, i / 32, lane)) * 0.125f;
    }
}

static void unpack_group(enum kern_weight w, float *out, const uint8_t *src, size_t lane)
{
    switch (w) {
    case KERN_F32:
        memcpy(out, src + 4 * lane, sizeof *out);
        return;
    case KERN_F16:
        *out = kern_load_f16(src + 2 * lane);
        return;
    case KERN_BF16:
        *out = kern_load_bf16(src + 2 * lane);
        return;
    case KERN_Q8_0:
        unpack_scaled(out, src, lane, kern_code_8, 128);
        return;
    case KERN_Q4_0:
        unpack_scaled(out, src, lane, kern_code_4, 8);
        return;
    case KERN_Q5_0:
        unpack_scaled(out, src, lane, kern_code_5, 16);
        return;
    case KERN_Q4_1:
        unpack_minimum(out, src, lane, kern_code_4);
        return;
    case KERN_Q5_1:
        unpack_minimum(out, src, lane, kern_code_5);
        return;
    case KERN_Q4_K:
        unpack_k_minimum(out, src, lane, kern_code_4, KERN_Q4_K_SUB);
        return;
    case KERN_Q5_K:
        unpack_k_minimum(out, src, lane, kern_code_5, KERN_Q5_K_SUB);
        return;
    case KERN_Q6_K:
        unpack_halves(out, src, lane, kern_code_6, 32, KERN_Q6_K_SUB);
        return;
    case KERN_Q3_K:
        unpack_halves(out, src, lane, kern_code_3, 4, KERN_Q3_K_SUB);
        return;
    case KERN_Q2_K:
        unpack_q2_k(out, src, lane);
        return;
    case KERN_IQ1_S:
        unpack_iq1_s(out, src, lane);
        return;
    case KERN_IQ4_NL:
    case KERN_IQ4_XS:
    case KERN_MXFP4:
    case KERN_TQ2_0:
    case KERN_TQ1_0:
    case KERN_IQ3_S:
    case KERN_IQ3_XXS:
    case KERN_IQ2_S:
    case KERN_IQ2_XS:
    case KERN_IQ2_XXS:
    case KERN_IQ1_M:
    case KERN_Q2_0:
    case KERN_Q1_0:
    case KERN_NVFP4:
    case KERN_IQ4_K:
    case KERN_IQ3_K:
    case KERN_IQ2_K:
    case KERN_IQ6_K:
    case KERN_IQ5_K:
    case KERN_IQ5_KS:
    case KERN_IQ4_KS:
        unpack_values(w, out, src, lane);
        return;
    case KERN_N_WEIGHT:
        return;
    }
}

void kern_unpack_row(enum kern_weight w, const void *panel, size_t lane, float *out, size_t k)
{
    const size_t group = kern_weight_group(w);
    const size_t bytes = kern_panel_bytes(w, group);
    const uint8_t *src = panel;

    for (size_t i = 0; i < k; i += group, src += bytes)
        unpack_group(w, out + i, src, lane);
}
