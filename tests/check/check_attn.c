/* tests/check/check_attn.c - paged attention. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"

#define HALF_NAN 0x7e00

struct arena {
    enum kern_kv kv;
    size_t head_dim;
    size_t n_head;
    size_t n_tok;
    size_t n_block; /* in the table */
    size_t stride;  /* of blocks, bytes */
    uint8_t *keys;
    uint8_t *values;
    uint32_t *table;
    float *q; /* [n_tok][q_stride] */
    size_t q_stride;
    float *scratch;
};

static uint16_t random_half(struct check *c)
{
    const uint16_t sign = (uint16_t)(check_rand(c) & 0x8000u);

    return sign | (uint16_t)(0x2c00 + check_below(c, 0x1000)); /* 1/16 .. 1 */
}

static uint16_t poison(struct check *c)
{
    static const uint16_t BAD[] = {HALF_NAN, 0x7c00, 0xfc00, 0xffff, 0x7bff};

    return BAD[check_below(c, CHECK_COUNT(BAD))];
}

/* A scale such that 127 of it is at most a half; now and then nothing. */
static uint16_t random_scale(struct check *c)
{
    return check_below(c, 16) ? (uint16_t)(0x1000 + check_below(c, 0x0c00)) : 0;
}

/* Where a token's number is: a half, or a code with its scale elsewhere. */
static uint8_t *key_at(const struct arena *r, size_t t, size_t d)
{
    uint8_t *block = r->keys + r->table[t / KERN_BLOCK] * r->stride;
    const size_t slot = t % KERN_BLOCK;

    if (r->kv == KERN_KV_F16)
        return block + 2 * (d * KERN_BLOCK + slot);
    return block + d / 32 * 544 + 32 + d % 32 / 4 * 64 + slot * 4 + d % 4;
}

static uint8_t *value_at(const struct arena *r, size_t t, size_t d)
{
    uint8_t *block = r->values + r->table[t / KERN_BLOCK] * r->stride;
    const size_t slot = t % KERN_BLOCK;

    if (r->kv == KERN_KV_F16)
        return block + 2 * (slot * r->head_dim + d);
    return block + 32 + (slot / 4 * r->head_dim + d) * 4 + slot % 4;
}

static uint16_t *key_scale_at(const struct arena *r, size_t t, size_t d)
{
    uint8_t *block = r->keys + r->table[t / KERN_BLOCK] * r->stride;

    return (uint16_t *)(void *)(block + d / 32 * 544) + t % KERN_BLOCK;
}

static uint16_t *value_scale_at(const struct arena *r, size_t t)
{
    uint8_t *block = r->values + r->table[t / KERN_BLOCK] * r->stride;

    return (uint16_t *)(void *)block + t % KERN_BLOCK;
}

static void put_number(struct check *c, const struct arena *r, uint8_t *at, bool good)
{
    const uint16_t half = good ? random_half(c) : poison(c);

    if (r->kv == KERN_KV_F16)
        memcpy(at, &half, sizeof half);
    else /* 0 is the code of -128, which nobody stores */
        *at = (uint8_t)(good ? 1 + check_below(c, 255) : check_below(c, 2) * check_rand(c));
}

static void put_token(struct check *c, const struct arena *r, size_t t, bool good)
{
    for (size_t d = 0; d < r->head_dim; d++) {
        put_number(c, r, key_at(r, t, d), good);
        put_number(c, r, value_at(r, t, d), good);
        if (r->kv == KERN_KV_Q8_0 && d % 32 == 0)
            *key_scale_at(r, t, d) = good ? random_scale(c) : poison(c);
    }
    if (r->kv == KERN_KV_Q8_0)
        *value_scale_at(r, t) = good ? random_scale(c) : poison(c);
}

