/* core/formats/gguf/blocks.c - the table of formats, half floats, and the formats with one scale a
 * block of 32 (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0). The 256-wide formats are in blocks_k.c, those whose
 * codes are indices of a table in blocks_iq.c and blocks_ik.c.
 *
 * In the 4- and 5-bit formats byte j of the codes holds number j in its low nibble and number
 * j + 16 in its high one; bit j of the 32-bit word `qh` is the fifth bit of number j.
 */
#include "core/formats/gguf/blocks.h"

#include "core/formats/gguf/blocks_impl.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define F16_MAX 65504.0f

typedef void decode_fn(const uint8_t *src, float *dst, size_t n_blocks);
typedef void encode_fn(const float *src, uint8_t *dst, size_t n_blocks);
typedef void scaled_fn(const uint8_t *src, float row_scale, float *dst, size_t n_blocks);

float block_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t exp = (h >> 10) & 31;
    const uint32_t mant = h & 0x3ff;
    uint32_t bits;
    float f;

    if (exp == 0) { /* zero or subnormal: mant x 2^-24 is exact in a float */
        f = (float)mant * 0x1p-24f;
        return sign ? -f : f;
    }
    if (exp == 31)
        bits = sign | 0x7f800000u | mant << 13 | (mant ? 0x400000u : 0);
    else
        bits = sign | (exp + 112) << 23 | mant << 13;
    memcpy(&f, &bits, 4);
    return f;
}

uint16_t block_f32_to_f16(float f)
{
    uint32_t bits, sign;
    float a;

    memcpy(&bits, &f, 4);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff));
    if (bits >= 0x47800000u) /* 2^16 and more: infinity */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000u) { /* below 2^-14: a sum with 0.5 rounds at 2^-24, the last place */
        a = fabsf(f) + 0.5f;
        memcpy(&bits, &a, 4);
        return (uint16_t)(sign | (bits - 0x3f000000u));
    }
    bits += 0xfff + (bits >> 13 & 1); /* to nearest, ties to even; may carry into the exponent */
    return (uint16_t)(sign | ((bits >> 13) - (112u << 10)));
}

float block_bf16_to_f32(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float f;

    memcpy(&f, &bits, 4);
    return f;
}

uint16_t block_f32_to_bf16(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffff) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40); /* a NaN whose payload is all in the low half */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Decoders. */

static void decode_f32(const uint8_t *src, float *dst, size_t n)
{
    memcpy(dst, src, n * 4);
}

static void decode_f16(const uint8_t *src, float *dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = blocks_load_f16(src + 2 * i);
}

static void decode_bf16(const uint8_t *src, float *dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = block_bf16_to_f32((uint16_t)(src[2 * i] | src[2 * i + 1] << 8));
}

static void decode_q4_0(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 18, dst += 32) {
        const float d = blocks_load_f16(src);

        for (int j = 0; j < 16; j++) {
            dst[j] = (float)((src[2 + j] & 15) - 8) * d;
            dst[j + 16] = (float)((src[2 + j] >> 4) - 8) * d;
        }
    }
}

static void decode_q4_1(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 20, dst += 32) {
        const float d = blocks_load_f16(src);
        const float m = blocks_load_f16(src + 2);

        for (int j = 0; j < 16; j++) {
            dst[j] = (float)(src[4 + j] & 15) * d + m;
            dst[j + 16] = (float)(src[4 + j] >> 4) * d + m;
        }
    }
}

/* Read the 32 codes 0..31 of a block; the 4 bytes at `qh` are the fifth bits. */
static void codes_5bit(int code[32], const uint8_t *qh, const uint8_t *qs)
{
    for (int j = 0; j < 16; j++) {
        code[j] = (qs[j] & 15) | (qh[j / 8] >> j % 8 & 1) << 4;
        code[j + 16] = qs[j] >> 4 | (qh[2 + j / 8] >> j % 8 & 1) << 4;
    }
}

static void decode_q5_0(const uint8_t *src, float *dst, size_t n)
{
    int code[32];

    for (; n > 0; n--, src += 22, dst += 32) {
        const float d = blocks_load_f16(src);

        codes_5bit(code, src + 2, src + 6);
        for (int j = 0; j < 32; j++)
            dst[j] = (float)(code[j] - 16) * d;
    }
}

static void decode_q5_1(const uint8_t *src, float *dst, size_t n)
{
    int code[32];

    for (; n > 0; n--, src += 24, dst += 32) {
        const float d = blocks_load_f16(src);
        const float m = blocks_load_f16(src + 2);

        codes_5bit(code, src + 4, src + 8);
        for (int j = 0; j < 32; j++)
            dst[j] = (float)code[j] * d + m;
    }
}

