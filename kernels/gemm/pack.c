/* kernels/gemm/pack.c - packs the GGUF rows of a file into the panels that products read.
 *
 * A panel takes four codes (a quad) of each of its 16 lanes in turn. It runs at load time only, and
 * must be as fast as a disk: more than 1.5 GB of rows a second on two cores.
 */
#include <string.h>

#include "kernels/gemm/pack_quads.h"

/* Pack the codes of Q5_0 and Q5_1: 4 bytes of fifth bits, 16 bytes of nibbles. */
static void move_5_bits(uint8_t *dst, size_t lane, const uint8_t *src)
{
    pack_move_quads(dst, lane, src + 4, 4, 0);
    pack_store_quad(dst + KERN_TOP, 0, lane, pack_spread_tops(pack_load_quad(src, 0)));
}

/* The functions below pack a block b of 32 or 256 numbers into its lane. */

static void pack_q8_0(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b);
    pack_move_quads(dst + 32, lane, b + 2, 8, 0x80808080);
}

static void pack_q4_0(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b);
    pack_move_quads(dst + 32, lane, b + 2, 4, 0);
}

static void pack_q4_1(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b);
    pack_store_half(dst + KERN_Q4_1_MIN, lane, b + 2);
    pack_move_quads(dst + KERN_Q4_1_CODES, lane, b + 4, 4, 0);
}

static void pack_q5_0(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b);
    move_5_bits(dst + KERN_Q5_0_CODES, lane, b + 2);
}

static void pack_q5_1(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b);
    pack_store_half(dst + KERN_Q4_1_MIN, lane, b + 2);
    move_5_bits(dst + KERN_Q4_1_CODES, lane, b + 4);
}

/* Read the 6-bit scale and minimum of group g (of 8) from 12 bytes: four low bits of the upper
 * groups share bytes 8..11, their two high bits top the bytes of the lower groups. */
static void q4_k_scale(const uint8_t s[12], size_t g, uint8_t *sc, uint8_t *mn)
{
    if (g < 4) {
        *sc = s[g] & 63;
        *mn = s[g + 4] & 63;
        return;
    }
    *sc = (uint8_t)((s[g + 4] & 15) | s[g - 4] >> 6 << 4);
    *mn = (uint8_t)(s[g + 4] >> 4 | s[g] >> 6 << 4);
}

/* Pack d, dmin and 12 bytes of scales and minima: the beginning of Q4_K and Q5_K. */
static void pack_k_scales(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b);
    pack_store_half(dst + KERN_Q4_K_DMIN, lane, b + 2);
    for (size_t g = 0; g < 8; g++)
        q4_k_scale(b + 4, g, &dst[KERN_Q4_K_SC + 16 * g + lane],
                   &dst[KERN_Q4_K_MN + 16 * g + lane]);
}

static void pack_q4_k(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint8_t *codes = dst + KERN_Q4_K_CODES;

    pack_k_scales(dst, lane, b);
    for (size_t g = 0; g < 8; g += 2)
        pack_split_nibbles(codes + 256 * g, codes + 256 * (g + 1), lane, b + 16 + 16 * g);
}

static void pack_q5_k(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint8_t *codes = dst + KERN_Q4_K_CODES; /* b: scales as above, 32 bytes of top bits, 128 of
                                             * nibbles */

    pack_k_scales(dst, lane, b);
    for (size_t g = 0; g < 8; g += 2)
        pack_split_nibbles(codes + KERN_Q5_K_SUB * g, codes + KERN_Q5_K_SUB * (g + 1), lane,
                           b + 48 + 16 * g);
    pack_deal_tops(codes + KERN_TOP, KERN_Q5_K_SUB, lane, b + 16);
}

/* Return six-bit scale h of 16 in 12 bytes: low nibbles in the first eight, then pairs of high
 * bits. */
static int8_t q3_k_scale(const uint8_t s[12], size_t h)
{
    const int low = h < 8 ? s[h] & 15 : s[h - 8] >> 4;

    return (int8_t)((low | (s[8 + h % 4] >> h / 4 * 2 & 3) << 4) - 32);
}

static void pack_q3_k(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint8_t *codes = dst + KERN_Q6_K_CODES; /* b: 32 bytes of third bits, 64 of pairs, 12 of scales,
                                             * d */

    pack_store_half(dst, lane, b + 108);
    for (size_t h = 0; h < 16; h++)
        dst[KERN_Q6_K_SC + 16 * h + lane] = (uint8_t)q3_k_scale(b + 96, h);
    for (size_t i = 0; i < 2; i++)
        pack_deal_pairs(codes + 4 * i * KERN_Q3_K_SUB, KERN_Q3_K_SUB, lane, b + 32 + 32 * i);
    pack_deal_tops(codes + KERN_Q3_K_TOP, KERN_Q3_K_SUB, lane, b);
}

