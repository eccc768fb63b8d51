/* tests/check/check_attn.c - paged attention.
 *
 * Tokens that no row of a call sees hold poison (NaN, infinities, huge numbers). The table entries
 * of blocks with no other tokens lead to no block, so that a kernel that reads them crashes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"

#define NOWHERE UINT32_MAX /* a block that cannot be read */

/* The tokens that rows see, and the changes that are made to their scores. */
struct view {
    size_t window;
    bool all;     /* rows see tokens after their own ... */
    size_t ahead; /* ... at most so many, unless it is 0 */
    float cap;
    bool sinks;
    bool slopes;
};

/* A kind of head. */
struct shape {
    enum kern_kv kv;
    size_t n_head;
    size_t key_dim, value_dim;
    struct view view;
};

struct arena {
    struct shape s;
    size_t n_seen; /* 0 unless view.all */
    size_t n_tok;
    size_t n_block; /* in the table */
    size_t stride;  /* of blocks, bytes */
    uint8_t *keys;
    uint8_t *values;
    uint32_t *table;
    float *q; /* [n_tok][q_stride] */
    size_t q_stride;
    float *sinks;  /* or NULL */
    float *slopes; /* or NULL */
    float *scratch;
};

/* Tokens from .. to - 1. */
struct tokens {
    size_t from;
    size_t to;
};

static struct tokens row_sees(const struct arena *r, size_t pos)
{
    const size_t window = r->s.view.window, ahead = r->s.view.ahead;
    size_t to = r->n_seen ? r->n_seen : pos + 1;

    if (ahead != 0 && to > pos + 1 + ahead)
        to = pos + 1 + ahead;
    return (struct tokens){window != 0 && pos + 1 > window ? pos + 1 - window : 0, to};
}

/* The tokens that at least one of the n_row rows from pos0 on sees. */
static struct tokens rows_see(const struct arena *r, size_t pos0, size_t n_row)
{
    return (struct tokens){row_sees(r, pos0).from, row_sees(r, pos0 + n_row - 1).to};
}

/* A number between 1/16 and 1. */
static uint16_t random_half(struct check *c, enum kern_kv kv)
{
    const uint16_t sign = (uint16_t)(check_rand(c) & 0x8000u);

    if (kv == KERN_KV_BF16)
        return sign | (uint16_t)(0x3d80 + check_below(c, 0x200));
    return sign | (uint16_t)(0x2c00 + check_below(c, 0x1000));
}

static float random_float(struct check *c)
{
    const float f = check_uniform(c, 0.0625f, 1);

    return check_below(c, 2) ? f : -f;
}

/* NaN, infinite or huge, as f16 and as bf16; two of them are as bad a float. */
static uint16_t poison(struct check *c)
{
    static const uint16_t BAD[] = {0x7fc0, 0x7e00, 0x7f80, 0xff80, 0xffff, 0x7bff};

    return BAD[check_below(c, CHECK_COUNT(BAD))];
}

/* A scale such that 127 of it is at most a half; now and then nothing. */
static uint16_t random_scale(struct check *c)
{
    return check_below(c, 16) ? (uint16_t)(0x1000 + check_below(c, 0x0c00)) : 0;
}

static bool has_codes(const struct arena *r)
{
    return r->s.kv == KERN_KV_Q8_0 || r->s.kv == KERN_KV_Q4_0;
}

/* Bytes of a number in a store without codes. */
static size_t number_size(const struct arena *r)
{
    return r->s.kv == KERN_KV_F32 ? 4 : 2;
}

/* Return the address of a token's number: a half, a float, or a code whose scale is elsewhere. */
static uint8_t *key_at(const struct arena *r, size_t t, size_t d)
{
    uint8_t *block = r->keys + r->table[t / KERN_BLOCK] * r->stride;
    const size_t slot = t % KERN_BLOCK;

    if (!has_codes(r))
        return block + number_size(r) * (d * KERN_BLOCK + slot);
    return block + d / 32 * 544 + 32 + d % 32 / 4 * 64 + slot * 4 + d % 4;
}

