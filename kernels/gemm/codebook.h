/* kernels/gemm/codebook.h - the values that codes stand for, in types whose codes are indices of a
 * table or codebook.
 *
 * A codebook of the IQ formats is a list of patterns; a weight's index picks one, which gives eight
 * numbers (IQ2, IQ1) or four (IQ3) at once. Of a pattern, number i is
 *   IQ2    bits 2i, 2i + 1: the magnitudes 8, 25, 43
 *   IQ1    bits 2i, 2i + 1: -1, 0, 1
 *   IQ3    bits 3i .. 3i + 2: a magnitude of eight: 2 c + 1 (IQ3_S), 8 c + 4 but 62 for the last
 *          (IQ3_XXS)
 * The file's indices follow the patterns' numeric order, so the lists ascend.
 *
 * Panels hold no indices: kern_pack() looks the patterns up, and a code of up to four bits (of
 * five or six: IQ5_K, IQ5_KS, IQ6_K) then stands for a number of KERN_VALUES.
 *
 * Thread: any.
 * Memory: constants.
 */
#ifndef KERNELS_GEMM_CODEBOOK_H
#define KERNELS_GEMM_CODEBOOK_H

#include "kernels/kernels.h"

extern const uint16_t KERN_IQ2_XXS_GRID[256];
extern const uint16_t KERN_IQ2_XS_GRID[512];
extern const uint16_t KERN_IQ2_S_GRID[1024];
extern const uint16_t KERN_IQ3_XXS_GRID[256];
extern const uint16_t KERN_IQ3_S_GRID[512];
extern const uint16_t KERN_IQ1_GRID[2048];

/* The number that a panel's code stands for; IQ1_M counts in eighths. A sign is the code's top
 * bit: bit 3, or bit 2 in IQ2 and (of the shift) in IQ1_M. */
#define KERN_VALUES_IQ2 8, 25, 43, 0, -8, -25, -43, 0
#define KERN_VALUES_IQ4 -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
#define KERN_VALUES_IQ5                                                                            \
    -126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6, -1, 5, 11,   \
        17, 23, 29, 36, 43, 51, 59, 68, 77, 87, 97, 109, 121
#define KERN_VALUES_E2M1 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
static const int8_t KERN_VALUES[KERN_N_WEIGHT][64] = {
    [KERN_IQ4_NL] = {KERN_VALUES_IQ4},
    [KERN_IQ4_XS] = {KERN_VALUES_IQ4},
    [KERN_MXFP4] = {KERN_VALUES_E2M1},
    [KERN_NVFP4] = {KERN_VALUES_E2M1},
    [KERN_IQ4_K] = {KERN_VALUES_IQ4},
    [KERN_IQ3_K] = {-63, -40, -23, -10, 1, 13, 28, 47},
    [KERN_IQ2_K] = {-31, -13, 1, 17},
    [KERN_IQ4_KS] = {KERN_VALUES_IQ4},
    [KERN_IQ5_K] = {KERN_VALUES_IQ5},
    [KERN_IQ5_KS] = {KERN_VALUES_IQ5},
    [KERN_IQ6_K] = {-127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66,
                    -62,  -58,  -54,  -51,  -47,  -44, -40, -37, -34, -31, -28, -25, -22,
                    -19,  -16,  -13,  -11,  -8,   -5,  -2,  0,   3,   6,   9,   12,  14,
                    17,   20,   23,   27,   30,   33,  36,  40,  44,  47,  51,  55,  59,
                    63,   68,   72,   77,   82,   87,  92,  98,  103, 109, 115, 121},
    [KERN_Q2_0] = {-1, 0, 1, 2},
    [KERN_Q1_0] = {-1, 1},
    [KERN_TQ2_0] = {-1, 0, 1, 2},
    [KERN_TQ1_0] = {-1, 0, 1, 2},
    [KERN_IQ3_S] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15},
    [KERN_IQ3_XXS] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62},
    [KERN_IQ2_S] = {KERN_VALUES_IQ2},
    [KERN_IQ2_XS] = {KERN_VALUES_IQ2},
    [KERN_IQ2_XXS] = {KERN_VALUES_IQ2},
    [KERN_IQ1_S] = {0, 1, 2},
    [KERN_IQ1_M] = {-7, 1, 9, 0, -9, -1, 7, 0},
};

/* True: every row has a float scale that multiplies all its values. Its product with a group's
 * scale is rounded; the scales of other types multiply exactly. */
static inline bool kern_has_row_scale(enum kern_weight w)
{
    return w == KERN_IQ4_KS || w == KERN_IQ5_KS;
}

/* Return how much is added to the values of a half, or of a group, if its shift bit is set. */
static inline int kern_values_shift(enum kern_weight w)
{
    switch (w) {
    case KERN_IQ2_K:
        return 5;
    case KERN_IQ3_K:
    case KERN_IQ4_K:
    case KERN_IQ4_KS:
        return 4;
    case KERN_IQ5_K:
    case KERN_IQ5_KS:
        return 2;
    case KERN_IQ6_K:
        return 1;
    default:
        return 0;
    }
}

/* Return eight sign bits of which seven are stored: the eighth makes the number of ones even. */
static inline uint8_t kern_even_signs(unsigned seven)
{
    return (uint8_t)(seven | (unsigned)__builtin_parity(seven) << 7);
}

#endif
