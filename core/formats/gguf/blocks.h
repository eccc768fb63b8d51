/* core/formats/gguf/blocks.h - the block formats of GGUF tensors, as definitions.
 *
 * A row of a tensor is a sequence of blocks; a block holds `elems` values in `bytes` bytes. Rows of
 * a few types have a head before their blocks, a scale for all of them (IQ4_KS, IQ5_KS).
 * block_decode() is the definition of what the numbers are (fp32 arithmetic in the order of the
 * format's formula); packed kernels are tested against it. Encoders exist for what fixtures, the
 * benches and the demo model need.
 *
 * Thread: any.
 * Memory: none.
 * Source: the format descriptions in github.com/ggml-org/ggml (docs/gguf.md, type list).
 */
#ifndef CORE_FORMATS_GGUF_BLOCKS_H
#define CORE_FORMATS_GGUF_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum block_type { /* the tensor types that are supported, with the numbers of the file format */
                  BLOCK_F32 = 0,
                  BLOCK_F16 = 1,
                  BLOCK_Q4_0 = 2,
                  BLOCK_Q4_1 = 3,
                  BLOCK_Q5_0 = 6,
                  BLOCK_Q5_1 = 7,
                  BLOCK_Q8_0 = 8,
                  BLOCK_Q2_K = 10,
                  BLOCK_Q3_K = 11,
                  BLOCK_Q4_K = 12,
                  BLOCK_Q5_K = 13,
                  BLOCK_Q6_K = 14,
                  BLOCK_IQ2_XXS = 16,
                  BLOCK_IQ2_XS = 17,
                  BLOCK_IQ3_XXS = 18,
                  BLOCK_IQ1_S = 19,
                  BLOCK_IQ4_NL = 20,
                  BLOCK_IQ3_S = 21,
                  BLOCK_IQ2_S = 22,
                  BLOCK_IQ4_XS = 23,
                  BLOCK_IQ1_M = 29,
                  BLOCK_BF16 = 30,
                  BLOCK_TQ1_0 = 34,
                  BLOCK_TQ2_0 = 35,
                  BLOCK_MXFP4 = 39,
                  BLOCK_NVFP4 = 40,
                  BLOCK_Q1_0 = 41,
                  BLOCK_Q2_0 = 42,
                  BLOCK_IQ2_K = 137, /* this and the following types are ik_llama.cpp's */
                  BLOCK_IQ3_K = 138,
                  BLOCK_IQ4_K = 139,
                  BLOCK_IQ5_K = 140,
                  BLOCK_IQ6_K = 141,
                  BLOCK_IQ4_KS = 144,
                  BLOCK_IQ5_KS = 152,
};

struct block_format {
    const char *name; /* "Q4_K" */
    uint32_t elems;   /* values in a block: 1, 32, 64, 128 or 256 */
    uint32_t bytes;   /* bytes of a block */
    uint32_t head;    /* bytes before the blocks of a row: 0, or 4 (a float) */
};

/* Return the format of a file's type number, or NULL if it is not supported. */
const struct block_format *block_format(uint32_t type);

/* Return the bytes of a row of n values; n is a multiple of the format's elems. */
uint64_t block_row_bytes(const struct block_format *f, uint64_t n);

/* Decode n values (a multiple of the format's elems) from `src` (any alignment), which is a row,
 * or, if the format has no head, the rest of a row. */
void block_decode(enum block_type type, const void *src, float *dst, size_t n);

/* Decode the numbers first .. first + n - 1 of a row; both are multiples of the format's elems. */
void block_decode_part(enum block_type type, const void *row, size_t first, float *dst, size_t n);

/* Encode n values; false: the type has no encoder (F32, F16, BF16, Q8_0, Q4_0, Q4_K and Q6_K have
 * one). Rounds to nearest; K formats choose scales by minimum and maximum, without search. */
bool block_encode(enum block_type type, const float *src, void *dst, size_t n);

/* IEEE half and bfloat16, round to nearest even; NaN stays NaN. */
float block_f16_to_f32(uint16_t h);
uint16_t block_f32_to_f16(float f);
float block_bf16_to_f32(uint16_t h);
uint16_t block_f32_to_bf16(float f);

#endif
