/* kernels/gemm/unpack.c - one row out of a panel, as floats: the embedding look-up.
 *
 * The plain inverse of pack.c, number by number: a step asks for a row per token.
 */
#include <string.h>

#include "kernels/gemm/panel_values.h"
#include "kernels/kern_math.h"
#include "kernels/kernels_impl.h"

static uint8_t nibble_at(const uint8_t *src, size_t lane, size_t i)
{
    const uint8_t b = src[i % 16 / 4 * 64 + lane * 4 + i % 4];

    return i < 16 ? b & 15 : b >> 4;
}

static uint8_t pair_at(const uint8_t *src, size_t lane, size_t i)
{
    return src[i / 16 * 64 + lane * 4 + i % 4] >> (i % 16 / 4 * 2) & 3;
}

static uint8_t top_at(const uint8_t *src, size_t lane, size_t i)
{
    return src[lane * 4 + i % 4] >> (i / 4) & 1;
}

/* One group of one lane, as floats. */

static void unpack_q8_0(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)(src[32 + i / 4 * 64 + lane * 4 + i % 4] - 128);
}

static void unpack_q4_0(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)(nibble_at(src + 32, lane, i) - 8);
}

static void unpack_q4_k(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float dmin = kern_load_f16(src + KERN_Q4_K_DMIN + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const size_t g = i / 32;
        const float sc = d * (float)src[KERN_Q4_K_SC + 16 * g + lane];
        const float mn = dmin * (float)src[KERN_Q4_K_MN + 16 * g + lane];

        out[i] = sc * (float)nibble_at(src + KERN_Q4_K_CODES + 256 * g, lane, i % 32) - mn;
    }
}

static void unpack_q6_k(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const uint8_t *codes = src + KERN_Q6_K_CODES + KERN_Q6_K_SUB * (i / 32);
        const int pair = pair_at(codes + KERN_Q6_K_HIGH, lane, i % 32);
        const float sc = d * (float)(int8_t)src[KERN_Q6_K_SC + 16 * (i / 16) + lane];

        out[i] = sc * (float)((nibble_at(codes, lane, i % 32) | pair << 4) - 32);
    }
}

static void unpack_q4_1(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float m = kern_load_f16(src + KERN_Q4_1_MIN + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)nibble_at(src + KERN_Q4_1_CODES, lane, i) + m;
}

static int code_5_bits(const uint8_t *codes, size_t lane, size_t i)
{
    return nibble_at(codes, lane, i) | top_at(codes + KERN_TOP, lane, i) << 4;
}

static void unpack_q5_0(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)(code_5_bits(src + KERN_Q5_0_CODES, lane, i) - 16);
}

static void unpack_q5_1(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float m = kern_load_f16(src + KERN_Q4_1_MIN + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)code_5_bits(src + KERN_Q4_1_CODES, lane, i) + m;
}

static void unpack_q5_k(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float dmin = kern_load_f16(src + KERN_Q4_K_DMIN + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const size_t g = i / 32;
        const uint8_t *codes = src + KERN_Q4_K_CODES + KERN_Q5_K_SUB * g;
        const float sc = d * (float)src[KERN_Q4_K_SC + 16 * g + lane];
        const float mn = dmin * (float)src[KERN_Q4_K_MN + 16 * g + lane];

        out[i] = sc * (float)code_5_bits(codes, lane, i % 32) - mn;
    }
}

static void unpack_q3_k(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const uint8_t *codes = src + KERN_Q6_K_CODES + KERN_Q3_K_SUB * (i / 32);
        const int top = top_at(codes + KERN_Q3_K_TOP, lane, i % 32);
        const float sc = d * (float)(int8_t)src[KERN_Q6_K_SC + 16 * (i / 16) + lane];

        out[i] = sc * (float)((pair_at(codes, lane, i % 32) | top << 2) - 4);
    }
}

static void unpack_q2_k(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float dmin = kern_load_f16(src + KERN_Q2_K_DMIN + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const uint8_t *codes = src + KERN_Q2_K_CODES + KERN_Q2_K_SUB * (i / 32);
        const uint8_t sm = src[KERN_Q2_K_SM + 16 * (i / 16) + lane];

        out[i] = d * (float)(sm & 15) * (float)pair_at(codes, lane, i % 32) -
                 dmin * (float)(sm >> 4);
    }
}

/* A block of the types whose codes stand for numbers. All products and sums are exact. */
static void unpack_values(enum kern_weight w, float *out, const uint8_t *src, size_t lane)
{
    for (size_t i = 0; i < kern_weight_group(w); i++) {
        const size_t g = i / 32;
        const float d = kern_value_scale(w, src, g, i % 32 / 16, lane);

        out[i] = d * (float)kern_value(w, src, g, lane, i % 32);
    }
}

/* The shift goes into the number before it meets d, so that a zero has the number's sign. */
static void unpack_iq1_s(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const int sc = 2 * (kern_scale_nibble(src, i / 32, lane) & 7) + 1;
        const int n = 8 * sc * kern_value(KERN_IQ1_S, src, i / 32, lane, i % 32);

        out[i] = d * (float)(n + kern_value_shift(src, i / 32, lane)) * 0.125f;
    }
}

void kern_unpack_row(enum kern_weight w, const void *panel, size_t lane, float *out, size_t k)
{
    const size_t group = kern_weight_group(w);
    const size_t bytes = kern_panel_bytes(w, group);
    const uint8_t *src = panel;

    for (size_t i = 0; i < k; i += group, src += bytes) {
        switch (w) {
        case KERN_F32:
            memcpy(out + i, src + 4 * lane, sizeof *out);
            break;
        case KERN_F16:
            out[i] = kern_load_f16(src + 2 * lane);
            break;
        case KERN_BF16:
            out[i] = kern_bf16_to_f32(kern_load16(src + 2 * lane));
            break;
        case KERN_Q8_0:
            unpack_q8_0(out + i, src, lane);
            break;
        case KERN_Q4_0:
            unpack_q4_0(out + i, src, lane);
            break;
        case KERN_Q4_K:
            unpack_q4_k(out + i, src, lane);
            break;
        case KERN_Q6_K:
            unpack_q6_k(out + i, src, lane);
            break;
        case KERN_Q4_1:
            unpack_q4_1(out + i, src, lane);
            break;
        case KERN_Q5_0:
            unpack_q5_0(out + i, src, lane);
            break;
        case KERN_Q5_1:
            unpack_q5_1(out + i, src, lane);
            break;
        case KERN_Q5_K:
            unpack_q5_k(out + i, src, lane);
            break;
        case KERN_Q3_K:
            unpack_q3_k(out + i, src, lane);
            break;
        case KERN_Q2_K:
            unpack_q2_k(out + i, src, lane);
            break;
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
            unpack_values(w, out + i, src, lane);
            break;
        case KERN_IQ1_S:
            unpack_iq1_s(out + i, src, lane);
            break;
        case KERN_N_WEIGHT:
            break;
        }
    }
}
