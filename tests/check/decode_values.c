/* tests/check/decode_values.c - the block formats whose codes stand for numbers, one by one.
 *
 * The codebooks are those of kernels/ (tests/unit/formats/test_blocks.c has their checksums);
 * everything else is written for the check alone.
 */
#include <math.h>

#include "kernels/gemm/codebook.h"
#include "tests/check/check.h"
#include "tests/check/decode.h"

static double half_at(const uint8_t *p)
{
    return check_half((uint16_t)(p[0] | p[1] << 8));
}

/* Bits from .. from + n - 1 of a little-endian string of bits. */
static unsigned bits(const uint8_t *p, size_t from, size_t n)
{
    unsigned v = 0;

    for (size_t i = 0; i < n; i++)
        v |= (unsigned)(p[(from + i) / 8] >> (from + i) % 8 & 1) << i;
    return v;
}

/* Sign i of eight that are bits at `from`: all stored, or seven and the parity of them. */
static int sign(const uint8_t *p, size_t from, size_t i, bool parity)
{
    unsigned ones = 0;

    if (!parity || i < 7)
        return bits(p, from + i, 1) ? -1 : 1;
    for (size_t j = 0; j < 7; j++)
        ones += bits(p, from + j, 1);
    return ones % 2 ? -1 : 1;
}

static int magnitude_2(uint16_t pattern, size_t i)
{
    static const int OF[] = {8, 25, 43};

    return OF[pattern >> 2 * i & 3];
}

static struct decode_value iq3(enum kern_weight w, const uint8_t *b, size_t i)
{
    const size_t g = i / 32, at = i / 4;
    const uint8_t *word = b + 66 + 4 * g; /* IQ3_XXS */

    if (w == KERN_IQ3_S) {
        const unsigned index = b[2 + at] | bits(b + 66, at, 1) << 8;
        const int c = KERN_IQ3_S_GRID[index] >> 3 * (i % 4) & 7;

        return (struct decode_value){half_at(b) * (1 + 2 * bits(b + 106, 4 * g, 4)),
                                     (2 * c + 1) * sign(b + 74, i / 8 * 8, i % 8, false)};
    }
    const int c = KERN_IQ3_XXS_GRID[b[2 + at]] >> 3 * (i % 4) & 7;

    return (struct decode_value){half_at(b) * (2 * bits(word, 28, 4) + 1) / 4,
                                 (c == 7 ? 62 : 8 * c + 4) *
                                     sign(word, 7 * (i % 32 / 8), i % 8, true)};
}

static struct decode_value iq2(enum kern_weight w, const uint8_t *b, size_t i)
{
    const size_t at = i / 8, group = i / 32;
    const uint8_t *g = b + 2 + 8 * group; /* IQ2_XXS */
    const uint8_t *pair = b + 2 + 2 * at; /* IQ2_XS */
    unsigned scale;
    int code;

    if (w == KERN_IQ2_XXS) {
        scale = bits(g + 4, 28, 4);
        code = magnitude_2(KERN_IQ2_XXS_GRID[g[at % 4]], i % 8) *
               sign(g + 4, 7 * (at % 4), i % 8, true);
    } else if (w == KERN_IQ2_XS) {
        scale = bits(b + 66, 4 * (i / 16), 4);
        code = magnitude_2(KERN_IQ2_XS_GRID[bits(pair, 0, 9)], i % 8) * sign(pair, 9, i % 8, true);
    } else {
        scale = bits(b + 74, 4 * (i / 16), 4);
        code = magnitude_2(KERN_IQ2_S_GRID[b[2 + at] | bits(b + 66, 2 * at, 2) << 8], i % 8) *
               sign(b + 34 + at, 0, i % 8, false);
    }
    return (struct decode_value){half_at(b) * (2 * scale + 1) / 8, code};
}

/* In eighths. */
static struct decode_value iq1(enum kern_weight w, const uint8_t *b, size_t i)
{
    const size_t at = i / 8;
    const uint8_t *word = b + 34 + i / 32 * 2; /* IQ1_S */
    unsigned index, scale, down;
    double d;

