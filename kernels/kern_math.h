/* kernels/kern_math.h - the scalar arithmetic that every body shares.
 *
 * exp is an explicit sequence of fma, so that a vector body repeats it lane by lane and gets the
 * same bits; the constants are macros for that reason. Nothing here calls libm but fmaf, which is
 * the exact IEEE operation everywhere. All functions are static: each body file gets its own copy,
 * compiled with its own flags.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef KERNELS_KERN_MATH_H
#define KERNELS_KERN_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

/* exp(x) = 2^n * exp(r), n = rne(x / ln 2), |r| <= ln(2) / 2. ln 2 = HI + LO; HI is its nearest
 * float. Adding 1.5 * 2^23 leaves n in the low mantissa bits. The Taylor coefficients 1/7! .. 1/2!:
 * the first term left out is < 8e-9 of the result. */
#define KERN_EXP_MIN (-87.33f)
#define KERN_EXP_MAX 88.72f
#define KERN_EXP_LOG2E 0x1.715476p0f
#define KERN_EXP_MAGIC 0x1.8p23f
#define KERN_EXP_MAGIC_BITS 0x4b400000u
#define KERN_EXP_LN2_HI 0x1.62e43p-1f
#define KERN_EXP_LN2_LO (-0x1.05c61p-29f)
#define KERN_EXP_C7 (1.0f / 5040)
#define KERN_EXP_C6 (1.0f / 720)
#define KERN_EXP_C5 (1.0f / 120)
#define KERN_EXP_C4 (1.0f / 24)
#define KERN_EXP_C3 (1.0f / 6)
#define KERN_EXP_C2 0.5f

/* gelu(x) by tanh is x / (1 + exp(-2 u)), u = sqrt(2 / pi) * (x + C * x^3). */
#define KERN_GELU_C 0.044715f
#define KERN_GELU_MINUS_2_ROOT (-2 * 0.79788456f)

/* erf(z) for |z| < 1 is z times a polynomial of z^2: A0 + A1 * z^2 ...; for z >= 1 it is
 * 1 - exp(-z^2) * (a polynomial of t = 1 / (1 + z / 2): B1 * t + B2 * t^2 ...). Both are fitted to
 * the smallest largest error: 2e-8 before rounding, and 8e-7 of 1 - erf(z). */
#define KERN_ROOT_HALF 0.70710678f
#define KERN_ERF_A0 1.12837887f
#define KERN_ERF_A1 (-0.376119375f)
#define KERN_ERF_A2 0.112780638f
#define KERN_ERF_A3 (-0.026663797f)
#define KERN_ERF_A4 0.00487069320f
#define KERN_ERF_A5 (-0.000546290015f)
#define KERN_ERF_B1 0.282060444f
#define KERN_ERF_B2 0.282393664f
#define KERN_ERF_B3 0.247710407f
#define KERN_ERF_B4 0.158262715f
#define KERN_ERF_B5 0.159080416f
#define KERN_ERF_B6 (-0.131808162f)

/* gpt-oss's gate: at most CLAMP, and swish with a factor. */
#define KERN_SWIGLU_CLAMP 7.0f
#define KERN_SWIGLU_ALPHA 1.702f

/* log(1 + e) for e in 0 .. 1 is 2 atanh(f), f = e / (2 + e), at most 1/3: the odd terms of its
 * series up to f^15; the first one left out is < 1e-9. */
#define KERN_LOG1P_C15 (1.0f / 15)
#define KERN_LOG1P_C13 (1.0f / 13)
#define KERN_LOG1P_C11 (1.0f / 11)
#define KERN_LOG1P_C9 (1.0f / 9)
#define KERN_LOG1P_C7 (1.0f / 7)
#define KERN_LOG1P_C5 (1.0f / 5)
#define KERN_LOG1P_C3 (1.0f / 3)

/* Below this maximum 127 / a may overflow; such a group is quantised as zero. */
#define KERN_QUANT_TINY 0x1p-100f

