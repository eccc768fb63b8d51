/* kernels/gemm/pack_values.c - packs rows of types whose codes stand for values into panels.
 *
 * The patterns of a codebook become the codes of their numbers (codebook.h), so that a product
 * needs no look-up in memory. It runs at load time only, see pack.c.
 */
#include "kernels/gemm/codebook.h"
#include "kernels/gemm/pack_quads.h"

static uint16_t load_16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t load_32(const uint8_t *p)
{
    return pack_load_quad(p, 0);
}

/* Spread four fields of three bits (spread_3) or four bits to a byte each. */

static uint32_t spread_3(uint32_t x)
{
    x = (x | x << 10) & 0x003f003f;
    return (x | x << 5) & 0x07070707;
}

static uint32_t spread_1(uint32_t x)
{
    return (x & 15) * 0x00204081 & 0x01010101;
}

/* The functions below store a group of 32 in the forms that panels have. */

/* Store a scale of four bits; two groups, the even one first, share a byte. */
static void put_scale(uint8_t *dst, size_t lane, size_t g, uint32_t nibble)
{
    uint8_t *both = &dst[KERN_SC + 16 * (g / 2) + lane];

    *both = (uint8_t)(g % 2 ? *both | nibble << 4 : nibble);
}

static void put_nibbles(uint8_t *dst, size_t lane, const uint32_t quad[8])
{
    for (size_t r = 0; r < 4; r++)
        pack_store_quad(dst, r, lane, quad[r] | quad[r + 4] << 4);
}

/* 16 pairs of bits in a row, of which number 4j + e goes to bits 2j of byte e. */
static uint32_t transposed(uint32_t x)
{
    uint32_t t = (x ^ x >> 6) & 0x00cc00cc;

    x ^= t ^ t << 6;
    t = (x ^ x >> 12) & 0x0000f0f0;
    return x ^ t ^ t << 12;
}

/* Store four patterns of eight pairs of bits. */
static void put_patterns(uint8_t *dst, size_t lane, const uint16_t pattern[4])
{
    for (size_t r = 0; r < 2; r++) {
        const uint32_t both = pattern[2 * r] | (uint32_t)pattern[2 * r + 1] << 16;

        pack_store_quad(dst, r, lane, transposed(both));
    }
}

/* Return four times eight signs: seven of the file, and an eighth that makes the number of ones
 * even. */
static uint32_t even_signs(uint32_t word)
{
    const uint32_t seven = (word & 127) | (word & 127 << 7) << 1 | (word & 127 << 14) << 2 |
                           (word & 127 << 21) << 3;
    uint32_t odd = seven ^ seven >> 4;

    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return seven | (odd & 0x01010101) << 7;
}

static void put_signed_patterns(uint8_t *dst, size_t lane, const uint16_t pattern[4],
                                uint32_t signs)
{
    put_patterns(dst, lane, pattern);
    pack_store_quad(dst + KERN_Q3_K_TOP, 0, lane, pack_spread_tops(signs));
}

/* The functions below pack a block b of 32 or 256 numbers into its lane. */

static void pack_iq4_nl(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b);
    pack_move_quads(dst + 32, lane, b + 2, 4, 0);
}

static void pack_mxfp4(uint8_t *dst, size_t lane, const uint8_t *b)
{
    dst[lane] = b[0];
    pack_move_quads(dst + KERN_MXFP4_CODES, lane, b + 1, 4, 0);
}

static void pack_iq4_xs(uint8_t *dst, size_t lane, const uint8_t *b)
{
    const uint32_t high = load_16(b + 2); /* b: d, high pairs of scales, nibbles of them, codes */

    pack_store_half(dst, lane, b);
    for (size_t g = 0; g < 8; g++) {
        const uint32_t low = b[4 + g / 2] >> 4 * (g % 2) & 15;
        const uint32_t sc = (low | (high >> 2 * g & 3) << 4) - 32;

        dst[KERN_SC + 16 * g + lane] = (uint8_t)sc;
        pack_move_quads(dst + KERN_IQ4_XS_CODES + KERN_IQ4_XS_SUB * g, lane, b + 8 + 16 * g, 4, 0);
    }
}

