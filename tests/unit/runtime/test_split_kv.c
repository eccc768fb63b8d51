/* tests/unit/runtime/test_split_kv.c - every (row, KV head, segment) is computed once, and what is
 * split is merged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/runtime/batch.h"
#include "core/runtime/split_kv.h"
#include "kernels/kernels.h"
#include "tests/fixtures/failing_memory.h"
#include "tests/fixtures/random.h"

#define MAX_ROWS 300
#define MAX_SPANS 12
#define N_CTX 20000

static uint64_t rng = 1;

static uint32_t below(uint32_t n)
{
    return random_below(&rng, n);
}

static uint32_t segments(uint32_t n_tokens)
{
    return (n_tokens + KERN_SEGMENT - 1) / KERN_SEGMENT;
}

static void make_batch(struct batch *b, uint32_t most_rows, uint32_t most_pos)
{
    static const int32_t ids[MAX_ROWS];
    const uint32_t n_spans = 1 + below(MAX_SPANS);

    batch_clear(b);
    for (uint32_t i = 0; i < n_spans && b->n_rows < MAX_ROWS; i++) {
        const uint32_t n = 1 + below(most_rows);
        const uint32_t room = MAX_ROWS - b->n_rows;

        batch_add_span(b, ids, n < room ? n : room, below(most_pos), NULL, 0);
    }
}

/* How many items compute segment `seg` of row `row` of the batch. */
static uint32_t times_computed(const struct split_kv *c, const struct batch *b, uint32_t row,
                               uint32_t seg)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_items; i++) {
        const struct attn_item *item = &c->items[i];
        const uint32_t row0 = b->spans[item->span].row0 + item->from;

        n += row >= row0 && row < row0 + item->n && seg >= item->seg0 && seg < item->seg1;
    }
    return n;
}

static void check_items(const struct split_kv *c, const struct batch *b)
{
    for (uint32_t row = 0; row < b->n_rows; row++)
        for (uint32_t seg = 0; seg < segments(b->pos[row] + 1); seg++)
            assert_int_equal(times_computed(c, b, row, seg), 1);
    for (uint32_t i = 0; i < c->n_items; i++) {
        const struct attn_item *item = &c->items[i];

        assert_true(item->n >= 1 && item->n <= ATTN_ROWS);
        if (item->part == NULL)
            assert_true(item->seg0 == 0 && item->seg1 == UINT32_MAX);
    }
}

/* A split row is named once, where its item writes; rows of whole items are not. */
static void check_splits(const struct split_kv *c, const struct batch *b)
{
    uint32_t named[MAX_ROWS] = {0};

    for (uint32_t i = 0; i < c->n_splits; i++) {
        const struct attn_split *s = &c->splits[i];

        named[s->row]++;
        assert_true(s->n_state >= 2 && s->n_state <= segments(b->pos[s->row] + 1));
    }
    for (uint32_t i = 0; i < c->n_items; i++) {
        const struct attn_item *item = &c->items[i];

        for (uint32_t j = 0; j < item->n; j++) {
            const uint32_t row = b->spans[item->span].row0 + item->from + j;
            const struct attn_split *s = c->splits;

            assert_int_equal(named[row], item->part != NULL);
            if (item->part == NULL)
                continue;
            while (s->row != row)
                s++;
            assert_ptr_equal(s->part, item->part);
            assert_int_equal(s->part_stride, item->part_stride);
            assert_int_equal(s->i_row, j);
            assert_int_equal(s->n_row, item->n);
            assert_int_equal(s->n_state, segments(b->pos[row] + 1) - item->n_merged + 1);
            assert_true(item->seg0 > 0 ? item->seg0 >= item->n_merged
                                       : item->seg1 == item->n_merged);
        }
    }
}

/* States of different queries never share memory, and all lie in the room that was taken. */
static void check_parts(const struct split_kv *c)
{
    const uint32_t n_head = c->options.n_head;
    const float *last = c->parts;

    for (uint32_t i = 0; i < c->n_splits; i++) { /* in the order of the rows of an item */
        const struct attn_split *s = &c->splits[i];
        const size_t query = s->n_state * KERN_ATTN_PART(c->options.value_dim);

        assert_true(query <= s->part_stride);
        assert_true(s->i_row > 0 ? s->part + s->n_row * n_head * s->part_stride == last
                                 : s->part >= last);
        last = s->part + s->n_row * n_head * s->part_stride;
        assert_true(last <= c->parts + c->n_parts);
    }
}

#define SHAPE(n_threads, ctx, heads, kv_heads, dim)                                                \
    {                                                                                              \
        .max_rows = MAX_ROWS, .threads = (n_threads), .n_ctx = (ctx), .n_head = (heads),           \
        .n_kv_head = (kv_heads), .value_dim = (dim)                                                \
    }

