/* core/formats/hf/quant_shape.c - checks the tensors of a quantised weight; see quant.h.
 *
 * Sizes follow from the shapes of the packed words and scales. The type to make follows from the
 * numbers: Q4_0 or Q8_0 keep published codes only if every scale is a half-precision number, zero
 * points are the middle (Q4_0) and scales serve whole blocks of 32, so scales, zero points and
 * g_idx are read in pieces of PIECE bytes while the model is opened.
 */
#include "core/formats/hf/quant.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/hf_folder.h"

#include <inttypes.h>
#include <string.h>

#define PIECE 65536 /* bytes that are read at a time to look at scales */

struct shaping {
    const struct hf_folder *f;
    const struct safetensors *files;
    const struct hf_coded *c;
    struct hf_recipe *r;
    uint64_t n_each;
};

static int refuse_quant_shape(const struct shaping *s, const struct safetensor *t, const char *what)
{
    char shown[80];

    return hf_fail(s->f, ERR_UNSUPPORTED, s->files->files[t->file], "tensor '%s': %s",
                   hf_printable(shown, sizeof(shown), t->name), what);
}

static bool is_type(const struct safetensor *t, const char *type)
{
    return strcmp(t->type, type) == 0;
}

static bool is_float(const char *name, enum block_type *type)
{
    static const enum block_type types[] = {BLOCK_F32, BLOCK_F16, BLOCK_BF16};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(name, block_format(types[i])->name) == 0) {
            *type = types[i];
            return true;
        }
    return false;
}

static bool has_shape(const struct safetensor *t, uint64_t a, uint64_t b)
{
    return t->n_dims == 2 && t->dims[0] == a && t->dims[1] == b;
}

