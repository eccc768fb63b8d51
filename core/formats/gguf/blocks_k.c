/* core/formats/gguf/blocks_k.c - see blocks_impl.h.
 *
 * A block holds 256 numbers in groups of 16 or 32 with small integer scales of their own, which
 * one or two f16 numbers multiply. Byte layouts:
 *   Q2_K   scales[16] (scale | min << 4)  qs[64]  d  dmin
 *   Q3_K   hmask[32]  qs[64]  scales[12]  d
 *   Q4_K   d  dmin  scales[12]  qs[128]
 *   Q5_K   d  dmin  scales[12]  qh[32]  qs[128]
 *   Q6_K   ql[128]  qh[64]  scales[16] (signed)  d
 * The two-bit planes (Q2_K, Q3_K) pack numbers l, l+32, l+64, l+96 of each half of 128 into byte
 * l; the nibbles of Q4_K and Q5_K pack numbers l and l+32 of each 64; those of Q6_K l and l+64 of
 * each 128.
 */
#include "core/formats/gguf/blocks_impl.h"

#include <math.h>
#include <string.h>

#define QK 256

/* Return value i (0..255) of the two-bit planes. */
static int plane2(const uint8_t *qs, int i)
{
    return qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

void blocks_decode_q2_k(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 84, dst += QK) {
        const float d = blocks_load_f16(src + 80);
        const float dmin = blocks_load_f16(src + 82);

        for (int i = 0; i < QK; i++) {
            const uint8_t s = src[i / 16];

            dst[i] = d * (float)(s & 15) * (float)plane2(src + 16, i) - dmin * (float)(s >> 4);
        }
    }
}

/* Scale j of the 16 six-bit scales in 12 bytes: low nibbles in bytes 0-7, then bit pairs. */
static int scale_q3(const uint8_t *s, int j)
{
    const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;

    return (low | (s[8 + j % 4] >> (j / 4 * 2) & 3) << 4) - 32;
}

void blocks_decode_q3_k(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 110, dst += QK) {
        const float d = blocks_load_f16(src + 108);

        for (int i = 0; i < QK; i++) {
            const int high = src[i % 32] >> (i / 32) & 1; /* a clear bit takes 4 away */
            const int q = plane2(src + 32, i) - (high ? 0 : 4);

            dst[i] = d * (float)scale_q3(src + 96, i / 16) * (float)q;
        }
    }
}

/* The six-bit scale and minimum of group j of Q4_K and Q5_K: those of groups 0-3 in the low bits
 * of bytes 0-3 and 4-7; groups 4-7 have their nibbles in bytes 8-11 and the rest on top of the
 * first eight bytes. */
static void scale_min(const uint8_t *s, int j, float *scale, float *min)
{
    if (j < 4) {
        *scale = (float)(s[j] & 63);
        *min = (float)(s[j + 4] & 63);
    } else {
        *scale = (float)((s[j + 4] & 15) | s[j - 4] >> 6 << 4);
        *min = (float)(s[j + 4] >> 4 | s[j] >> 6 << 4);
    }
}

void blocks_decode_q4_k(const uint8_t *src, float *dst, size_t n)
{
    float scale, min;

    for (; n > 0; n--, src += 144, dst += QK) {
        const float d = blocks_load_f16(src);
        const float dmin = blocks_load_f16(src + 2);

        for (int g = 0; g < 8; g++) {
            const uint8_t *qs = src + 16 + g / 2 * 32;

            scale_min(src + 4, g, &scale, &min);
            for (int l = 0; l < 32; l++)
                dst[g * 32 + l] = d * scale * (float)(qs[l] >> (g % 2 * 4) & 15) - dmin * min;
        }
    }
}

void blocks_decode_q5_k(const uint8_t *src, float *dst, size_t n)
{
    float scale, min;

    for (; n > 0; n--, src += 176, dst += QK) {
        const float d = blocks_load_f16(src);
        const float dmin = blocks_load_f16(src + 2);
        const uint8_t *qh = src + 16;

        for (int g = 0; g < 8; g++) {
            const uint8_t *qs = src + 48 + g / 2 * 32;

            scale_min(src + 4, g, &scale, &min);
            for (int l = 0; l < 32; l++) {
                const int q = (qs[l] >> (g % 2 * 4) & 15) | (qh[l] >> g & 1) << 4;

                dst[g * 32 + l] = d * scale * (float)q - dmin * min;
            }
        }
    }
}

