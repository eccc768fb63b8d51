/* tests/unit/runtime/test_pieces.c - panels in parts for several memory nodes: each has one place,
 * and the order in which regions have them gives the threads of a node those that are on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/runtime/forward.h"
#include "tests/fixtures/random.h"

#define MAX_ITEMS 4096
#define PANEL 64 /* bytes */

static struct matrix make_matrix(uint32_t n_each, uint32_t n_panels, uint32_t n_parts)
{
    const uint32_t n_pairs = (n_panels + 1) / 2;

    return (struct matrix){.n_each = n_each, .n_panels = n_panels, .panel_bytes = PANEL,
                           .n_parts = n_parts,
                           .part_panels = 2 * ((n_pairs + n_parts - 1) / n_parts)};
}

/* Panels of all matrices, in memory of their own: no two share a place, parts do not overlap, and
 * the panels of a part follow each other. */
static void each_panel_has_one_place(void **state)
{
    (void)state;

    for (uint32_t n_parts = 1; n_parts <= 6; n_parts++)
        for (uint32_t n_panels = 1; n_panels <= 40; n_panels++) {
            struct matrix m = make_matrix(3, n_panels, n_parts);
            uint8_t *room, *seen;
            size_t n_places;

            m.part_stride = (size_t)m.n_each * m.part_panels * PANEL + 3 * PANEL;
            n_places = n_parts * m.part_stride / PANEL;
            room = calloc(n_places, PANEL);
            seen = calloc(n_places, 1);
            m.data = room;
            for (uint32_t i = 0; i < m.n_each * n_panels; i++) {
                const uint32_t panel = i % n_panels;
                const uint8_t *at = matrix_panel(&m, i / n_panels, panel);
                const uint32_t part = n_parts > 1 ? matrix_part_of(&m, panel) : 0;
                const size_t place = (size_t)(at - room) / PANEL;

                assert_true(place < n_places && !seen[place]);
                seen[place] = 1;
                assert_in_range(panel, matrix_part_panel(&m, part),
                                matrix_part_panel(&m, part + 1) - 1);
                assert_true(at >= room + part * m.part_stride);
                assert_true(n_parts == 1 || at + PANEL <= room + part * m.part_stride +
                                                    (size_t)m.n_each * m.part_panels * PANEL);
                if (panel > matrix_part_panel(&m, part))
                    assert_ptr_equal(at, matrix_panel(&m, i / n_panels, panel - 1) + PANEL);
            }
            free(room);
            free(seen);
        }
}

/* Items that are taken in any way are all there, once, in one order. */
static void pieces_are_all_items_once(void **state)
{
    uint64_t rng = 1;
    (void)state;

    for (int round = 0; round < 2000; round++) {
        const uint32_t n = 1 + random_below(&rng, 20), each = 1 + random_below(&rng, 30);
        const uint32_t unit = 1 + random_below(&rng, 2), n_parts = 1 + random_below(&rng, 5);
        uint8_t seen[MAX_ITEMS] = {0};
        uint32_t from = 0;

        while (from < n * each) {
            const uint32_t to = from + 1 + random_below(&rng, n * each - from);
            struct pieces s = {n, each, unit, n_parts, from, to};
            uint32_t i, a, b, sum = 0;

            while (next_piece(&s, &i, &a, &b)) {
                assert_true(i < n && a < b && b <= each);
                for (uint32_t item = a; item < b; item++)
                    assert_int_equal(seen[i * each + item]++, 0);
                sum += b - a;
            }
            assert_int_equal(sum, to - from);
            from = to;
        }
        for (uint32_t i = 0; i < n * each; i++)
            assert_int_equal(seen[i], 1);
    }
}

/* Of the shares that n_threads threads own, the part that is on their nodes, in thousandths. */
static uint32_t near(struct pieces region, uint32_t n_panels, uint32_t n_threads)
{
    const struct matrix m = make_matrix(region.n, n_panels, region.n_parts);
    const uint32_t total = region.n * region.each;
    uint32_t n_near = 0;

    for (uint32_t t = 0; t < n_threads; t++) {
        const uint32_t node = t * region.n_parts / n_threads;
        uint32_t i, a, b;

        region.from = (uint32_t)((uint64_t)total * t / n_threads);
        region.to = (uint32_t)((uint64_t)total * (t + 1) / n_threads);
        while (next_piece(&region, &i, &a, &b))
            for (uint32_t item = a; item < b; item++)
                n_near += matrix_part_of(&m, item * region.unit) == node;
    }
    return n_near * 1000 / total;
}

static void shares_are_of_near_panels(void **state)
{
    (void)state;

    assert_int_equal(near((struct pieces){1, 256, 1, 2, 0, 0}, 256, 64), 1000);
    assert_int_equal(near((struct pieces){1, 448, 2, 2, 0, 0}, 896, 64), 1000);
    assert_int_equal(near((struct pieces){8, 48, 1, 2, 0, 0}, 48, 64), 1000); /* experts */
    assert_int_equal(near((struct pieces){7, 24, 2, 4, 0, 0}, 48, 128), 1000);
    assert_in_range(near((struct pieces){1, 256, 1, 2, 0, 0}, 256, 63), 990, 999); /* 31 and 32 */
    assert_in_range(near((struct pieces){128, 32, 1, 3, 0, 0}, 32, 96), 900, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_panel_has_one_place),
        cmocka_unit_test(pieces_are_all_items_once),
        cmocka_unit_test(shares_are_of_near_panels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
