/* tests/unit/kvcache/test_kv_groups.c - layers in groups, and how many blocks tokens take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kvcache/block_table.h"
#include "kvcache/kv_groups.h"

enum { MAX_LAYERS = 128 };

/* Every layer has a place of its own, among layers of its kind. */
static void check_places(const uint32_t *windows, uint32_t n, const struct kv_groups *l,
                         const struct kv_location *places)
{
    bool taken[MAX_LAYERS * 2] = {false};

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = places[i].group * l->n_layer + places[i].at;

        assert_true(places[i].group < l->n && places[i].at < l->n_layer);
        assert_int_equal(places[i].group >= kv_groups_n_full(l), windows[i] > 0);
        assert_false(taken[at]);
        taken[at] = true;
    }
}

/* The last layer of each `period` sees everything; 0: none does, 1: all do. */
static struct kv_groups assign(uint32_t n, uint32_t period)
{
    uint32_t windows[MAX_LAYERS] = { 0 }, n_full = 0;
    struct kv_location places[MAX_LAYERS];
    struct kv_groups l;

    for (uint32_t i = 0; i < n; i++) {
        windows[i] = period == 0 || i % period < period - 1 ? 512 : 0;
        n_full += windows[i] == 0;
    }
    kv_groups_assign(windows, n, &l, places);
    check_places(windows, n, &l, places);
    assert_int_equal(l.window, n_full < n ? 512 : 0);
    assert_true(16 * (kv_groups_n_full(&l) * l.n_layer - n_full) <= n_full);
    assert_true(16 * (l.n_window * l.n_layer - (n - n_full)) <= n - n_full);
    return l;
}

static void expect_assignment(uint32_t n, uint32_t period, uint32_t n_full, uint32_t n_window,
                              uint32_t n_layer)
{
    const struct kv_groups l = assign(n, period);

    assert_int_equal(kv_groups_n_full(&l), n_full);
    assert_int_equal(l.n_window, n_window);
    assert_int_equal(l.n_layer, n_layer);
}

static void layers_of_a_kind_lie_together(void **state)
{
    (void)state;
    expect_assignment(32, 1, 1, 0, 32); /* no windows */
    expect_assignment(32, 0, 0, 1, 32); /* nothing but windows */
    expect_assignment(1, 1, 1, 0, 1);
    expect_assignment(24, 2, 1, 1, 12);
    expect_assignment(32, 4, 1, 3, 8);
    expect_assignment(26, 6, 2, 11, 2); /* 4 and 22 */
    expect_assignment(34, 6, 1, 6, 5);  /* 5 and 29: one place is empty */
    expect_assignment(48, 6, 1, 5, 8);
    expect_assignment(62, 6, 2, 11, 5);  /* 10 and 52: three places are */
    expect_assignment(17, 17, 1, 16, 1); /* 1 and 16 */
}

static void any_numbers_of_layers_are_assigned(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= MAX_LAYERS; n++)
        for (uint32_t period = 0; period <= 9; period++)
            (void)assign(n, period);
}

static void zero_is_one_group(void **state)
{
    const struct kv_groups l = {0};
    (void)state;

    assert_int_equal(kv_groups_n(&l), 1);
    assert_int_equal(kv_groups_n_full(&l), 1);
    assert_int_equal(kv_groups_first(&l, 1000), 0);
    assert_int_equal(kv_groups_seen(&l, 1000), 0);
    assert_int_equal(kv_groups_peak(&l, 33, 16), 3);
    assert_int_equal(kv_groups_most_tokens(&l, 3), 48);
    assert_int_equal(kv_groups_most_tokens(&l, UINT32_MAX), UINT32_MAX);
}

/* What is kept is what a query of the last token before the last block boundary sees, to the block:
 * one there, and all behind it, find what they look at. */
static void what_is_seen_is_kept(void **state)
{
    (void)state;
    for (uint32_t window = 1; window <= 80; window++) {
        const struct kv_groups l = {.n = 3, .n_window = 1, .window = window};

        for (uint32_t n = 0; n <= 200; n++) {
            const uint32_t end = n / BLOCK_TOKENS * BLOCK_TOKENS;
            const uint32_t oldest = n + 1 > window ? n + 1 - window : 0; /* token seen from n */

            assert_int_equal(kv_groups_seen(&l, n), oldest / BLOCK_TOKENS);
            assert_int_equal(kv_groups_first(&l, n), end > 0 ? kv_groups_seen(&l, end - 1) : 0);
            assert_true(kv_groups_first(&l, n) <= kv_groups_seen(&l, n));
        }
    }
}

/* The most blocks that a sequence held in chunks of `chunk` behind a first one of `n`. */
static uint64_t held_in_chunks(const struct kv_groups *l, uint32_t n, uint32_t chunk, uint32_t end)
{
    uint64_t most = 0, held;
    uint32_t done = 0, to;

    for (uint32_t k = n; done < end; done = to, k = chunk) {
        to = done + k < end ? done + k : end;
        held = kv_groups_n(l) * (uint64_t)block_table_needed(to) -
               (uint64_t)l->n_window * kv_groups_first(l, done);
        most = held > most ? held : most;
    }
    return most;
}

/* The peak is never passed, and with the worst place of the chunks it is reached. */
static void peaks_are_tight(void **state)
{
    (void)state;
    for (uint32_t window = 1; window <= 70; window += 3)
        for (uint32_t chunk = 1; chunk <= 50; chunk++) {
            const struct kv_groups l = {.n = 4, .n_window = 3, .window = window};
            const uint64_t peak = kv_groups_peak(&l, 400, chunk);
            uint64_t worst = 0;

            for (uint32_t n = 1; n <= chunk; n++) {
                const uint64_t held = held_in_chunks(&l, n, chunk, 400);

                assert_true(held <= peak);
                worst = held > worst ? held : worst;
            }
            assert_true(chunk < BLOCK_TOKENS || worst + 3 >= peak);
        }
}

static void most_tokens_fit_and_no_more(void **state)
{
    (void)state;
    for (uint32_t window = 1; window <= 70; window += 3)
        for (uint32_t n_blocks = 1; n_blocks <= 90; n_blocks++) {
            const struct kv_groups mixed = {.n = 3, .n_window = 2, .window = window};
            const struct kv_groups all = {.n = 1, .n_window = 1, .window = window};
            const uint32_t n = kv_groups_most_tokens(&mixed, n_blocks);

            assert_true(kv_groups_peak(&mixed, n, 1) <= n_blocks);
            assert_true(kv_groups_peak(&mixed, n + 1, 1) > n_blocks);
            assert_true(kv_groups_most_tokens(&all, n_blocks) == UINT32_MAX ||
                        kv_groups_most_tokens(&all, n_blocks) == n_blocks * BLOCK_TOKENS);
            assert_true(n_blocks < 8 || kv_groups_most_tokens(&all, n_blocks) == UINT32_MAX);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_of_a_kind_lie_together),
        cmocka_unit_test(any_numbers_of_layers_are_assigned),
        cmocka_unit_test(zero_is_one_group),
        cmocka_unit_test(what_is_seen_is_kept),
        cmocka_unit_test(peaks_are_tight),
        cmocka_unit_test(most_tokens_fit_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
