/* core/formats/hf/recipe.c - makes rows of GGUF tensors from a folder's tensors; see recipe.h.
 * Quantised codes are in codes.c.
 *
 * make_row() finds the group of parts and the matrix of a row and then does one thing: copy a row
 * in another order, gather a column, add 1, take -exp, or decode codes. Packing threads call it at
 * the same time, so it keeps no state. hf_recipe_finish() gives an id that changes whenever other
 * rows would be made, for the weight cache.
 */
#include "core/formats/hf/recipe.h"

#include "core/base/maths.h"
#include "core/base/mem.h"

#include <math.h>
#include <string.h>

/* ---- orders of rows ---- */

/* Return the place of row i (all q, then all k, then all v) in groups of `n` q's, a k and a v. */
static uint64_t grouped(uint64_t i, uint64_t n_groups, uint64_t n, uint64_t head)
{
    const uint64_t h = i / head, n_q = n_groups * n;
    const uint64_t from = h < n_q              ? h / n * (n + 2) + h % n
                          : h < n_q + n_groups ? (h - n_q) * (n + 2) + n
                                               : (h - n_q - n_groups) * (n + 2) + n + 1;

    return from * head + i % head;
}

/* Return the index in the file of element i of n. */
static uint64_t ordered(const struct hf_recipe *r, uint64_t i, uint64_t n)
{
    switch (r->fit) {
    case FIT_HEAD_QKV:
        return grouped(i, r->n_head, 1, r->head);
    case FIT_GROUP_QKV:
        return grouped(i, r->n_kv_head, r->n_head / r->n_kv_head, r->head);
    case FIT_PAIRS:
    case FIT_TURNED_PAIRS:
        return i < n / 2 ? 2 * i : 2 * (i - n / 2) + 1;
    default:
        return i;
    }
}

/* ---- rows ---- */

static size_t width(const struct hf_recipe *r)
{
    return block_format(r->from)->bytes;
}

static bool is_turned(const struct hf_recipe *r)
{
    return r->fit == FIT_TURNED || r->fit == FIT_TURNED_PAIRS;
}

static void plain_row(const struct hf_recipe *r, const uint8_t *data, uint64_t row, uint8_t *to)
{
    const size_t bytes = width(r);

    if (is_turned(r)) {
        row = ordered(r, row, r->n_rows);
        for (uint64_t i = 0; i < r->n_in; i++)
            memcpy(to + i * bytes, data + (i * r->n_rows + row) * bytes, bytes);
    } else if (r->n_rows == 1) /* a vector */
        for (uint64_t i = 0; i < r->n_in; i++)
            memcpy(to + i * bytes, data + ordered(r, i, r->n_in) * bytes, bytes);
    else
        memcpy(to, data + ordered(r, row, r->n_rows) * r->n_in * bytes, r->n_in * bytes);
}

static void minus_exp(const struct hf_recipe *r, const uint8_t *data, uint8_t *to)
{
    for (uint64_t i = 0; i < r->n_in; i++) {
        float v;

        block_decode(r->from, data + i * width(r), &v, 1);
        v = (float)-maths_exp((double)v);
        memcpy(to + 4 * i, &v, 4);
    }
}

static void plus_one(const struct hf_recipe *r, const uint8_t *data, uint8_t *to)
{
    for (uint64_t i = 0; i < r->n_in; i++) {
        float v;

        block_decode(r->from, data + i * width(r), &v, 1);
        v += 1.0f;
        memcpy(to + 4 * i, &v, 4);
    }
}

/* Make a row; each group of parts has one or more matrices of n_rows rows. */
static void make_row(const struct gguf_recipe *base, uint64_t row, uint8_t *to)
{
    const struct hf_recipe *r = (const struct hf_recipe *)base;
    const struct gguf_part *parts = base->parts + row / base->rows_each * HF_N_ROLE;
    const uint64_t in_group = row % base->rows_each, matrix = in_group / r->n_rows;

    row = in_group % r->n_rows;
    if (r->code != CODE_PLAIN)
        hf_coded_row(r, parts, matrix * r->n_rows + ordered(r, row, r->n_rows), to);
    else if (r->fit == FIT_PLUS_ONE)
        plus_one(r, parts->data + matrix * r->n_in * width(r), to);
    else if (r->fit == FIT_MINUS_EXP)
        minus_exp(r, parts->data + matrix * r->n_in * width(r), to);
    else
        plain_row(r, parts->data + matrix * r->n_rows * r->n_in * width(r), row, to);
}

struct hf_recipe *hf_recipe_create(uint32_t n_groups)
{
    const size_t n = (size_t)n_groups * HF_N_ROLE;
    struct hf_recipe *r = mem_calloc(1, sizeof(*r) + n * sizeof(*r->base.parts));

    if (r == NULL)
        return NULL;
    r->base.parts = (struct gguf_part *)(r + 1);
    r->base.n_parts = (uint32_t)n;
    r->base.n_each = HF_N_ROLE;
    return r;
}

void hf_recipe_finish(struct hf_recipe *r)
{
    const bool is_order = r->fit == FIT_HEAD_QKV || r->fit == FIT_GROUP_QKV || r->fit == FIT_PAIRS;

    r->base.make = make_row;
    r->base.is_in_order = !is_order && !is_turned(r) && r->code != CODE_GPTQ && r->code != CODE_AWQ;
    r->base.id = 1 + (uint64_t)r->fit + ((uint64_t)r->code << 8) + ((uint64_t)r->bits << 16) +
                 ((uint64_t)r->zero_more << 24) + (r->cols_each << 32);
}
