/* core/formats/gguf/blocks_iq.c - see blocks_impl.h.
 *
 * Byte layouts; words are little-endian, and of a byte of two nibbles the low one comes first:
 *   IQ4_NL   d  qs[16], nibbles of numbers j and j + 16
 *   IQ4_XS   d  high[2], pairs  low[4], nibbles of 8 scales  qs[128], 16 bytes a group of 32
 *   MXFP4    e  qs[16] as in IQ4_NL
 *   NVFP4    e[4], a scale of each 16  qs[32], for each 16 nibbles of numbers j and j + 8
 *   Q1_0     d  qs[16], bits in order
 *   Q2_0     d  qs[16], pairs of bits in order
 *   TQ2_0    qs[64], pairs of bits of numbers j, j + 32, j + 64, j + 96 of each 128  d
 *   TQ1_0    qs[48]  qh[4]  d: five ternary digits in a byte, of qh four
 *   IQ3_S    d  qs[64]  qh[8], ninth bits  signs[32]  scales[4]
 *   IQ3_XXS  d  qs[64]  8 words: four times seven signs, a scale
 *   IQ2_S    d  qs[32]  signs[32]  qh[8], pairs of high bits  scales[8]
 *   IQ2_XS   d  32 half words: nine bits of index, seven signs  scales[8]
 *   IQ2_XXS  d  8 times four bytes of index and a word as in IQ3_XXS
 *   IQ1_S    d  qs[32]  8 half words: four times three high bits, three of scale, one of shift
 *   IQ1_M    qs[32]  qh[16], nibbles of three high bits and one of shift  4 half words: four times
 *            three bits of scale and four bits of d
 * An index picks a pattern of four numbers (IQ3) or eight from the codebook
 * (kernels/gemm/codebook.h).
 */
#include "core/formats/gguf/blocks_impl.h"

#include <math.h>
#include <string.h>

#include "kernels/gemm/codebook.h"

#define QK 256

static const int8_t TABLE_IQ4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t TABLE_E2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const float MAGNITUDE_IQ3_XXS[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const float MAGNITUDE_IQ3_S[8] = {1, 3, 5, 7, 9, 11, 13, 15};
static const float MAGNITUDE_IQ2[4] = {8, 25, 43, 0};

/* Decode 32 values by a table of 16: byte j of qs has the index of value j in its low nibble, that
 * of value j + 16 in its high one. */
static void table_numbers(float *dst, float d, const int8_t *table, const uint8_t *qs)
{
    for (int j = 0; j < 16; j++) {
        dst[j] = d * (float)table[qs[j] & 15];
        dst[j + 16] = d * (float)table[qs[j] >> 4];
    }
}

void blocks_decode_iq4_nl(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 18, dst += 32)
        table_numbers(dst, blocks_load_f16(src), TABLE_IQ4, src + 2);
}

void blocks_decode_iq4_xs(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 136, dst += QK) {
        const float d = blocks_load_f16(src);

        for (int g = 0; g < 8; g++) {
            const uint32_t high = blocks_load_16(src + 2) >> (2 * g) & 3;
            const int scale = (int)(blocks_nibble(src + 4, g) | high << 4) - 32;

            table_numbers(dst + 32 * g, d * (float)scale, TABLE_IQ4, src + 8 + 16 * g);
        }
    }
}

/* 2^(e - 128): the table has twice the numbers of E2M1, so that they are whole. The last exponent
 * means NaN. */
static float e8m0_half(uint8_t e)
{
    const uint32_t bits = e == 255 ? 0x7fc00000u : e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

void blocks_decode_mxfp4(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 17, dst += 32)
        table_numbers(dst, e8m0_half(src[0]), TABLE_E2M1, src + 1);
}

/* Return half of an e4m3 number without a sign; the sign bit is ignored, and NaN becomes 0. */
static float ue4m3_half(uint8_t x)
{
    const int e = x >> 3 & 15, m = x & 7;

    if (x == 0x7f)
        return 0.0f;
    return e == 0 ? ldexpf((float)m, -10) : ldexpf((float)(8 + m), e - 11);
}

void blocks_decode_nvfp4(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 36, dst += 64)
        for (int i = 0; i < 64; i++) {
            const int code = src[4 + i / 16 * 8 + i % 8] >> (i % 16 / 8 * 4) & 15;

            dst[i] = ue4m3_half(src[i / 16]) * (float)TABLE_E2M1[code];
        }
}

void blocks_decode_q1_0(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 18, dst += 128) {
        const float d = blocks_load_f16(src);

        for (int i = 0; i < 128; i++)
            dst[i] = src[2 + i / 8] >> i % 8 & 1 ? d : -d;
    }
}

void blocks_decode_q2_0(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 18, dst += 64) {
        const float d = blocks_load_f16(src);

        for (int i = 0; i < 64; i++)
            dst[i] = d * (float)((src[2 + i / 4] >> i % 4 * 2 & 3) - 1);
    }
}

void blocks_decode_tq2_0(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 66, dst += QK) {
        const float d = blocks_load_f16(src + 64);

        for (int i = 0; i < QK; i++) {
            const int code = src[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;

            dst[i] = d * (float)(code - 1);
        }
    }
}

/* `per` numbers for each of `digits` digits of `per` bytes; a byte is a fraction of 256 in ternary,
 * so multiplied by 3 it sheds its first digit. */