static void decode_q8_0(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 34, dst += 32) {
        const float d = blocks_load_f16(src);

        for (int j = 0; j < 32; j++)
            dst[j] = (float)(int8_t)src[2 + j] * d;
    }
}

/* Encoders. */

static void store_u16(uint8_t *dst, uint16_t v)
{
    dst[0] = (uint8_t)v;
    dst[1] = (uint8_t)(v >> 8);
}

float blocks_store_scale(uint8_t *dst, float d)
{
    const uint16_t h = block_f32_to_f16(fmaxf(-F16_MAX, fminf(F16_MAX, d)));

    store_u16(dst, h);
    return block_f16_to_f32(h);
}

int blocks_code(float x, float d, int lo, int hi)
{
    const float q = d != 0.0f ? x / d : 0.0f;

    return (int)rintf(fmaxf((float)lo, fminf((float)hi, q)));
}

float blocks_extreme(const float *x, size_t n)
{
    float best = 0.0f;

    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(best))
            best = x[i];
    return best;
}

static void encode_f32(const float *src, uint8_t *dst, size_t n)
{
    memcpy(dst, src, n * 4);
}

static void encode_f16(const float *src, uint8_t *dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        store_u16(dst + 2 * i, block_f32_to_f16(src[i]));
}

static void encode_bf16(const float *src, uint8_t *dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        store_u16(dst + 2 * i, block_f32_to_bf16(src[i]));
}

static void encode_q8_0(const float *src, uint8_t *dst, size_t n)
{
    for (; n > 0; n--, src += 32, dst += 34) {
        const float d = blocks_store_scale(dst, fabsf(blocks_extreme(src, 32)) / 127.0f);

        for (int j = 0; j < 32; j++)
            dst[2 + j] = (uint8_t)blocks_code(src[j], d, -127, 127);
    }
}

/* The number of largest magnitude becomes code -8, the code without a positive counterpart. */
static void encode_q4_0(const float *src, uint8_t *dst, size_t n)
{
    for (; n > 0; n--, src += 32, dst += 18) {
        const float d = blocks_store_scale(dst, blocks_extreme(src, 32) / -8.0f);

        for (int j = 0; j < 16; j++) {
            const int lo = blocks_code(src[j], d, -8, 7) + 8;
            const int hi = blocks_code(src[j + 16], d, -8, 7) + 8;

            dst[2 + j] = (uint8_t)(lo | hi << 4);
        }
    }
}

/* The table. */