    if (w == KERN_IQ1_S) {
        index = b[2 + at] | bits(word, 3 * (at % 4), 3) << 8;
        scale = bits(word, 12, 3);
        down = bits(word, 15, 1);
        d = half_at(b);
    } else {
        const unsigned half = bits(b + 48, 12, 4) | bits(b + 48, 28, 4) << 4 |
                              bits(b + 48, 44, 4) << 8 | bits(b + 48, 60, 4) << 12;

        index = b[at] | bits(b + 32, 4 * at, 3) << 8;
        scale = bits(b + 48 + i / 64 * 2, i / 16 % 4 * 3, 3);
        down = bits(b + 32, 4 * at + 3, 1);
        d = check_half((uint16_t)half);
    }
    return (struct decode_value){d * (2 * scale + 1) / 8,
                                 8 * ((KERN_IQ1_GRID[index] >> 2 * (i % 8) & 3) - 1) +
                                     (down ? -1 : 1)};
}

/* Digit n of a byte of ternary digits: the byte is a fraction of 256. */
static int ternary_digit(unsigned byte, size_t n)
{
    for (; n > 0; n--)
        byte = byte * 3 % 256;
    return (int)(byte * 3 / 256) - 1;
}

static int tq1_0(const uint8_t *b, size_t i)
{
    if (i < 160)
        return ternary_digit(b[i % 32], i / 32);
    if (i < 240)
        return ternary_digit(b[32 + i % 16], (i - 160) / 16);
    return ternary_digit(b[48 + i % 4], (i - 240) / 4);
}

static int iq4(const uint8_t *qs, size_t i)
{
    static const int OF[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                             1,    13,   25,  38,  53,  69,  89,  113};

    return OF[i < 16 ? qs[i] & 15 : qs[i - 16] >> 4];
}

/* Number i's nibble: 32 bytes have those of i and i + 32 of each 64. */
static unsigned nibble_of_64(const uint8_t *qs, size_t i)
{
    return bits(qs + i / 64 * 32 + i % 32, i % 64 / 32 * 4, 4);
}

/* Behind 128 bytes of nibbles come 32 of fifth bits, bit g of group g. */
static int iq5(const uint8_t *qs, size_t i)
{
    static const int OF[] = {-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36,
                             -30,  -24,  -18,  -12, -6,  -1,  5,   11,  17,  23,  29,
                             36,   43,   51,   59,  68,  77,  87,  97,  109, 121};

    return OF[nibble_of_64(qs, i) | bits(qs + 128 + i % 32, i / 32, 1) << 4];
}

static int iq6(const uint8_t *qs, size_t i, unsigned high)
{
    static const int OF[] = {
        -127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54,
        -51,  -47,  -44,  -40,  -37,  -34, -31, -28, -25, -22, -19, -16, -13, -11, -8,  -5,
        -2,   0,    3,    6,    9,    12,  14,  17,  20,  23,  27,  30,  33,  36,  40,  44,
        47,   51,   55,   59,   63,   68,  72,  77,  82,  87,  92,  98,  103, 109, 115, 121};

    return OF[nibble_of_64(qs, i) | high << 4];
}

static int e2m1_twice(unsigned code)
{
    static const int OF[] = {0, 1, 2, 3, 4, 6, 8, 12};

    return code < 8 ? OF[code] : -OF[code - 8];
}

static struct decode_value iq_k(enum kern_weight w, const uint8_t *b, size_t i)
{
    static const int TWO[] = {-31, -13, 1, 17}, THREE[] = {-63, -40, -23, -10, 1, 13, 28, 47};
    const size_t h = i / 16, pair = i / 128 * 32 + i % 32, at = i % 128 / 32 * 2;
    const int is_shifted = (int)bits(b + 2, h, 1);
    int sc;