/* Blocks in random order of an arena with more of them; every slot without a token is poison. */
static void make_arena(struct check *c, struct arena *r, enum kern_kv kv, size_t n_head,
                       size_t head_dim, size_t n_tok, float q_scale)
{
    const size_t spare = 3;
    const size_t key_bytes = kern_kv_key_bytes(kv, (uint32_t)head_dim);
    const size_t value_bytes = kern_kv_value_bytes(kv, (uint32_t)head_dim);

    *r = (struct arena){.kv = kv, .head_dim = head_dim, .n_head = n_head, .n_tok = n_tok};
    r->n_block = (n_tok + KERN_BLOCK - 1) / KERN_BLOCK;
    r->stride = (key_bytes > value_bytes ? key_bytes : value_bytes) + 16 * check_below(c, 3);
    const size_t before = (r->n_block + spare - 1) * r->stride;
    r->keys = check_alloc(before + key_bytes, 2);
    r->values = check_alloc(before + value_bytes, 2);
    r->table = check_alloc(r->n_block * sizeof *r->table, 4);
    for (size_t i = 0; i + 2 <= before + value_bytes; i += 2) {
        const uint16_t half = poison(c);

        memcpy(r->values + i, &half, sizeof half);
    }
    for (size_t i = 0; i + 2 <= before + key_bytes; i += 2) {
        const uint16_t half = poison(c);

        memcpy(r->keys + i, &half, sizeof half);
    }
    for (size_t b = 0; b < r->n_block; b++)
        r->table[b] = (uint32_t)(b + spare);
    for (size_t b = r->n_block; b-- > 1;) {
        const size_t other = check_below(c, (uint32_t)b + 1);
        const uint32_t keep = r->table[b];

        r->table[b] = r->table[other];
        r->table[other] = keep;
    }
    for (size_t t = 0; t < r->n_block * KERN_BLOCK; t++)
        put_token(c, r, t, t < n_tok);
    r->q_stride = n_head * head_dim + check_below(c, 4);
    r->q = check_alloc(((n_tok - 1) * r->q_stride + n_head * head_dim) * sizeof *r->q, 4);
    check_fill(c, r->q, (n_tok - 1) * r->q_stride + n_head * head_dim, q_scale);
    r->scratch = check_alloc(
        kern_attn_scratch((uint32_t)n_tok, (uint32_t)n_head, (uint32_t)head_dim), 64);
}

static struct kern_attn call(const struct arena *r, size_t pos0, size_t n_row, float *out,
                             size_t out_stride)
{
    return (struct kern_attn){.q = r->q + pos0 * r->q_stride,
                                .out = out,
                                .q_stride = r->q_stride,
                                .out_stride = out_stride,
                                .keys = r->keys,
                                .values = r->values,
                                .block_stride = r->stride,
                                .table = r->table,
                                .pos0 = (uint32_t)pos0,
                                .n_row = (uint32_t)n_row,
                                .n_head = (uint32_t)r->n_head,
                                .head_dim = (uint32_t)r->head_dim,
                                .scale = 1 / sqrtf((float)r->head_dim),
                                .seg1 = UINT32_MAX,
                                .scratch = r->scratch};
}

static void attend(const struct kern_table *t, const struct arena *r, const struct kern_attn *a)
{
    (r->kv == KERN_KV_F16 ? t->attn : t->attn_q8)(a);
}

/* Rows at positions [pos0, pos0 + n_row); out has width floats a row. */
static void run(const struct kern_table *t, const struct arena *r, size_t pos0, size_t n_row,
                float *out, size_t out_stride)
{
    const struct kern_attn a = call(r, pos0, n_row, out, out_stride);

    attend(t, r, &a);
}

/* The same in two calls that share the segments between them. */
static void run_parts(struct check *c, const struct arena *r, size_t pos0, size_t n_row, float *out,
                      size_t out_stride)
{
    const size_t n_seg = (pos0 + n_row + KERN_SEGMENT - 1) / KERN_SEGMENT;
    const size_t stride = n_seg * KERN_ATTN_PART(r->head_dim) + check_below(c, 3);
    const size_t n = n_row * r->n_head * stride;
    float *part = check_out(n * sizeof *part, 4);
    struct kern_attn a = call(r, pos0, n_row, NULL, 0);

    a.part = part;
    a.part_stride = stride;
    a.seg0 = check_below(c, (uint32_t)n_seg + 1);
    attend(c->test, r, &a);
    a.seg1 = a.seg0;
    a.seg0 = 0;
    attend(c->test, r, &a);
    check_that(c, check_guard(part), "wrote before part");
    for (size_t i = 0; i < n_row * r->n_head; i++) {
        const size_t seen = (pos0 + i / r->n_head) / KERN_SEGMENT + 1;
        const size_t used = seen * KERN_ATTN_PART(r->head_dim);

        check_that(c, check_untouched(part + i * stride + used, (stride - used) * 4),
                   "heads=%zu dim=%zu pos0=%zu: wrote past the segments of query %zu", r->n_head,
                   r->head_dim, pos0, i);
        c->test->attn_merge(out + i / r->n_head * out_stride + i % r->n_head * r->head_dim,
                            part + i * stride, seen, r->head_dim);
    }
}