static void ternary(float *dst, float d, const uint8_t *src, int per, int digits)
{
    for (int j = 0; j < per; j++) {
        uint8_t rest = src[j];

        for (int i = 0; i < digits; i++) {
            dst[i * per + j] = d * (float)((rest * 3 >> 8) - 1);
            rest = (uint8_t)(rest * 3);
        }
    }
}

void blocks_decode_tq1_0(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 54, dst += QK) {
        const float d = blocks_load_f16(src + 52);

        ternary(dst, d, src, 32, 5);
        ternary(dst + 160, d, src + 32, 16, 5);
        ternary(dst + 240, d, src + 48, 4, 4);
    }
}

/* Decode four values; the low bits of `sign` are their signs. */
static void pattern_of_4(float *dst, float d, const float *magnitude, uint32_t pattern,
                         uint32_t sign)
{
    for (int i = 0; i < 4; i++) {
        const float x = magnitude[pattern >> (3 * i) & 7];

        dst[i] = d * (sign >> i & 1 ? -x : x);
    }
}

static void pattern_of_8(float *dst, float d, uint32_t pattern, uint32_t sign)
{
    for (int i = 0; i < 8; i++) {
        const float x = MAGNITUDE_IQ2[pattern >> (2 * i) & 3];

        dst[i] = d * (sign >> i & 1 ? -x : x);
    }
}

void blocks_decode_iq3_s(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 110, dst += QK) {
        for (int i = 0; i < 64; i++) {
            const float d = blocks_load_f16(src) * (float)(1 + 2 * blocks_nibble(src + 106, i / 8));
            const uint32_t at = src[2 + i] | (src[66 + i / 8] >> (i % 8) & 1u) << 8;

            pattern_of_4(dst + 4 * i, d, MAGNITUDE_IQ3_S, KERN_IQ3_S_GRID[at],
                         blocks_nibble(src + 74, i));
        }
    }
}

void blocks_decode_iq3_xxs(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 98, dst += QK) {
        for (int i = 0; i < 64; i++) {
            const uint32_t word = blocks_load_32(src + 66 + i / 8 * 4);
            const float d = blocks_load_f16(src) * (0.5f + (float)(word >> 28)) * 0.5f;
            const uint32_t sign = kern_even_signs(word >> (i % 8 / 2 * 7) & 127);

            pattern_of_4(dst + 4 * i, d, MAGNITUDE_IQ3_XXS, KERN_IQ3_XXS_GRID[src[2 + i]],
                         sign >> (i % 2 * 4));
        }
    }
}

void blocks_decode_iq2_s(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 82, dst += QK) {
        for (int i = 0; i < 32; i++) {
            const float scale = (float)blocks_nibble(src + 74, i / 2);
            const uint32_t at = src[2 + i] | (src[66 + i / 4] >> (i % 4 * 2) & 3u) << 8;

            pattern_of_8(dst + 8 * i, blocks_load_f16(src) * (0.5f + scale) * 0.25f,
                         KERN_IQ2_S_GRID[at], src[34 + i]);
        }
    }
}

void blocks_decode_iq2_xs(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 74, dst += QK) {
        for (int i = 0; i < 32; i++) {
            const float scale = (float)blocks_nibble(src + 66, i / 2);
            const uint32_t word = blocks_load_16(src + 2 + 2 * i);

            pattern_of_8(dst + 8 * i, blocks_load_f16(src) * (0.5f + scale) * 0.25f,
                         KERN_IQ2_XS_GRID[word & 511], kern_even_signs(word >> 9));
        }
    }
}

void blocks_decode_iq2_xxs(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 66, dst += QK) {
        for (int i = 0; i < 32; i++) {
            const uint8_t *group = src + 2 + i / 4 * 8;
            const uint32_t word = blocks_load_32(group + 4);
            const float d = blocks_load_f16(src) * (0.5f + (float)(word >> 28)) * 0.25f;

            pattern_of_8(dst + 8 * i, d, KERN_IQ2_XXS_GRID[group[i % 4]],
                         kern_even_signs(word >> (i % 4 * 7) & 127));
        }
    }
}

/* Decode eight values -1, 0 or 1, all shifted by an eighth. */
static void shifted_pattern(float *dst, float d, uint32_t pattern, bool down)
{
    for (int i = 0; i < 8; i++)
        dst[i] = d * ((float)(pattern >> (2 * i) & 3) - 1.0f + (down ? -0.125f : 0.125f));
}

void blocks_decode_iq1_s(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 50, dst += QK) {
        for (int i = 0; i < 32; i++) {
            const uint32_t word = blocks_load_16(src + 34 + i / 4 * 2);
            const float d = blocks_load_f16(src) * (float)(2 * (word >> 12 & 7) + 1);
            const uint32_t at = src[2 + i] | (word >> (i % 4 * 3) & 7) << 8;

            shifted_pattern(dst + 8 * i, d, KERN_IQ1_GRID[at], word >> 15);
        }
    }
}

void blocks_decode_iq1_m(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 56, dst += QK) {
        const uint8_t *s = src + 48;
        const uint16_t half =
            (uint16_t)(s[1] >> 4 | (s[3] & 0xf0) | (s[5] >> 4) << 8 | (s[7] >> 4) << 12);

        for (int i = 0; i < 32; i++) {
            const uint32_t scale = blocks_load_16(s + i / 8 * 2) >> (i / 2 % 4 * 3) & 7;
            const uint32_t high = blocks_nibble(src + 32, i);

            shifted_pattern(dst + 8 * i, block_f16_to_f32(half) * (float)(2 * scale + 1),
                            KERN_IQ1_GRID[src[i] | (high & 7) << 8], high >> 3);
        }
    }
}
