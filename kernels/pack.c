/* kernels/pack.c - between the GGUF rows of a file and the panels that the products read.
 *
 * A row's group of 32 is first spread to 32 codes, one byte each, then dealt to the panel: four
 * codes (a quad) to each lane in turn. Load time only: legible rather than fast.
 */
#include <string.h>

#include "kernels/kern_internal.h"
#include "kernels/kern_math.h"

struct weight_format {
    const char *name;
    bool quantised;
    uint16_t group;       /* columns that pack together */
    uint16_t block_bytes; /* of the GGUF row, per group */
    uint16_t panel_bytes; /* of the panel, per group */
};

static const struct weight_format FORMAT[KERN_N_WEIGHT] = {
    [KERN_F32] = {"F32", false, 1, 4, 64},
    [KERN_F16] = {"F16", false, 1, 2, 32},
    [KERN_BF16] = {"BF16", false, 1, 2, 32},
    [KERN_Q8_0] = {"Q8_0", true, 32, 34, KERN_Q8_0_GROUP},
    [KERN_Q4_0] = {"Q4_0", true, 32, 18, KERN_Q4_0_GROUP},
    [KERN_Q4_K] = {"Q4_K", true, 256, 144, KERN_Q4_K_GROUP},
    [KERN_Q6_K] = {"Q6_K", true, 256, 210, KERN_Q6_K_GROUP},
    [KERN_Q4_1] = {"Q4_1", true, 32, 20, KERN_Q4_1_GROUP},
    [KERN_Q5_0] = {"Q5_0", true, 32, 22, KERN_Q5_0_GROUP},
    [KERN_Q5_1] = {"Q5_1", true, 32, 24, KERN_Q5_1_GROUP},
    [KERN_Q5_K] = {"Q5_K", true, 256, 176, KERN_Q5_K_GROUP},
    [KERN_Q3_K] = {"Q3_K", true, 256, 110, KERN_Q3_K_GROUP},
    [KERN_Q2_K] = {"Q2_K", true, 256, 84, KERN_Q2_K_GROUP},
};

bool kern_weight_is_quantised(enum kern_weight w)
{
    return FORMAT[w].quantised;
}

size_t kern_weight_group(enum kern_weight w)
{
    return FORMAT[w].group;
}

const char *kern_weight_name(enum kern_weight w)
{
    return FORMAT[w].name;
}

size_t kern_panel_bytes(enum kern_weight w, size_t k)
{
    return k / FORMAT[w].group * FORMAT[w].panel_bytes;
}

/* Codes c[32] of one lane as nibbles [4][16 lanes][4]: quad r below, quad r + 4 above. */
static void deal_nibbles(uint8_t *dst, size_t lane, const uint8_t c[32])
{
    for (size_t i = 0; i < 16; i++)
        dst[i / 4 * 64 + lane * 4 + i % 4] = (uint8_t)((c[i] & 15) | (c[i + 16] & 15) << 4);
}

static uint8_t nibble_at(const uint8_t *src, size_t lane, size_t i)
{
    const uint8_t b = src[i % 16 / 4 * 64 + lane * 4 + i % 4];

    return i < 16 ? b & 15 : b >> 4;
}

/* Two bits of each number as pairs [2][16 lanes][4]: those of quad 4r + j at bits 2j of row r. */
static void deal_pairs(uint8_t *dst, size_t lane, const uint8_t c[32], int shift)
{
    for (size_t i = 0; i < 8; i++) {
        const uint8_t *q = c + i / 4 * 16 + i % 4;
        int byte = 0;

        for (int j = 0; j < 4; j++)
            byte |= (q[4 * j] >> shift & 3) << 2 * j;
        dst[i / 4 * 64 + lane * 4 + i % 4] = (uint8_t)byte;
    }
}

static uint8_t pair_at(const uint8_t *src, size_t lane, size_t i)
{
    return src[i / 16 * 64 + lane * 4 + i % 4] >> (i % 16 / 4 * 2) & 3;
}