/* What the formula takes, in double: a value is code * scale, the scale of a half being 1. */
struct numbers {
    double *k;  /* [t][head_dim] */
    double *vc; /* [t][head_dim] */
    double *vs; /* [t] */
    double *q;  /* [head_dim], scaled */
    double *e;  /* [t] */
    double *out;
};

static double number_at(const struct arena *r, const uint8_t *at, double scale)
{
    uint16_t half;

    if (r->kv == KERN_KV_Q8_0)
        return (*at - 128) * scale;
    memcpy(&half, at, sizeof half);
    return check_half(half);
}

static void read_numbers(const struct arena *r, size_t n_tok, struct numbers *n)
{
    for (size_t i = 0; i < n_tok * r->head_dim; i++) {
        const size_t t = i / r->head_dim, d = i % r->head_dim;
        const bool codes = r->kv == KERN_KV_Q8_0;

        n->k[i] = number_at(r, key_at(r, t, d), codes ? check_half(*key_scale_at(r, t, d)) : 0);
        n->vc[i] = number_at(r, value_at(r, t, d), 1);
        n->vs[t] = codes ? check_half(*value_scale_at(r, t)) : 1;
    }
}

/* The query as the scores take it: times the scale; 8-bit keys want it in codes. */
static void read_query(const struct arena *r, const float *q, double *out)
{
    const float scale = 1 / sqrtf((float)r->head_dim);

    for (size_t d0 = 0; d0 < r->head_dim; d0 += 8) {
        const size_t group = d0 / 32 * 32;
        float a = 0;

        for (size_t d = group; r->kv == KERN_KV_Q8_0 && d < group + 32; d++)
            a = fmaxf(a, fabsf(q[d] * scale));
        for (size_t d = d0; d < d0 + 8; d++)
            out[d] = a > 0 ? (double)rintf(q[d] * scale * (127 / a)) * (double)(a / 127)
                           : (double)q[d] * (double)scale;
    }
}

/* Round the weights of each 32 tokens to codes; returns the most that a code counts. */
static double round_weights(double *w, size_t n_tok)
{
    double most = 0;

    for (size_t g = 0; g < n_tok; g += 32) {
        double a = 0;

        for (size_t t = g; t < g + 32 && t < n_tok; t++)
            a = fmax(a, w[t]);
        for (size_t t = g; t < g + 32 && t < n_tok; t++)
            w[t] = a > 0 ? rint(w[t] * (127 / a)) * (a / 127) : 0;
        most = fmax(most, a / 127);
    }
    return most;
}

/* Plain softmax attention of one row and head. Returns by how much the result may differ: in fp32
 * a weight may fall to the other side of two codes, and that counts as much as the largest value
 * code. */
static double formula(const struct arena *r, const struct numbers *n, size_t n_tok)
{
    double max = -INFINITY;
    double sum = 0;
    double code = 0;

    for (size_t t = 0; t < n_tok; t++) {
        n->e[t] = 0;
        for (size_t d = 0; d < r->head_dim; d++)
            n->e[t] += n->q[d] * n->k[t * r->head_dim + d];
        max = fmax(max, n->e[t]);
    }
    for (size_t t = 0; t < n_tok; t++) {
        n->e[t] = exp(n->e[t] - max);
        sum += n->e[t];
        n->e[t] *= n->vs[t];
    }
    if (r->kv == KERN_KV_Q8_0)
        code = round_weights(n->e, n_tok);
    memset(n->out, 0, r->head_dim * sizeof *n->out);
    for (size_t t = 0; t < n_tok; t++)
        for (size_t d = 0; d < r->head_dim; d++)
            n->out[d] += n->e[t] * n->vc[t * r->head_dim + d];
    for (size_t d = 0; d < r->head_dim; d++)
        n->out[d] /= sum;
    return 2e-5 + code * 127 / sum;
}

