/* tests/unit/kvcache/test_swap.c - where swapped copies are, and when they travel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kvcache/swap.h"
#include "tests/fixtures/failing_memory.h"

static struct swap *new_swap(uint32_t n_ram, uint32_t n_file, uint32_t max_copies)
{
    const struct swap_options o = {n_ram, n_file, max_copies, 8};
    struct swap *s;

    assert_int_equal(swap_create(&s, &o), 0);
    return s;
}

static uint32_t add(struct swap *s, uint32_t n)
{
    const uint32_t *ram;
    const int64_t copy = swap_add(s, n, &ram);
    uint32_t n_slots;

    assert_true(copy >= 0);
    assert_ptr_equal(swap_slots(s, (uint32_t)copy, &n_slots), ram);
    assert_int_equal(n_slots, n);
    assert_true(swap_check(s));
    return (uint32_t)copy;
}

static void expect_refused(struct swap *s, uint32_t n)
{
    const uint64_t n_refused = swap_stats(s).n_refused;
    const uint32_t used = swap_stats(s).ram_used, *ram = NULL;

    assert_false(swap_can_add(s, n));
    assert_int_equal(swap_add(s, n, &ram), ERR_AGAIN);
    assert_null(ram);
    assert_int_equal(swap_stats(s).n_refused, n_refused + 1);
    assert_int_equal(swap_stats(s).ram_used, used);
    assert_true(swap_check(s));
}

/* The next I/O must be this one. */
static void expect_io(struct swap *s, uint32_t copy, bool is_write)
{
    struct swap_io io;

    assert_true(swap_next_io(s, &io));
    assert_int_equal(io.copy, copy);
    assert_int_equal(io.is_write, is_write);
    assert_int_equal(io.n, swap_n_blocks(s, copy));
    assert_true(swap_check(s));
}

static void expect_no_io(struct swap *s)
{
    struct swap_io io;

    assert_false(swap_next_io(s, &io));
}

static void done(struct swap *s, uint32_t copy, int rc)
{
    swap_io_done(s, copy, rc);
    assert_true(swap_check(s));
}

/* Write the oldest copy to the file. */
static void move_to_file(struct swap *s, uint32_t copy)
{
    expect_io(s, copy, true);
    done(s, copy, 0);
    assert_int_equal(swap_where(s, copy), SWAP_FILE);
}

/* S2.29: bounded, and slots come back. */
static void ram_is_bounded(void **state)
{
    struct swap *s = new_swap(5, 0, 3);
    uint32_t a, b;
    (void)state;

    a = add(s, 3);
    expect_refused(s, 3);
    expect_refused(s, 0);
    expect_refused(s, 9);
    b = add(s, 2);
    assert_int_equal(swap_stats(s).ram_used, 5);
    expect_refused(s, 1);
    swap_used(s, a, 2);
    swap_drop(s, b);
    assert_int_equal(swap_stats(s).ram_used, 0);
    assert_int_equal(swap_stats(s).n_copies, 0);
    assert_int_equal(swap_stats(s).blocks_out[0], 5);
    assert_int_equal(swap_stats(s).blocks_in[0], 2);
    for (int i = 0; i < 3; i++)
        add(s, 1);
    expect_refused(s, 1); /* max_copies */
    expect_no_io(s);      /* no file */
    assert_false(swap_is_freeing(s));
    swap_destroy(&s);
    assert_null(s);
}

/* Above half of the RAM the oldest are written; at half they stay. */
static void oldest_are_written_above_half(void **state)
{
    struct swap *s = new_swap(8, 8, 8);
    uint32_t a, b, c;
    (void)state;

    a = add(s, 2);
    b = add(s, 2);
    expect_no_io(s);
    assert_false(swap_is_freeing(s));
    c = add(s, 1);
    assert_true(swap_is_freeing(s));
    expect_io(s, a, true);
    assert_int_equal(swap_where(s, a), SWAP_WRITING);
    expect_no_io(s); /* what is being written counts as gone */
    assert_int_equal(swap_stats(s).ram_used, 5);
    assert_int_equal(swap_stats(s).file_used, 2);
    done(s, a, 0);
    assert_int_equal(swap_where(s, a), SWAP_FILE);
    assert_int_equal(swap_where(s, b), SWAP_RAM);
    assert_int_equal(swap_stats(s).ram_used, 3);
    assert_int_equal(swap_stats(s).blocks_out[1], 2);
    assert_false(swap_is_freeing(s));
    expect_no_io(s);
    swap_drop(s, a);
    assert_int_equal(swap_stats(s).file_used, 0);
    swap_drop(s, b);
    swap_drop(s, c);
    swap_destroy(&s);
}

/* No more than SWAP_MAX_IO at a time; their ends may come in any order. */
static void few_transfers_at_a_time(void **state)
{
    struct swap *s = new_swap(16, 16, 16);
    uint32_t copies[16];
    (void)state;

    for (int i = 0; i < 16; i++)
        copies[i] = add(s, 1);
    for (int i = 0; i < SWAP_MAX_IO; i++)
        expect_io(s, copies[i], true);
    expect_no_io(s);
    assert_int_equal(swap_n_io(s), SWAP_MAX_IO);
    done(s, copies[2], 0);
    expect_io(s, copies[4], true);
    expect_no_io(s);
    done(s, copies[4], 0);
    done(s, copies[0], 0);
    assert_int_equal(swap_n_io(s), 2);
    swap_destroy(&s); /* under way or not: only books */
}