/* One bit of each number as [16 lanes][4]: that of quad j at bit j. */
static void deal_top(uint8_t *dst, size_t lane, const uint8_t c[32], int shift)
{
    for (size_t e = 0; e < 4; e++) {
        int byte = 0;

        for (int j = 0; j < 8; j++)
            byte |= (c[4 * j + (int)e] >> shift & 1) << j;
        dst[lane * 4 + e] = (uint8_t)byte;
    }
}

static uint8_t top_at(const uint8_t *src, size_t lane, size_t i)
{
    return src[lane * 4 + i % 4] >> (i / 4) & 1;
}

/* A group of 32 or 256 of one row into its lane; block == NULL is a zero row. */

static void pack_q8_0(uint8_t *dst, size_t lane, const uint8_t *block)
{
    memset(dst + 2 * lane, 0, 2);
    if (block)
        memcpy(dst + 2 * lane, block, 2);
    for (size_t i = 0; i < 32; i++)
        dst[32 + i / 4 * 64 + lane * 4 + i % 4] = block ? block[2 + i] ^ 0x80 : 0x80;
}

static void pack_q4_0(uint8_t *dst, size_t lane, const uint8_t *block)
{
    uint8_t c[32];

    memset(dst + 2 * lane, 0, 2);
    if (block)
        memcpy(dst + 2 * lane, block, 2);
    for (size_t i = 0; i < 32; i++)
        c[i] = !block ? 8 : i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4;
    deal_nibbles(dst + 32, lane, c);
}

/* The 5-bit codes of Q5_0 and Q5_1: 4 bytes of fifth bits, 16 of nibbles. */
static void deal_5_bits(uint8_t *dst, size_t lane, const uint8_t *qh)
{
    const uint8_t *qs = qh + 4;
    uint8_t c[32];

    for (size_t i = 0; i < 32; i++) {
        const int low = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;

        c[i] = (uint8_t)(low | (qh[i / 8] >> i % 8 & 1) << 4);
    }
    deal_nibbles(dst, lane, c);
    deal_top(dst + KERN_TOP, lane, c, 4);
}

static void pack_q4_1(uint8_t *dst, size_t lane, const uint8_t *block)
{
    static const uint8_t zero[20];
    const uint8_t *b = block ? block : zero; /* d, m, 16 bytes of nibbles */
    uint8_t c[32];

    memcpy(dst + 2 * lane, b, 2);
    memcpy(dst + KERN_Q4_1_MIN + 2 * lane, b + 2, 2);
    for (size_t i = 0; i < 32; i++)
        c[i] = i < 16 ? b[4 + i] & 15 : b[4 + i - 16] >> 4;
    deal_nibbles(dst + KERN_Q4_1_CODES, lane, c);
}

static void pack_q5_0(uint8_t *dst, size_t lane, const uint8_t *block)
{
    static const uint8_t zero[22] = {[2] = 255, 255, 255, 255}; /* codes 16 */
    const uint8_t *b = block ? block : zero;

    memcpy(dst + 2 * lane, b, 2);
    deal_5_bits(dst + KERN_Q5_0_CODES, lane, b + 2);
}

static void pack_q5_1(uint8_t *dst, size_t lane, const uint8_t *block)
{
    static const uint8_t zero[24];
    const uint8_t *b = block ? block : zero;

    memcpy(dst + 2 * lane, b, 2);
    memcpy(dst + KERN_Q4_1_MIN + 2 * lane, b + 2, 2);
    deal_5_bits(dst + KERN_Q4_1_CODES, lane, b + 4);
}

/* The 6-bit scale and minimum of group g (of 8) out of 12 bytes: four low bits of the upper
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

static void pack_q4_k(uint8_t *dst, size_t lane, const uint8_t *block)
{
    static const uint8_t zero[144];
    const uint8_t *b = block ? block : zero; /* d, dmin, 12 bytes of scales, 128 of codes */

    memcpy(dst + 2 * lane, b, 2);
    memcpy(dst + KERN_Q4_K_DMIN + 2 * lane, b + 2, 2);
    for (size_t g = 0; g < 8; g++) {
        const uint8_t *q = b + 16 + g / 2 * 32;
        uint8_t c[32];

        q4_k_scale(b + 4, g, &dst[KERN_Q4_K_SC + 16 * g + lane],
                   &dst[KERN_Q4_K_MN + 16 * g + lane]);
        for (size_t i = 0; i < 32; i++)
            c[i] = g % 2 ? q[i] >> 4 : q[i] & 15;
        deal_nibbles(dst + KERN_Q4_K_CODES + 256 * g, lane, c);
    }
}

