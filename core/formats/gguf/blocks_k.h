/* core/formats/gguf/blocks_k.h - between blocks.c and blocks_k.c: the 256-wide formats.
 *
 * Private to core/formats/gguf. The decoders and encoders take whole blocks.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_FORMATS_GGUF_BLOCKS_K_H
#define CORE_FORMATS_GGUF_BLOCKS_K_H

#include "core/formats/gguf/blocks.h"

void blocks_decode_q2_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_q3_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_q4_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_q5_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_q6_k(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_encode_q4_k(const float *src, uint8_t *dst, size_t n_blocks);
void blocks_encode_q6_k(const float *src, uint8_t *dst, size_t n_blocks);

/* Store a scale as f16, held within the finite range; returns what was stored. */
float blocks_store_scale(uint8_t *dst, float d);

/* x / d rounded to nearest and held in lo..hi; the code nearest to 0 when d is 0. */
int blocks_code(float x, float d, int lo, int hi);

/* The element of largest magnitude, with its sign. */
float blocks_extreme(const float *x, size_t n);

static inline float blocks_load_f16(const uint8_t *p)
{
    return block_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

#endif