static const struct format_row {
    uint32_t type;
    struct block_format format;
    decode_fn *decode;
    encode_fn *encode;
} formats[] = {
    {BLOCK_F32, {"F32", 1, 4, 0}, decode_f32, encode_f32},
    {BLOCK_F16, {"F16", 1, 2, 0}, decode_f16, encode_f16},
    {BLOCK_Q4_0, {"Q4_0", 32, 18, 0}, decode_q4_0, encode_q4_0},
    {BLOCK_Q4_1, {"Q4_1", 32, 20, 0}, decode_q4_1, NULL},
    {BLOCK_Q5_0, {"Q5_0", 32, 22, 0}, decode_q5_0, NULL},
    {BLOCK_Q5_1, {"Q5_1", 32, 24, 0}, decode_q5_1, NULL},
    {BLOCK_Q8_0, {"Q8_0", 32, 34, 0}, decode_q8_0, encode_q8_0},
    {BLOCK_Q2_K, {"Q2_K", 256, 84, 0}, blocks_decode_q2_k, NULL},
    {BLOCK_Q3_K, {"Q3_K", 256, 110, 0}, blocks_decode_q3_k, NULL},
    {BLOCK_Q4_K, {"Q4_K", 256, 144, 0}, blocks_decode_q4_k, blocks_encode_q4_k},
    {BLOCK_Q5_K, {"Q5_K", 256, 176, 0}, blocks_decode_q5_k, NULL},
    {BLOCK_Q6_K, {"Q6_K", 256, 210, 0}, blocks_decode_q6_k, blocks_encode_q6_k},
    {BLOCK_BF16, {"BF16", 1, 2, 0}, decode_bf16, encode_bf16},
    {BLOCK_IQ2_XXS, {"IQ2_XXS", 256, 66, 0}, blocks_decode_iq2_xxs, NULL},
    {BLOCK_IQ2_XS, {"IQ2_XS", 256, 74, 0}, blocks_decode_iq2_xs, NULL},
    {BLOCK_IQ3_XXS, {"IQ3_XXS", 256, 98, 0}, blocks_decode_iq3_xxs, NULL},
    {BLOCK_IQ1_S, {"IQ1_S", 256, 50, 0}, blocks_decode_iq1_s, NULL},
    {BLOCK_IQ4_NL, {"IQ4_NL", 32, 18, 0}, blocks_decode_iq4_nl, NULL},
    {BLOCK_IQ3_S, {"IQ3_S", 256, 110, 0}, blocks_decode_iq3_s, NULL},
    {BLOCK_IQ2_S, {"IQ2_S", 256, 82, 0}, blocks_decode_iq2_s, NULL},
    {BLOCK_IQ4_XS, {"IQ4_XS", 256, 136, 0}, blocks_decode_iq4_xs, NULL},
    {BLOCK_IQ1_M, {"IQ1_M", 256, 56, 0}, blocks_decode_iq1_m, NULL},
    {BLOCK_TQ1_0, {"TQ1_0", 256, 54, 0}, blocks_decode_tq1_0, NULL},
    {BLOCK_TQ2_0, {"TQ2_0", 256, 66, 0}, blocks_decode_tq2_0, NULL},
    {BLOCK_MXFP4, {"MXFP4", 32, 17, 0}, blocks_decode_mxfp4, NULL},
    {BLOCK_NVFP4, {"NVFP4", 64, 36, 0}, blocks_decode_nvfp4, NULL},
    {BLOCK_Q1_0, {"Q1_0", 128, 18, 0}, blocks_decode_q1_0, NULL},
    {BLOCK_Q2_0, {"Q2_0", 64, 18, 0}, blocks_decode_q2_0, NULL},
    {BLOCK_IQ2_K, {"IQ2_K", 256, 76, 0}, blocks_decode_iq2_k, NULL},
    {BLOCK_IQ3_K, {"IQ3_K", 256, 110, 0}, blocks_decode_iq3_k, NULL},
    {BLOCK_IQ4_K, {"IQ4_K", 256, 144, 0}, blocks_decode_iq4_k, NULL},
    {BLOCK_IQ5_K, {"IQ5_K", 256, 176, 0}, blocks_decode_iq5_k, NULL},
    {BLOCK_IQ6_K, {"IQ6_K", 256, 212, 0}, blocks_decode_iq6_k, NULL},
};

/* Formats whose rows have a head: a float that multiplies all numbers of the row. */
static const struct scaled_row {
    uint32_t type;
    struct block_format format;
    scaled_fn *decode;
} scaled[] = {
    {BLOCK_IQ4_KS, {"IQ4_KS", 256, 136, 4}, blocks_decode_iq4_ks},
    {BLOCK_IQ5_KS, {"IQ5_KS", 256, 168, 4}, blocks_decode_iq5_ks},
};

static const struct format_row *find_format(uint32_t type)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (formats[i].type == type)
            return &formats[i];
    return NULL;
}

static const struct scaled_row *find_scaled(uint32_t type)
{
    for (size_t i = 0; i < sizeof(scaled) / sizeof(scaled[0]); i++)
        if (scaled[i].type == type)
            return &scaled[i];
    return NULL;
}

const struct block_format *block_format(uint32_t type)
{
    const struct format_row *row = find_format(type);
    const struct scaled_row *other = row == NULL ? find_scaled(type) : NULL;

    if (row != NULL)
        return &row->format;
    return other != NULL ? &other->format : NULL;
}

uint64_t block_row_bytes(const struct block_format *f, uint64_t n)
{
    return f->head + n / f->elems * f->bytes;
}

void block_decode_part(enum block_type type, const void *row, size_t first, float *dst, size_t n)
{
    const struct block_format *f = block_format(type);
    const struct scaled_row *s = find_scaled(type);
    const uint8_t *src = row;
    float d;

    assert(f != NULL && first % f->elems == 0 && n % f->elems == 0);
    src += block_row_bytes(f, first);
    if (s == NULL) {
        find_format(type)->decode(src, dst, n / f->elems);
        return;
    }
    memcpy(&d, row, sizeof(d));
    s->decode(src, d, dst, n / f->elems);
}

void block_decode(enum block_type type, const void *src, float *dst, size_t n)
{
    block_decode_part(type, src, 0, dst, n);
}

bool block_encode(enum block_type type, const float *src, void *dst, size_t n)
{
    const struct format_row *row = find_format(type);

    if (row == NULL || row->encode == NULL)
        return false;
    assert(n % row->format.elems == 0);
    row->encode(src, dst, n / row->format.elems);
    return true;
}