static void pack_q5_k(uint8_t *dst, size_t lane, const uint8_t *block)
{
    static const uint8_t zero[176];
    const uint8_t *b = block ? block : zero; /* d, dmin, 12 of scales, 32 of top bits, 128 */

    memcpy(dst + 2 * lane, b, 2);
    memcpy(dst + KERN_Q4_K_DMIN + 2 * lane, b + 2, 2);
    for (size_t g = 0; g < 8; g++) {
        const uint8_t *q = b + 48 + g / 2 * 32;
        uint8_t *codes = dst + KERN_Q4_K_CODES + KERN_Q5_K_SUB * g;
        uint8_t c[32];

        q4_k_scale(b + 4, g, &dst[KERN_Q4_K_SC + 16 * g + lane],
                   &dst[KERN_Q4_K_MN + 16 * g + lane]);
        for (size_t i = 0; i < 32; i++)
            c[i] = (uint8_t)((g % 2 ? q[i] >> 4 : q[i] & 15) | (b[16 + i] >> g & 1) << 4);
        deal_nibbles(codes, lane, c);
        deal_top(codes + KERN_TOP, lane, c, 4);
    }
}

/* Six-bit scale h of 16 in 12 bytes: low nibbles in the first eight, then pairs of high bits. */
static int8_t q3_k_scale(const uint8_t s[12], size_t h)
{
    const int low = h < 8 ? s[h] & 15 : s[h - 8] >> 4;

    return (int8_t)((low | (s[8 + h % 4] >> h / 4 * 2 & 3) << 4) - 32);
}

static void pack_q3_k(uint8_t *dst, size_t lane, const uint8_t *block)
{
    /* 32 bytes of third bits, 64 of pairs, 12 of scales, d: codes 4, scales 0. */
    static const uint8_t zero[110] = {
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, [104] = 0xaa, 0xaa,
        0xaa, 0xaa};
    const uint8_t *b = block ? block : zero;

    memcpy(dst + 2 * lane, b + 108, 2);
    for (size_t h = 0; h < 16; h++)
        dst[KERN_Q6_K_SC + 16 * h + lane] = (uint8_t)q3_k_scale(b + 96, h);
    for (size_t g = 0; g < 8; g++) {
        uint8_t *codes = dst + KERN_Q6_K_CODES + KERN_Q3_K_SUB * g;
        uint8_t c[32];

        for (size_t i = 0; i < 32; i++)
            c[i] = (uint8_t)((b[32 + g / 4 * 32 + i] >> g % 4 * 2 & 3) | (b[i] >> g & 1) << 2);
        deal_pairs(codes, lane, c, 0);
        deal_top(codes + KERN_Q3_K_TOP, lane, c, 2);
    }
}

static void pack_q2_k(uint8_t *dst, size_t lane, const uint8_t *block)
{
    static const uint8_t zero[84];
    const uint8_t *b = block ? block : zero; /* 16 of scales and minima, 64 of pairs, d, dmin */

    memcpy(dst + 2 * lane, b + 80, 2);
    memcpy(dst + KERN_Q2_K_DMIN + 2 * lane, b + 82, 2);
    for (size_t h = 0; h < 16; h++)
        dst[KERN_Q2_K_SM + 16 * h + lane] = b[h];
    for (size_t g = 0; g < 8; g++) {
        uint8_t c[32];

        for (size_t i = 0; i < 32; i++)
            c[i] = b[16 + g / 4 * 32 + i] >> g % 4 * 2 & 3;
        deal_pairs(dst + KERN_Q2_K_CODES + KERN_Q2_K_SUB * g, lane, c, 0);
    }
}

