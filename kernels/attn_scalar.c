/* kernels/attn_scalar.c - attention of one query row and head at a time: the definition. */
#include "kernels/kern_internal.h"
#include "kernels/kern_math.h"

/* Maximum, sum of exponentials and weighted values of what has been seen so far. */
struct softmax_state {
    float max;
    float sum;
};

static float score(const struct kern_attn *a, const float *q, size_t t)
{
    const uint16_t *keys = a->keys + a->table[t / KERN_BLOCK] * a->block_stride;
    float s = 0;

    for (size_t d = 0; d < a->head_dim; d++)
        s = fmaf(q[d], kern_f16_to_f32(keys[d * KERN_BLOCK + t % KERN_BLOCK]), s);
    return s * a->scale;
}

/* Tokens [t0, t1) of one segment: the state, and o[head_dim]. */
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
        const uint16_t *block = a->values + a->table[t / KERN_BLOCK] * a->block_stride;
        const uint16_t *value = block + t % KERN_BLOCK * a->head_dim;
        const float p = kern_exp_inline(e[t - t0] - m);

        lane[t % KERN_LANES] += p;
        for (size_t d = 0; d < a->head_dim; d++)
            o[d] = fmaf(p, kern_f16_to_f32(value[d]), o[d]);
    }
    return (struct softmax_state){m, kern_lanes_sum_inline(lane)};
}

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

static void attend(const struct kern_attn *a, const float *q, float *out, size_t query,
                   size_t n_visible)
{
    float *e = a->scratch;
    float *o = e + KERN_SEGMENT;
    struct softmax_state s = {0};

    for (size_t seg = a->seg0; seg < a->seg1 && seg * KERN_SEGMENT < n_visible; seg++) {
        const size_t t0 = seg * KERN_SEGMENT;
        const size_t t1 = t0 + KERN_SEGMENT < n_visible ? t0 + KERN_SEGMENT : n_visible;

        if (a->part)
            keep_part(a, query, seg, segment(a, q, t0, t1, e, o), o);
        else if (seg == 0)
            s = segment(a, q, t0, t1, e, out);
        else
            merge(&s, out, segment(a, q, t0, t1, e, o), o, a->head_dim);
    }
    if (!a->part)
        divide(out, s.sum, a->head_dim);
}

void kern_attn_scalar(const struct kern_attn *a)
{
    for (size_t i = 0; i < a->n_row; i++)
        for (size_t h = 0; h < a->n_head; h++)
            attend(a, a->q + i * a->q_stride + h * a->head_dim,
                   a->part ? NULL : a->out + i * a->out_stride + h * a->head_dim,
                   i * a->n_head + h, (size_t)a->pos0 + i + 1);
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