static void pack_q2_k(uint8_t *dst, size_t lane, const uint8_t *b)
{
    pack_store_half(dst, lane, b + 80); /* b: 16 bytes of scales and minima, 64 of pairs, d, dmin */
    pack_store_half(dst + KERN_Q2_K_DMIN, lane, b + 82);
    for (size_t h = 0; h < 16; h++)
        dst[KERN_Q2_K_SM + 16 * h + lane] = b[h];
    for (size_t i = 0; i < 2; i++)
        pack_deal_pairs(dst + KERN_Q2_K_CODES + 4 * i * KERN_Q2_K_SUB, KERN_Q2_K_SUB, lane,
                        b + 16 + 32 * i);
}

static void pack_q6_k(uint8_t *dst, size_t lane, const uint8_t *b)
{
    uint8_t *codes = dst + KERN_Q6_K_CODES; /* b: 128 bytes of low nibbles, 64 of high bit pairs, 16
                                             * of scales, d */

    pack_store_half(dst, lane, b + 208);
    for (size_t h = 0; h < 16; h++)
        dst[KERN_Q6_K_SC + 16 * h + lane] = b[192 + h];
    for (size_t i = 0; i < 4; i++) { /* groups 0, 1, 4, 5, each with the group two further on */
        uint8_t *low = codes + KERN_Q6_K_SUB * (i / 2 * 4 + i % 2);

        pack_split_nibbles(low, low + 2 * KERN_Q6_K_SUB, lane, b + 32 * i);
    }
    for (size_t i = 0; i < 2; i++)
        pack_deal_pairs(codes + KERN_Q6_K_HIGH + 4 * i * KERN_Q6_K_SUB, KERN_Q6_K_SUB, lane,
                        b + 128 + 32 * i);
}

/* Blocks of zeros, for formats in which these are not all bits 0. */
static const uint8_t ZERO[210];
static const uint8_t ZERO_Q4_0[18] = {[2] = 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88,
                                      0x88,       0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88};
static const uint8_t ZERO_Q5_0[22] = {[2] = 255, 255, 255, 255}; /* codes 16 */
static const uint8_t ZERO_Q3_K[110] = {                          /* codes 4, scales 0 */
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, [104] = 0xaa, 0xaa,
    0xaa, 0xaa};
#define AA8 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa
static const uint8_t ZERO_Q6_K[210] = {[128] = AA8, AA8, AA8, AA8, AA8, AA8, AA8, AA8};

static const uint8_t *zero_block(enum kern_weight w)
{
    return w == KERN_Q4_0     ? ZERO_Q4_0
           : w == KERN_Q5_0   ? ZERO_Q5_0
           : w == KERN_Q3_K   ? ZERO_Q3_K
           : w == KERN_Q6_K   ? ZERO_Q6_K
           : w >= KERN_IQ4_NL ? kern_zero_values(w)
                              : ZERO;
}

static void pack_group(enum kern_weight w, uint8_t *dst, const uint8_t *const blocks[KERN_LANES])
{
    switch (w) {
    case KERN_Q8_0:
        PACK_LANES(pack_q8_0);
    case KERN_Q4_0:
        PACK_LANES(pack_q4_0);
    case KERN_Q4_K:
        PACK_LANES(pack_q4_k);
    case KERN_Q6_K:
        PACK_LANES(pack_q6_k);
    case KERN_Q4_1:
        PACK_LANES(pack_q4_1);
    case KERN_Q5_0:
        PACK_LANES(pack_q5_0);
    case KERN_Q5_1:
        PACK_LANES(pack_q5_1);
    case KERN_Q5_K:
        PACK_LANES(pack_q5_k);
    case KERN_Q3_K:
        PACK_LANES(pack_q3_k);
    case KERN_Q2_K:
        PACK_LANES(pack_q2_k);
    case KERN_IQ4_NL:
    case KERN_IQ4_XS:
    case KERN_MXFP4:
    case KERN_TQ2_0:
    case KERN_TQ1_0:
    case KERN_IQ3_S:
    case KERN_IQ3_XXS:
    case KERN_IQ2_S:
    case KERN_IQ2_XS:
    case KERN_IQ2_XXS:
    case KERN_IQ1_S:
    case KERN_IQ1_M:
    case KERN_Q2_0:
    case KERN_Q1_0:
    case KERN_NVFP4:
    case KERN_IQ4_K:
    case KERN_IQ3_K:
    case KERN_IQ2_K:
    case KERN_IQ6_K:
    case KERN_IQ5_K:
    case KERN_IQ5_KS:
    case KERN_IQ4_KS:
        kern_pack_values(w, dst, blocks);
        return;
    case KERN_F32:
    case KERN_F16:
    case KERN_BF16:
    case KERN_N_WEIGHT:
        return;
    }
}