/* The oldest does not fit into what is left of the file: the next one that does. */
static void file_is_bounded(void **state)
{
    struct swap *s = new_swap(8, 3, 8);
    uint32_t a, b;
    (void)state;

    a = add(s, 4);
    b = add(s, 3);
    move_to_file(s, b);
    add(s, 1);
    expect_no_io(s);
    assert_false(swap_is_freeing(s));
    swap_drop(s, b);
    add(s, 1);
    assert_int_equal(swap_where(s, a), SWAP_RAM);
    assert_int_equal(swap_stats(s).file_used, 0);
    swap_destroy(&s);
}

/* Back from the file: wants RAM slots, and then stays. */
static void fetched_copies_stay_in_ram(void **state)
{
    struct swap *s = new_swap(4, 8, 8);
    uint32_t a, b, n;
    (void)state;

    a = add(s, 3);
    move_to_file(s, a);
    assert_null(swap_slots(s, a, &n));
    b = add(s, 2);
    assert_int_equal(swap_fetch(s, a), ERR_AGAIN); /* two slots left */
    assert_int_equal(swap_where(s, a), SWAP_FILE);
    swap_drop(s, b);
    assert_int_equal(swap_fetch(s, a), 0);
    assert_int_equal(swap_where(s, a), SWAP_READING);
    assert_int_equal(swap_n_io(s), 0); /* not started yet */
    expect_io(s, a, false);
    assert_int_equal(swap_fetch(s, a), 0); /* on its way already */
    assert_null(swap_slots(s, a, &n));
    done(s, a, 0);
    assert_int_equal(swap_where(s, a), SWAP_RAM);
    assert_int_equal(swap_stats(s).file_used, 0);
    assert_int_equal(swap_stats(s).blocks_in[1], 3);
    assert_non_null(swap_slots(s, a, &n));
    expect_no_io(s); /* more than half full, but this one is wanted */
    swap_used(s, a, 3);
    swap_destroy(&s);
}

/* A copy that is wanted while it is being written does not leave. */
static void fetch_recalls_a_write(void **state)
{
    struct swap *s = new_swap(4, 8, 8);
    uint32_t a, n;
    (void)state;

    a = add(s, 3);
    expect_io(s, a, true);
    assert_non_null(swap_slots(s, a, &n)); /* still whole */
    assert_true(swap_is_freeing(s));
    assert_int_equal(swap_fetch(s, a), 0);
    assert_false(swap_is_freeing(s));
    done(s, a, 0);
    assert_int_equal(swap_where(s, a), SWAP_RAM);
    assert_int_equal(swap_stats(s).file_used, 0);
    expect_no_io(s);
    swap_destroy(&s);
}

/* Reads before writes, in the order they were asked for, and no more than are allowed. */
static void reads_come_first(void **state)
{
    struct swap *s = new_swap(16, 32, 16);
    uint32_t copies[6];
    (void)state;

    for (int i = 0; i < 6; i++) {
        copies[i] = add(s, 1);
        add(s, 8);
        move_to_file(s, copies[i]);
        swap_drop(s, copies[i] + 1);
    }
    add(s, 5);
    for (int i = 0; i < SWAP_MAX_IO; i++)
        assert_int_equal(swap_fetch(s, copies[SWAP_MAX_IO - i]), 0);
    assert_int_equal(swap_fetch(s, copies[0]), ERR_AGAIN); /* too many under way */
    assert_int_equal(swap_fetch(s, copies[4]), 0);
    for (int i = 0; i < SWAP_MAX_IO; i++)
        expect_io(s, copies[SWAP_MAX_IO - i], false);
    expect_no_io(s);
    done(s, copies[4], 0);
    assert_int_equal(swap_fetch(s, copies[0]), 0);
    expect_io(s, copies[0], false);
    swap_destroy(&s);
}

/* A write that fails: the copy is whole in RAM, and writing pauses for 16 swap_add(). */
static void write_errors_pause_writing(void **state)
{
    struct swap *s = new_swap(4, 8, 8);
    uint32_t a, n;
    (void)state;

    a = add(s, 3);
    expect_io(s, a, true);
    done(s, a, ERR_IO);
    assert_int_equal(swap_where(s, a), SWAP_RAM);
    assert_non_null(swap_slots(s, a, &n));
    assert_int_equal(swap_stats(s).n_write_errors, 1);
    assert_int_equal(swap_stats(s).file_used, 0);
    assert_int_equal(swap_stats(s).blocks_out[1], 0);
    for (int i = 0; i < 16; i++) {
        expect_no_io(s);
        assert_false(swap_is_freeing(s));
        expect_refused(s, 2);
    }
    assert_true(swap_is_freeing(s));
    move_to_file(s, a);
    swap_destroy(&s);
}