static inline uint32_t kern_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float kern_from_bits(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float kern_exp_inline(float x)
{
    const float t = fmaf(x, KERN_EXP_LOG2E, KERN_EXP_MAGIC);
    const float n = t - KERN_EXP_MAGIC;
    const float r = fmaf(n, -KERN_EXP_LN2_LO, fmaf(n, -KERN_EXP_LN2_HI, x));
    float p = KERN_EXP_C7;

    p = fmaf(p, r, KERN_EXP_C6);
    p = fmaf(p, r, KERN_EXP_C5);
    p = fmaf(p, r, KERN_EXP_C4);
    p = fmaf(p, r, KERN_EXP_C3);
    p = fmaf(p, r, KERN_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    if (x < KERN_EXP_MIN)
        return 0.0f;
    if (x > KERN_EXP_MAX)
        return INFINITY;
    /* n reaches 128, one more than an exponent field holds: scale in two exact steps. */
    const int32_t i = (int32_t)(kern_bits(t) - KERN_EXP_MAGIC_BITS);
    const int32_t half = i >> 1;
    const float a = kern_from_bits((uint32_t)(127 + half) << 23);
    const float b = kern_from_bits((uint32_t)(127 + (i - half)) << 23);
    return p * a * b;
}

/* cap * tanh(x / cap). */
static inline float kern_cap_inline(float x, float cap)
{
    const float z = x / cap;

    return cap * (1.0f - 2.0f / (1.0f + kern_exp_inline(z + z)));
}

static inline float kern_softplus_inline(float z)
{
    const float e = kern_exp_inline(-fabsf(z));
    const float f = e / (2.0f + e);
    const float s = f * f;
    float p = KERN_LOG1P_C15;

    p = fmaf(p, s, KERN_LOG1P_C13);
    p = fmaf(p, s, KERN_LOG1P_C11);
    p = fmaf(p, s, KERN_LOG1P_C9);
    p = fmaf(p, s, KERN_LOG1P_C7);
    p = fmaf(p, s, KERN_LOG1P_C5);
    p = fmaf(p, s, KERN_LOG1P_C3);
    p = fmaf(p, s, 1.0f);
    return (z > 0.0f ? z : 0.0f) + (f + f) * p;
}

static inline float kern_lanes_sum_inline(const float l[KERN_LANES])
{
    float s[8];

    for (int i = 0; i < 8; i++)
        s[i] = l[i] + l[i + 8];
    for (int w = 4; w >= 1; w /= 2)
        for (int i = 0; i < w; i++)
            s[i] += s[i + w];
    return s[0];
}

static inline float kern_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t e = (h >> 10) & 31u;
    const uint32_t man = h & 0x3ffu;

    if (e == 31)
        return kern_from_bits(sign | 0x7f800000u | man << 13 | (man ? 0x400000u : 0));
    if (e == 0)
        return kern_from_bits(sign | kern_bits((float)man * 0x1p-24f));
    return kern_from_bits(sign | (e + 112) << 23 | man << 13);
}

/* Rounds to nearest even; a NaN stays a (quiet) NaN with its upper bits, as vcvtps2ph does. */
static inline uint16_t kern_f32_to_f16(float f)
{
    const uint32_t sign = (kern_bits(f) >> 16) & 0x8000u;
    uint32_t x = kern_bits(f) & 0x7fffffffu;

    if (x > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((x >> 13) & 0x3ffu));
    if (x >= 0x477ff000u) /* 65520 rounds past the largest half */
        return (uint16_t)(sign | 0x7c00u);
    if (x < 0x38800000u) /* 2^-14: 0.5 has the ulp of a subnormal half, so the sum rounds */
        return (uint16_t)(sign | (kern_bits(kern_from_bits(x) + 0.5f) - 0x3f000000u));
    x += 0xfffu + ((x >> 13) & 1u);
    return (uint16_t)(sign | ((x - 0x38000000u) >> 13));
}

static inline float kern_bf16_to_f32(uint16_t h)
{
    return kern_from_bits((uint32_t)h << 16);
}

/* Rounds to nearest even; a NaN stays a (quiet) NaN with its upper bits. */
static inline uint16_t kern_f32_to_bf16(float f)
{
    const uint32_t x = kern_bits(f);

    if ((x & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(x >> 16 | 0x40u);
    return (uint16_t)((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
}

/* Little-endian fields at any alignment. */
static inline uint16_t kern_load16(const void *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline float kern_load_f16(const void *p)
{
    return kern_f16_to_f32(kern_load16(p));
}

static inline float kern_load_bf16(const void *p)
{
    return kern_bf16_to_f32(kern_load16(p));
}

#endif