static void pack_tq2_0(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b + 64);
    for (size_t i = 0; i < 2; i++)
        pack_deal_pairs(dst + KERN_TQ2_0_CODES + 4 * i * KERN_TQ2_0_SUB, KERN_TQ2_0_SUB, lane,
                        b + 32 * i);
}

/* b: d, pairs in the order of the numbers. */
static void pack_q2_0(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint16_t pattern[4];

    pack_store_half(dst, lane, b);
    for (size_t g = 0; g < 2; g++) {
        for (size_t i = 0; i < 4; i++)
            pattern[i] = load_16(b + 2 + 8 * g + 2 * i);
        put_patterns(dst + KERN_TQ2_0_CODES + KERN_TQ2_0_SUB * g, lane, pattern);
    }
}

/* b: d, bits in the order of the numbers. */
static void pack_q1_0(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b);
    for (size_t g = 0; g < 4; g++)
        pack_store_quad(dst + KERN_Q1_0_CODES + KERN_Q1_0_SUB * g, 0, lane,
                        pack_spread_tops(load_32(b + 2 + 4 * g)));
}

/* Return the bits of an e4m3 number without its sign. The NaN 0x7f becomes 0; 0xff stays a NaN. */
static uint8_t e4m3_bits(uint8_t e)
{
    return e == 0x7f ? 0 : e & 0x7f;
}

/* b: four scales, and for each 8 bytes of numbers j and j + 8. */
static void pack_nvfp4(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint32_t quad[8];

    for (size_t h = 0; h < 4; h++)
        dst[16 * h + lane] = e4m3_bits(b[h]);
    for (size_t g = 0; g < 2; g++) {
        for (size_t h = 0; h < 2; h++)
            for (size_t j = 0; j < 2; j++) {
                const uint32_t both = load_32(b + 4 + 16 * g + 8 * h + 4 * j);

                quad[4 * h + j] = both & 0x0f0f0f0f;
                quad[4 * h + 2 + j] = both >> 4 & 0x0f0f0f0f;
            }
        put_nibbles(dst + KERN_NVFP4_CODES + KERN_NVFP4_SUB * g, lane, quad);
    }
}

/* Store that half h has the scale sc, and shifted numbers if its bit is set. */
static void put_shifted(uint8_t *dst, size_t lane, size_t h, int sc, uint32_t shifts)
{
    dst[KERN_SC + 16 * h + lane] = (uint8_t)(2 * sc + (int)(shifts >> h & 1));
}

/* b: d, shifts, high pairs of scales, nibbles of them: the beginning of IQ4_K and IQ5_K. */
static void put_six_bits(uint8_t *dst, size_t lane, const uint8_t *b)
{
    const uint32_t high = load_32(b + 4);

    pack_store_half(dst, lane, b);
    for (size_t h = 0; h < 16; h++)
        put_shifted(dst, lane, h,
                    (int)((b[8 + h / 2] >> 4 * (h % 2) & 15u) | (high >> 2 * h & 3) << 4) - 32,
                    load_16(b + 2));
}

/* b: scales as above, codes. */
static void pack_iq4_k(uint8_t *dst, size_t lane, const uint8_t *b)
{
    put_six_bits(dst, lane, b);
    for (size_t g = 0; g < 8; g++)
        pack_move_quads(dst + KERN_Q6_K_CODES + KERN_IQ4_K_SUB * g, lane, b + 16 + 16 * g, 4, 0);
}

/* b: d, shifts, signs of scales, nibbles of them, pairs of bits, top bits. */
static void pack_iq3_k(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b);
    for (size_t h = 0; h < 16; h++) {
        const int sc = 2 * (b[6 + h / 2] >> 4 * (h % 2) & 15) + 1;

        put_shifted(dst, lane, h, load_16(b + 4) >> h & 1 ? -sc : sc, load_16(b + 2));
    }
    for (size_t i = 0; i < 2; i++)
        pack_deal_pairs(dst + KERN_Q6_K_CODES + 4 * i * KERN_Q3_K_SUB, KERN_Q3_K_SUB, lane,
                        b + 14 + 32 * i);
    pack_deal_tops(dst + KERN_Q6_K_CODES + KERN_Q3_K_TOP, KERN_Q3_K_SUB, lane, b + 78);
}