static uint8_t *value_at(const struct arena *r, size_t t, size_t d)
{
    uint8_t *block = r->values + r->table[t / KERN_BLOCK] * r->stride;
    const size_t slot = t % KERN_BLOCK;

    if (!has_codes(r))
        return block + number_size(r) * (slot * r->s.value_dim + d);
    if (r->s.kv == KERN_KV_Q4_0) /* two dimensions in a byte */
        return block + r->s.value_dim + d / 32 * 256 + (slot / 4 * 16 + d % 16) * 4 + slot % 4;
    return block + 32 + (slot / 4 * r->s.value_dim + d) * 4 + slot % 4;
}

static uint16_t *key_scale_at(const struct arena *r, size_t t, size_t d)
{
    uint8_t *block = r->keys + r->table[t / KERN_BLOCK] * r->stride;

    return (uint16_t *)(void *)(block + d / 32 * 544) + t % KERN_BLOCK;
}

/* Dimensions of a value that share a scale. */
static size_t scale_dims(const struct arena *r)
{
    return r->s.kv == KERN_KV_Q4_0 ? 32 : r->s.value_dim;
}

static uint16_t *value_scale_at(const struct arena *r, size_t t, size_t d)
{
    uint8_t *block = r->values + r->table[t / KERN_BLOCK] * r->stride;

    return (uint16_t *)(void *)(block + d / scale_dims(r) * 32) + t % KERN_BLOCK;
}

static void put_number(struct check *c, const struct arena *r, uint8_t *at, bool good)
{
    const uint16_t half = good ? random_half(c, r->s.kv) : poison(c);
    const uint16_t bad[2] = {poison(c), poison(c)};
    const float f = random_float(c);

    if (r->s.kv == KERN_KV_F32)
        memcpy(at, good ? (const void *)&f : bad, sizeof f);
    else if (!has_codes(r))
        memcpy(at, &half, sizeof half);
    else /* 0 is the code of -128, which nobody stores */
        *at = (uint8_t)(good ? 1 + check_below(c, 255) : check_below(c, 2) * check_rand(c));
}

static void put_token(struct check *c, const struct arena *r, size_t t, bool good)
{
    const bool codes = has_codes(r);

    for (size_t d = 0; d < r->s.key_dim; d++) {
        put_number(c, r, key_at(r, t, d), good);
        if (codes && d % 32 == 0)
            *key_scale_at(r, t, d) = good ? random_scale(c) : poison(c);
    }
    for (size_t d = 0; d < r->s.value_dim; d++) {
        put_number(c, r, value_at(r, t, d), good);
        if (codes && d % scale_dims(r) == 0)
            *value_scale_at(r, t, d) = good ? random_scale(c) : poison(c);
    }
}

static void fill_poison(struct check *c, uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i + 2 <= bytes; i += 2) {
        const uint16_t half = poison(c);

        memcpy(p + i, &half, sizeof half);
    }
}

/* The blocks of the table in random order, after the spare ones. */
static void shuffle_table(struct check *c, struct arena *r, size_t spare)
{
    for (size_t b = 0; b < r->n_block; b++)
        r->table[b] = (uint32_t)(b + spare);
    for (size_t b = r->n_block; b-- > 1;) {
        const size_t other = check_below(c, (uint32_t)b + 1);
        const uint32_t keep = r->table[b];

        r->table[b] = r->table[other];
        r->table[other] = keep;
    }
}

static void make_queries(struct check *c, struct arena *r, float q_scale)
{
    const size_t width = r->s.n_head * r->s.key_dim;

    r->q_stride = width + check_below(c, 4);
    r->q = check_alloc(((r->n_tok - 1) * r->q_stride + width) * sizeof *r->q, 4);
    check_fill(c, r->q, (r->n_tok - 1) * r->q_stride + width, q_scale);
    if (r->s.view.slopes) {
        r->slopes = check_alloc(r->s.n_head * sizeof *r->slopes, 4);
        check_fill(c, r->slopes, r->s.n_head, 0.2f);
    }
    if (!r->s.view.sinks)
        return;
    r->sinks = check_alloc(r->s.n_head * sizeof *r->sinks, 4);
    for (size_t h = 0; h < r->s.n_head; h++)
        r->sinks[h] = check_uniform(c, -4, h % 3 == 2 ? 30 : 4);
}

