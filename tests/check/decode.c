/* tests/check/decode.c - the block formats, number by number, in double. */
#include "tests/check/decode.h"

#include <math.h>
#include <string.h>

#include "tests/check/check.h"

const struct decode_format decode_formats[KERN_N_WEIGHT] = {
    [KERN_F32] = {1, 4, 0, {0}},        [KERN_F16] = {1, 2, 0, {0}},
    [KERN_BF16] = {1, 2, 0, {0}},       [KERN_Q8_0] = {32, 34, 1, {0}},
    [KERN_Q4_0] = {32, 18, 1, {0}},     [KERN_Q4_K] = {256, 144, 2, {0, 2}},
    [KERN_Q6_K] = {256, 210, 1, {208}},
};

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

static struct number number_q4_k(const uint8_t *b, size_t i)
{
    const uint8_t *s = b + 4;
    const size_t g = i / 32;
    const uint8_t byte = b[16 + i / 64 * 32 + i % 32];
    int sc = s[g % 4 + (g < 4 ? 0 : 8)];
    int mn = s[g % 4 + (g < 4 ? 4 : 8)];

    if (g < 4) {
        sc &= 63;
        mn &= 63;
    } else { /* four bits here, two atop the lower groups' */
        sc = (sc & 15) + 16 * (s[g - 4] >> 6);
        mn = (mn >> 4) + 16 * (s[g] >> 6);
    }
    return (struct number){half_at(b) * sc, i % 64 < 32 ? byte & 15 : byte >> 4,
                           half_at(b + 2) * mn};
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
    case KERN_N_WEIGHT:
        break;
    }
    return (struct number){0};
}

void decode_row(enum kern_weight w, const uint8_t *row, double *out, double *size, size_t k)
{
    const struct decode_format *f = &decode_formats[w];

    for (size_t j = 0; j < k; j++) {
        const struct number n = number(w, row + j / f->elems * f->bytes, j % f->elems);

        out[j] = n.scale * n.code - n.minimum;
        size[j] = fabs(n.scale * n.code) + fabs(n.minimum);
    }
}

/* scale, scale * code and minimum fit 24 bits, so a float formula rounds in the difference only;
 * a product with a zero keeps its sign. */
void decode_row_float(enum kern_weight w, const uint8_t *row, float *out, size_t k)
{
    const struct decode_format *f = &decode_formats[w];

    for (size_t j = 0; j < k; j++) {
        const struct number n = number(w, row + j / f->elems * f->bytes, j % f->elems);

        out[j] = (float)(n.scale * n.code);
        if (w == KERN_Q4_K)
            out[j] -= (float)n.minimum;
    }
}