void blocks_decode_q6_k(const uint8_t *src, float *dst, size_t n)
{
    for (; n > 0; n--, src += 210, dst += QK) {
        const float d = blocks_load_f16(src + 208);

        for (int i = 0; i < QK; i++) {
            const int h = i / 128; /* half */
            const int r = i % 128; /* place in the half */
            const int low = src[h * 64 + r % 64] >> (r / 64 * 4) & 15;
            const int high = src[128 + h * 32 + r % 32] >> (r / 32 * 2) & 3;
            const int scale = (int8_t)src[192 + i / 16];

            dst[i] = d * (float)scale * (float)((low | high << 4) - 32);
        }
    }
}

/* Encoders. */

/* fmaxf() and fminf() may give either zero where one is negative; these give a, everywhere. */
static float larger(float a, float b)
{
    return b > a || isnan(a) ? b : a;
}

static float smaller(float a, float b)
{
    return b < a || isnan(a) ? b : a;
}

static float group_min(const float *x, int n)
{
    float min = 0.0f; /* the format cannot express a positive minimum */

    for (int i = 0; i < n; i++)
        min = smaller(min, x[i]);
    return min;
}

static float group_max(const float *x, int n)
{
    float max = x[0];

    for (int i = 1; i < n; i++)
        max = larger(max, x[i]);
    return max;
}

static void put_scale_min(uint8_t *s, int j, int scale, int min)
{
    if (j < 4) {
        s[j] = (uint8_t)(s[j] | scale);
        s[j + 4] = (uint8_t)(s[j + 4] | min);
    } else {
        s[j + 4] = (uint8_t)((scale & 15) | (min & 15) << 4);
        s[j - 4] = (uint8_t)(s[j - 4] | scale >> 4 << 6);
        s[j] = (uint8_t)(s[j] | min >> 4 << 6);
    }
}

/* Encode one group of 32 with a step and an offset that are already in stored precision. */
static void put_nibbles(uint8_t *qs, const float *x, int g, float step, float offset)
{
    for (int l = 0; l < 32; l++)
        qs[l] = (uint8_t)(qs[l] | blocks_code(x[l] + offset, step, 0, 15) << (g % 2 * 4));
}

void blocks_encode_q4_k(const float *src, uint8_t *dst, size_t n)
{
    float step[8], offset[8];

    for (; n > 0; n--, src += QK, dst += 144) {
        float d, dmin;

        memset(dst, 0, 144);
        for (int g = 0; g < 8; g++) {
            offset[g] = -group_min(src + g * 32, 32);
            step[g] = larger(0.0f, group_max(src + g * 32, 32) + offset[g]) / 15.0f;
        }
        d = blocks_store_scale(dst, group_max(step, 8) / 63.0f);
        dmin = blocks_store_scale(dst + 2, group_max(offset, 8) / 63.0f);
        for (int g = 0; g < 8; g++) {
            const int scale = blocks_code(step[g], d, 0, 63);
            const int min = blocks_code(offset[g], dmin, 0, 63);

            put_scale_min(dst + 4, g, scale, min);
            put_nibbles(dst + 16 + g / 2 * 32, src + g * 32, g, d * (float)scale,
                        dmin * (float)min);
        }
    }
}

void blocks_encode_q6_k(const float *src, uint8_t *dst, size_t n)
{
    float step[16];

    for (; n > 0; n--, src += QK, dst += 210) {
        float d;

        memset(dst, 0, 210);
        for (int j = 0; j < 16; j++)
            step[j] = blocks_extreme(src + j * 16, 16) / -32.0f;
        d = blocks_store_scale(dst + 208, blocks_extreme(step, 16) / -128.0f);
        for (int j = 0; j < 16; j++)
            dst[192 + j] = (uint8_t)blocks_code(step[j], d, -128, 127);
        for (int i = 0; i < QK; i++) {
            const float s = d * (float)(int8_t)dst[192 + i / 16];
            const int q = blocks_code(src[i], s, -32, 31) + 32;
            const int h = i / 128;
            const int r = i % 128;
            uint8_t *low = &dst[h * 64 + r % 64];
            uint8_t *high = &dst[128 + h * 32 + r % 32];

            *low = (uint8_t)(*low | (q & 15) << (r / 64 * 4));
            *high = (uint8_t)(*high | q >> 4 << (r / 32 * 2));
        }
    }
}
