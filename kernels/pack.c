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

static void pack_q6_k(uint8_t *dst, size_t lane, const uint8_t *block)
{
    memset(dst + 2 * lane, 0, 2);
    if (block)
        memcpy(dst + 2 * lane, block + 208, 2); /* low nibbles 128, high pairs 64, scales 16, d */
    for (size_t h = 0; h < 16; h++)
        dst[KERN_Q6_K_SC + 16 * h + lane] = block ? block[192 + h] : 0;
    for (size_t g = 0; g < 8; g++) {
        uint8_t *codes = dst + KERN_Q6_K_CODES + KERN_Q6_K_SUB * g;
        uint8_t *high = codes + KERN_Q6_K_HIGH + lane * 4;
        uint8_t c[32];

        for (size_t i = 0; i < 32; i++) {
            const uint8_t low = block ? block[g / 4 * 64 + g % 2 * 32 + i] : 0;
            const uint8_t pair = block ? block[128 + g / 4 * 32 + i] >> (g % 4 * 2) & 3 : 2;

            c[i] = (uint8_t)((g % 4 < 2 ? low & 15 : low >> 4) | pair << 4);
        }
        deal_nibbles(codes, lane, c);
        for (size_t r = 0; r < 2; r++)
            for (size_t e = 0; e < 4; e++) {
                const uint8_t *q = c + 16 * r + e;

                high[64 * r + e] =
                    (uint8_t)(q[0] >> 4 | q[4] >> 4 << 2 | q[8] >> 4 << 4 | q[12] >> 4 << 6);
            }
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
        const uint8_t high = codes[KERN_Q6_K_HIGH + i % 32 / 16 * 64 + lane * 4 + i % 4];
        const int pair = high >> (i % 16 / 4 * 2) & 3;
        const float sc = d * (float)(int8_t)src[KERN_Q6_K_SC + 16 * (i / 16) + lane];

        out[i] = sc * (float)((nibble_at(codes, lane, i % 32) | pair << 4) - 32);
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
        case KERN_N_WEIGHT:
            break;
        }
    }
}