    if (w == KERN_IQ6_K)
        return (struct decode_value){half_at(b) * (int8_t)b[4 + h],
                                     iq6(b + 20, i, bits(b + 148 + pair, at, 2)) + is_shifted};
    if (w == KERN_IQ2_K)
        return (struct decode_value){half_at(b) * ((int)bits(b + 4, 4 * h, 4) - 8),
                                     TWO[bits(b + 12 + pair, at, 2)] + 5 * is_shifted};
    if (w == KERN_IQ3_K) {
        sc = 2 * (int)bits(b + 6, 4 * h, 4) + 1;
        return (struct decode_value){
            half_at(b) * (bits(b + 4, h, 1) ? -sc : sc),
            THREE[bits(b + 14 + pair, at, 2) | bits(b + 78 + i % 32, i / 32, 1) << 2] +
                4 * is_shifted};
    }
    sc = (int)(bits(b + 8, 4 * h, 4) | bits(b + 4, 2 * h, 2) << 4) - 32;
    if (w == KERN_IQ5_K)
        return (struct decode_value){half_at(b) * sc, iq5(b + 16, i) + 2 * is_shifted};
    return (struct decode_value){half_at(b) * sc,
                                 iq4(b + 16 + 16 * (i / 32), i % 32) + 4 * is_shifted};
}

/* A byte for each group: an odd number of 8 bits above 0, less 127, and whether it is shifted. */
static struct decode_value iq_ks(enum kern_weight w, const uint8_t *b, size_t i)
{
    const int sc = b[i / 32] / 2 * 2 - 127, is_shifted = b[i / 32] % 2;

    if (w == KERN_IQ5_KS)
        return (struct decode_value){sc, iq5(b + 8, i) + 2 * is_shifted};
    return (struct decode_value){sc, iq4(b + 8 + 16 * (i / 32), i % 32) + 4 * is_shifted};
}

/* Half of four bits of exponent, biased by 7, and three of mantissa. */
static double e4m3_half(unsigned x)
{
    const int e = (int)(x >> 3 & 15);

    if (x == 127)
        return 0;
    return ldexp((e > 0 ? 8 : 0) + (double)(x & 7), (e > 0 ? e : 1) - 11);
}

struct decode_value decode_value(enum kern_weight w, const uint8_t *b, size_t i)
{
    const size_t g = i / 32;
    double e = 0x1p-128;
    int sc;

    switch (w) {
    case KERN_IQ4_NL:
        return (struct decode_value){half_at(b), iq4(b + 2, i)};
    case KERN_IQ4_XS:
        sc = (int)(bits(b + 4, 4 * g, 4) | bits(b + 2, 2 * g, 2) << 4) - 32;
        return (struct decode_value){half_at(b) * sc, iq4(b + 8 + 16 * g, i % 32)};
    case KERN_MXFP4:
        for (unsigned n = b[0]; n > 0; n--)
            e *= 2;
        return (struct decode_value){e, e2m1_twice(i < 16 ? b[1 + i] & 15u : b[i - 15] >> 4)};
    case KERN_NVFP4:
        return (struct decode_value){
            e4m3_half(b[i / 16]), e2m1_twice(bits(b + 4 + i / 16 * 8 + i % 8, i % 16 / 8 * 4, 4))};
    case KERN_IQ6_K:
    case KERN_IQ5_K:
    case KERN_IQ4_K:
    case KERN_IQ3_K:
    case KERN_IQ2_K:
        return iq_k(w, b, i);
    case KERN_IQ5_KS:
    case KERN_IQ4_KS:
        return iq_ks(w, b, i);
    case KERN_Q2_0:
        return (struct decode_value){half_at(b), (int)bits(b + 2, 2 * i, 2) - 1};
    case KERN_Q1_0:
        return (struct decode_value){half_at(b), bits(b + 2, i, 1) ? 1 : -1};
    case KERN_TQ2_0:
        return (struct decode_value){half_at(b + 64),
                                     (int)bits(b + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2) - 1};
    case KERN_TQ1_0:
        return (struct decode_value){half_at(b + 52), tq1_0(b, i)};
    case KERN_IQ3_S:
    case KERN_IQ3_XXS:
        return iq3(w, b, i);
    case KERN_IQ2_S:
    case KERN_IQ2_XS:
    case KERN_IQ2_XXS:
        return iq2(w, b, i);
    default:
        return iq1(w, b, i);
    }
}
