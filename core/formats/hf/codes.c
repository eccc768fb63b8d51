/* core/formats/hf/codes.c - rows of quantised weights: codes with scales in tensors of their own;
 * see recipe.h.
 *
 * A row is made in blocks of 32 columns: the codes are unpacked from the file's words and their
 * zero points subtracted, and then either stored as a block of Q4_0 or Q8_0 with the published
 * scale, which is exact, or multiplied by the scale and rounded to BF16. Called by packing threads,
 * row by row.
 */
#include "core/formats/hf/recipe.h"

#include <math.h>
#include <string.h>

#define BLOCK 32

float hf_scale(enum block_type type, const uint8_t *data, uint64_t i)
{
    float v;

    block_decode(type, data + i * block_format(type)->bytes, &v, 1);
    return v;
}

/* Decode FP8 E4M3: sign, four bits of exponent (bias 7), three of fraction; all bits 1 are NaN. */
float hf_fp8(uint8_t code)
{
    /* a half has one more bit of exponent, seven more of fraction, and the bias 15 */
    const uint16_t half = (uint16_t)((code & 0x80) << 8 | (code & 0x7f) << 7);

    return (code & 0x7f) == 0x7f ? NAN : block_f16_to_f32(half) * 256.0f;
}

static uint32_t word(const uint8_t *data, uint64_t i)
{
    uint32_t v;

    memcpy(&v, data + 4 * i, 4);
    return v;
}

static uint32_t field(uint32_t w, uint32_t i, uint32_t bits)
{
    return w >> (i * bits) & ((1u << bits) - 1);
}

/* Return the group of an input; with g_idx any input may be in any group. The index is bounded, so
 * that a list changed since it was checked never reaches into another tensor. */
static uint64_t group_at(const struct hf_recipe *r, const struct gguf_part *parts, uint64_t col)
{
    const uint64_t group =
        parts[ROLE_ORDER].bytes > 0 ? word(parts[ROLE_ORDER].data, col) : col / r->cols_each;

    return group < r->n_groups ? group : r->n_groups - 1;
}

/* Return the index of a number's scale, and so of its group. */
static uint64_t scale_at(const struct hf_recipe *r, const struct gguf_part *parts, uint64_t row,
                         uint64_t col)
{
    switch (r->code) {
    case CODE_GPTQ:
    case CODE_AWQ:
        return group_at(r, parts, col) * r->n_rows + row;
    default:
        return row / r->rows_each * r->n_scale_cols + col / r->cols_each;
    }
}

static const uint8_t awq_place[8] = {0, 4, 1, 5, 2, 6, 3, 7}; /* place of output i in its word */

static uint32_t zero_at(const struct hf_recipe *r, const struct gguf_part *parts, uint64_t row,
                        uint64_t col)
{
    const uint32_t n = 32 / r->bits;
    const uint8_t *zeros = parts[ROLE_ZERO].data;
    const uint64_t at = scale_at(r, parts, row, col);

    if (r->is_symmetric)
        return 1u << (r->bits - 1);
    if (r->code == CODE_AWQ)
        return field(word(zeros, at / n), awq_place[row % 8], 4);
    if (r->code == CODE_GPTQ)
        return (field(word(zeros, at / n), (uint32_t)(row % n), r->bits) + r->zero_more) &
               ((1u << r->bits) - 1);
    return field(word(zeros, row / n * r->n_scale_cols + col / r->cols_each), (uint32_t)(row % n),
                 r->bits);
}

static uint32_t code_at(const struct hf_recipe *r, const uint8_t *data, uint64_t row, uint64_t col)
{
    const uint32_t n = 32 / r->bits;

    if (r->code == CODE_AWQ)
        return field(word(data, (col * r->n_rows + row) / 8), awq_place[row % 8], 4);
    if (r->code == CODE_GPTQ)
        return field(word(data, col / n * r->n_rows + row), (uint32_t)(col % n), r->bits);
    return field(word(data, (row * r->n_in + col) / n), (uint32_t)(col % n), r->bits);
}

/* Return the first column after `col` that may have another scale and zero point. */
static uint64_t group_end(const struct hf_recipe *r, const struct gguf_part *parts, uint64_t col)
{
    return parts[ROLE_ORDER].bytes > 0 ? col + 1 : (col / r->cols_each + 1) * r->cols_each;
}