/* The rows being read; a missing row reads one block of zeros over and over. */
struct sources {
    const uint8_t *at[KERN_LANES];
    size_t step[KERN_LANES]; /* bytes from one group of the row to the next; 0: missing row */
    uint8_t head[KERN_LANES][sizeof(float)];
};

static struct sources sources_of(enum kern_weight w, const void *const rows[KERN_LANES])
{
    const size_t step = kern_block_bytes(w), head = kern_row_head(w);
    struct sources s = {0};

    for (size_t lane = 0; lane < KERN_LANES; lane++) {
        s.at[lane] = rows[lane] ? (const uint8_t *)rows[lane] + head : zero_block(w);
        s.step[lane] = rows[lane] ? step : 0;
        if (rows[lane])
            memcpy(s.head[lane], rows[lane], head);
    }
    return s;
}

static void pack_quantised(enum kern_weight w, uint8_t *dst, struct sources s, size_t n_groups)
{
    const size_t bytes = kern_panel_bytes(w, kern_weight_group(w));

    for (size_t g = 0; g < n_groups; g++, dst += bytes) {
        pack_group(w, dst, s.at);
        if (kern_row_head(w) > 0)
            memcpy(dst, s.head, sizeof s.head);
        for (size_t lane = 0; lane < KERN_LANES; lane++)
            s.at[lane] += s.step[lane];
    }
}

/* Interleave element j of every row. Whole tiles are transposed in registers of 16 bytes, which
 * every CPU has; the remaining columns are copied one by one. */

static void pack_tail(uint8_t *dst, const struct sources *s, size_t from, size_t k, size_t bytes)
{
    for (size_t j = from; j < k; j++)
        for (size_t lane = 0; lane < KERN_LANES; lane++)
            memcpy(dst + (KERN_LANES * j + lane) * bytes, s->at[lane] + j * s->step[lane], bytes);
}

typedef uint32_t words __attribute__((vector_size(16)));
typedef uint16_t halves __attribute__((vector_size(16)));

#define LOW_OF_WORDS(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_OF_WORDS(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LOW_OF_HALVES(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_OF_HALVES(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

/* Transpose n rows of n elements: after each of log2(n) rounds of interleaving rows i and i + n /
 * 2, a column is spread over half as many registers. */
#define TRANSPOSE(vector, n, low, high)                                                            \
    vector v[n], t[n];                                                                             \
                                                                                                   \
    for (size_t i = 0; i < (n); i++)                                                               \
        memcpy(&v[i], rows[i], sizeof v[i]);                                                       \
    for (int left = (n); left > 1; left /= 2) {                                                    \
        for (size_t i = 0; i < (n) / 2; i++) {                                                     \
            t[2 * i] = low(v[i], v[i + (n) / 2]);                                                  \
            t[2 * i + 1] = high(v[i], v[i + (n) / 2]);                                             \
        }                                                                                          \
        memcpy(v, t, sizeof v);                                                                    \
    }                                                                                              \
    for (size_t j = 0; j < (n); j++)                                                               \
        memcpy(dst + KERN_LANES * sizeof v[j] / (n) * j, &v[j], sizeof v[j])

static void pack_words(uint8_t *dst, const uint8_t *const rows[4])
{
    TRANSPOSE(words, 4, LOW_OF_WORDS, HIGH_OF_WORDS);
}

static void pack_halves(uint8_t *dst, const uint8_t *const rows[8])
{
    TRANSPOSE(halves, 8, LOW_OF_HALVES, HIGH_OF_HALVES);
}

static void pack_floats(uint8_t *dst, const struct sources *s, size_t k, size_t bytes)
{
    const size_t tile = 16 / bytes; /* rows and columns that a register holds */

    for (size_t j = 0; j < k / tile * tile; j += tile)
        for (size_t lane = 0; lane < KERN_LANES; lane += tile) {
            uint8_t *to = dst + (KERN_LANES * j + lane) * bytes;
            const uint8_t *at[8];

            for (size_t i = 0; i < tile; i++)
                at[i] = s->at[lane + i] + j * s->step[lane + i];
            if (bytes == 4)
                pack_words(to, at);
            else
                pack_halves(to, at);
        }
    pack_tail(dst, s, k / tile * tile, k, bytes);
}

void kern_pack(enum kern_weight w, void *panel, const void *const rows[KERN_LANES], size_t k)
{
    const struct sources s = sources_of(w, rows);

    if (kern_weight_is_quantised(w))
        pack_quantised(w, panel, s, k / kern_weight_group(w));
    else
        pack_floats(panel, &s, k, kern_block_bytes(w));
}