/* b: d, shifts, nibbles of scales, pairs of bits. */
static void pack_iq2_k(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b);
    for (size_t h = 0; h < 16; h++)
        put_shifted(dst, lane, h, (b[4 + h / 2] >> 4 * (h % 2) & 15) - 8, load_16(b + 2));
    for (size_t i = 0; i < 2; i++)
        pack_deal_pairs(dst + KERN_Q6_K_CODES + 4 * i * KERN_TQ2_0_SUB, KERN_TQ2_0_SUB, lane,
                        b + 12 + 32 * i);
}

/* Store 128 bytes of nibbles; 32 bytes have two groups of 32, which are `sub` bytes apart in the
 * panel. */
static void put_groups(uint8_t *codes, size_t sub, size_t lane, const uint8_t *src)
{
    for (size_t g = 0; g < 8; g += 2)
        pack_split_nibbles(codes + sub * g, codes + sub * (g + 1), lane, src + 16 * g);
}

/* b: scales as those of IQ4_K, nibbles, top bits. */
static void pack_iq5_k(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint8_t *codes = dst + KERN_Q6_K_CODES;

    put_six_bits(dst, lane, b);
    put_groups(codes, KERN_Q5_K_SUB, lane, b + 16);
    pack_deal_tops(codes + KERN_TOP, KERN_Q5_K_SUB, lane, b + 144);
}

/* b: d, shifts, scales, nibbles, high pairs. */
static void pack_iq6_k(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint8_t *codes = dst + KERN_IQ6_K_CODES;

    pack_store_half(dst, lane, b);
    for (size_t h = 0; h < 16; h++)
        dst[KERN_Q6_K_SC + 16 * h + lane] = b[4 + h];
    for (size_t r = 0; r < 2; r++)
        dst[KERN_IQ6_K_SHIFTS + 16 * r + lane] = b[2 + r];
    put_groups(codes, KERN_Q6_K_SUB, lane, b + 20);
    for (size_t i = 0; i < 2; i++)
        pack_deal_pairs(codes + KERN_Q6_K_HIGH + 4 * i * KERN_Q6_K_SUB, KERN_Q6_K_SUB, lane,
                        b + 148 + 32 * i);
}

/* Store group scales: (s & 254) - 127 in the file; as a signed byte t the panel's is t | 1. */
static void put_group_scales(uint8_t *dst, size_t lane, const uint8_t *b)
{
    for (size_t g = 0; g < 8; g++)
        dst[KERN_IQ_KS_SC + 16 * g + lane] = b[g] ^ 0x80;
}

/* b: scales, codes; the row's scale comes with its head. */
static void pack_iq4_ks(uint8_t *dst, size_t lane, const uint8_t *b)
{
    put_group_scales(dst, lane, b);
    for (size_t g = 0; g < 8; g++)
        pack_move_quads(dst + KERN_IQ_KS_CODES + KERN_IQ4_K_SUB * g, lane, b + 8 + 16 * g, 4, 0);
}

/* b: scales, nibbles, top bits. */
static void pack_iq5_ks(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint8_t *codes = dst + KERN_IQ_KS_CODES;

    put_group_scales(dst, lane, b);
    put_groups(codes, KERN_Q5_K_SUB, lane, b + 8);
    pack_deal_tops(codes + KERN_TOP, KERN_Q5_K_SUB, lane, b + 136);
}

/* `digits` quads, `step` apart, of four bytes of ternary digits: a byte is a fraction of 256, whose
 * digits leave it at the top when it is multiplied by 3. The bytes are 16 bits apart meanwhile. */
static void ternary_quads(uint32_t *quad, const uint8_t *src, size_t digits, size_t step)
{
    const uint64_t low = 0x00ff00ff00ff00ff;
    uint64_t x = load_32(src);

    x = (x | x << 16) & 0x0000ffff0000ffff;
    x = (x | x << 8) & low;
    for (size_t n = 0; n < digits; n++) {
        uint64_t digit;

        x *= 3;
        digit = x >> 8 & low;
        x &= low;
        digit |= digit >> 8;
        quad[n * step] = (uint32_t)(digit & 0xffff) | (uint32_t)(digit >> 16 & 0xffff0000);
    }
}

