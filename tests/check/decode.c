/* tests/check/decode.c - the block formats, number by number, in double. */
#include "tests/check/decode.h"

#include <math.h>
#include <string.h>

#include "tests/check/check.h"

const struct decode_format decode_formats[KERN_N_WEIGHT] = {
    [KERN_F32] = {1, 4, 0, {0}},          [KERN_F16] = {1, 2, 0, {0}},
    [KERN_BF16] = {1, 2, 0, {0}},         [KERN_Q8_0] = {32, 34, 1, {0}},
    [KERN_Q4_0] = {32, 18, 1, {0}},       [KERN_Q4_K] = {256, 144, 2, {0, 2}},
    [KERN_Q6_K] = {256, 210, 1, {208}},   [KERN_Q4_1] = {32, 20, 2, {0, 2}},
    [KERN_Q5_0] = {32, 22, 1, {0}},       [KERN_Q5_1] = {32, 24, 2, {0, 2}},
    [KERN_Q5_K] = {256, 176, 2, {0, 2}},  [KERN_Q3_K] = {256, 110, 1, {108}},
    [KERN_Q2_K] = {256, 84, 2, {80, 82}}, [KERN_IQ4_NL] = {32, 18, 1, {0}},
    [KERN_IQ4_XS] = {256, 136, 1, {0}},   [KERN_MXFP4] = {32, 17, 1, {0}},
    [KERN_TQ2_0] = {256, 66, 1, {64}},    [KERN_TQ1_0] = {256, 54, 1, {52}},
    [KERN_IQ3_S] = {256, 110, 1, {0}},    [KERN_IQ3_XXS] = {256, 98, 1, {0}},
    [KERN_IQ2_S] = {256, 82, 1, {0}},     [KERN_IQ2_XS] = {256, 74, 1, {0}},
    [KERN_IQ2_XXS] = {256, 66, 1, {0}},   [KERN_IQ1_S] = {256, 50, 1, {0}},
    [KERN_IQ1_M] = {256, 56, 1, {48}},    [KERN_Q2_0] = {64, 18, 1, {0}},
    [KERN_Q1_0] = {128, 18, 1, {0}},      [KERN_NVFP4] = {64, 36, 0, {0}},
    [KERN_IQ4_K] = {256, 144, 1, {0}},    [KERN_IQ3_K] = {256, 110, 1, {0}},
    [KERN_IQ2_K] = {256, 76, 1, {0}},     [KERN_IQ6_K] = {256, 212, 1, {0}},
    [KERN_IQ5_K] = {256, 176, 1, {0}},    [KERN_IQ5_KS] = {256, 168, 0, {0}},
    [KERN_IQ4_KS] = {256, 136, 0, {0}},
};

size_t decode_head(enum kern_weight w)
{
    return w == KERN_IQ4_KS || w == KERN_IQ5_KS ? 4 : 0;
}

size_t decode_row_bytes(enum kern_weight w, size_t k)
{
    return decode_head(w) + k / decode_formats[w].elems * decode_formats[w].bytes;
}

double check_half(uint16_t h)
{
    const int e = h >> 10 & 31;
    const double man = h & 0x3ff;
    const double sign = h >> 15 ? -1 : 1;

    if (e == 31)
        return man != 0 ? NAN : sign * INFINITY;
    return sign * (e ? ldexp(1024 + man, e - 25) : ldexp(man, -24));
}

/* The nearest of the candidates around f, by comparing distances. */
uint16_t check_to_half(float f)
{
    const double a = fabs((double)f);
    const uint16_t sign = signbit(f) ? 0x8000 : 0;
    uint16_t below = 0;

    for (uint16_t bit = 0x4000; bit; bit >>= 1) /* largest finite half that is <= a */
        if ((below | bit) < 0x7c00 && check_half(below | bit) <= a)
            below |= bit;
    if (below == 0x7bff)
        return sign | (a >= 65520 ? 0x7c00 : 0x7bff);
    const double down = a - check_half(below);
    const double up = check_half((uint16_t)(below + 1)) - a;
    const uint16_t round = up < down || (up == down && (below & 1)) ? 1 : 0;
    return sign | (uint16_t)(below + round);
}

