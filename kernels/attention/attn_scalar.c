/* kernels/attention/attn_scalar.c - attention of one query row and head at a time: the
 * definition.
 *
 * One query and one segment of 256 tokens at a time: scores, their exponentials, weighted values,
 * then merge_segments() folds the segment's softmax state into that of the segments before it.
 * Segments are counted from position 0 and always merged in ascending order; vector bodies and
 * split KV (attn_merge) may cut the work anywhere between segments and still give the same bits.
 */
#include "kernels/kern_math.h"
#include "kernels/kernels_impl.h"

/* Softmax state of the tokens seen so far: maximum and sum of exponentials. */
struct softmax_state {
    float max;
    float sum;
};

/* One query (row and head): its numbers in the form that segment functions take, its position and
 * its ALiBi slope. */
struct query {
    const float *q;
    size_t pos;
    float slope;
};

/* Compute tokens [t0, t1) of one segment: returns the softmax state, o[value_dim] gets the weighted
 * values; e is room for a segment's scores, by column. */
typedef struct softmax_state segment_fn(const struct kern_attn *a, const struct query *q, size_t t0,
                                        size_t t1, float *e, float *o);

static const uint8_t *key_block(const struct kern_attn *a, size_t t)
{
    return a->keys + a->table[t / KERN_BLOCK] * a->block_stride;
}

static const uint8_t *value_block(const struct kern_attn *a, size_t t)
{
    return a->values + a->table[t / KERN_BLOCK] * a->block_stride;
}

/* How a store without codes keeps a number. */
struct number_store {
    float (*load)(const void *p);
    size_t size; /* bytes */
};

static float load_f32(const void *p)
{
    float x;

    memcpy(&x, p, sizeof(x));
    return x;
}

static const struct number_store store_f16 = {kern_load_f16, 2}, store_bf16 = {kern_load_bf16, 2},
                                 store_f32 = {load_f32, sizeof(float)};

/* Finish the scaled score of token t: cap and ALiBi. */
static float finish_score(const struct kern_attn *a, const struct query *q, float s, size_t t)
{
    s = a->cap != 0 ? kern_cap_inline(s, a->cap) : s;
    return a->slopes ? fmaf(-q->slope, fabsf((float)q->pos - (float)t), s) : s;
}

static float score(const struct kern_attn *a, const struct number_store *n, const struct query *q,
                   size_t t)
{
    const uint8_t *keys = key_block(a, t);
    float s = 0;

    for (size_t d = 0; d < a->key_dim; d++)
        s = fmaf(q->q[d], n->load(keys + n->size * (d * KERN_BLOCK + t % KERN_BLOCK)), s);
    return finish_score(a, q, s * a->scale, t);
}

static struct softmax_state segment(const struct kern_attn *a, const struct number_store *n,
                                    const struct query *q, size_t t0, size_t t1, float *e, float *o)
{
    float lane[KERN_LANES] = {0};
    float m = -INFINITY;

    for (size_t t = t0; t < t1; t++) {
        e[t % KERN_SEGMENT] = score(a, n, q, t);
        m = e[t % KERN_SEGMENT] > m ? e[t % KERN_SEGMENT] : m;
    }
    for (size_t d = 0; d < a->value_dim; d++)
        o[d] = 0;
    for (size_t t = t0; t < t1; t++) {
        const uint8_t *value = value_block(a, t) + n->size * (t % KERN_BLOCK * a->value_dim);
        const float p = kern_exp_inline(e[t % KERN_SEGMENT] - m);

        lane[t % KERN_LANES] += p;
        for (size_t d = 0; d < a->value_dim; d++)
            o[d] = fmaf(p, n->load(value + n->size * d), o[d]);
    }
    return (struct softmax_state){m, kern_lanes_sum_inline(lane)};
}

static struct softmax_state segment_f16(const struct kern_attn *a, const struct query *q, size_t t0,
                                        size_t t1, float *e, float *o)
{
    return segment(a, &store_f16, q, t0, t1, e, o);
}