/* Blocks in random order of an arena with more of them; every slot without a token is poison. */
static void make_arena(struct check *c, struct arena *r, const struct shape *s, size_t n_tok,
                       float q_scale)
{
    const size_t spare = 3;
    const size_t key_bytes = kern_kv_key_bytes(s->kv, (uint32_t)s->key_dim);
    const size_t value_bytes = kern_kv_value_bytes(s->kv, (uint32_t)s->value_dim);

    *r = (struct arena){.s = *s, .n_tok = n_tok};
    if (s->view.all)
        r->n_seen = s->view.window ? n_tok : n_tok - check_below(c, 2) * (n_tok / 3);
    r->n_block = (n_tok + KERN_BLOCK - 1) / KERN_BLOCK;
    r->stride = (key_bytes > value_bytes ? key_bytes : value_bytes) + 16 * check_below(c, 3);
    const size_t before = (r->n_block + spare - 1) * r->stride;
    r->keys = check_alloc(before + key_bytes, number_size(r));
    r->values = check_alloc(before + value_bytes, number_size(r));
    r->table = check_alloc(r->n_block * sizeof *r->table, 4);
    fill_poison(c, r->keys, before + key_bytes);
    fill_poison(c, r->values, before + value_bytes);
    shuffle_table(c, r, spare);
    for (size_t t = 0; t < n_tok; t++)
        put_token(c, r, t, true);
    make_queries(c, r, q_scale);
    r->scratch = check_alloc(kern_attn_scratch((uint32_t)n_tok, (uint32_t)s->n_head,
                                               (uint32_t)s->key_dim, (uint32_t)s->value_dim),
                             64);
}

/* Only these tokens remain. */
static void hide_all_but(struct check *c, struct arena *r, struct tokens seen)
{
    for (size_t t = 0; t < r->n_tok; t++)
        if ((t < seen.from || t >= seen.to) && r->table[t / KERN_BLOCK] != NOWHERE)
            put_token(c, r, t, false);
    for (size_t b = 0; b < r->n_block; b++)
        if ((b + 1) * KERN_BLOCK <= seen.from || b * KERN_BLOCK >= seen.to)
            r->table[b] = NOWHERE;
}

static float scale_of(const struct shape *s)
{
    return 1 / sqrtf((float)s->key_dim);
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
                              .n_seen = (uint32_t)r->n_seen,
                              .window = (uint32_t)r->s.view.window,
                              .ahead = (uint32_t)r->s.view.ahead,
                              .n_head = (uint32_t)r->s.n_head,
                              .key_dim = (uint32_t)r->s.key_dim,
                              .value_dim = (uint32_t)r->s.value_dim,
                              .scale = scale_of(&r->s),
                              .cap = r->s.view.cap,
                              .sinks = r->sinks,
                              .slopes = r->slopes,
                              .seg1 = UINT32_MAX,
                              .scratch = r->scratch};
}

/* Rows at positions [pos0, pos0 + n_row); out has width floats a row. */
static void run(const struct kern_table *t, const struct arena *r, size_t pos0, size_t n_row,
                float *out, size_t out_stride)
{
    const struct kern_attn a = call(r, pos0, n_row, out, out_stride);

    t->attn[r->s.kv](&a);
}

/* One query's states to its result; what is not a segment that it sees must be untouched. */
static void merge_query(struct check *c, const struct arena *r, size_t pos, size_t head,
                        const float *part, size_t stride, float *out)
{
    const struct tokens seen = row_sees(r, pos);
    const size_t seg0 = seen.from / KERN_SEGMENT;
    const size_t seg1 = (seen.to + KERN_SEGMENT - 1) / KERN_SEGMENT;
    const size_t from = seg0 * KERN_ATTN_PART(r->s.value_dim);
    const size_t to = seg1 * KERN_ATTN_PART(r->s.value_dim);

    check_that(c, check_untouched(part, from * 4) && check_untouched(part + to, (stride - to) * 4),
               "heads=%zu dim=%zu pos=%zu: wrote outside the query's segments", r->s.n_head,
               r->s.value_dim, pos);
    c->test->attn_merge(out, part + from, seg1 - seg0, r->s.value_dim,
                        r->sinks ? r->sinks + head : NULL);
}