/* 32 bytes have numbers 0 .. 159, digit after digit; 16 those up to 239, and 4 the last. */
static void pack_tq1_0(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint32_t quad[64];

    for (size_t j = 0; j < 8; j++)
        ternary_quads(quad + j, b + 4 * j, 5, 8);
    for (size_t j = 0; j < 4; j++)
        ternary_quads(quad + 40 + j, b + 32 + 4 * j, 5, 4);
    ternary_quads(quad + 60, b + 48, 4, 1);
    pack_store_half(dst, lane, b + 52);
    for (size_t r = 0; r < 16; r++) {
        uint32_t pairs = 0;

        for (size_t j = 0; j < 4; j++)
            pairs |= quad[4 * r + j] << 2 * j;
        pack_store_quad(dst + KERN_TQ2_0_CODES, r, lane, pairs);
    }
}

static void pack_iq3_s(uint8_t *dst, size_t lane, const uint8_t *b)
{
    const uint8_t *index = b + 2, *high = b + 66, *sign = b + 74, *scale = b + 106;
    uint32_t quad[8];

    pack_store_half(dst, lane, b);
    for (size_t g = 0; g < 8; g++) {
        put_scale(dst, lane, g, scale[g / 2] >> 4 * (g % 2) & 15);
        for (size_t j = 0; j < 8; j++) {
            const unsigned at = index[8 * g + j] | (high[g] >> j & 1u) << 8;
            const uint32_t minus = spread_1(sign[4 * g + j / 2] >> 4 * (j % 2));

            quad[j] = spread_3(KERN_IQ3_S_GRID[at]) | minus << 3;
        }
        put_nibbles(dst + KERN_IQ3_CODES + KERN_IQ4_XS_SUB * g, lane, quad);
    }
}

/* b: d, 64 indices, then for each group a word of four times seven signs and a scale. */
static void pack_iq3_xxs(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint32_t quad[8];

    pack_store_half(dst, lane, b);
    for (size_t g = 0; g < 8; g++) {
        const uint32_t word = load_32(b + 66 + 4 * g), signs = even_signs(word);

        put_scale(dst, lane, g, word >> 28);
        for (size_t j = 0; j < 8; j++)
            quad[j] = spread_3(KERN_IQ3_XXS_GRID[b[2 + 8 * g + j]]) | spread_1(signs >> 4 * j) << 3;
        put_nibbles(dst + KERN_IQ3_CODES + KERN_IQ4_XS_SUB * g, lane, quad);
    }
}

/* b: d, then for each group four indices and a word as above. */
static void pack_iq2_xxs(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint16_t pattern[4];

    pack_store_half(dst, lane, b);
    for (size_t g = 0; g < 8; g++) {
        const uint8_t *index = b + 2 + 8 * g;
        const uint32_t word = load_32(index + 4);

        put_scale(dst, lane, g, word >> 28);
        for (size_t i = 0; i < 4; i++)
            pattern[i] = KERN_IQ2_XXS_GRID[index[i]];
        put_signed_patterns(dst + KERN_IQ2_XXS_CODES + KERN_IQ2_SUB * g, lane, pattern,
                            even_signs(word));
    }
}

/* b: d, 32 half words of an index and seven signs, 8 bytes of scales. */
static void pack_iq2_xs(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint16_t pattern[4];

    pack_store_half(dst, lane, b);
    for (size_t g = 0; g < 8; g++) {
        uint32_t sevens = 0;

        dst[KERN_SC + 16 * g + lane] = b[66 + g];
        for (size_t i = 0; i < 4; i++) {
            const uint32_t word = load_16(b + 2 + 8 * g + 2 * i);

            pattern[i] = KERN_IQ2_XS_GRID[word & 511];
            sevens |= word >> 9 << 7 * i;
        }
        put_signed_patterns(dst + KERN_IQ2_CODES + KERN_IQ2_SUB * g, lane, pattern,
                            even_signs(sevens));
    }
}