static struct softmax_state segment_bf16(const struct kern_attn *a, const struct query *q,
                                         size_t t0, size_t t1, float *e, float *o)
{
    return segment(a, &store_bf16, q, t0, t1, e, o);
}

static struct softmax_state segment_f32(const struct kern_attn *a, const struct query *q, size_t t0,
                                        size_t t1, float *e, float *o)
{
    return segment(a, &store_f32, q, t0, t1, e, o);
}

/* ---- stores of codes ---- */

/* How a store codes values: functions for the number that a code stands for and for a value's
 * scale, and how many dimensions share a scale. */
struct coding {
    int32_t (*number)(const uint8_t *block, size_t slot, size_t d, size_t value_dim);
    size_t scale_group; /* 0: all dimensions of a value share one */
};

static int32_t number_q8(const uint8_t *block, size_t slot, size_t d, size_t value_dim)
{
    return block[KERN_KV_Q8_CODES + (slot / 4 * value_dim + d) * 4 + slot % 4] - 128;
}

static int32_t number_q4(const uint8_t *block, size_t slot, size_t d, size_t value_dim)
{
    return kern_kv_q4_number(block[kern_kv_q4_at(slot, d, value_dim)] >> d / 16 % 2 * 4 & 15);
}

static const struct coding coding_q8 = {number_q8, 0}, coding_q4 = {number_q4, KERN_GROUP};

/* Return the score of token t. It needs no factor: the query was scaled before it was quantised. */
static float score_q8(const struct kern_attn *a, const struct kern_qrow *q, size_t t)
{
    const uint8_t *group = key_block(a, t);
    const size_t slot = t % KERN_BLOCK;
    float s = 0;

    for (size_t g = 0; g < a->key_dim / KERN_GROUP; g++, group += KERN_Q8_0_GROUP) {
        const uint8_t *codes = group + KERN_KV_Q8_CODES;
        int32_t n = 0;

        for (size_t d = 0; d < KERN_GROUP; d++)
            n += (codes[(d / 4 * KERN_BLOCK + slot) * 4 + d % 4] - 128) *
                 q->code[g * KERN_GROUP + d];
        s = fmaf((float)n, kern_load_f16(group + 2 * slot) * q->scale[g], s);
    }
    return s;
}

/* Tokens [t0, t1) of a segment, and dimensions [d0, d1) of their values. */
struct piece {
    size_t t0, t1, d0, d1;
};

/* o += the values of the piece, whose tokens are in one group, weighted with codes e and their
 * scale. */
static void add_group(const struct kern_attn *a, const struct coding *c, const int8_t *e,
                      float scale, struct piece p, float *o)
{
    for (size_t d = p.d0; d < p.d1; d++) {
        int32_t n = 0;

        for (size_t t = p.t0; t < p.t1; t++)
            n +=
                c->number(value_block(a, t), t % KERN_BLOCK, d, a->value_dim) * e[t % KERN_SEGMENT];
        o[d] = fmaf((float)n, scale, o[d]);
    }
}

/* Compute the piece's dimensions of o, which share a scale; `scales`: bytes from a block's values
 * to the scales of its tokens. */
static void add_coded(const struct kern_attn *a, const struct coding *c, size_t scales,
                      struct piece p, const float *e, float *o)
{
    float row[KERN_SEGMENT * 3 / 2 / sizeof(float)]; /* codes, scales, sums */
    const struct kern_qrow codes = kern_qrow(row, KERN_SEGMENT);
    float weight[KERN_SEGMENT] = {0};
    const size_t end = p.t1;

    for (size_t t = p.t0; t < end; t++)
        weight[t % KERN_SEGMENT] =
            e[t % KERN_SEGMENT] * kern_load_f16(value_block(a, t) + scales + 2 * (t % KERN_BLOCK));
    kern_quantise_scalar(row, KERN_SEGMENT, weight, 0, KERN_SEGMENT);
    for (size_t d = p.d0; d < p.d1; d++)
        o[d] = 0;
    for (; p.t0 < end; p.t0 = p.t1) {
        const size_t group = p.t0 / KERN_GROUP * KERN_GROUP;

        p.t1 = group + KERN_GROUP < end ? group + KERN_GROUP : end;
        add_group(a, c, codes.code, codes.scale[group % KERN_SEGMENT / KERN_GROUP], p, o);
    }
}

