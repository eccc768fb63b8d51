/* core/formats/gguf/blocks_impl.h - the decoders and encoders of single formats, for blocks.c.
 *
 * They take whole blocks. blocks_k.c has the formats of 256 numbers with two levels of scales,
 * blocks_iq.c those whose codes are indices of a table of numbers or of a codebook of patterns, and
 * the ternary ones; every product there is exact in fp32. blocks_ik.c has those of ik_llama.cpp,
 * with tables of numbers in a plain and a shifted form, of which each part of a block chooses one;
 * products are exact except IQ6_K's last one and those with a row's scale.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_FORMATS_GGUF_BLOCKS_IMPL_H
#define CORE_FORMATS_GGUF_BLOCKS_IMPL_H

#include "core/formats/gguf/blocks.h"

/* ---- blocks_k.c ---- */

void blocks_decode_q2_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_q3_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_q4_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_q5_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_q6_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_encode_q4_k(const float *src, uint8_t *dst, size_t n_blocks);
void blocks_encode_q6_k(const float *src, uint8_t *dst, size_t n_blocks);

/* ---- for both ---- */

/* Store a scale as f16, clamped to the finite range; returns the stored value. */
float blocks_store_scale(uint8_t *dst, float d);

/* Return x / d rounded to nearest and clamped to lo..hi; if d is 0, the code nearest to 0. */
int blocks_code(float x, float d, int lo, int hi);

/* Return the element of largest magnitude, with its sign. */
float blocks_extreme(const float *x, size_t n);

static inline float blocks_load_f16(const uint8_t *p)
{
    return block_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

static inline uint32_t blocks_load_16(const uint8_t *p)
{
    return (uint32_t)(p[0] | p[1] << 8);
}

static inline uint32_t blocks_load_32(const uint8_t *p)
{
    return blocks_load_16(p) | blocks_load_16(p + 2) << 16;
}

/* Return nibble i of those at p; the low nibble of a byte comes first. */
static inline uint32_t blocks_nibble(const uint8_t *p, int i)
{
    return p[i / 2] >> (i % 2 * 4) & 15;
}

/* ---- blocks_ik.c; row_scale: the float before the row's blocks ---- */

void blocks_decode_iq2_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq3_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq4_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq5_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq6_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq4_ks(const uint8_t *src, float row_scale, float *dst, size_t n_blocks);
void blocks_decode_iq5_ks(const uint8_t *src, float row_scale, float *dst, size_t n_blocks);

/* ---- blocks_iq.c ---- */

void blocks_decode_iq4_nl(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq4_xs(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_mxfp4(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_nvfp4(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_q1_0(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_q2_0(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_tq1_0(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_tq2_0(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq3_s(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq3_xxs(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq2_s(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq2_xs(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq2_xxs(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq1_s(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq1_m(const uint8_t *src, float *dst, size_t n_blocks);

#endif