uint16_t check_to_bf16(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static double half_at(const uint8_t *p)
{
    return check_half((uint16_t)(p[0] | p[1] << 8));
}

/* value = scale * code - minimum, per number of a block. */
struct number {
    double scale;
    int code;
    double minimum;
};

/* Q4_K and Q5_K but for the code: d, dmin and 12 bytes of scales and minima come first. */
static struct number number_45_k(const uint8_t *b, size_t i, int code)
{
    const uint8_t *s = b + 4;
    const size_t g = i / 32;
    int sc = s[g % 4 + (g < 4 ? 0 : 8)];
    int mn = s[g % 4 + (g < 4 ? 4 : 8)];

    if (g < 4) {
        sc &= 63;
        mn &= 63;
    } else { /* four bits here, two atop the lower groups' */
        sc = (sc & 15) + 16 * (s[g - 4] >> 6);
        mn = (mn >> 4) + 16 * (s[g] >> 6);
    }
    return (struct number){half_at(b) * sc, code, half_at(b + 2) * mn};
}

static struct number number_q4_k(const uint8_t *b, size_t i)
{
    const uint8_t byte = b[16 + i / 64 * 32 + i % 32];

    return number_45_k(b, i, i % 64 < 32 ? byte & 15 : byte >> 4);
}

static struct number number_q5_k(const uint8_t *b, size_t i)
{
    const uint8_t byte = b[48 + i / 64 * 32 + i % 32];
    const int top = (b[16 + i % 32] & 1 << i / 32) != 0 ? 16 : 0;

    return number_45_k(b, i, top + (i % 64 < 32 ? byte & 15 : byte >> 4));
}

/* Q5_0 and Q5_1: the word of fifth bits at qh, nibbles behind it. */
static int code_5(const uint8_t *qh, size_t i)
{
    const uint32_t word = qh[0] | qh[1] << 8 | qh[2] << 16 | (uint32_t)qh[3] << 24;

    return (int)(word >> i & 1) * 16 + (i < 16 ? qh[4 + i] & 15 : qh[4 + i - 16] >> 4);
}

static struct number number_q3_k(const uint8_t *b, size_t i)
{
    const uint8_t *s = b + 96; /* 16 scales of 6 bits: low nibbles of 0-7, high ones 8-15 */
    const size_t j = i / 16;
    const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
    const int high = s[8 + j % 4] >> 2 * (j / 4) & 3;
    const int two = b[32 + i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3;
    const bool third = b[i % 32] >> i / 32 & 1;

    return (struct number){half_at(b + 108) * (low + 16 * high - 32), third ? two : two - 4, 0};
}

static struct number number_q2_k(const uint8_t *b, size_t i)
{
    const uint8_t both = b[i / 16];
    const int code = b[16 + i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3;

    return (struct number){half_at(b + 80) * (both & 15), code, half_at(b + 82) * (both >> 4)};
}

static struct number number_q6_k(const uint8_t *b, size_t i)
{
    const size_t part = i / 128; /* 64 bytes of low nibbles and 32 of high pairs each */
    const size_t quarter = i % 128 / 32;
    const uint8_t low = b[64 * part + (quarter & 1) * 32 + i % 32];
    const uint8_t high = b[128 + 32 * part + i % 32];
    const int code = (quarter < 2 ? low & 15 : low >> 4) + 16 * (high >> 2 * quarter & 3);

    return (struct number){half_at(b + 208) * (int8_t)b[192 + i / 16], code - 32, 0};
}

static struct number number(enum kern_weight w, const uint8_t *b, size_t i)
{
    struct decode_value v;
    uint32_t u;
    float f;

    switch (w) {
    case KERN_F32:
        memcpy(&f, b, sizeof f);
        return (struct number){f, 1, 0};
    case KERN_F16:
        return (struct number){half_at(b), 1, 0};
    case KERN_BF16:
        u = (uint32_t)b[0] << 16 | (uint32_t)b[1] << 24;
        memcpy(&f, &u, sizeof f);
        return (struct number){f, 1, 0};
    case KERN_Q8_0:
        return (struct number){half_at(b), (int8_t)b[2 + i], 0};
    case KERN_Q4_0:
        return (struct number){half_at(b), (i < 16 ? b[2 + i] & 15 : b[2 + i - 16] >> 4) - 8, 0};
    case KERN_Q4_K:
        return number_q4_k(b, i);
    case KERN_Q6_K:
        return number_q6_k(b, i);
    case KERN_Q4_1:
        return (struct number){half_at(b), i < 16 ? b[4 + i] & 15 : b[4 + i - 16] >> 4,
                               -half_at(b + 2)};
    case KERN_Q5_0:
        return (struct number){half_at(b), code_5(b + 2, i) - 16, 0};
    case KERN_Q5_1:
        return (struct number){half_at(b), code_5(b + 4, i), -half_at(b + 2)};
    case KERN_Q5_K:
        return number_q5_k(b, i);
    case KERN_Q3_K:
        return number_q3_k(b, i);
    case KERN_Q2_K:
        return number_q2_k(b, i);
    case KERN_N_WEIGHT:
        break;
    default:
        v = decode_value(w, b, i);
        return (struct number){v.scale, v.number, 0};
    }
    return (struct number){0};
}

/* Number j of a row. The product of a row's scale with a block's is rounded. */
static struct number number_of_row(enum kern_weight w, const uint8_t *row, size_t j)
{
    const struct decode_format *f = &decode_formats[w];
    const uint8_t *block = row + decode_row_bytes(w, j / f->elems * f->elems);
    struct number n = number(w, block, j % f->elems);
    float d;

    if (decode_head(w) == 0)
        return n;
    memcpy(&d, row, sizeof d);
    n.scale = (float)(n.scale * d);
    return n;
}

void decode_row(enum kern_weight w, const uint8_t *row, double *out, double *size, size_t k)
{
    for (size_t j = 0; j < k; j++) {
        const struct number n = number_of_row(w, row, j);

        out[j] = n.scale * n.code - n.minimum;
        size[j] = fabs(n.scale * n.code) + fabs(n.minimum);
        if (w == KERN_IQ1_S) /* the product adds code 0 .. 2, and takes 9 / 8 away */
            size[j] += fabs(n.scale * 24);
    }
}

/* scale, scale * code and minimum fit 24 bits, so a float formula rounds in the difference only;
 * a product with a zero keeps its sign. */
void decode_row_float(enum kern_weight w, const uint8_t *row, float *out, size_t k)
{
    const struct decode_format *f = &decode_formats[w];

    for (size_t j = 0; j < k; j++) {
        const struct number n = number_of_row(w, row, j);

        out[j] = (float)(n.scale * n.code);
        if (f->n_scale == 2) /* with a minimum */
            out[j] -= (float)n.minimum;
    }
}

void decode_put_row_scale(uint8_t *row, uint16_t half)
{
    const float d = (float)check_half(half) * 1.2345678f;

    memcpy(row, &d, sizeof d);
}

void decode_put_scale(enum kern_weight w, uint8_t *b, size_t i, uint16_t half)
{
    uint8_t *at = b + decode_formats[w].scale_at[i];

    if (w == KERN_MXFP4) { /* the least numbers, the greatest, or those of a half's magnitude */
        *at = (uint8_t)((half & 0x7fff) < 0x400     ? half % 3
                        : (half & 0x7fff) >= 0x7bff ? 252
                                                    : (half >> 10 & 31) + 112);
        return;
    }
    if (w == KERN_IQ1_M) {
        for (int j = 0; j < 4; j++)
            at[2 * j + 1] = (uint8_t)((at[2 * j + 1] & 15) | (half >> 4 * j & 15) << 4);
        return;
    }
    at[0] = (uint8_t)half;
    at[1] = (uint8_t)(half >> 8);
}
