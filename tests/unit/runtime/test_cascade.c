/* tests/unit/runtime/test_cascade.c - what sequences share is read once, and every row sees all
 * that it would see alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/runtime/batch.h"
#include "core/runtime/split_kv.h"
#include "kernels/kernels.h"
#include "tests/fixtures/failing_memory.h"
#include "tests/fixtures/random.h"

#define MAX_SPANS 40
#define MAX_ROWS 400
#define N_CTX 4096
#define N_BLOCKS (N_CTX / KERN_BLOCK)
#define SEGMENT_BLOCKS (KERN_SEGMENT / KERN_BLOCK)
#define MAX_SEG (N_CTX / KERN_SEGMENT)

static uint64_t rng = 1;
static uint32_t tables[MAX_SPANS][2][N_BLOCKS]; /* of two groups of layers */
static uint32_t next_block;

static uint32_t below(uint32_t n)
{
    return random_below(&rng, n);
}

/* A table that begins as another one, up to some block. */
static void make_table(uint32_t i)
{
    const uint32_t parent = i > 0 ? below(i) : 0, kept = i > 0 ? below(N_BLOCKS) : 0;

    for (uint32_t group = 0; group < 2; group++)
        for (uint32_t b = 0; b < N_BLOCKS; b++)
            tables[i][group][b] = b < kept ? tables[parent][group][b] : next_block++;
}

static void make_batch(struct batch *b, uint32_t n_spans, uint32_t most_rows)
{
    static const int32_t ids[MAX_ROWS];

    next_block = 1;
    batch_clear(b);
    for (uint32_t i = 0; i < n_spans; i++) {
        const uint32_t n = 1 + below(most_rows), left = MAX_ROWS - b->n_rows - (n_spans - i);

        make_table(i);
        batch_add_span(b, ids, n < left ? n : left, below(N_CTX - 60), tables[i][0], N_BLOCKS);
    }
}

static uint32_t segments(uint32_t n_tokens)
{
    return (n_tokens + KERN_SEGMENT - 1) / KERN_SEGMENT;
}

/* Is segment `seg` of two spans the same blocks in both groups? */
static bool is_same(uint32_t a, uint32_t b, uint32_t seg)
{
    const size_t at = (size_t)seg * SEGMENT_BLOCKS, bytes = SEGMENT_BLOCKS * sizeof(uint32_t);

    return memcmp(&tables[a][0][at], &tables[b][0][at], bytes) == 0 &&
           memcmp(&tables[a][1][at], &tables[b][1][at], bytes) == 0;
}

static uint32_t row_of(const struct attn_item *item, const struct batch *b, uint32_t i)
{
    return item->rows != NULL ? item->rows[i].row
                              : b->spans[item->span].row0 + item->from + i;
}

/* Note whose segments an item computes, and where their states go. */
static void take_item(const struct split_kv *c, const struct batch *b, const struct attn_item *item,
                      uint8_t (*done)[MAX_SEG])
{
    for (uint32_t i = 0; i < item->n; i++) {
        const uint32_t row = row_of(item, b, i), n_seg = segments(b->pos[row] + 1);
        const struct attn_split *s = c->splits;

        for (uint32_t seg = item->seg0; seg < item->seg1 && seg < n_seg; seg++) {
            done[row][seg]++;
            if (item->rows == NULL)
                continue;
            assert_true(is_same(item->span, b->span_of[row], seg));
            assert_true((seg + 1) * KERN_SEGMENT <= b->pos[row]);
            assert_int_equal(item->rows[i].pos, b->pos[row]);
        }
        if (item->part == NULL)
            continue;
        while (s->row != row)
            s++;
        assert_ptr_equal(s->part, item->part);
        assert_int_equal(s->i_row, item->part_row + i);
        assert_int_equal(s->n_row, item->part_rows);
        assert_int_equal(s->part_stride, item->part_stride);
        assert_int_equal(s->n_state, n_seg - item->n_merged + 1);
        assert_true(item->n_merged >= 1 && (item->seg0 > 0 ? item->seg0 >= item->n_merged
                                                           : item->seg1 == item->n_merged));
    }
}

static void check_cover(const struct split_kv *c, const struct batch *b)
{
    static uint8_t done[MAX_ROWS][MAX_SEG];
    static uint8_t named[MAX_ROWS];

    memset(done, 0, sizeof(done));
    memset(named, 0, sizeof(named));
    for (uint32_t i = 0; i < c->n_items; i++) {
        assert_true(c->items[i].n >= 1 && c->items[i].n <= ATTN_ROWS);
        take_item(c, b, &c->items[i], done);
    }
    for (uint32_t row = 0; row < b->n_rows; row++)
        for (uint32_t seg = 0; seg < segments(b->pos[row] + 1); seg++)
            assert_int_equal(done[row][seg], 1);
    for (uint32_t i = 0; i < c->n_splits; i++)
        assert_int_equal(named[c->splits[i].row]++, 0);
}

/* Rows of different (part, row) never share memory. */
static void check_parts(const struct split_kv *c)
{
    const size_t each = KERN_ATTN_PART(c->options.value_dim);

    for (uint32_t i = 0; i < c->n_splits; i++) {
        const struct attn_split *a = &c->splits[i];
        const float *end = a->part + a->n_row * c->options.n_head * a->part_stride;

        assert_true(a->i_row < a->n_row && a->n_state * each <= a->part_stride);
        assert_true(a->part >= c->parts && end <= c->parts + c->n_parts);
        for (uint32_t j = 0; j < i; j++) {
            const struct attn_split *o = &c->splits[j];

            if (o->part == a->part)
                assert_true(o->i_row != a->i_row && o->n_row == a->n_row);
            else
                assert_true(o->part >= end ||
                            o->part + o->n_row * c->options.n_head * o->part_stride <= a->part);
        }
    }
}