static void pack_q6_k(uint8_t *dst, size_t lane, const uint8_t *block)
{
    memset(dst + 2 * lane, 0, 2);
    if (block)
        memcpy(dst + 2 * lane, block + 208, 2); /* low nibbles 128, high pairs 64, scales 16, d */
    for (size_t h = 0; h < 16; h++)
        dst[KERN_Q6_K_SC + 16 * h + lane] = block ? block[192 + h] : 0;
    for (size_t g = 0; g < 8; g++) {
        uint8_t *codes = dst + KERN_Q6_K_CODES + KERN_Q6_K_SUB * g;
        uint8_t c[32];

        for (size_t i = 0; i < 32; i++) {
            const uint8_t low = block ? block[g / 4 * 64 + g % 2 * 32 + i] : 0;
            const uint8_t pair = block ? block[128 + g / 4 * 32 + i] >> (g % 4 * 2) & 3 : 2;

            c[i] = (uint8_t)((g % 4 < 2 ? low & 15 : low >> 4) | pair << 4);
        }
        deal_nibbles(codes, lane, c);
        deal_pairs(codes + KERN_Q6_K_HIGH, lane, c, 4);
    }
}

static void pack_plain(uint8_t *dst, size_t lane, const uint8_t *src, size_t bytes)
{
    if (src)
        memcpy(dst + bytes * lane, src, bytes);
    else
        memset(dst + bytes * lane, 0, bytes);
}

static void pack_group(enum kern_weight w, uint8_t *dst, size_t lane, const uint8_t *block)
{
    switch (w) {
    case KERN_F32:
        pack_plain(dst, lane, block, 4);
        return;
    case KERN_F16:
    case KERN_BF16:
        pack_plain(dst, lane, block, 2);
        return;
    case KERN_Q8_0:
        pack_q8_0(dst, lane, block);
        return;
    case KERN_Q4_0:
        pack_q4_0(dst, lane, block);
        return;
    case KERN_Q4_K:
        pack_q4_k(dst, lane, block);
        return;
    case KERN_Q6_K:
        pack_q6_k(dst, lane, block);
        return;
    case KERN_Q4_1:
        pack_q4_1(dst, lane, block);
        return;
    case KERN_Q5_0:
        pack_q5_0(dst, lane, block);
        return;
    case KERN_Q5_1:
        pack_q5_1(dst, lane, block);
        return;
    case KERN_Q5_K:
        pack_q5_k(dst, lane, block);
        return;
    case KERN_Q3_K:
        pack_q3_k(dst, lane, block);
        return;
    case KERN_Q2_K:
        pack_q2_k(dst, lane, block);
        return;
    case KERN_N_WEIGHT:
        return;
    }
}

void kern_pack(enum kern_weight w, void *panel, const void *const rows[KERN_LANES], size_t k)
{
    const struct weight_format *f = &FORMAT[w];
    uint8_t *dst = panel;

    for (size_t g = 0; g < k / f->group; g++, dst += f->panel_bytes)
        for (size_t lane = 0; lane < KERN_LANES; lane++) {
            const uint8_t *row = rows[lane];

            pack_group(w, dst, lane, row ? row + g * f->block_bytes : NULL);
        }
}

/* One group of one lane, as floats. */

static void unpack_q8_0(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)(src[32 + i / 4 * 64 + lane * 4 + i % 4] - 128);
}

static void unpack_q4_0(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)(nibble_at(src + 32, lane, i) - 8);
}

static void unpack_q4_k(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float dmin = kern_load_f16(src + KERN_Q4_K_DMIN + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const size_t g = i / 32;
        const float sc = d * (float)src[KERN_Q4_K_SC + 16 * g + lane];
        const float mn = dmin * (float)src[KERN_Q4_K_MN + 16 * g + lane];

        out[i] = sc * (float)nibble_at(src + KERN_Q4_K_CODES + 256 * g, lane, i % 32) - mn;
    }
}

static void unpack_q6_k(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const uint8_t *codes = src + KERN_Q6_K_CODES + KERN_Q6_K_SUB * (i / 32);
        const int pair = pair_at(codes + KERN_Q6_K_HIGH, lane, i % 32);
        const float sc = d * (float)(int8_t)src[KERN_Q6_K_SC + 16 * (i / 16) + lane];

        out[i] = sc * (float)((nibble_at(codes, lane, i % 32) | pair << 4) - 32);
    }
}