static void check_formula(struct check *c, const struct arena *r, size_t pos0, size_t n_row,
                          const float *out, size_t out_stride)
{
    const size_t n_tok = pos0 + n_row;
    double *all = malloc((2 * n_tok * (r->head_dim + 1) + 2 * r->head_dim) * sizeof *all);
    struct numbers n = {.k = all};

    n.vc = n.k + n_tok * r->head_dim;
    n.vs = n.vc + n_tok * r->head_dim;
    n.e = n.vs + n_tok;
    n.q = n.e + n_tok;
    n.out = n.q + r->head_dim;
    read_numbers(r, n_tok, &n);
    for (size_t i = 0; i < n_row * r->n_head; i += 5) {
        const size_t row = i / r->n_head;
        const size_t at = i % r->n_head * r->head_dim;

        read_query(r, r->q + (pos0 + row) * r->q_stride + at, n.q);
        const double most = formula(r, &n, pos0 + row + 1);
        for (size_t d = 0; d < r->head_dim; d++)
            check_that(c, fabs(out[row * out_stride + at + d] - n.out[d]) < most,
                       "heads=%zu dim=%zu pos=%zu: [%zu] %.9g, formula %.9g", r->n_head,
                       r->head_dim, pos0 + row, at + d, (double)out[row * out_stride + at + d],
                       n.out[d]);
    }
    free(all);
}

/* How rows are computed: in one call, in two calls of some rows each, in two of some segments. */
enum way { WAY_WHOLE, WAY_ROWS, WAY_SEGMENTS, N_WAY };

static void check_rows(struct check *c, const struct arena *r, size_t pos0, size_t n_row)
{
    const size_t width = r->n_head * r->head_dim;
    const size_t stride = width + check_below(c, 3);
    const size_t n = (n_row - 1) * stride + width;
    const size_t cut = check_below(c, (uint32_t)n_row);
    float *want = check_out(n * sizeof *want, 4);
    float *got = check_out(n * sizeof *got, 4);

    run(c->ref, r, pos0, n_row, want, stride);
    for (int way = 0; way < N_WAY; way++) {
        check_refill(got, n * sizeof *got);
        if (way == WAY_ROWS && cut)
            run(c->test, r, pos0, cut, got, stride);
        if (way == WAY_ROWS)
            run(c->test, r, pos0 + cut, n_row - cut, got + cut * stride, stride);
        if (way == WAY_WHOLE)
            run(c->test, r, pos0, n_row, got, stride);
        if (way == WAY_SEGMENTS)
            run_parts(c, r, pos0, n_row, got, stride);
        check_that(c, check_guard(got), "wrote before out");
        for (size_t i = 0; i < n_row; i++) {
            const size_t at = check_diff(got + i * stride, want + i * stride, width);

            check_that(c, at == width,
                       "heads=%zu dim=%zu pos0=%zu rows=%zu way=%d cut=%zu: [%zu][%zu] %.9g, "
                       "scalar %.9g",
                       r->n_head, r->head_dim, pos0, n_row, way, cut, i, at,
                       (double)got[i * stride + (at == width ? 0 : at)],
                       (double)want[i * stride + (at == width ? 0 : at)]);
            if (i + 1 < n_row)
                check_that(c, check_untouched(got + i * stride + width, (stride - width) * 4),
                           "wrote between rows");
        }
    }
    if (c->isa == KERN_ISA_SCALAR)
        check_formula(c, r, pos0, n_row, want, stride);
}

/* Everything after `pos` turned to poison: the row at `pos` must not notice. */
static void check_blind(struct check *c, struct arena *r, size_t pos)
{
    const size_t width = r->n_head * r->head_dim;
    float *want = check_out((r->n_tok - pos) * width * sizeof *want, 4);
    float *got = check_out(width * sizeof *got, 4);

    run(c->test, r, pos, r->n_tok - pos, want, width);
    for (size_t t = pos + 1; t < r->n_tok; t++)
        put_token(c, r, t, false);
    for (size_t b = pos / KERN_BLOCK + 1; b < r->n_block; b++)
        r->table[b] = 0;
    run(c->test, r, pos, 1, got, width);
    const size_t at = check_diff(got, want, width);
    check_that(c, at == width, "heads=%zu dim=%zu: row %zu alone differs from row in a run at %zu",
               r->n_head, r->head_dim, pos, at);
    check_that(c, at != width || got[0] == got[0], "row %zu is NaN", pos);
}