/* Compute a segment of a store of codes. q: the quantised query. */
static struct softmax_state coded_segment(const struct kern_attn *a, const struct coding *c,
                                          const struct query *q, size_t t0, size_t t1, float *e,
                                          float *o)
{
    const size_t each = c->scale_group ? c->scale_group : a->value_dim;
    const struct kern_qrow codes = kern_qrow(q->q, a->key_dim);
    float lane[KERN_LANES] = {0};
    float m = -INFINITY;

    for (size_t t = t0; t < t1; t++) {
        e[t % KERN_SEGMENT] = finish_score(a, q, score_q8(a, &codes, t), t);
        m = e[t % KERN_SEGMENT] > m ? e[t % KERN_SEGMENT] : m;
    }
    for (size_t t = t0; t < t1; t++) {
        e[t % KERN_SEGMENT] = kern_exp_inline(e[t % KERN_SEGMENT] - m);
        lane[t % KERN_LANES] += e[t % KERN_SEGMENT];
    }
    for (size_t d = 0; d < a->value_dim; d += each)
        add_coded(a, c, d / each * 2 * KERN_BLOCK, (struct piece){t0, t1, d, d + each}, e, o);
    return (struct softmax_state){m, kern_lanes_sum_inline(lane)};
}

static struct softmax_state segment_q8(const struct kern_attn *a, const struct query *q, size_t t0,
                                       size_t t1, float *e, float *o)
{
    return coded_segment(a, &coding_q8, q, t0, t1, e, o);
}

static struct softmax_state segment_q4(const struct kern_attn *a, const struct query *q, size_t t0,
                                       size_t t1, float *e, float *o)
{
    return coded_segment(a, &coding_q4, q, t0, t1, e, o);
}

/* ---- merging segments ---- */

/* Fold a segment's state into the state of the segments before it. */
static void merge_segments(struct softmax_state *s, float *out, struct softmax_state seg,
                           const float *o, size_t value_dim)
{
    const float max = seg.max > s->max ? seg.max : s->max;
    const float a = kern_exp_inline(s->max - max);
    const float b = kern_exp_inline(seg.max - max);

    s->max = max;
    s->sum = fmaf(s->sum, a, seg.sum * b);
    for (size_t d = 0; d < value_dim; d++)
        out[d] = fmaf(out[d], a, o[d] * b);
}

/* Write the result; the sink, unless NULL, is merged as the last segment. */
static void finish_softmax(struct softmax_state s, float *out, const float *sink, size_t value_dim)
{
    static const float nothing[KERN_MAX_HEAD];

    if (sink)
        merge_segments(&s, out, (struct softmax_state){*sink, 1}, nothing, value_dim);
    for (size_t d = 0; d < value_dim; d++)
        out[d] = out[d] / s.sum;
}

static void keep_part(const struct kern_attn *a, size_t query, size_t seg, struct softmax_state s,
                      const float *o)
{
    const size_t state = seg < a->n_merged ? 0 : a->n_merged > 1 ? seg - a->n_merged + 1 : seg;
    float *part = a->part + query * a->part_stride + state * KERN_ATTN_PART(a->value_dim);
    struct softmax_state to = s;

    if (seg > 0 && seg < a->n_merged) {
        to = (struct softmax_state){part[0], part[1]};
        merge_segments(&to, part + 2, s, o, a->value_dim);
    } else {
        memcpy(part + 2, o, a->value_dim * sizeof *o);
    }
    part[0] = to.max;
    part[1] = to.sum;
}

/* Return one past the last token that the query at `pos` sees. */
static size_t seen_to(const struct kern_attn *a, size_t pos)
{
    if (a->n_seen == 0)
        return pos + 1;
    return a->ahead && pos + 1 + a->ahead < a->n_seen ? pos + 1 + a->ahead : a->n_seen;
}