/* Of spans that may share: segments before them that no earlier span has as well. */
static uint32_t distinct_segments(const struct batch *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->n_spans; i++)
        for (uint32_t seg = 0; seg < b->spans[i].pos0 / KERN_SEGMENT; seg++) {
            uint32_t j = 0;

            while (j < i && !(seg < b->spans[j].pos0 / KERN_SEGMENT && is_same(i, j, seg)))
                j++;
            n += j == i;
        }
    return n;
}

/* Whole segments before a span, and how often they are read. */
static uint32_t segments_read(const struct split_kv *c, const struct batch *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_items; i++) {
        const struct attn_item *item = &c->items[i];
        const uint32_t whole = b->spans[item->span].pos0 / KERN_SEGMENT;
        const uint32_t end = item->seg1 < whole ? item->seg1 : whole;

        n += end > item->seg0 ? end - item->seg0 : 0;
    }
    return n;
}

static struct split_kv_options options(uint32_t threads, uint32_t n_tables)
{
    return (struct split_kv_options){.max_rows = MAX_ROWS, .threads = threads, .n_ctx = N_CTX,
                                     .n_head = 4, .n_kv_head = 2, .value_dim = 16,
                                     .n_tables = n_tables};
}

/* With no more rows than an item has, and room for all: nothing is read twice. */
static void test_read_once(void **unused)
{
    const struct split_kv_options o = options(3, 2);
    uint32_t n_grouped = 0;
    struct split_kv c;
    struct batch *b;

    (void)unused;
    assert_int_equal(batch_create(&b, MAX_ROWS, MAX_SPANS, 1), 0);
    assert_int_equal(split_kv_create(&c, &o), 0);
    for (int round = 0; round < 300; round++) {
        make_batch(b, 1 + below(12), 1 + below(2));
        split_kv_make(&c, b);
        check_cover(&c, b);
        check_parts(&c);
        assert_int_equal(segments_read(&c, b), distinct_segments(b));
        n_grouped += c.n_grouped_rows;
    }
    assert_true(n_grouped > 1000);
    split_kv_release(&c);
    batch_destroy(&b);
}

/* Many rows, prompts among them, and room for few: all is computed, whoever reads it. */
static void test_crowded(void **unused)
{
    uint32_t n_grouped = 0;
    struct batch *b;

    (void)unused;
    assert_int_equal(batch_create(&b, MAX_ROWS, MAX_SPANS, 1), 0);
    for (int round = 0; round < 300; round++) {
        const struct split_kv_options o = options(1 + below(20), 1 + below(2));
        struct split_kv c;

        assert_int_equal(split_kv_create(&c, &o), 0);
        c.n_parts = round % 3 == 0 ? c.n_parts / (1 + below(40)) : c.n_parts;
        make_batch(b, 1 + below(MAX_SPANS), 1 + below(round % 2 ? 40 : 10));
        split_kv_make(&c, b);
        check_cover(&c, b);
        check_parts(&c);
        n_grouped += c.n_grouped_rows;
        split_kv_release(&c);
    }
    assert_true(n_grouped > 1000);
    batch_destroy(&b);
}

/* Prefixes that end one behind the other: runs within runs. */
static void test_nested(void **unused)
{
    const struct split_kv_options o = {.max_rows = MAX_ROWS, .threads = 2, .n_ctx = N_CTX,
                                       .n_head = 1, .n_kv_head = 1, .value_dim = 8, .n_tables = 1};
    const int32_t id = 0;
    struct split_kv c;
    struct batch *b;

    (void)unused;
    assert_int_equal(batch_create(&b, MAX_ROWS, MAX_SPANS, 1), 0);
    assert_int_equal(split_kv_create(&c, &o), 0);
    batch_clear(b);
    next_block = 1;
    make_table(0);
    for (uint32_t i = 0; i < MAX_SPANS; i++) {
        memcpy(tables[i], tables[0], sizeof(tables[0]));
        batch_add_span(b, &id, 1, (i % MAX_SEG) * KERN_SEGMENT + i, tables[i][0], N_BLOCKS);
    }
    split_kv_make(&c, b);
    check_cover(&c, b);
    check_parts(&c);
    assert_int_equal(c.n_grouped_rows, MAX_SPANS - (MAX_SPANS + MAX_SEG - 1) / MAX_SEG);
    split_kv_release(&c);
    batch_destroy(&b);
}

/* Without tables to look at, or with many query heads for a KV head, each for itself. */
static void test_off(void **unused)
{
    struct batch *b;

    (void)unused;
    assert_int_equal(batch_create(&b, MAX_ROWS, MAX_SPANS, 1), 0);
    make_batch(b, 12, 1);
    for (int i = 0; i < 3; i++) {
        struct split_kv_options o = options(2, i == 0 ? 0 : 2);
        struct split_kv c;

        o.n_head = i == 1 ? 7 * o.n_kv_head : o.n_head;
        assert_int_equal(split_kv_create(&c, &o), 0);
        split_kv_make(&c, b);
        check_cover(&c, b);
        assert_true(i == 2 ? c.n_grouped_rows > 0 : c.n_grouped_rows == 0);
        split_kv_release(&c);
    }
    batch_destroy(&b);
}

static void test_no_memory(void **unused)
{
    const struct split_kv_options o = options(2, 1);
    struct split_kv c;
    int64_t n = 0;

    (void)unused;
    while (each_failure(&n)) {
        const int rc = split_kv_create(&c, &o);

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        assert_true((c.items == NULL) == (rc < 0));
    }
    split_kv_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_once), cmocka_unit_test(test_crowded),
        cmocka_unit_test(test_nested),    cmocka_unit_test(test_off),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