static void unpack_q4_1(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float m = kern_load_f16(src + KERN_Q4_1_MIN + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)nibble_at(src + KERN_Q4_1_CODES, lane, i) + m;
}

static int code_5_bits(const uint8_t *codes, size_t lane, size_t i)
{
    return nibble_at(codes, lane, i) | top_at(codes + KERN_TOP, lane, i) << 4;
}

static void unpack_q5_0(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)(code_5_bits(src + KERN_Q5_0_CODES, lane, i) - 16);
}

static void unpack_q5_1(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float m = kern_load_f16(src + KERN_Q4_1_MIN + 2 * lane);

    for (size_t i = 0; i < 32; i++)
        out[i] = d * (float)code_5_bits(src + KERN_Q4_1_CODES, lane, i) + m;
}

static void unpack_q5_k(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float dmin = kern_load_f16(src + KERN_Q4_K_DMIN + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const size_t g = i / 32;
        const uint8_t *codes = src + KERN_Q4_K_CODES + KERN_Q5_K_SUB * g;
        const float sc = d * (float)src[KERN_Q4_K_SC + 16 * g + lane];
        const float mn = dmin * (float)src[KERN_Q4_K_MN + 16 * g + lane];

        out[i] = sc * (float)code_5_bits(codes, lane, i % 32) - mn;
    }
}

static void unpack_q3_k(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const uint8_t *codes = src + KERN_Q6_K_CODES + KERN_Q3_K_SUB * (i / 32);
        const int top = top_at(codes + KERN_Q3_K_TOP, lane, i % 32);
        const float sc = d * (float)(int8_t)src[KERN_Q6_K_SC + 16 * (i / 16) + lane];

        out[i] = sc * (float)((pair_at(codes, lane, i % 32) | top << 2) - 4);
    }
}

static void unpack_q2_k(float *out, const uint8_t *src, size_t lane)
{
    const float d = kern_load_f16(src + 2 * lane);
    const float dmin = kern_load_f16(src + KERN_Q2_K_DMIN + 2 * lane);

    for (size_t i = 0; i < 256; i++) {
        const uint8_t *codes = src + KERN_Q2_K_CODES + KERN_Q2_K_SUB * (i / 32);
        const uint8_t sm = src[KERN_Q2_K_SM + 16 * (i / 16) + lane];

        out[i] = d * (float)(sm & 15) * (float)pair_at(codes, lane, i % 32) -
                 dmin * (float)(sm >> 4);
    }
}

void kern_unpack_row(enum kern_weight w, const void *panel, size_t lane, float *out, size_t k)
{
    const struct weight_format *f = &FORMAT[w];
    const uint8_t *src = panel;

    for (size_t i = 0; i < k; i += f->group, src += f->panel_bytes) {
        switch (w) {
        case KERN_F32:
            memcpy(out + i, src + 4 * lane, sizeof *out);
            break;
        case KERN_F16:
            out[i] = kern_load_f16(src + 2 * lane);
            break;
        case KERN_BF16:
            out[i] = kern_bf16_to_f32(kern_load16(src + 2 * lane));
            break;
        case KERN_Q8_0:
            unpack_q8_0(out + i, src, lane);
            break;
        case KERN_Q4_0:
            unpack_q4_0(out + i, src, lane);
            break;
        case KERN_Q4_K:
            unpack_q4_k(out + i, src, lane);
            break;
        case KERN_Q6_K:
            unpack_q6_k(out + i, src, lane);
            break;
        case KERN_Q4_1:
            unpack_q4_1(out + i, src, lane);
            break;
        case KERN_Q5_0:
            unpack_q5_0(out + i, src, lane);
            break;
        case KERN_Q5_1:
            unpack_q5_1(out + i, src, lane);
            break;
        case KERN_Q5_K:
            unpack_q5_k(out + i, src, lane);
            break;
        case KERN_Q3_K:
            unpack_q3_k(out + i, src, lane);
            break;
        case KERN_Q2_K:
            unpack_q2_k(out + i, src, lane);
            break;
        case KERN_N_WEIGHT:
            break;
        }
    }
}
