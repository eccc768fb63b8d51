/* kernels/attn_scalar.c - attention of one query row and head at a time: the definition. */
#include "kernels/kern_internal.h"
#include "kernels/kern_math.h"

/* Maximum, sum of exponentials and weighted values of what has been seen so far. */
struct softmax_state {
    float max;
    float sum;
};

/* Tokens [t0, t1) of one segment: the state, and o[head_dim]; e: room for a segment. */
typedef struct softmax_state segment_fn(const struct kern_attn *a, const float *q, size_t t0,
                                        size_t t1, float *e, float *o);

static const uint8_t *key_block(const struct kern_attn *a, size_t t)
{
    return a->keys + a->table[t / KERN_BLOCK] * a->block_stride;
}

static const uint8_t *value_block(const struct kern_attn *a, size_t t)
{
    return a->values + a->table[t / KERN_BLOCK] * a->block_stride;
}

static float score(const struct kern_attn *a, const float *q, size_t t)
{
    const uint8_t *keys = key_block(a, t);
    float s = 0;

    for (size_t d = 0; d < a->head_dim; d++)
        s = fmaf(q[d], kern_load_f16(keys + 2 * (d * KERN_BLOCK + t % KERN_BLOCK)), s);
    return s * a->scale;
}

static struct softmax_state segment(const struct kern_attn *a, const float *q, size_t t0, size_t t1,
                                    float *e, float *o)
{
    float lane[KERN_LANES] = {0};
    float m = -INFINITY;

    for (size_t t = t0; t < t1; t++) {
        e[t - t0] = score(a, q, t);
        m = e[t - t0] > m ? e[t - t0] : m;
    }
    for (size_t d = 0; d < a->head_dim; d++)
        o[d] = 0;
    for (size_t t = t0; t < t1; t++) {
        const uint8_t *value = value_block(a, t) + 2 * (t % KERN_BLOCK * a->head_dim);
        const float p = kern_exp_inline(e[t - t0] - m);

        lane[t % KERN_LANES] += p;
        for (size_t d = 0; d < a->head_dim; d++)
            o[d] = fmaf(p, kern_load_f16(value + 2 * d), o[d]);
    }
    return (struct softmax_state){m, kern_lanes_sum_inline(lane)};
}

/* ---- the 8-bit store ---- */

static float score_q8(const struct kern_attn *a, const struct kern_qrow *q, size_t t)
{
    const uint8_t *group = key_block(a, t);
    const size_t slot = t % KERN_BLOCK;
    float s = 0;

    for (size_t g = 0; g < a->head_dim / KERN_GROUP; g++, group += KERN_Q8_0_GROUP) {
        const uint8_t *codes = group + KERN_KV_Q8_CODES;
        int32_t n = 0;

        for (size_t d = 0; d < KERN_GROUP; d++)
            n += (codes[(d / 4 * KERN_BLOCK + slot) * 4 + d % 4] - 128) *
                 q->code[g * KERN_GROUP + d];
        s = fmaf((float)n, kern_load_f16(group + 2 * slot) * q->scale[g], s);
    }
    return s;
}

/* o += the values of tokens [t0, t1), all of one group, weighted with e's codes and scale. */
static void add_group_q8(const struct kern_attn *a, const int8_t *e, float scale, size_t t0,
                         size_t t1, float *o)
{
    for (size_t d = 0; d < a->head_dim; d++) {
        int32_t n = 0;

        for (size_t t = t0; t < t1; t++) {
            const size_t slot = t % KERN_BLOCK;
            const uint8_t *codes = value_block(a, t) + KERN_KV_Q8_CODES;

            n += (codes[(slot / 4 * a->head_dim + d) * 4 + slot % 4] - 128) * e[t - t0];
        }
        o[d] = fmaf((float)n, scale, o[d]);
    }
}

/* e: the exponentials of tokens [t0, t1). */
static void values_q8(const struct kern_attn *a, size_t t0, size_t t1, float *e, float *o)
{
    float row[KERN_SEGMENT * 3 / 2 / sizeof(float)]; /* codes, scales, sums */
    const struct kern_qrow codes = kern_qrow(row, KERN_SEGMENT);

    for (size_t t = t0; t < t1; t++)
        e[t - t0] *= kern_load_f16(value_block(a, t) + 2 * (t % KERN_BLOCK));
    for (size_t t = t1; t < t0 + KERN_SEGMENT; t++)
        e[t - t0] = 0;
    kern_quantise_scalar(row, KERN_SEGMENT, e, 0, KERN_SEGMENT);
    for (size_t d = 0; d < a->head_dim; d++)
        o[d] = 0;
    for (size_t t = t0; t < t1; t += KERN_GROUP)
        add_group_q8(a, codes.code + (t - t0), codes.scale[(t - t0) / KERN_GROUP], t,
                     t + KERN_GROUP < t1 ? t + KERN_GROUP : t1, o);
}

