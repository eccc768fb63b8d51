/* kernels/gemm/panel_values.h - reads the values of a panel one by one, for types whose codes stand
 * for values (codebook.h). The scalar products and the look-up of a row use it.
 *
 * A block is what the panel has for kern_weight_group() columns; g counts groups of 32 in it.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef KERNELS_GEMM_PANEL_VALUES_H
#define KERNELS_GEMM_PANEL_VALUES_H

#include <string.h>

#include "kernels/gemm/codebook.h"
#include "kernels/kern_math.h"
#include "kernels/kernels_impl.h"

/* Return code i of a group of 32 in a lane; one function for each way to pack codes. */
typedef int (*kern_code_fn)(const uint8_t *codes, size_t lane, size_t i);

static inline int kern_code_8(const uint8_t *codes, size_t lane, size_t i)
{
    return codes[i / 4 * 64 + lane * 4 + i % 4];
}

static inline int kern_code_4(const uint8_t *codes, size_t lane, size_t i)
{
    const uint8_t b = codes[i % 16 / 4 * 64 + lane * 4 + i % 4];

    return i < 16 ? b & 15 : b >> 4;
}

static inline int kern_code_2(const uint8_t *codes, size_t lane, size_t i)
{
    return codes[i / 16 * 64 + lane * 4 + i % 4] >> (i % 16 / 4 * 2) & 3;
}

static inline int kern_code_1(const uint8_t *codes, size_t lane, size_t i)
{
    return codes[lane * 4 + i % 4] >> (i / 4) & 1;
}

static inline int kern_code_3(const uint8_t *codes, size_t lane, size_t i)
{
    return kern_code_2(codes, lane, i) | kern_code_1(codes + KERN_Q3_K_TOP, lane, i) << 2;
}

static inline int kern_code_5(const uint8_t *codes, size_t lane, size_t i)
{
    return kern_code_4(codes, lane, i) | kern_code_1(codes + KERN_TOP, lane, i) << 4;
}

static inline int kern_code_6(const uint8_t *codes, size_t lane, size_t i)
{
    return kern_code_4(codes, lane, i) | kern_code_2(codes + KERN_Q6_K_HIGH, lane, i) << 4;
}

/* Return 2^(e - 128), subnormal below e = 2. */
static inline float kern_e8m0_half(uint8_t e)
{
    return kern_from_bits(e ? (uint32_t)e << 23 : 0x400000) * 0.5f;
}

/* Return half of an e4m3 number without a sign, subnormal if its exponent is 0. Multiplying by
 * 2^119 changes a float's bias to that of e4m3, halved. */
static inline float kern_ue4m3_half(uint8_t e)
{
    return kern_from_bits((uint32_t)e << 20) * 0x1p119f;
}

/* True: the values of half h of group g are shifted. */
static inline bool kern_is_shifted(enum kern_weight w, const uint8_t *block, size_t g, size_t h,
                                   size_t lane)
{
    if (w == KERN_IQ6_K)
        return (block[KERN_IQ6_K_SHIFTS + 16 * (g / 4) + lane] >> (g % 4 * 2 + h) & 1) != 0;
    if (kern_has_row_scale(w))
        return (block[KERN_IQ_KS_SC + 16 * g + lane] & 1) != 0;
    return kern_values_shift(w) > 0 && (block[KERN_SC + 32 * g + 16 * h + lane] & 1) != 0;
}