static void check_shape(struct check *c, enum kern_kv kv, size_t n_head, size_t head_dim)
{
    static const size_t LENGTHS[] = {1, 2, 15, 16, 17, 31, 64, 255, 256, 257, 300, 512, 513, 1100};
    const size_t budget = (size_t)1 << 20; /* products of scalar per case */

    for (size_t i = 0; i < CHECK_COUNT(LENGTHS); i++) {
        const size_t n_tok = LENGTHS[i];
        size_t most = budget / (n_tok * head_dim * n_head) + 1;
        struct arena r;

        if (most > n_tok)
            most = n_tok;
        if (most > 40)
            most = 40;
        make_arena(c, &r, kv, n_head, head_dim, n_tok, i % 3 == 2 ? 30 : 1);
        check_rows(c, &r, n_tok - most, most);
        check_rows(c, &r, n_tok - 1, 1);
        check_blind(c, &r, n_tok - most);
        check_free_all();
    }
}

static void check_store(struct check *c, enum kern_kv kv)
{
    static const size_t HEADS[] = {1, 4, 7, 8, 13};
    static const size_t DIMS[] = {8, 24, 32, 64, 80, 96, 128, 256};

    for (size_t d = 0; d < CHECK_COUNT(DIMS); d++)
        for (size_t h = 0; h < CHECK_COUNT(HEADS) && DIMS[d] % kern_kv_group(kv) == 0; h++)
            check_shape(c, kv, HEADS[h], DIMS[d]);
    for (size_t h = 0; h < CHECK_COUNT(HEADS); h++) { /* across the first segment boundary */
        struct arena r;

        make_arena(c, &r, kv, HEADS[h], 32, 281, 2);
        check_rows(c, &r, 231, 50);
        check_rows(c, &r, 0, 60);
        check_blind(c, &r, 250);
        check_free_all();
    }
}

void check_attn(struct check *c)
{
    check_store(c, KERN_KV_F16);
}

void check_attn_q8(struct check *c)
{
    check_store(c, KERN_KV_Q8_0);
}

/* States of segments at random, folded in double. */
static void check_merge_of(struct check *c, size_t n_seg, size_t dim)
{
    const size_t n = n_seg * KERN_ATTN_PART(dim);
    float *part = check_alloc(n * sizeof *part, 4);
    float *want = check_out(dim * sizeof *want, 4);
    float *got = check_out(dim * sizeof *got, 4);
    double top = -INFINITY;

    check_fill(c, part, n, 1);
    for (size_t s = 0; s < n_seg; s++) {
        part[s * KERN_ATTN_PART(dim)] = check_uniform(c, -20, 20);
        part[s * KERN_ATTN_PART(dim) + 1] = check_uniform(c, 1, 256);
        top = fmax(top, (double)part[s * KERN_ATTN_PART(dim)]);
    }
    c->ref->attn_merge(want, part, n_seg, dim);
    c->test->attn_merge(got, part, n_seg, dim);
    check_that(c, check_guard(got) && check_diff(got, want, dim) == dim,
               "segments=%zu dim=%zu differs from scalar", n_seg, dim);
    for (size_t d = 0; d < dim && c->isa == KERN_ISA_SCALAR; d++) {
        double sum = 0, o = 0, mass = 0;

        for (size_t s = 0; s < n_seg; s++) {
            const float *p = part + s * KERN_ATTN_PART(dim);
            const double e = exp((double)p[0] - top);

            sum += e * (double)p[1];
            o += e * (double)p[2 + d];
            mass += e * fabs((double)p[2 + d]);
        }
        check_that(c, fabs(got[d] - o / sum) <= 2e-6 * mass / sum + 1e-12,
                   "segments=%zu dim=%zu: [%zu] %.9g, formula %.9g", n_seg, dim, d, (double)got[d],
                   o / sum);
    }
    check_free_all();
}

void check_attn_merge(struct check *c)
{
    static const size_t DIMS[] = {8, 24, 64, 80, 256};

    for (size_t d = 0; d < CHECK_COUNT(DIMS); d++)
        for (size_t n_seg = 1; n_seg <= 9; n_seg++)
            check_merge_of(c, n_seg, DIMS[d]);
}