/* Compute the rows in two calls, each of which has some of the segments; the first call's `next` is
 * the second one. */
static void run_parts(struct check *c, const struct arena *r, size_t pos0, size_t n_row, float *out,
                      size_t out_stride)
{
    const size_t n_seg = (rows_see(r, pos0, n_row).to + KERN_SEGMENT - 1) / KERN_SEGMENT;
    const size_t stride = n_seg * KERN_ATTN_PART(r->s.value_dim) + check_below(c, 3);
    const size_t n = n_row * r->s.n_head * stride;
    float *part = check_out(n * sizeof *part, 4);
    struct kern_attn a = call(r, pos0, n_row, NULL, 0), before;

    a.part = part;
    a.part_stride = stride;
    before = a;
    before.seg0 = check_below(c, (uint32_t)n_seg + 1);
    before.next = &a;
    a.seg1 = before.seg0;
    a.is_fetched = true;
    c->test->attn[r->s.kv](&before);
    c->test->attn[r->s.kv](&a);
    check_that(c, check_guard(part), "wrote before part");
    for (size_t i = 0; i < n_row * r->s.n_head; i++) {
        const size_t row = i / r->s.n_head, head = i % r->s.n_head;

        merge_query(c, r, pos0 + row, head, part + i * stride, stride,
                    out + row * out_stride + head * r->s.value_dim);
    }
}

/* The operands of the formula, in double: a value is code * scale, the scale of a half being 1. */
struct numbers {
    double *k;  /* [t][key_dim] */
    double *vc; /* [t][value_dim] */
    double *vs; /* [t][value_dim] */
    double *q;  /* [key_dim], scaled */
    double *e;  /* [t] exponentials, then ... */
    double *w;  /* [t] ... the weights of some dimensions */
    double *out;
};

