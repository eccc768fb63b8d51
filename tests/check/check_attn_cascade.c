/* tests/check/check_attn_cascade.c - attention of rows of several sequences over tokens that they
 * share: with what each row sees alone, merged, it is what the definition makes of the row by
 * itself. Declared in check.h.
 */
#include <string.h>

#include "tests/check/check.h"

#define MAX_ROWS 20
#define MAX_BLOCKS 400

struct cascade {
    enum kern_kv kv;
    size_t n_head, key_dim, value_dim;
    size_t n_row, n_shared; /* rows, each of a sequence of its own; segments that all share */
    size_t n_seg;           /* of the longest */
    size_t n_merged;        /* of the shared segments: they leave one state */
    size_t stride, key_bytes;
    uint8_t *blocks;
    uint32_t tables[MAX_ROWS][MAX_BLOCKS];
    struct kern_attn_row rows[MAX_ROWS]; /* where its query is, and its position */
    float *q, *slopes, *sinks, *scratch;
    float cap;
};

/* A block of random tokens. */
static uint32_t new_block(struct check *c, struct cascade *s, uint32_t *n_used)
{
    uint8_t *at = s->blocks + *n_used * s->stride;
    float k[KERN_MAX_HEAD], v[KERN_MAX_HEAD];

    for (size_t slot = 0; slot < KERN_BLOCK; slot++) {
        check_fill(c, k, s->key_dim, 1);
        check_fill(c, v, s->value_dim, 1);
        c->ref->kv_write[s->kv](at, at + s->key_bytes, slot, k, v, 1, s->key_dim, s->value_dim);
    }
    return (*n_used)++;
}

static size_t blocks_of(size_t pos)
{
    return pos / KERN_BLOCK + 1;
}

static void make_tables(struct check *c, struct cascade *s)
{
    const size_t shared = s->n_shared * KERN_SEGMENT / KERN_BLOCK;
    uint32_t n_used = 0;
    size_t n_block = shared;

    for (size_t i = 0; i < s->n_row; i++)
        n_block += blocks_of(s->rows[i].pos) - shared;
    s->blocks = check_alloc(n_block * s->stride, 2);
    for (size_t i = 0; i < s->n_row; i++)
        for (size_t b = 0; b < blocks_of(s->rows[i].pos); b++)
            s->tables[i][b] = i > 0 && b < shared ? s->tables[0][b] : new_block(c, s, &n_used);
}

/* Rows in any order of the queries, with gaps between them. */
static void make_rows(struct check *c, struct cascade *s)
{
    const size_t width = s->n_head * s->key_dim;

    s->n_seg = 0;
    for (size_t i = 0; i < s->n_row; i++) {
        const size_t pos = s->n_shared * KERN_SEGMENT + check_below(c, 600);

        s->rows[i] = (struct kern_attn_row){(uint32_t)((s->n_row - 1 - i) * 2 + i % 2),
                                            (uint32_t)pos};
        s->n_seg = pos / KERN_SEGMENT + 1 > s->n_seg ? pos / KERN_SEGMENT + 1 : s->n_seg;
    }
    s->q = check_alloc(2 * s->n_row * width * sizeof *s->q, 4);
    check_fill(c, s->q, 2 * s->n_row * width, 1);
    s->scratch = check_alloc(kern_attn_scratch((uint32_t)s->n_row, (uint32_t)s->n_head,
                                               (uint32_t)s->key_dim, (uint32_t)s->value_dim),
                             64);
}

static void make(struct check *c, struct cascade *s, unsigned views)
{
    s->cap = views & 1 ? 5 : 0;
    s->slopes = views & 2 ? check_alloc(s->n_head * sizeof *s->slopes, 4) : NULL;
    s->sinks = views & 4 ? check_alloc(s->n_head * sizeof *s->sinks, 4) : NULL;
    if (s->slopes)
        check_fill(c, s->slopes, s->n_head, 0.01f);
    if (s->sinks)
        check_fill(c, s->sinks, s->n_head, 1);
    s->key_bytes = kern_kv_key_bytes(s->kv, (uint32_t)s->key_dim);
    s->stride = s->key_bytes + kern_kv_value_bytes(s->kv, (uint32_t)s->value_dim);
    make_rows(c, s);
    make_tables(c, s);
}

/* Return the call that computes row i alone. */
static struct kern_attn call(const struct cascade *s, size_t i)
{
    const size_t width = s->n_head * s->key_dim;