/* q: the numbers that were quantised. */
static struct softmax_state segment_q8(const struct kern_attn *a, const float *q, size_t t0,
                                       size_t t1, float *e, float *o)
{
    const struct kern_qrow codes = kern_qrow(q, a->head_dim);
    float lane[KERN_LANES] = {0};
    float m = -INFINITY;

    for (size_t t = t0; t < t1; t++) {
        e[t - t0] = score_q8(a, &codes, t);
        m = e[t - t0] > m ? e[t - t0] : m;
    }
    for (size_t t = t0; t < t1; t++) {
        e[t - t0] = kern_exp_inline(e[t - t0] - m);
        lane[t % KERN_LANES] += e[t - t0];
    }
    values_q8(a, t0, t1, e, o);
    return (struct softmax_state){m, kern_lanes_sum_inline(lane)};
}

/* ---- segments together ---- */

/* Fold a segment into what there is of those before it. */
static void merge(struct softmax_state *s, float *out, struct softmax_state seg, const float *o,
                  size_t head_dim)
{
    const float max = seg.max > s->max ? seg.max : s->max;
    const float a = kern_exp_inline(s->max - max);
    const float b = kern_exp_inline(seg.max - max);

    s->max = max;
    s->sum = fmaf(s->sum, a, seg.sum * b);
    for (size_t d = 0; d < head_dim; d++)
        out[d] = fmaf(out[d], a, o[d] * b);
}

static void divide(float *out, float sum, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++)
        out[d] = out[d] / sum;
}

static void keep_part(const struct kern_attn *a, size_t query, size_t seg, struct softmax_state s,
                      const float *o)
{
    float *part = a->part + query * a->part_stride + seg * KERN_ATTN_PART(a->head_dim);

    part[0] = s.max;
    part[1] = s.sum;
    memcpy(part + 2, o, a->head_dim * sizeof *o);
}

static void attend(const struct kern_attn *a, segment_fn *segment_of, const float *q, float *out,
                   size_t query, size_t n_visible)
{
    float *e = a->scratch;
    float *o = e + KERN_SEGMENT;
    struct softmax_state s = {0};

    for (size_t seg = a->seg0; seg < a->seg1 && seg * KERN_SEGMENT < n_visible; seg++) {
        const size_t t0 = seg * KERN_SEGMENT;
        const size_t t1 = t0 + KERN_SEGMENT < n_visible ? t0 + KERN_SEGMENT : n_visible;

        if (a->part)
            keep_part(a, query, seg, segment_of(a, q, t0, t1, e, o), o);
        else if (seg == 0)
            s = segment_of(a, q, t0, t1, e, out);
        else
            merge(&s, out, segment_of(a, q, t0, t1, e, o), o, a->head_dim);
    }
    if (!a->part)
        divide(out, s.sum, a->head_dim);
}

void kern_attn_scalar(const struct kern_attn *a)
{
    for (size_t i = 0; i < a->n_row; i++)
        for (size_t h = 0; h < a->n_head; h++)
            attend(a, segment, a->q + i * a->q_stride + h * a->head_dim,
                   a->part ? NULL : a->out + i * a->out_stride + h * a->head_dim,
                   i * a->n_head + h, (size_t)a->pos0 + i + 1);
}

void kern_attn_q8_scalar(const struct kern_attn *a)
{
    float x[KERN_MAX_HEAD];
    float row[KERN_MAX_HEAD * 3 / 2 / sizeof(float)]; /* codes, scales, sums */

    for (size_t i = 0; i < a->n_row; i++)
        for (size_t h = 0; h < a->n_head; h++) {
            for (size_t d = 0; d < a->head_dim; d++)
                x[d] = a->q[i * a->q_stride + h * a->head_dim + d] * a->scale;
            kern_quantise_scalar(row, a->head_dim, x, 0, a->head_dim);
            attend(a, segment_q8, row,
                   a->part ? NULL : a->out + i * a->out_stride + h * a->head_dim,
                   i * a->n_head + h, (size_t)a->pos0 + i + 1);
        }
}

void kern_attn_merge_scalar(float *out, const float *part, size_t n_seg, size_t head_dim)
{
    struct softmax_state s = {part[0], part[1]};

    memcpy(out, part + 2, head_dim * sizeof *out);
    for (size_t i = 1; i < n_seg; i++) {
        part += KERN_ATTN_PART(head_dim);
        merge(&s, out, (struct softmax_state){part[0], part[1]}, part + 2, head_dim);
    }
    divide(out, s.sum, head_dim);
}