static void test_cover(void **unused)
{
    static const struct split_kv_options shapes[] = {
        SHAPE(1, N_CTX, 14, 2, 64),  SHAPE(2, N_CTX, 14, 2, 64),  SHAPE(7, N_CTX, 8, 1, 128),
        SHAPE(16, N_CTX, 32, 8, 64), SHAPE(64, N_CTX, 4, 4, 256), SHAPE(3, 17, 3, 3, 8),
    };
    struct batch *b;

    (void)unused;
    assert_int_equal(batch_create(&b, MAX_ROWS, MAX_SPANS, 1), 0);
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        struct split_kv c;
        uint32_t n_split = 0;

        assert_int_equal(split_kv_create(&c, &shapes[s]), 0);
        for (int round = 0; round < 300; round++) {
            const uint32_t rows = round % 3 == 0 ? 1 : 1 + below(round % 3 == 1 ? 60 : 4);
            const uint32_t most = shapes[s].n_ctx > 400 ? shapes[s].n_ctx - 320 : 1;

            make_batch(b, shapes[s].n_ctx > 400 ? rows : 1, 1 + below(most));
            split_kv_make(&c, b);
            check_items(&c, b);
            check_splits(&c, b);
            check_parts(&c);
            n_split += c.n_splits;
        }
        /* KV heads enough for all threads, or short sequences: no split is worth it. */
        if (shapes[s].threads <= shapes[s].n_kv_head || shapes[s].n_ctx < 400)
            assert_int_equal(n_split, 0);
        else
            assert_true(n_split > 0);
        split_kv_release(&c);
    }
    batch_destroy(&b);
}

/* One long sequence fills all threads: no item is more than a fair share of the work. */
static void test_fair(void **unused)
{
    const struct split_kv_options o = SHAPE(8, N_CTX, 14, 2, 64);
    const int32_t id = 0;
    struct split_kv c;
    struct batch *b;

    (void)unused;
    assert_int_equal(batch_create(&b, MAX_ROWS, MAX_SPANS, 1), 0);
    assert_int_equal(split_kv_create(&c, &o), 0);
    batch_clear(b);
    batch_add_span(b, &id, 1, 16383, NULL, 0);
    batch_add_span(b, &id, 1, 100, NULL, 0);
    split_kv_make(&c, b);
    assert_true(c.n_items * 2 >= 8);
    for (uint32_t i = 0; i < c.n_items; i++)
        assert_true(c.items[i].part == NULL || c.items[i].seg1 - c.items[i].seg0 <= 16);
    split_kv_release(&c);
    batch_destroy(&b);
}

/* A window bounds the work of a row, and rows of an encoder see all of their span: neither is
 * split, and every row is there once. */
static void test_windows_and_encoders(void **unused)
{
    struct split_kv_options o = SHAPE(8, N_CTX, 14, 2, 64);
    struct batch *b;

    (void)unused;
    assert_int_equal(batch_create(&b, MAX_ROWS, MAX_SPANS, 1), 0);
    for (int round = 0; round < 200; round++) {
        struct split_kv c;

        o.window = round % 2 == 0 ? 1 + below(3000) : 0;
        o.is_encoder = round % 2 == 1;
        assert_int_equal(split_kv_create(&c, &o), 0);
        make_batch(b, 1 + below(60), 1 + below(N_CTX - 320));
        split_kv_make(&c, b);
        check_items(&c, b);
        assert_int_equal(c.n_splits, 0);
        split_kv_release(&c);
    }
    batch_destroy(&b);
}

/* Where windows are chunks, no item has rows of two, and every row is there once. */
static void test_chunks(void **unused)
{
    struct split_kv_options o = SHAPE(8, N_CTX, 14, 2, 64);
    struct batch *b;

    (void)unused;
    assert_int_equal(batch_create(&b, MAX_ROWS, MAX_SPANS, 1), 0);
    o.is_chunked = true;
    for (int round = 0; round < 200; round++) {
        struct split_kv c;

        o.window = KERN_SEGMENT * (1 + below(4));
        assert_int_equal(split_kv_create(&c, &o), 0);
        make_batch(b, 1 + below(60), 1 + below(N_CTX - 320));
        split_kv_make(&c, b);
        check_items(&c, b);
        for (uint32_t i = 0; i < c.n_items; i++) {
            const uint32_t pos0 = b->spans[c.items[i].span].pos0 + c.items[i].from;

            assert_int_equal(pos0 / o.window, (pos0 + c.items[i].n - 1) / o.window);
        }
        split_kv_release(&c);
    }
    batch_destroy(&b);
}

static void test_no_memory(void **unused)
{
    const struct split_kv_options o = SHAPE(2, N_CTX, 14, 2, 64);
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
        cmocka_unit_test(test_cover),
        cmocka_unit_test(test_fair), cmocka_unit_test(test_windows_and_encoders),
        cmocka_unit_test(test_chunks), cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
