/* tests/check/check_attn.c - paged attention. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"

#define HALF_NAN 0x7e00

struct arena {
    size_t head_dim;
    size_t n_head;
    size_t n_tok;
    size_t n_block; /* in the table */
    size_t stride;  /* of blocks, elements */
    uint16_t *keys;
    uint16_t *values;
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

static uint16_t *key_at(const struct arena *r, size_t t, size_t d)
{
    return r->keys + r->table[t / KERN_BLOCK] * r->stride + d * KERN_BLOCK + t % KERN_BLOCK;
}

static uint16_t *value_at(const struct arena *r, size_t t, size_t d)
{
    return r->values + r->table[t / KERN_BLOCK] * r->stride + t % KERN_BLOCK * r->head_dim + d;
}

/* Blocks in random order of an arena with more of them; every slot without a token is poison. */
static void make_arena(struct check *c, struct arena *r, size_t n_head, size_t head_dim,
                       size_t n_tok, float q_scale)
{
    const size_t spare = 3;

    *r = (struct arena){.head_dim = head_dim, .n_head = n_head, .n_tok = n_tok};
    r->n_block = (n_tok + KERN_BLOCK - 1) / KERN_BLOCK;
    r->stride = head_dim * KERN_BLOCK + 8 * check_below(c, 3);
    const size_t elements = (r->n_block + spare) * r->stride;
    r->keys = check_alloc(elements * sizeof *r->keys, 2);
    r->values = check_alloc(elements * sizeof *r->values, 2);
    r->table = check_alloc(r->n_block * sizeof *r->table, 4);
    for (size_t i = 0; i < elements; i++) {
        r->keys[i] = poison(c);
        r->values[i] = poison(c);
    }
    for (size_t b = 0; b < r->n_block; b++)
        r->table[b] = (uint32_t)(b + spare);
    for (size_t b = r->n_block; b-- > 1;) {
        const size_t other = check_below(c, (uint32_t)b + 1);
        const uint32_t keep = r->table[b];

        r->table[b] = r->table[other];
        r->table[other] = keep;
    }
    for (size_t t = 0; t < n_tok; t++)
        for (size_t d = 0; d < head_dim; d++) {
            *key_at(r, t, d) = random_half(c);
            *value_at(r, t, d) = random_half(c);
        }
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

/* Rows at positions [pos0, pos0 + n_row); out has width floats a row. */
static void run(const struct kern_table *t, const struct arena *r, size_t pos0, size_t n_row,
                float *out, size_t out_stride)
{
    const struct kern_attn a = call(r, pos0, n_row, out, out_stride);

    t->attn(&a);
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
    c->test->attn(&a);
    a.seg1 = a.seg0;
    a.seg0 = 0;
    c->test->attn(&a);
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

/* Plain softmax attention of one row and head, in double, from keys and values [t][head_dim]. */
static void formula(const struct arena *r, const float *q, const double *k, const double *v,
                    size_t n_tok, double *s, double *out)
{
    const double scale = (double)(1 / sqrtf((float)r->head_dim));
    double max = -INFINITY;
    double sum = 0;

    for (size_t t = 0; t < n_tok; t++) {
        s[t] = 0;
        for (size_t d = 0; d < r->head_dim; d++)
            s[t] += q[d] * k[t * r->head_dim + d];
        s[t] *= scale;
        max = fmax(max, s[t]);
    }
    memset(out, 0, r->head_dim * sizeof *out);
    for (size_t t = 0; t < n_tok; t++) {
        s[t] = exp(s[t] - max);
        sum += s[t];
        for (size_t d = 0; d < r->head_dim; d++)
            out[d] += s[t] * v[t * r->head_dim + d];
    }
    for (size_t d = 0; d < r->head_dim; d++)
        out[d] /= sum;
}

static void check_formula(struct check *c, const struct arena *r, size_t pos0, size_t n_row,
                          const float *out, size_t out_stride)
{
    const size_t n_tok = pos0 + n_row;
    double *k = malloc(n_tok * r->head_dim * sizeof *k);
    double *v = malloc(n_tok * r->head_dim * sizeof *v);
    double *s = malloc(n_tok * sizeof *s);
    double *o = malloc(r->head_dim * sizeof *o);

    for (size_t i = 0; i < n_tok * r->head_dim; i++) {
        k[i] = check_half(*key_at(r, i / r->head_dim, i % r->head_dim));
        v[i] = check_half(*value_at(r, i / r->head_dim, i % r->head_dim));
    }
    for (size_t i = 0; i < n_row * r->n_head; i += 5) {
        const size_t row = i / r->n_head;
        const size_t at = i % r->n_head * r->head_dim;

        formula(r, r->q + (pos0 + row) * r->q_stride + at, k, v, pos0 + row + 1, s, o);
        for (size_t d = 0; d < r->head_dim; d++)
            check_that(c, fabs(out[row * out_stride + at + d] - o[d]) < 2e-5,
                       "heads=%zu dim=%zu pos=%zu: [%zu] %.9g, formula %.9g", r->n_head,
                       r->head_dim, pos0 + row, at + d, (double)out[row * out_stride + at + d],
                       o[d]);
    }
    free(k);
    free(v);
    free(s);
    free(o);
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
        for (size_t d = 0; d < r->head_dim; d++) {
            *key_at(r, t, d) = poison(c);
            *value_at(r, t, d) = poison(c);
        }
    run(c->test, r, pos, 1, got, width);
    const size_t at = check_diff(got, want, width);
    check_that(c, at == width, "heads=%zu dim=%zu: row %zu alone differs from row in a run at %zu",
               r->n_head, r->head_dim, pos, at);
    check_that(c, at != width || got[0] == got[0], "row %zu is NaN", pos);
}

static void check_shape(struct check *c, size_t n_head, size_t head_dim)
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
        make_arena(c, &r, n_head, head_dim, n_tok, i % 3 == 2 ? 30 : 1);
        check_rows(c, &r, n_tok - most, most);
        check_rows(c, &r, n_tok - 1, 1);
        check_blind(c, &r, n_tok - most);
        check_free_all();
    }
}

void check_attn(struct check *c)
{
    static const size_t HEADS[] = {1, 4, 7, 8, 13};
    static const size_t DIMS[] = {8, 24, 32, 64, 80, 96, 128, 256};

    for (size_t d = 0; d < CHECK_COUNT(DIMS); d++)
        for (size_t h = 0; h < CHECK_COUNT(HEADS); h++)
            check_shape(c, HEADS[h], DIMS[d]);
    for (size_t h = 0; h < CHECK_COUNT(HEADS); h++) { /* across the first segment boundary */
        struct arena r;

        make_arena(c, &r, HEADS[h], 32, 281, 2);
        check_rows(c, &r, 231, 50);
        check_rows(c, &r, 0, 60);
        check_blind(c, &r, 250);
        check_free_all();
    }
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