static double number_at(const struct arena *r, const uint8_t *at, double scale)
{
    uint16_t half;
    uint32_t bits;
    float f;

    if (has_codes(r))
        return (*at - 128) * scale;
    if (r->s.kv == KERN_KV_F32) {
        memcpy(&f, at, sizeof f);
        return (double)f;
    }
    memcpy(&half, at, sizeof half);
    if (r->s.kv == KERN_KV_F16)
        return check_half(half);
    bits = (uint32_t)half << 16;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static void read_numbers(const struct arena *r, struct tokens seen, struct numbers *n)
{
    const bool codes = has_codes(r);
    const size_t dk = r->s.key_dim, dv = r->s.value_dim;

    for (size_t t = seen.from; t < seen.to; t++) {
        for (size_t d = 0; d < dk; d++)
            n->k[t * dk + d] =
                number_at(r, key_at(r, t, d), codes ? check_half(*key_scale_at(r, t, d)) : 0);
        for (size_t d = 0; d < dv; d++) {
            n->vs[t * dv + d] = codes ? check_half(*value_scale_at(r, t, d)) : 1;
            n->vc[t * dv + d] = r->s.kv == KERN_KV_Q4_0
                                    ? 2 * (*value_at(r, t, d) >> d / 16 % 2 * 4 & 15) - 15
                                    : number_at(r, value_at(r, t, d), 1);
        }
    }
}

/* The query as the scores take it: times the scale; 8-bit keys want it in codes. */
static void read_query(const struct arena *r, const float *q, double *out)
{
    const float scale = scale_of(&r->s);

    for (size_t d0 = 0; d0 < r->s.key_dim; d0 += 8) {
        const size_t group = d0 / 32 * 32;
        float a = 0;

        for (size_t d = group; has_codes(r) && d < group + 32; d++)
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

/* The scores of what a row sees; returns the largest. */
static double formula_scores(const struct arena *r, const struct numbers *n, struct tokens seen,
                             size_t pos, size_t head)
{
    const double cap = (double)r->s.view.cap;
    double max = -INFINITY;

    for (size_t t = seen.from; t < seen.to; t++) {
        n->e[t] = 0;
        for (size_t d = 0; d < r->s.key_dim; d++)
            n->e[t] += n->q[d] * n->k[t * r->s.key_dim + d];
        if (cap != 0)
            n->e[t] = cap * tanh(n->e[t] / cap);
        if (r->slopes)
            n->e[t] -= (double)r->slopes[head] * fabs((double)pos - (double)t);
        max = fmax(max, n->e[t]);
    }
    return max;
}

/* Dimensions d0 .. d1 - 1, which share scales, of the sum of weighted values; returns the most that
 * a code of a weight counts. */
static double formula_values(const struct arena *r, const struct numbers *n, struct tokens seen,
                             size_t d0, size_t d1)
{
    double code = 0;

    for (size_t t = 0; t < seen.to; t++)
        n->w[t] = t < seen.from ? 0 : n->e[t] * n->vs[t * r->s.value_dim + d0];
    if (has_codes(r))
        code = round_weights(n->w, seen.to);
    for (size_t d = d0; d < d1; d++)
        n->out[d] = 0;
    for (size_t t = seen.from; t < seen.to; t++)
        for (size_t d = d0; d < d1; d++)
            n->out[d] += n->w[t] * n->vc[t * r->s.value_dim + d];
    return code;
}

/* Plain softmax attention of one row and head. Returns by how much the result may differ: in fp32
 * a weight may fall to the other side of two codes, and that counts as much as the largest value
 * code; a capped score is exact to a part of the cap. */
static double formula(const struct arena *r, const struct numbers *n, size_t pos, size_t head)
{
    const struct tokens seen = row_sees(r, pos);
    const double max = formula_scores(r, n, seen, pos, head);
    double sum = r->sinks ? exp((double)r->sinks[head] - max) : 0;
    double code = 0;

    for (size_t t = seen.from; t < seen.to; t++) {
        n->e[t] = exp(n->e[t] - max);
        sum += n->e[t];
    }
    for (size_t d = 0; d < r->s.value_dim; d += scale_dims(r))
        code = fmax(code, formula_values(r, n, seen, d, d + scale_dims(r)));
    for (size_t d = 0; d < r->s.value_dim; d++)
        n->out[d] /= sum;
    return 2e-5 + 4e-8 * (double)r->s.key_dim + 1e-6 * (double)r->s.view.cap + code * 127 / sum;
}

static void check_formula(struct check *c, const struct arena *r, size_t pos0, size_t n_row,
                          const float *out, size_t out_stride)
{
    const struct tokens seen = rows_see(r, pos0, n_row);
    const size_t dk = r->s.key_dim, dv = r->s.value_dim;
    double *all = malloc((seen.to * (dk + 2 * dv + 2) + dk + dv) * sizeof *all);
    struct numbers n = {.k = all};

    n.vc = n.k + seen.to * dk;
    n.vs = n.vc + seen.to * dv;
    n.e = n.vs + seen.to * dv;
    n.w = n.e + seen.to;
    n.q = n.w + seen.to;
    n.out = n.q + dk;
    read_numbers(r, seen, &n);
    for (size_t i = 0; i < n_row * r->s.n_head; i += 5) {
        const size_t row = i / r->s.n_head, head = i % r->s.n_head;
        const float *got = out + row * out_stride + head * dv;

        read_query(r, r->q + (pos0 + row) * r->q_stride + head * dk, n.q);
        const double most = formula(r, &n, pos0 + row, head);
        for (size_t d = 0; d < dv; d++)
            check_that(c, fabs((double)got[d] - n.out[d]) < most,
                       "heads=%zu dims=%zu/%zu window=%zu pos=%zu: [%zu][%zu] %.9g, formula %.9g",
                       r->s.n_head, dk, dv, r->s.view.window, pos0 + row, head, d, (double)got[d],
                       n.out[d]);
    }
    free(all);
}

/* The ways to compute rows: in one call, in two calls of some rows each, in two calls of some
 * segments each. */
enum way { WAY_WHOLE, WAY_ROWS, WAY_SEGMENTS, N_WAY };

static void run_way(struct check *c, const struct arena *r, enum way way, size_t cut, size_t pos0,
                    size_t n_row, float *got, size_t stride)
{
    if (way == WAY_ROWS && cut)
        run(c->test, r, pos0, cut, got, stride);
    if (way == WAY_ROWS)
        run(c->test, r, pos0 + cut, n_row - cut, got + cut * stride, stride);
    if (way == WAY_WHOLE)
        run(c->test, r, pos0, n_row, got, stride);
    if (way == WAY_SEGMENTS)
        run_parts(c, r, pos0, n_row, got, stride);
}

/* Compare the rows that each way computes at the level of c->test with `want`. */
static void check_ways(struct check *c, const struct arena *r, size_t pos0, size_t n_row,
                       const float *want, float *got, size_t stride)
{
    const size_t width = r->s.n_head * r->s.value_dim;
    const size_t n = (n_row - 1) * stride + width;
    const size_t cut = check_below(c, (uint32_t)n_row);

    for (int way = 0; way < N_WAY; way++) {
        check_refill(got, n * sizeof *got);
        run_way(c, r, (enum way)way, cut, pos0, n_row, got, stride);
        check_that(c, check_guard(got), "wrote before out");
        for (size_t i = 0; i < n_row; i++) {
            const size_t at = check_diff(got + i * stride, want + i * stride, width);

            check_that(c, at == width,
                       "heads=%zu dims=%zu/%zu window=%zu pos0=%zu rows=%zu way=%d cut=%zu: "
                       "[%zu][%zu] %.9g, scalar %.9g",
                       r->s.n_head, r->s.key_dim, r->s.value_dim, r->s.view.window, pos0, n_row,
                       way, cut, i, at, (double)got[i * stride + (at == width ? 0 : at)],
                       (double)want[i * stride + (at == width ? 0 : at)]);
            if (i + 1 < n_row)
                check_that(c, check_untouched(got + i * stride + width, (stride - width) * 4),
                           "wrote between rows");
        }
    }
}

static void check_rows(struct check *c, const struct arena *r, size_t pos0, size_t n_row)
{
    const size_t width = r->s.n_head * r->s.value_dim;
    const size_t stride = width + check_below(c, 3);
    const size_t n = (n_row - 1) * stride + width;
    float *want = check_out(n * sizeof *want, 4);
    float *got = check_out(n * sizeof *got, 4);

    run(c->ref, r, pos0, n_row, want, stride);
    for (unsigned i = 0; check_level(c, i); i++) {
        check_ways(c, r, pos0, n_row, want, got, stride);
        if (c->isa == KERN_ISA_SCALAR)
            check_formula(c, r, pos0, n_row, want, stride);
    }
}

/* All that the row at `pos` does not see turned to poison: it must not notice. */
static void check_blind(struct check *c, struct arena *r, size_t pos)
{
    const size_t width = r->s.n_head * r->s.value_dim;
    float *got = check_out(width * sizeof *got, 4);
    float *want[CHECK_MOST_LEVELS];

    for (unsigned i = 0; check_level(c, i); i++) {
        want[i] = check_out((r->n_tok - pos) * width * sizeof *want[i], 4);
        run(c->test, r, pos, r->n_tok - pos, want[i], width);
    }
    hide_all_but(c, r, row_sees(r, pos));
    for (unsigned i = 0; check_level(c, i); i++) {
        check_refill(got, width * sizeof *got);
        run(c->test, r, pos, 1, got, width);
        const size_t at = check_diff(got, want[i], width);
        check_that(c, at == width,
                   "heads=%zu dims=%zu/%zu window=%zu: row %zu alone differs from row in a run at "
                   "%zu",
                   r->s.n_head, r->s.key_dim, r->s.value_dim, r->s.view.window, pos, at);
        check_that(c, at != width || got[0] == got[0], "row %zu is NaN", pos);
    }
}

/* The last rows of n_tok, at most `most`, together and one of them alone. */
static void check_length(struct check *c, const struct shape *s, size_t n_tok, size_t most,
                         float q_scale)
{
    const size_t budget = (size_t)1 << 17; /* products of scalar per case */
    const size_t fit = budget / (n_tok * (s->key_dim + s->value_dim) / 2 * s->n_head) + 1;
    struct arena r;

    if (!check_is_due(c))
        return;
    most = fit < most ? fit : most;
    most = n_tok < most ? n_tok : most;
    make_arena(c, &r, s, n_tok, q_scale);
    hide_all_but(c, &r, rows_see(&r, n_tok - most, most));
    check_rows(c, &r, n_tok - most, most);
    check_blind(c, &r, n_tok - most);
    check_free_all();
    make_arena(c, &r, s, n_tok, q_scale);
    hide_all_but(c, &r, row_sees(&r, n_tok - 1));
    check_rows(c, &r, n_tok - 1, 1);
    check_free_all();
}

/* Does one row take too long by the definition? Long texts are for smaller heads, or fewer. */
static bool is_too_much(const struct shape *s, size_t n_tok)
{
    return n_tok * (s->key_dim + s->value_dim) / 2 * s->n_head > (size_t)1 << 20;
}

/* Plain, and with one of the views for each length. */
static void check_shape(struct check *c, struct shape s)
{
    static const size_t LENGTHS[] = {1, 2, 15, 16, 17, 31, 64, 255, 256, 257, 300, 512, 513, 1100};
    static const struct view VIEWS[] = {
        {.window = 40},
        {.all = true},
        {.cap = 5, .window = 300, .sinks = true},
        {.sinks = true},
        {.all = true, .window = 70, .cap = 50},
        {.window = 1, .sinks = true},
        {.cap = 20},
        {.all = true, .window = 33, .ahead = 32},
        {.all = true, .slopes = true},
        {.window = 20, .cap = 20, .sinks = true, .slopes = true},
        {.all = true, .window = 257, .ahead = 1, .slopes = true},
    };

    for (size_t i = 0; i < CHECK_COUNT(LENGTHS) && !is_too_much(&s, LENGTHS[i]); i++) {
        s.view = (struct view){0};
        check_length(c, &s, LENGTHS[i], 40, i % 3 == 2 ? 30 : 1);
        s.view = VIEWS[(i + s.n_head + s.value_dim / 8) % CHECK_COUNT(VIEWS)];
        check_length(c, &s, LENGTHS[i], 20, i % 3 == 2 ? 30 : 1);
    }
}

/* Windows that begin and end around the edges of blocks and segments; fewer tokens than rows. */
static void check_windows(struct check *c, enum kern_kv kv)
{
    static const size_t WINDOWS[] = {1, 2, 5, 15, 16, 17, 33, 128, 255, 256, 257, 512};
    static const size_t LENGTHS[] = {30, 256, 257, 272, 273, 511, 513, 700};

    for (size_t w = 0; w < CHECK_COUNT(WINDOWS); w++)
        for (size_t i = 0; i < CHECK_COUNT(LENGTHS); i++) {
            const struct shape s = {
                .kv = kv,
                .n_head = 1 + (w + i) % 3 * 3,
                .key_dim = 32,
                .value_dim = i % 2 ? 32 : 64,
                .view = {.window = WINDOWS[w], .all = i % 4 == 3, .sinks = w % 2 == 1}};

            check_length(c, &s, LENGTHS[i], 29, 2);
        }
}

/* Windows that end behind the row: each row also sees some tokens after its own. */
static void check_ahead(struct check *c, enum kern_kv kv)
{
    static const size_t AHEAD[] = {1, 2, 7, 15, 16, 64, 255, 256, 300};
    static const size_t LENGTHS[] = {30, 257, 285, 530, 700};

    for (size_t w = 0; w < CHECK_COUNT(AHEAD); w++)
        for (size_t i = 0; i < CHECK_COUNT(LENGTHS); i++) {
            const struct shape s = {.kv = kv,
                                    .n_head = 1 + (w + i) % 3 * 3,
                                    .key_dim = 32,
                                    .value_dim = i % 2 ? 32 : 64,
                                    .view = {.window = w % 4 == 3 ? 9 : AHEAD[w] + 1,
                                             .all = true,
                                             .ahead = AHEAD[w],
                                             .slopes = w % 2 == 1}};
            struct arena r;

            check_length(c, &s, LENGTHS[i], 29, 2);
            if (!check_is_due(c))
                continue;
            make_arena(c, &r, &s, LENGTHS[i], 2);
            check_rows(c, &r, 0, 30);
            check_rows(c, &r, LENGTHS[i] / 2, 14);
            check_blind(c, &r, LENGTHS[i] / 3);
            check_free_all();
        }
}

static void check_store(struct check *c, enum kern_kv kv)
{
    static const size_t HEADS[] = {1, 4, 7, 8, 13};
    static const size_t DIMS[][2] = {{8, 8},     {24, 24},  {32, 32},   {40, 40},   {64, 64},
                                     {80, 80},   {96, 96},  {112, 112}, {128, 128}, {256, 256},
                                     {192, 128}, {64, 160}, {8, 40},    {576, 512}, {32, 576}};
    const uint32_t group = kern_kv_group(kv);

    for (size_t i = 0; i < CHECK_COUNT(DIMS) * CHECK_COUNT(HEADS); i++) {
        const size_t d = i / CHECK_COUNT(HEADS), h = i % CHECK_COUNT(HEADS);
        const struct shape s = {
            .kv = kv, .n_head = HEADS[h], .key_dim = DIMS[d][0], .value_dim = DIMS[d][1]};
        /* Two or three numbers of heads for each size suffice: the sizes take turns. */
        const bool large = s.key_dim + s.value_dim > 512;
        const bool is_due = large ? h % 3 == d % 2 : (h + d) % 2 == 0;

        if (s.key_dim % group == 0 && s.value_dim % group == 0 && is_due)
            check_shape(c, s);
    }
    for (size_t h = 0; h < CHECK_COUNT(HEADS); h++) { /* across the first segment boundary */
        const struct shape s = {.kv = kv, .n_head = HEADS[h], .key_dim = 32, .value_dim = 32};
        struct arena r;

        if (!check_is_due(c))
            continue;
        make_arena(c, &r, &s, 281, 2);
        check_rows(c, &r, 231, 50);
        check_rows(c, &r, 0, 60);
        check_blind(c, &r, 250);
        check_free_all();
    }
    check_windows(c, kv);
    check_ahead(c, kv);
    check_attn_cascade(c, kv);
}

void check_attn_f16(struct check *c)
{
    check_store(c, KERN_KV_F16);
}

void check_attn_bf16(struct check *c)
{
    check_store(c, KERN_KV_BF16);
}

void check_attn_f32(struct check *c)
{
    check_store(c, KERN_KV_F32);
}

void check_attn_q8_0(struct check *c)
{
    check_store(c, KERN_KV_Q8_0);
}

void check_attn_q4_0(struct check *c)
{
    check_store(c, KERN_KV_Q4_0);
}

/* States of segments at random, folded in double. */
static void check_merge_of(struct check *c, size_t n_seg, size_t dim, const float *sink)
{
    const size_t n = n_seg * KERN_ATTN_PART(dim);
    float *part = check_alloc(n * sizeof *part, 4);
    float *want = check_out(dim * sizeof *want, 4);
    float *got = check_out(dim * sizeof *got, 4);
    double top = sink ? (double)*sink : -INFINITY;

    check_fill(c, part, n, 1);
    for (size_t s = 0; s < n_seg; s++) {
        part[s * KERN_ATTN_PART(dim)] = check_uniform(c, -20, 20);
        part[s * KERN_ATTN_PART(dim) + 1] = check_uniform(c, 1, 256);
        top = fmax(top, (double)part[s * KERN_ATTN_PART(dim)]);
    }
    c->ref->attn_merge(want, part, n_seg, dim, sink);
    c->test->attn_merge(got, part, n_seg, dim, sink);
    check_that(c, check_guard(got) && check_diff(got, want, dim) == dim,
               "segments=%zu dim=%zu differs from scalar", n_seg, dim);
    for (size_t d = 0; d < dim && c->isa == KERN_ISA_SCALAR; d++) {
        double sum = sink ? exp((double)*sink - top) : 0, o = 0, mass = 0;

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
    static const size_t DIMS[] = {8, 24, 64, 80, 256, 576};

    for (size_t d = 0; d < CHECK_COUNT(DIMS); d++)
        for (size_t n_seg = 1; n_seg <= 9; n_seg++) {
            const float sink = check_uniform(c, -25, 25);

            check_merge_of(c, n_seg, DIMS[d], NULL);
            check_merge_of(c, n_seg, DIMS[d], &sink);
        }
}
