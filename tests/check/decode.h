/* tests/check/decode.h - the block formats of GGUF, decoded independently of kernels/.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef TESTS_CHECK_DECODE_H
#define TESTS_CHECK_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct decode_format {
    size_t elems;
    size_t bytes;
    size_t n_scale;     /* f16 scales in a block */
    size_t scale_at[2]; /* and where they lie */
};
extern const struct decode_format decode_formats[KERN_N_WEIGHT];

/* Bytes of a row before its blocks (a float that multiplies all of its numbers), and with them. */
size_t decode_head(enum kern_weight w);
size_t decode_row_bytes(enum kern_weight w, size_t k);

/* The formats whose codes stand for numbers: number i of a block is scale * number, exactly; a
 * row's scale is not in it. */
struct decode_value {
    double scale;
    int number;
};
struct decode_value decode_value(enum kern_weight w, const uint8_t *b, size_t i);

/* Write a row's scale: an f16 number times one that takes all digits of a float. */
void decode_put_row_scale(uint8_t *row, uint16_t half);

/* Write the i-th scale of a block: the half, or for MXFP4 the exponent nearest to it. */
void decode_put_scale(enum kern_weight w, uint8_t *b, size_t i, uint16_t half);

/* k numbers exactly; size[j] bounds the magnitudes that were added to make number j. */
void decode_row(enum kern_weight w, const uint8_t *row, double *out, double *size, size_t k);
/* The k numbers as the floats that the format defines: each is rounded once at most. */
void decode_row_float(enum kern_weight w, const uint8_t *row, float *out, size_t k);

/* Round to nearest even. */
uint16_t check_to_half(float f);
uint16_t check_to_bf16(float f);

#endif