void hf_codes(const struct hf_recipe *r, const struct gguf_part *parts, uint64_t row, uint64_t col,
              int16_t codes[BLOCK])
{
    const uint8_t *data = parts[ROLE_WEIGHT].data;
    uint64_t end = 0;
    int zero = 0;

    for (uint64_t i = 0; i < BLOCK && col + i < r->n_in; i++) {
        if (r->code == CODE_INT8) {
            codes[i] = (int8_t)data[row * r->n_in + col + i];
            continue;
        }
        if (col + i >= end) {
            zero = (int)zero_at(r, parts, row, col + i);
            end = group_end(r, parts, col + i);
        }
        codes[i] = (int16_t)((int)code_at(r, data, row, col + i) - zero);
    }
}

/* ---- rows ---- */

static void put_rounded(const struct hf_recipe *r, const struct gguf_part *parts, uint64_t row,
                        uint64_t col, const int16_t codes[BLOCK], uint8_t *to)
{
    const uint8_t *data = parts[ROLE_WEIGHT].data;
    uint64_t end = 0;
    float scale = 0.0f;

    for (uint64_t i = 0; i < BLOCK && col + i < r->n_in; i++) {
        uint16_t v;

        if (col + i >= end) {
            scale =
                hf_scale(r->scale_type, parts[ROLE_SCALE].data, scale_at(r, parts, row, col + i));
            end = group_end(r, parts, col + i);
        }
        v = block_f32_to_bf16(
            (r->code == CODE_FP8 ? hf_fp8(data[row * r->n_in + col + i]) : (float)codes[i]) *
            scale);
        memcpy(to + 2 * (col + i), &v, 2);
    }
}

/* Store a block of Q4_0 (two codes a byte: i and i + 16) or Q8_0, after its scale. */
static void put_block(const struct hf_recipe *r, const struct gguf_part *parts, uint64_t row,
                      uint64_t col, const int16_t codes[BLOCK], uint8_t *to)
{
    const uint16_t d = block_f32_to_f16(
        hf_scale(r->scale_type, parts[ROLE_SCALE].data, scale_at(r, parts, row, col)));

    to += col / BLOCK * block_format(r->to)->bytes;
    memcpy(to, &d, 2);
    if (r->to == BLOCK_Q4_0)
        for (int i = 0; i < BLOCK / 2; i++)
            to[2 + i] = (uint8_t)((codes[i] + 8) | (codes[i + 16] + 8) << 4);
    else
        for (int i = 0; i < BLOCK; i++)
            to[2 + i] = (uint8_t)codes[i];
}

/* Reorder MXFP4: byte i of published blocks has values 2i and 2i + 1, that of GGUF's i and i +
 * 16. */
static void mxfp4_row(const struct hf_recipe *r, const struct gguf_part *parts, uint64_t row,
                      uint8_t *to)
{
    const uint64_t n = r->n_in / BLOCK;

    for (uint64_t b = 0; b < n; b++) {
        const uint8_t *from = parts[ROLE_WEIGHT].data + (row * n + b) * 16;
        uint8_t *block = to + b * 17;

        block[0] = parts[ROLE_SCALE].data[row * n + b];
        for (int i = 0; i < 16; i++) {
            const int low = from[i / 2] >> 4 * (i % 2) & 15;
            const int high = from[8 + i / 2] >> 4 * (i % 2) & 15;

            block[1 + i] = (uint8_t)(low | high << 4);
        }
    }
}

void hf_coded_row(const struct hf_recipe *r, const struct gguf_part *parts, uint64_t row,
                  uint8_t *to)
{
    int16_t codes[BLOCK] = {0};

    if (r->code == CODE_MXFP4) {
        mxfp4_row(r, parts, row, to);
        return;
    }
    for (uint64_t col = 0; col < r->n_in; col += BLOCK) {
        if (r->code != CODE_FP8)
            hf_codes(r, parts, row, col, codes);
        if (r->to == BLOCK_BF16)
            put_rounded(r, parts, row, col, codes, to);
        else
            put_block(r, parts, row, col, codes, to);
    }
}