    return (struct kern_attn){.q = s->q + s->rows[i].row * width,
                              .q_stride = width,
                              .keys = s->blocks,
                              .values = s->blocks + s->key_bytes,
                              .block_stride = s->stride,
                              .table = s->tables[i],
                              .pos0 = s->rows[i].pos,
                              .n_row = 1,
                              .n_head = (uint32_t)s->n_head,
                              .key_dim = (uint32_t)s->key_dim,
                              .value_dim = (uint32_t)s->value_dim,
                              .scale = 0.125f,
                              .cap = s->cap,
                              .sinks = s->sinks,
                              .slopes = s->slopes,
                              .seg1 = UINT32_MAX,
                              .scratch = s->scratch};
}

/* The states of the shared segments, in two calls, and then of each row's own. */
static void run_parts(struct check *c, const struct cascade *s, float *part, size_t part_stride)
{
    struct kern_attn a = call(s, 0);

    a.q = s->q;
    a.rows = s->rows;
    a.n_row = (uint32_t)s->n_row;
    a.n_seen = (uint32_t)(s->n_shared * KERN_SEGMENT);
    a.part = part;
    a.part_stride = part_stride;
    a.seg1 = a.n_merged = (uint32_t)s->n_merged;
    c->test->attn[s->kv](&a);
    a.seg0 = a.seg1;
    a.seg1 = (uint32_t)s->n_shared;
    c->test->attn[s->kv](&a);
    for (size_t i = 0; i < s->n_row; i++) {
        a = call(s, i);
        a.part = part + i * s->n_head * part_stride;
        a.part_stride = part_stride;
        a.n_merged = (uint32_t)s->n_merged;
        a.seg0 = (uint32_t)s->n_shared;
        c->test->attn[s->kv](&a);
    }
}

static void check_row(struct check *c, const struct cascade *s, size_t i, const float *part,
                      size_t part_stride)
{
    const size_t n = s->n_head * s->value_dim;
    float *want = check_out(n * sizeof *want, 4);
    float *got = check_out(n * sizeof *got, 4);
    struct kern_attn a = call(s, i);

    a.out = want;
    a.out_stride = n;
    c->ref->attn[s->kv](&a);
    for (size_t h = 0; h < s->n_head; h++)
        c->test->attn_merge(got + h * s->value_dim, part + (i * s->n_head + h) * part_stride,
                            s->rows[i].pos / KERN_SEGMENT + 2 - s->n_merged, s->value_dim,
                            s->sinks ? s->sinks + h : NULL);
    check_that(c, check_guard(got) && check_diff(got, want, n) == n,
               "cascade: heads=%zu dims=%zu/%zu rows=%zu shared=%zu: row %zu at %u differs",
               s->n_head, s->key_dim, s->value_dim, s->n_row, s->n_shared, i, s->rows[i].pos);
}

void check_attn_cascade(struct check *c, enum kern_kv kv)
{
    static const size_t CASES[][5] = { /* heads, key_dim, value_dim, rows, shared segments */
        {1, 64, 64, 2, 1},  {1, 64, 64, 16, 2}, {7, 64, 64, 3, 2},   {4, 32, 96, 5, 1},
        {2, 128, 128, 7, 3}, {1, 256, 256, 20, 1}, {8, 576, 512, 2, 1}, {3, 32, 32, 13, 2},
    };

    for (size_t i = 0; i < CHECK_COUNT(CASES); i++) {
        static struct cascade s;

        if (!check_is_due(c))
            continue;
        s = (struct cascade){.kv = kv, .n_head = CASES[i][0], .key_dim = CASES[i][1],
                             .value_dim = CASES[i][2], .n_row = CASES[i][3],
                             .n_shared = CASES[i][4]};
        make(c, &s, (unsigned)i);
        for (unsigned level = 0; check_level(c, level); level++) {
            s.n_merged = 1 + check_below(c, (uint32_t)s.n_shared);
            const size_t n_state = s.n_seg - s.n_merged + 1;
            const size_t stride = n_state * KERN_ATTN_PART(s.value_dim) + level;
            float *part = check_out(s.n_row * s.n_head * stride * sizeof *part, 4);

            run_parts(c, &s, part, stride);
            check_that(c, check_guard(part), "cascade: wrote before part");
            for (size_t row = 0; row < s.n_row; row++)
                check_row(c, &s, row, part, stride);
        }
        check_free_all();
    }
}
