/* tests/unit/kvcache/test_block_table.c - positions to blocks and slots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/block_table.h"

static void expect_at(const struct block_table *t, uint32_t pos, block_id block, uint32_t slot)
{
    block_id got_block;
    uint32_t got_slot;

    assert_true(block_table_locate(t, 0, pos, &got_block, &got_slot));
    assert_int_equal(got_block, block);
    assert_int_equal(got_slot, slot);
}

/* S3.2 block_table, S5.4: blocks 5, 10, 15; position 47 is the last that is mapped. */
static void locates_positions(void **state)
{
    struct block_table t;
    block_id blocks[4], block;
    uint32_t slot;
    (void)state;

    block_table_init(&t, blocks, 4, 1);
    assert_false(block_table_locate(&t, 0, 0, &block, &slot));
    t.blocks[0] = 5;
    t.blocks[1] = 10;
    t.blocks[2] = 15;
    t.n = 3;
    expect_at(&t, 0, 5, 0);
    expect_at(&t, 15, 5, 15);
    expect_at(&t, 16, 10, 0);
    expect_at(&t, 31, 10, 15);
    expect_at(&t, 32, 15, 0);
    expect_at(&t, 47, 15, 15);
    assert_false(block_table_locate(&t, 0, 48, &block, &slot));
}

/* S4.1: what nobody has mapped yet reads as "unmapped". */
static void starts_unmapped(void **state)
{
    block_id blocks[3] = {7, 8, 9};
    struct block_table t;
    (void)state;

    block_table_init(&t, blocks, 3, 1);
    assert_int_equal(t.n, 0);
    assert_int_equal(t.cap, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(blocks[i], BLOCK_NONE);
}

/* S1.12, S5.4: whole blocks, rounded up. */
static void counts_what_is_missing(void **state)
{
    struct block_table t;
    block_id blocks[4];
    (void)state;

    assert_int_equal(block_table_needed(0), 0);
    assert_int_equal(block_table_needed(1), 1);
    assert_int_equal(block_table_needed(16), 1);
    assert_int_equal(block_table_needed(17), 2);
    block_table_init(&t, blocks, 4, 1);
    assert_int_equal(block_table_missing(&t, 32), 2);
    t.n = 2;
    assert_int_equal(block_table_missing(&t, 0), 0);
    assert_int_equal(block_table_missing(&t, 32), 0);
    assert_int_equal(block_table_missing(&t, 33), 1);
    assert_int_equal(block_table_missing(&t, 100), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locates_positions),
        cmocka_unit_test(starts_unmapped),
        cmocka_unit_test(counts_what_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
