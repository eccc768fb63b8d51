/* core/formats/gguf/blocks_iq.h - between blocks.c and its formats whose codes are no numbers:
 * those with a table of numbers or a codebook of patterns, and the ternary ones.
 *
 * Private to core/formats/gguf. The decoders take whole blocks. Every product in them is exact in
 * fp32.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_FORMATS_GGUF_BLOCKS_IQ_H
#define CORE_FORMATS_GGUF_BLOCKS_IQ_H

#include "core/formats/gguf/blocks_k.h"

void blocks_decode_iq4_nl(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_iq4_xs(const uint8_t *src, float *dst, size_t n_blocks);
void blocks_decode_mxfp4(const uint8_t *src, float *dst, size_t n_blocks);
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