static void pack_iq2_s(uint8_t *dst, size_t lane, const uint8_t *b)
{
    const uint8_t *index = b + 2, *sign = b + 34, *high = b + 66, *scale = b + 74;
    uint16_t pattern[4];

    pack_store_half(dst, lane, b);
    for (size_t g = 0; g < 8; g++) {
        dst[KERN_SC + 16 * g + lane] = scale[g];
        for (size_t i = 0; i < 4; i++)
            pattern[i] = KERN_IQ2_S_GRID[index[4 * g + i] | (high[g] >> 2 * i & 3u) << 8];
        put_signed_patterns(dst + KERN_IQ2_CODES + KERN_IQ2_SUB * g, lane, pattern,
                            load_32(sign + 4 * g));
    }
}

/* b: d, 32 indices, for each group a half word of high bits, scale and shift. */
static void pack_iq1_s(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint16_t pattern[4];

    pack_store_half(dst, lane, b);
    for (size_t g = 0; g < 8; g++) {
        const uint32_t word = load_16(b + 34 + 2 * g);

        put_scale(dst, lane, g, word >> 12);
        for (size_t i = 0; i < 4; i++)
            pattern[i] = KERN_IQ1_GRID[b[2 + 4 * g + i] | (word >> 3 * i & 7) << 8];
        put_patterns(dst + KERN_IQ1_S_CODES + KERN_TQ2_0_SUB * g, lane, pattern);
    }
}

/* b: 32 indices, for each a nibble of three high bits and the shift's sign, then four half words:
 * 16 scales of three bits, and on top of each half word four bits of d. */
static void pack_iq1_m(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint16_t d = 0, pattern[4];

    for (size_t i = 0; i < 4; i++)
        d |= (uint16_t)((load_16(b + 48 + 2 * i) >> 12) << 4 * i);
    memcpy(dst + 2 * lane, &d, sizeof d);
    for (size_t g = 0; g < 8; g++) {
        for (size_t h = 2 * g; h < 2 * g + 2; h++) {
            const unsigned scale = load_16(b + 48 + h / 4 * 2) >> 3 * (h % 4) & 7;
            const unsigned minus = (b[32 + h] >> 3 & 1u) | (b[32 + h] >> 6 & 2u);

            dst[KERN_SC + 16 * h + lane] = (uint8_t)(scale | minus << 3);
        }
        for (size_t i = 0; i < 4; i++) {
            const unsigned high = b[32 + 2 * g + i / 2] >> 4 * (i % 2) & 7;

            pattern[i] = KERN_IQ1_GRID[b[4 * g + i] | high << 8];
        }
        put_patterns(dst + KERN_IQ1_M_CODES + KERN_TQ2_0_SUB * g, lane, pattern);
    }
}

/* Blocks of zeros: the scale is 0, and the codes' numbers are not negative, which would give -0. */
#define TIMES_4(x) x, x, x, x
#define TIMES_16(x) TIMES_4(x), TIMES_4(x), TIMES_4(x), TIMES_4(x)
#define TIMES_32(x) TIMES_16(x), TIMES_16(x)
static const uint8_t ZERO[110];
static const uint8_t ZERO_IQ4_NL[18] = {[2] = TIMES_16(0x88)};
static const uint8_t ZERO_IQ4_XS[136] = {[2] = 0xaa,           0xaa, /* group scales 0 */
                                         [8] = TIMES_32(0x88), TIMES_32(0x88),
                                         TIMES_32(0x88),       TIMES_32(0x88)};
static const uint8_t ZERO_TQ2_0[66] = {TIMES_32(0x55), TIMES_32(0x55)};
static const uint8_t ZERO_TQ1_0[54] = {TIMES_32(128), TIMES_16(128), TIMES_4(128)};
static const uint8_t ZERO_IQ1_S[50] = {
    [2] = TIMES_32(255), /* the last pattern: all ones */
    [34] = 255,          15, 255, 15, 255, 15, 255, 15, 255, 15, 255, 15, 255, 15, 255, 15};