/* Of several that failed the oldest is tried first again. */
static void failed_writes_keep_their_age(void **state)
{
    struct swap *s = new_swap(6, 8, 8);
    uint32_t a, b, c;
    (void)state;

    a = add(s, 2);
    b = add(s, 2);
    c = add(s, 2);
    expect_io(s, a, true);
    expect_io(s, b, true);
    expect_no_io(s);
    done(s, a, ERR_IO);
    done(s, b, ERR_IO);
    swap_drop(s, c);
    for (int i = 0; i < 16; i++)
        swap_drop(s, add(s, 1));
    expect_io(s, a, true);
    done(s, a, 0);
    assert_int_equal(swap_where(s, b), SWAP_RAM);
    swap_destroy(&s);
}

/* A read that fails: lost, and its slots are free; whoever holds it drops it. */
static void read_errors_lose_the_copy(void **state)
{
    struct swap *s = new_swap(4, 8, 1);
    uint32_t a, n;
    (void)state;

    a = add(s, 3);
    move_to_file(s, a);
    assert_int_equal(swap_fetch(s, a), 0);
    expect_io(s, a, false);
    done(s, a, ERR_IO);
    assert_int_equal(swap_where(s, a), SWAP_LOST);
    assert_int_equal(swap_fetch(s, a), ERR_IO);
    assert_null(swap_slots(s, a, &n));
    assert_int_equal(swap_stats(s).n_read_errors, 1);
    assert_int_equal(swap_stats(s).ram_used, 0);
    assert_int_equal(swap_stats(s).file_used, 0);
    assert_int_equal(swap_stats(s).n_copies, 1);
    expect_refused(s, 1);
    swap_drop(s, a);
    add(s, 1);
    swap_destroy(&s);
}

/* Slots of a dropped copy stay taken until its I/O has ended: nobody may write into them. */
static void dropped_copies_keep_their_slots(void **state)
{
    struct swap *s = new_swap(4, 8, 2);
    uint32_t a, b;
    (void)state;

    a = add(s, 3);
    expect_io(s, a, true);
    swap_used(s, a, 1);
    assert_true(swap_check(s));
    assert_int_equal(swap_stats(s).n_copies, 0);
    assert_int_equal(swap_stats(s).ram_used, 3);
    expect_refused(s, 2);
    assert_true(swap_is_freeing(s));
    done(s, a, 0);
    assert_int_equal(swap_stats(s).ram_used, 0);
    assert_int_equal(swap_stats(s).file_used, 0);
    b = add(s, 3);
    move_to_file(s, b);
    assert_int_equal(swap_fetch(s, b), 0);
    expect_io(s, b, false);
    swap_drop(s, b);
    assert_int_equal(swap_stats(s).ram_used, 3);
    assert_true(swap_is_freeing(s));
    done(s, b, ERR_IO);
    assert_int_equal(swap_stats(s).ram_used, 0);
    assert_int_equal(swap_stats(s).file_used, 0);
    swap_destroy(&s);
}

/* A read that was asked for and not started is taken back. */
static void dropped_reads_do_not_start(void **state)
{
    struct swap *s = new_swap(4, 8, 2);
    uint32_t a;
    (void)state;

    a = add(s, 3);
    move_to_file(s, a);
    assert_int_equal(swap_fetch(s, a), 0);
    swap_drop(s, a);
    assert_true(swap_check(s));
    assert_int_equal(swap_stats(s).ram_used + swap_stats(s).file_used, 0);
    expect_no_io(s);
    swap_destroy(&s);
}

static void creation_survives_lack_of_memory(void **state)
{
    struct swap_options o = {4, 4, 2, 8};
    struct swap *s;
    int64_t n = 0;
    (void)state;

    while (each_failure(&n)) {
        if (swap_create(&s, &o) == 0)
            swap_destroy(&s);
        assert_null(s);
    }
    assert_true(n > 7);
    o.n_ram = 0;
    assert_int_equal(swap_create(&s, &o), ERR_INVAL);
    o = (struct swap_options){4, 4, 0, 8};
    assert_int_equal(swap_create(&s, &o), ERR_INVAL);
    o = (struct swap_options){4, 4, 2, 0};
    assert_int_equal(swap_create(&s, &o), ERR_INVAL);
    assert_null(s);
    swap_destroy(&s);
    swap_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ram_is_bounded),
        cmocka_unit_test(oldest_are_written_above_half),
        cmocka_unit_test(few_transfers_at_a_time),
        cmocka_unit_test(file_is_bounded),
        cmocka_unit_test(fetched_copies_stay_in_ram),
        cmocka_unit_test(fetch_recalls_a_write),
        cmocka_unit_test(reads_come_first),
        cmocka_unit_test(write_errors_pause_writing),
        cmocka_unit_test(failed_writes_keep_their_age),
        cmocka_unit_test(read_errors_lose_the_copy),
        cmocka_unit_test(dropped_copies_keep_their_slots),
        cmocka_unit_test(dropped_reads_do_not_start),
        cmocka_unit_test(creation_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