static uint64_t up(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

/* ---- the sizes of the weight ---- */

static int shape_weight(struct shaping *s)
{
    const struct safetensor *t = s->c->parts[ROLE_WEIGHT];
    struct hf_recipe *r = s->r;
    const uint64_t n = r->bits > 0 ? 32 / r->bits : 1; /* codes in a word */
    const char *type = r->code == CODE_FP8     ? "F8_E4M3"
                       : r->code == CODE_INT8  ? "I8"
                       : r->code == CODE_MXFP4 ? "U8"
                                               : "I32";

    if (!is_type(t, type))
        return refuse_quant_shape(s, t,
                                  "has a scale, but not the type that 'quantization_config' says");
    s->n_each = 1;
    if (r->code == CODE_MXFP4) {
        if (t->n_dims != 4 || t->dims[3] != 16)
            return refuse_quant_shape(s, t, "has no shape of 4 dimensions, the last one 16");
        s->n_each = t->dims[0];
        r->n_rows = t->dims[1];
        r->n_in = t->dims[2] * 32;
        return 0;
    }
    if (t->n_dims != 2)
        return refuse_quant_shape(s, t, "has no shape of 2 dimensions");
    r->n_rows = r->code == CODE_GPTQ  ? t->dims[1]
                : r->code == CODE_AWQ ? t->dims[1] * n
                                      : t->dims[0];
    r->n_in = r->code == CODE_GPTQ || r->code == CODE_AWQ ? t->dims[0] : t->dims[1];
    if (r->code == CODE_GPTQ || r->code == CODE_PACKED)
        r->n_in *= n;
    return 0;
}

/* ---- scales ---- */

/* Derive from the scales' shape whether a block, a row, a group or the whole weight shares a
 * scale. */
static int shape_scale_rows(struct shaping *s, const struct hf_quant *q)
{
    const struct safetensor *t = s->c->parts[ROLE_SCALE];
    struct hf_recipe *r = s->r;
    const uint64_t rows = t->n_dims > 0 ? t->dims[0] : 1;
    const uint64_t cols = t->n_dims > 1 ? t->dims[1] : 1;

    r->rows_each = r->n_rows;
    r->cols_each = r->n_in;
    r->n_scale_cols = cols;
    if (q->block[0] > 0) {
        r->rows_each = q->block[0];
        r->cols_each = q->block[1];
    } else if (rows == r->n_rows) {
        r->rows_each = 1;
        r->cols_each = q->group > 0 ? q->group : r->n_in;
    }
    if (t->n_dims > 2 || rows != up(r->n_rows, r->rows_each) || cols != up(r->n_in, r->cols_each))
        return refuse_quant_shape(s, t, "its shape does not fit the weights");
    return 0;
}

/* Shape the scales of GPTQ and AWQ: groups of inputs by outputs. */
static int shape_scale_groups(struct shaping *s, const struct hf_quant *q)
{
    const struct safetensor *t = s->c->parts[ROLE_SCALE];
    struct hf_recipe *r = s->r;

    r->rows_each = 1;
    r->cols_each = q->group > 0 ? q->group : r->n_in;
    r->n_groups = up(r->n_in, r->cols_each);
    return has_shape(t, r->n_groups, r->n_rows)
               ? 0
               : refuse_quant_shape(s, t, "its shape does not fit the weights");
}

static int shape_scales(struct shaping *s, const struct hf_quant *q)
{
    const struct safetensor *t = s->c->parts[ROLE_SCALE];
    struct hf_recipe *r = s->r;

    if (t == NULL)
        return refuse_quant_shape(s, s->c->parts[ROLE_WEIGHT], "has no scales beside it");
    if (r->code == CODE_MXFP4)
        return is_type(t, "U8") && t->n_dims == 3 && t->dims[0] == s->n_each &&
                       t->dims[1] == r->n_rows && t->dims[2] == r->n_in / 32
                   ? 0
                   : refuse_quant_shape(s, t, "its shape does not fit the blocks");
    if (!is_float(t->type, &r->scale_type))
        return refuse_quant_shape(s, t, "is not F32, F16 or BF16");
    return r->code == CODE_GPTQ || r->code == CODE_AWQ ? shape_scale_groups(s, q)
                                                       : shape_scale_rows(s, q);
}

/* ---- zero points, and the order of inputs ---- */

static int shape_zeros(struct shaping *s)
{
    const struct safetensor *t = s->c->parts[ROLE_ZERO];
    struct hf_recipe *r = s->r;
    const uint64_t n = r->bits > 0 ? 32 / r->bits : 1;
    bool fits;

    r->is_symmetric = t == NULL;
    if (t == NULL)
        return 0;
    if (r->code == CODE_PACKED)
        fits = r->n_rows % n == 0 && has_shape(t, r->n_rows / n, r->n_scale_cols);
    else
        fits = (r->code == CODE_GPTQ || r->code == CODE_AWQ) && r->n_rows % n == 0 &&
               has_shape(t, r->n_groups, r->n_rows / n);
    return fits && is_type(t, "I32")
               ? 0
               : refuse_quant_shape(s, t, "its shape does not fit the weights");
}

static int shape_order(struct shaping *s)
{
    const struct safetensor *t = s->c->parts[ROLE_ORDER];

    if (t == NULL)
        return 0;
    if (s->r->code != CODE_GPTQ || !is_type(t, "I32") || t->n_dims != 1 || t->dims[0] != s->r->n_in)
        return refuse_quant_shape(s, t, "its shape does not fit the weights");
    return 0;
}

/* ---- the numbers ---- */

/* Set *all to true if all words of a tensor satisfy `is`; they are read piece by piece. */
static int look_at(struct shaping *s, const struct safetensor *t, uint32_t width,
                   bool (*is)(const struct hf_recipe *r, const uint8_t *at, uint64_t i), bool *all)
{
    const char *file = s->files->files[t->file];
    uint8_t *piece = mem_alloc(PIECE);
    const uint64_t bytes = t->bytes;
    uint64_t size;
    int rc = piece != NULL ? 0 : hf_fail(s->f, ERR_NOMEM, file, "out of memory");

    *all = true;
    for (uint64_t at = 0; at < bytes && rc == 0 && *all; at += PIECE) {
        const size_t wanted = (size_t)(bytes - at < PIECE ? bytes - at : PIECE);
        size_t n = wanted;

        rc = hf_read_bytes(s->f, file, t->offset + at, (char *)piece, &n, &size);
        if (rc == 0 && n != wanted)
            rc = hf_fail(s->f, ERR_FORMAT, file, "has changed while it was read");
        for (size_t i = 0; i < n && rc == 0 && *all; i += width)
            *all = is(s->r, piece + i, (at + i) / width);
    }
    mem_free(piece);
    return rc;
}

static bool is_half(const struct hf_recipe *r, const uint8_t *at, uint64_t i)
{
    const float v = hf_scale(r->scale_type, at, 0);

    (void)i;
    return block_f16_to_f32(block_f32_to_f16(v)) == v;
}

/* True: all zero points of a word are the middle. */
static bool is_middle(const struct hf_recipe *r, const uint8_t *at, uint64_t i)
{
    const uint32_t zero = (1u << (r->bits - 1)) - r->zero_more;
    uint32_t word;

    (void)i;
    memcpy(&word, at, 4);
    return word == zero * (r->bits == 4 ? 0x11111111u : 0x01010101u);
}

static bool is_in_turn(const struct hf_recipe *r, const uint8_t *at, uint64_t i)
{
    uint32_t word;

    memcpy(&word, at, 4);
    return word == i / r->cols_each;
}

static bool is_group(const struct hf_recipe *r, const uint8_t *at, uint64_t i)
{
    uint32_t word;

    (void)i;
    memcpy(&word, at, 4);
    return word < r->n_groups;
}

/* Check g_idx: inputs may be in any group, in any order; where they are in order, no list is
 * needed. */
static int look_at_order(struct shaping *s, bool *in_turn)
{
    const struct safetensor *t = s->c->parts[ROLE_ORDER];
    bool are_groups = true;
    int rc;

    *in_turn = true;
    if (t == NULL)
        return 0;
    rc = look_at(s, t, 4, is_in_turn, in_turn);
    if (rc == 0 && !*in_turn)
        rc = look_at(s, t, 4, is_group, &are_groups);
    return rc == 0 && !are_groups ? refuse_quant_shape(s, t, "names a group that is none") : rc;
}

static int choose_type(struct shaping *s)
{
    struct hf_recipe *r = s->r;
    const struct safetensor *zeros = s->c->parts[ROLE_ZERO], *scales = s->c->parts[ROLE_SCALE];
    const uint32_t width = block_format(r->scale_type)->bytes;
    bool is_plain = true, halves = true, middle = r->is_symmetric;
    int rc = look_at_order(s, &is_plain);

    r->to = BLOCK_BF16;
    if (rc == 0 && r->code != CODE_FP8)
        rc = look_at(s, scales, width, is_half, &halves);
    if (rc == 0 && zeros != NULL)
        rc = look_at(s, zeros, 4, is_middle, &middle);
    r->is_symmetric = middle;
    if (rc < 0 || r->code == CODE_FP8 || !is_plain || !halves || r->n_in % 32 != 0 ||
        r->cols_each % 32 != 0)
        return rc;
    if (r->bits == 4)
        r->to = middle ? BLOCK_Q4_0 : BLOCK_Q8_0;
    else if (r->code == CODE_INT8 || middle)
        r->to = BLOCK_Q8_0;
    return 0;
}

int hf_quant_shape(const struct hf_folder *f, const struct hf_quant *q,
                   const struct safetensors *files, const struct hf_coded *c, struct hf_recipe *r,
                   uint64_t *n_each)
{
    struct shaping s = {f, files, c, r, 1};
    int rc;

    r->code = q->code;
    r->bits = q->code == CODE_FP8 || q->code == CODE_MXFP4 ? 0 : q->bits;
    r->zero_more = q->zero_more;
    r->scale_type = BLOCK_F32;
    rc = shape_weight(&s);
    if (rc == 0 && (r->n_rows == 0 || r->n_in == 0))
        rc = refuse_quant_shape(&s, c->parts[ROLE_WEIGHT], "has a dimension of 0");
    if (rc == 0)
        rc = shape_scales(&s, q);
    if (rc == 0)
        rc = shape_zeros(&s);
    if (rc == 0)
        rc = shape_order(&s);
    if (rc == 0 && r->code == CODE_MXFP4)
        r->to = BLOCK_MXFP4;
    else if (rc == 0)
        rc = choose_type(&s);
    *n_each = s.n_each;
    return rc;
}