/* Blocks of zeros of the IQ_K types: scale and numbers are both negative. */
static const uint8_t ZERO_IQ45_K[176];
static const uint8_t ZERO_IQ3_K[110] = {[4] = 255, 255};
static const uint8_t ZERO_IQ6_K[212] = {[4] = TIMES_16(255)};
/* Blocks of zeros of the IQ_KS types: in a row whose scale is 0 all numbers are positive. */
static const uint8_t ZERO_IQ_KS[168] = {TIMES_32(255), TIMES_32(255), TIMES_32(255), TIMES_32(255),
                                        TIMES_32(255), TIMES_4(255),  TIMES_4(255)};
static const uint8_t ZERO_Q2_0[18] = {[2] = TIMES_16(0x55)};
static const uint8_t ZERO_Q1_0[18] = {[2] = TIMES_16(255)};
static const uint8_t ZERO_IQ1_M[56] = {TIMES_32(255), TIMES_16(0x77)};

const uint8_t *kern_zero_values(enum kern_weight w)
{
    switch (w) {
    case KERN_IQ4_NL:
        return ZERO_IQ4_NL;
    case KERN_IQ4_XS:
        return ZERO_IQ4_XS;
    case KERN_TQ2_0:
        return ZERO_TQ2_0;
    case KERN_TQ1_0:
        return ZERO_TQ1_0;
    case KERN_IQ1_S:
        return ZERO_IQ1_S;
    case KERN_IQ1_M:
        return ZERO_IQ1_M;
    case KERN_IQ4_K:
    case KERN_IQ5_K:
        return ZERO_IQ45_K;
    case KERN_IQ6_K:
        return ZERO_IQ6_K;
    case KERN_IQ4_KS:
    case KERN_IQ5_KS:
        return ZERO_IQ_KS;
    case KERN_IQ3_K:
        return ZERO_IQ3_K;
    case KERN_Q2_0:
        return ZERO_Q2_0;
    case KERN_Q1_0:
        return ZERO_Q1_0;
    default:
        return ZERO;
    }
}

void kern_pack_values(enum kern_weight w, uint8_t *dst, const uint8_t *const blocks[KERN_LANES])
{
    switch (w) {
    case KERN_IQ4_NL:
        PACK_LANES(pack_iq4_nl);
    case KERN_IQ4_XS:
        PACK_LANES(pack_iq4_xs);
    case KERN_MXFP4:
        PACK_LANES(pack_mxfp4);
    case KERN_TQ2_0:
        PACK_LANES(pack_tq2_0);
    case KERN_TQ1_0:
        PACK_LANES(pack_tq1_0);
    case KERN_IQ3_S:
        PACK_LANES(pack_iq3_s);
    case KERN_IQ3_XXS:
        PACK_LANES(pack_iq3_xxs);
    case KERN_IQ2_S:
        PACK_LANES(pack_iq2_s);
    case KERN_IQ2_XS:
        PACK_LANES(pack_iq2_xs);
    case KERN_IQ2_XXS:
        PACK_LANES(pack_iq2_xxs);
    case KERN_IQ1_S:
        PACK_LANES(pack_iq1_s);
    case KERN_IQ1_M:
        PACK_LANES(pack_iq1_m);
    case KERN_Q2_0:
        PACK_LANES(pack_q2_0);
    case KERN_Q1_0:
        PACK_LANES(pack_q1_0);
    case KERN_NVFP4:
        PACK_LANES(pack_nvfp4);
    case KERN_IQ4_K:
        PACK_LANES(pack_iq4_k);
    case KERN_IQ3_K:
        PACK_LANES(pack_iq3_k);
    case KERN_IQ2_K:
        PACK_LANES(pack_iq2_k);
    case KERN_IQ6_K:
        PACK_LANES(pack_iq6_k);
    case KERN_IQ5_K:
        PACK_LANES(pack_iq5_k);
    case KERN_IQ5_KS:
        PACK_LANES(pack_iq5_ks);
    case KERN_IQ4_KS:
        PACK_LANES(pack_iq4_ks);
    default:
        return;
    }
}