/* Return the value that code i of group g stands for. */
static inline int kern_value(enum kern_weight w, const uint8_t *block, size_t g, size_t lane,
                             size_t i)
{
    int code = 0;

    switch (w) {
    case KERN_IQ4_NL:
        code = kern_code_4(block + 32, lane, i);
        break;
    case KERN_MXFP4:
        code = kern_code_4(block + KERN_MXFP4_CODES, lane, i);
        break;
    case KERN_NVFP4:
        code = kern_code_4(block + KERN_NVFP4_CODES + KERN_NVFP4_SUB * g, lane, i);
        break;
    case KERN_IQ4_K:
        code = kern_code_4(block + KERN_Q6_K_CODES + KERN_IQ4_K_SUB * g, lane, i);
        break;
    case KERN_IQ3_K:
        code = kern_code_3(block + KERN_Q6_K_CODES + KERN_Q3_K_SUB * g, lane, i);
        break;
    case KERN_IQ2_K:
        code = kern_code_2(block + KERN_Q6_K_CODES + KERN_TQ2_0_SUB * g, lane, i);
        break;
    case KERN_IQ5_K:
        code = kern_code_5(block + KERN_Q6_K_CODES + KERN_Q5_K_SUB * g, lane, i);
        break;
    case KERN_IQ6_K:
        code = kern_code_6(block + KERN_IQ6_K_CODES + KERN_Q6_K_SUB * g, lane, i);
        break;
    case KERN_IQ4_KS:
        code = kern_code_4(block + KERN_IQ_KS_CODES + KERN_IQ4_K_SUB * g, lane, i);
        break;
    case KERN_IQ5_KS:
        code = kern_code_5(block + KERN_IQ_KS_CODES + KERN_Q5_K_SUB * g, lane, i);
        break;
    case KERN_Q1_0:
        code = kern_code_1(block + KERN_Q1_0_CODES + KERN_Q1_0_SUB * g, lane, i);
        break;
    case KERN_IQ3_S:
    case KERN_IQ3_XXS:
        code = kern_code_4(block + KERN_IQ3_CODES + KERN_IQ4_XS_SUB * g, lane, i);
        break;
    case KERN_IQ4_XS:
        code = kern_code_4(block + KERN_IQ4_XS_CODES + KERN_IQ4_XS_SUB * g, lane, i);
        break;
    case KERN_IQ2_S:
    case KERN_IQ2_XS:
        code = kern_code_3(block + KERN_IQ2_CODES + KERN_IQ2_SUB * g, lane, i);
        break;
    case KERN_IQ2_XXS:
        code = kern_code_3(block + KERN_IQ2_XXS_CODES + KERN_IQ2_SUB * g, lane, i);
        break;
    case KERN_IQ1_S:
        code = kern_code_2(block + KERN_IQ1_S_CODES + KERN_TQ2_0_SUB * g, lane, i);
        break;
    case KERN_IQ1_M:
        code = kern_code_2(block + KERN_IQ1_M_CODES + KERN_TQ2_0_SUB * g, lane, i);
        code |= (block[KERN_SC + 32 * g + 16 * (i / 16) + lane] >> (3 + i % 16 / 8) & 1) << 2;
        break;
    default: /* TQ2_0, TQ1_0, Q2_0 */
        code = kern_code_2(block + KERN_TQ2_0_CODES + KERN_TQ2_0_SUB * g, lane, i);
        break;
    }
    if (kern_is_shifted(w, block, g, i / 16, lane))
        return KERN_VALUES[w][code] + kern_values_shift(w);
    return KERN_VALUES[w][code];
}

/* Return group g's nibble; two groups share a byte. */
static inline int kern_scale_nibble(const uint8_t *block, size_t g, size_t lane)
{
    return block[KERN_SC + 16 * (g / 2) + lane] >> (g % 2 * 4) & 15;
}

/* Return the factor of the values of half h of group g. */
static inline float kern_value_scale(enum kern_weight w, const uint8_t *block, size_t g, size_t h,
                                     size_t lane)
{
    const uint8_t *sc = block + KERN_SC + lane;
    float d;

    if (w == KERN_MXFP4)
        return kern_e8m0_half(block[lane]);
    if (w == KERN_NVFP4)
        return kern_ue4m3_half(block[32 * g + 16 * h + lane]);
    if (kern_has_row_scale(w)) {
        memcpy(&d, block + 4 * lane, sizeof d);
        return d * (float)((int8_t)block[KERN_IQ_KS_SC + 16 * g + lane] | 1);
    }
    d = kern_load_f16(block + 2 * lane);
    switch (w) {
    case KERN_IQ4_XS:
        return d * (float)(int8_t)sc[16 * g];
    case KERN_IQ4_K:
    case KERN_IQ3_K:
    case KERN_IQ2_K:
    case KERN_IQ5_K:
        return d * (float)((int8_t)(sc[32 * g + 16 * h] & 0xfe) / 2);
    case KERN_IQ6_K:
        return d * (float)(int8_t)sc[32 * g + 16 * h];
    case KERN_IQ3_S:
        return d * (float)(2 * kern_scale_nibble(block, g, lane) + 1);
    case KERN_IQ3_XXS:
        return d * (float)(2 * kern_scale_nibble(block, g, lane) + 1) * 0.25f;
    case KERN_IQ2_XXS:
        return d * (float)(2 * kern_scale_nibble(block, g, lane) + 1) * 0.125f;
    case KERN_IQ2_S:
    case KERN_IQ2_XS:
        return d * (float)(2 * (sc[16 * g] >> 4 * h & 15) + 1) * 0.125f;
    case KERN_IQ1_S:
        return d * (float)(2 * (kern_scale_nibble(block, g, lane) & 7) + 1);
    case KERN_IQ1_M:
        return d * (float)(2 * (sc[32 * g + 16 * h] & 7) + 1) * 0.125f;
    default:
        return d;
    }
}

/* IQ1_S: return what is added to the values of group g, in eighths of d: shift - 1 times the
 * scale. */
static inline int kern_value_shift(const uint8_t *block, size_t g, size_t lane)
{
    const int nibble = kern_scale_nibble(block, g, lane);
    const int sc = 2 * (nibble & 7) + 1;

    return (nibble & 8 ? -sc : sc) - 8 * sc;
}

#endif
