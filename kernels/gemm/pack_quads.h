/* kernels/gemm/pack_quads.h - helpers that move quads of codes into panels (pack.c, pack_values.c).
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef KERNELS_GEMM_PACK_QUADS_H
#define KERNELS_GEMM_PACK_QUADS_H

#include <string.h>

#include "kernels/kernels_impl.h"

/* A panel's rows of 64 bytes hold a quad of each lane. A quad of a GGUF row is a 32-bit word: it is
 * moved whole, and cut, four codes at a time, if two groups or two kinds of bits share a byte. */

static inline uint32_t pack_load_quad(const uint8_t *src, size_t j)
{
    uint32_t quad;

    memcpy(&quad, src + 4 * j, sizeof quad);
    return quad;
}

static inline void pack_store_quad(uint8_t *dst, size_t row, size_t lane, uint32_t quad)
{
    memcpy(dst + 64 * row + 4 * lane, &quad, sizeof quad);
}

static inline void pack_store_half(uint8_t *dst, size_t lane, const uint8_t *src)
{
    memcpy(dst + 2 * lane, src, 2);
}

static inline void pack_move_quads(uint8_t *dst, size_t lane, const uint8_t *src, size_t n,
                                   uint32_t flip)
{
    for (size_t j = 0; j < n; j++)
        pack_store_quad(dst, j, lane, pack_load_quad(src, j) ^ flip);
}

/* Swap the bits `mask` of *b with the bits `mask << shift` of *a. */
static inline void pack_swap_bits(uint32_t *a, uint32_t *b, int shift, uint32_t mask)
{
    const uint32_t t = (*a >> shift ^ *b) & mask;

    *b ^= t;
    *a ^= t << shift;
}

/* 32 bytes of four pairs of bits, those at bits 2f of a byte being field f, as four sets of pairs
 * [2][16 lanes][4] that are `stride` bytes apart: of set f, bits 2j of row r are of quad 4r + j. */
static inline void pack_deal_pairs(uint8_t *dst, size_t stride, size_t lane, const uint8_t *src)
{
    for (size_t r = 0; r < 2; r++) {
        uint32_t q[4];

        for (size_t j = 0; j < 4; j++)
            q[j] = pack_load_quad(src, 4 * r + j);
        for (size_t j = 0; j < 4; j += 2)
            pack_swap_bits(&q[j], &q[j + 1], 2, 0x33333333);
        for (size_t j = 0; j < 2; j++)
            pack_swap_bits(&q[j], &q[j + 2], 4, 0x0f0f0f0f);
        for (size_t f = 0; f < 4; f++)
            pack_store_quad(dst + f * stride, r, lane, q[f]);
    }
}

/* The K formats keep two groups in 32 bytes, one in the low nibbles and one in the high ones. */
static inline void pack_split_nibbles(uint8_t *low, uint8_t *high, size_t lane,
                                      const uint8_t *src)
{
    for (size_t j = 0; j < 4; j++) {
        const uint32_t a = pack_load_quad(src, j), b = pack_load_quad(src, j + 4);

        pack_store_quad(low, j, lane, (a & 0x0f0f0f0f) | (b & 0x0f0f0f0f) << 4);
        pack_store_quad(high, j, lane, (a >> 4 & 0x0f0f0f0f) | (b & 0xf0f0f0f0));
    }
}

/* 32 bytes of eight bits: eight sets [16 lanes][4], bit j of set f being bit f of quad j. */
static inline void pack_deal_tops(uint8_t *dst, size_t stride, size_t lane, const uint8_t *src)
{
    uint32_t q[8];

    for (size_t j = 0; j < 8; j++)
        q[j] = pack_load_quad(src, j);
    for (size_t j = 0; j < 8; j += 2)
        pack_swap_bits(&q[j], &q[j + 1], 1, 0x55555555);
    for (size_t j = 0; j < 8; j += j % 4 == 1 ? 3 : 1)
        pack_swap_bits(&q[j], &q[j + 2], 2, 0x33333333);
    for (size_t j = 0; j < 4; j++)
        pack_swap_bits(&q[j], &q[j + 4], 4, 0x0f0f0f0f);
    for (size_t f = 0; f < 8; f++)
        pack_store_quad(dst + f * stride, 0, lane, q[f]);
}

/* Turn 32 consecutive top bits into a quad: bit 4j + e goes to bit j of byte e. */
static inline uint32_t pack_spread_tops(uint32_t bits)
{
    uint32_t quad = 0;

    for (int e = 0; e < 4; e++) {
        uint32_t x = bits >> e & 0x11111111;

        x = (x | x >> 3) & 0x03030303;
        x = (x | x >> 6) & 0x000f000f;
        quad |= ((x | x >> 12) & 0xff) << 8 * e;
    }
    return quad;
}

/* Pack one group of all lanes. Each case has its own loop, so that the body is inlined there. */
#define PACK_LANES(pack)                                                                           \
    for (size_t lane = 0; lane < KERN_LANES; lane++)                                               \
        pack(dst, lane, blocks[lane]);                                                             \
    return

/* For types whose codes stand for values (codebook.h): pack one block of all lanes; return a block
 * of zeros as a file would have it. */
void kern_pack_values(enum kern_weight w, uint8_t *dst, const uint8_t *const blocks[KERN_LANES]);
const uint8_t *kern_zero_values(enum kern_weight w);

#endif
