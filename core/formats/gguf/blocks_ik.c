/* core/formats/gguf/blocks_ik.c - see blocks_impl.h.
 *
 * The formats of ik_llama.cpp. A code stands for a number of a table, or of the same table with all
 * numbers greater by a few: which of the two, a bit says for each part of a block. Byte layouts;
 * words are little-endian, and of a byte of two nibbles the low one comes first:
 *   IQ2_K    d  shifts, a bit for each 16  scales[8], nibbles  qs[64], pairs of bits of numbers j,
 *            j + 32, j + 64, j + 96 of each 128
 *   IQ3_K    d  shifts  signs, bits  scales[8], nibbles  qs[64] as in IQ2_K
 *            qh[32], bit g is of group g of 32
 *   IQ4_K    d  shifts  high[4], pairs  low[8], nibbles of scales  qs[128], 16 bytes a group of 32
 *   IQ5_K    d  shifts  high[4]  low[8]  qs[128], nibbles of numbers j and j + 32 of each 64
 *            qh[32] as in IQ3_K
 *   IQ6_K    d  shifts  scales[16], signed bytes  qs[128] as in IQ5_K  qh[64] as qs of IQ2_K
 * Of these two a row begins with a float d, which is no part of its blocks:
 *   IQ4_KS   scales[8], a byte for each 32 whose lowest bit is the shift  qs[128] as in IQ4_K
 *   IQ5_KS   scales[8]  qs[128]  qh[32] as in IQ5_K
 *
 * Source: github.com/ikawrakow/ik_llama.cpp, ggml-common.h and iqk_quantize.cpp. Numbers of IQ6_K
 * are those of its products, a table; its conversion to floats makes them by a cubic polynomial
 * that the table rounds.
 */
#include "core/formats/gguf/blocks_impl.h"

#define QK 256

static const int8_t TABLE_2[4] = {-31, -13, 1, 17};
static const int8_t TABLE_3[8] = {-63, -40, -23, -10, 1, 13, 28, 47};
static const int8_t TABLE_4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t TABLE_5[32] = {-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36,
                                   -30,  -24,  -18,  -12, -6,  -1,  5,   11,  17,  23,  29,
                                   36,   43,   51,   59,  68,  77,  87,  97,  109, 121};
static const int8_t TABLE_6[64] = {
    -127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54,
    -51,  -47,  -44,  -40,  -37,  -34, -31, -28, -25, -22, -19, -16, -13, -11, -8,  -5,
    -2,   0,    3,    6,    9,    12,  14,  17,  20,  23,  27,  30,  33,  36,  40,  44,
    47,   51,   55,   59,   63,   68,  72,  77,  82,  87,  92,  98,  103, 109, 115, 121};

/* Return a table's value, plus `shift` if the half's bit in the 16-bit word at src + 2 is set. */
static float shifted(const uint8_t *src, int half, const int8_t *table, uint32_t code, int shift)
{
    return (float)(table[code] + ((blocks_load_16(src + 2) >> half & 1) != 0 ? shift : 0));
}

/* Return value i's pair of bits, in formats where four groups of 32 share 32 bytes. */
static uint32_t pair(const uint8_t *qs, int i)
{
    return qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

/* Return value i's bit, in formats where eight groups of 32 share 32 bytes. */
static uint32_t top_bit(const uint8_t *qh, int i)
{
    return qh[i % 32] >> (i / 32) & 1;
}

/* Return value i's nibble, in formats where two groups of 32 share 32 bytes. */
static uint32_t nibble_of_64(const uint8_t *qs, int i)
{
    return qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

/* Return value i's nibble, in formats where each group of 32 has 16 bytes. */
static uint32_t nibble_of_32(const uint8_t *qs, int i)
{
    return qs[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4) & 15;
}

/* Return the six-bit scale of half h: IQ4_K, IQ5_K. */
static int six_bits(const uint8_t *src, int h)
{
    const uint32_t high = blocks_load_32(src + 4) >> 2 * h & 3;

    return (int)(blocks_nibble(src + 8, h) | high << 4) - 32;
}

void blocks_decode_iq2_k(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 76, dst += QK) {
        const float d = blocks_load_f16(src);

        for (int i = 0; i < QK; i++) {
            const int scale = (int)blocks_nibble(src + 4, i / 16) - 8;

            dst[i] = d * (float)scale * shifted(src, i / 16, TABLE_2, pair(src + 12, i), 5);
        }
    }
}

void blocks_decode_iq3_k(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 110, dst += QK) {
        const float d = blocks_load_f16(src);

        for (int i = 0; i < QK; i++) {
            const uint32_t code = pair(src + 14, i) | top_bit(src + 78, i) << 2;
            const int scale = 2 * (int)blocks_nibble(src + 6, i / 16) + 1;
            const bool is_minus = (blocks_load_16(src + 4) >> (i / 16) & 1) != 0;

            dst[i] = d * (float)(is_minus ? -scale : scale) *
                     shifted(src, i / 16, TABLE_3, code, 4);
        }
    }
}

void blocks_decode_iq4_k(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 144, dst += QK) {
        const float d = blocks_load_f16(src);

        for (int i = 0; i < QK; i++)
            dst[i] = d * (float)six_bits(src, i / 16) *
                     shifted(src, i / 16, TABLE_4, nibble_of_32(src + 16, i), 4);
    }
}

void blocks_decode_iq5_k(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 176, dst += QK) {
        const float d = blocks_load_f16(src);

        for (int i = 0; i < QK; i++) {
            const uint32_t code = nibble_of_64(src + 16, i) | top_bit(src + 144, i) << 4;

            dst[i] = d * (float)six_bits(src, i / 16) * shifted(src, i / 16, TABLE_5, code, 2);
        }
    }
}

void blocks_decode_iq6_k(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 212, dst += QK) {
        const float d = blocks_load_f16(src);

        for (int i = 0; i < QK; i++) {
            const uint32_t code = nibble_of_64(src + 20, i) | pair(src + 148, i) << 4;

            dst[i] = d * (float)(int8_t)src[4 + i / 16] * shifted(src, i / 16, TABLE_6, code, 1);
        }
    }
}

/* Return the scale of a group: its byte times the row's scale. */
static float scale_of(uint8_t byte, float row_scale)
{
    return row_scale * (float)((byte & 254) - 127);
}

void blocks_decode_iq4_ks(const uint8_t *src, float row_scale, float *dst, size_t n)
{
    for (; n > 0; n--, src += 136, dst += QK)
        for (int i = 0; i < QK; i++) {
            const uint8_t sc = src[i / 32];
            const int number = TABLE_4[nibble_of_32(src + 8, i)] + (sc & 1) * 4;

            dst[i] = scale_of(sc, row_scale) * (float)number;
        }
}

void blocks_decode_iq5_ks(const uint8_t *src, float row_scale, float *dst, size_t n)
{
    for (; n > 0; n--, src += 168, dst += QK)
        for (int i = 0; i < QK; i++) {
            const uint8_t sc = src[i / 32];
            const uint32_t code = nibble_of_64(src + 8, i) | top_bit(src + 136, i) << 4;

            dst[i] = scale_of(sc, row_scale) * (float)(TABLE_5[code] + (sc & 1) * 2);
        }
}