/* Compute attention of one query. numbers: the query in the form that segment_of takes. */
static void attend(const struct kern_attn *a, segment_fn *segment_of, const float *numbers,
                   size_t row, size_t head)
{
    const struct query query = {numbers, a->rows ? a->rows[row].pos : a->pos0 + row,
                                a->slopes ? a->slopes[head] : 0};
    const struct query *q = &query;
    const size_t end = q->pos + 1;
    const size_t n = seen_to(a, q->pos); /* the query sees tokens from .. n - 1 */
    const size_t from = a->window && end > a->window ? end - a->window : 0;
    const size_t first = from / KERN_SEGMENT;
    float *out = a->part ? NULL : a->out + row * a->out_stride + head * a->value_dim;
    float *e = a->scratch;
    float *o = e + KERN_SEGMENT;
    struct softmax_state s = {0};

    for (size_t seg = a->seg0 > first ? a->seg0 : first; seg < a->seg1 && seg * KERN_SEGMENT < n;
         seg++) {
        const size_t t0 = seg == first ? from : seg * KERN_SEGMENT;
        const size_t t1 = (seg + 1) * KERN_SEGMENT < n ? (seg + 1) * KERN_SEGMENT : n;

        if (a->part)
            keep_part(a, row * a->n_head + head, seg, segment_of(a, q, t0, t1, e, o), o);
        else if (seg == first)
            s = segment_of(a, q, t0, t1, e, out);
        else
            merge_segments(&s, out, segment_of(a, q, t0, t1, e, o), o, a->value_dim);
    }
    if (!a->part)
        finish_softmax(s, out, a->sinks ? a->sinks + head : NULL, a->value_dim);
}

/* Return the query of one head of row i in a->q. */
static const float *query_at(const struct kern_attn *a, size_t i, size_t head)
{
    const size_t row = a->rows ? a->rows[i].row : i;

    return a->q + row * a->q_stride + head * a->key_dim;
}

static void attend_all(const struct kern_attn *a, segment_fn *segment_of)
{
    for (size_t i = 0; i < a->n_row; i++)
        for (size_t h = 0; h < a->n_head; h++)
            attend(a, segment_of, query_at(a, i, h), i, h);
}

void kern_attn_f16_scalar(const struct kern_attn *a)
{
    attend_all(a, segment_f16);
}

void kern_attn_bf16_scalar(const struct kern_attn *a)
{
    attend_all(a, segment_bf16);
}

void kern_attn_f32_scalar(const struct kern_attn *a)
{
    attend_all(a, segment_f32);
}

static void attend_coded(const struct kern_attn *a, segment_fn *segment_of)
{
    float x[KERN_MAX_HEAD];
    float row[KERN_MAX_HEAD * 3 / 2 / sizeof(float)]; /* codes, scales, sums */

    for (size_t i = 0; i < a->n_row; i++)
        for (size_t h = 0; h < a->n_head; h++) {
            for (size_t d = 0; d < a->key_dim; d++)
                x[d] = query_at(a, i, h)[d] * a->scale;
            kern_quantise_scalar(row, a->key_dim, x, 0, a->key_dim);
            attend(a, segment_of, row, i, h);
        }
}

void kern_attn_q8_0_scalar(const struct kern_attn *a)
{
    attend_coded(a, segment_q8);
}

void kern_attn_q4_0_scalar(const struct kern_attn *a)
{
    attend_coded(a, segment_q4);
}

void kern_attn_merge_scalar(float *out, const float *part, size_t n_state, size_t value_dim,
                            const float *sink)
{
    struct softmax_state s = {part[0], part[1]};

    memcpy(out, part + 2, value_dim * sizeof *out);
    for (size_t i = 1; i < n_state; i++) {
        part += KERN_ATTN_PART(value_dim);
        merge_segments(&s, out, (struct softmax_state){part[0], part[1]}, part + 2, value_dim);
    }
    finish_softmax(s, out, sink, value_dim);
}
