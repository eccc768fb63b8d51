/* tests/unit/server/test_decision_set.c - the orders of a question's options, and the prompts of
 * all questions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/api/params/decision_set.h"

static void add_question(struct decision_set *s, enum decision_kind kind, uint32_t n)
{
    assert_non_null(decision_set_add(s, kind));
    for (uint32_t i = 0; i < n; i++)
        assert_non_null(decision_set_add_option(s));
}

static void test_each_question_has_its_prompts(void **state)
{
    struct decision_set s = {.permutations = 5};
    uint32_t order;
    (void)state;

    add_question(&s, DECISION_YES_NO, 2);
    add_question(&s, DECISION_CHOICE, 3);
    add_question(&s, DECISION_CHOICE, 1);
    add_question(&s, DECISION_SCORE, 9);
    add_question(&s, DECISION_CHOICE, 200);
    assert_int_equal(s.n_options, 215);
    assert_int_equal(decision_set_count_prompts(&s), 2 + 3 + 1 + 2 + 5);
    for (uint32_t i = 0, q = 0, k = 0; i < 13; i++, k++) {
        if (k == s.questions[q].n_orders)
            q++, k = 0;
        assert_ptr_equal(decision_set_of_prompt(&s, i, &order), &s.questions[q]);
        assert_int_equal(order, k);
    }
    decision_set_release(&s);
}

/* With as many orders as options, each option stands once at each place. */
static void test_all_rotations_are_fair(void **state)
{
    struct decision_set s = {.permutations = DECISIONS_MAX_ORDERS};
    uint32_t n[7][7] = {{0}};
    (void)state;

    add_question(&s, DECISION_CHOICE, 7);
    decision_set_count_prompts(&s);
    for (uint32_t order = 0; order < 7; order++)
        for (uint32_t place = 0; place < 7; place++)
            n[decision_option_at(&s.questions[0], order, place)][place]++;
    for (int i = 0; i < 49; i++)
        assert_int_equal(n[i / 7][i % 7], 1);
    decision_set_release(&s);
}

static void test_fewer_orders_are_spread(void **state)
{
    struct decision_set s = {.permutations = 2};
    (void)state;

    add_question(&s, DECISION_CHOICE, 10);
    decision_set_count_prompts(&s);
    for (uint32_t place = 0; place < 10; place++) {
        assert_int_equal(decision_option_at(&s.questions[0], 0, place), place);
        assert_int_equal(decision_option_at(&s.questions[0], 1, place), (place + 5) % 10);
    }
    decision_set_release(&s);
}

static void test_levels_keep_their_neighbours(void **state)
{
    struct decision_set s = {.permutations = 9};
    (void)state;

    add_question(&s, DECISION_SCORE, 4);
    assert_int_equal(decision_set_count_prompts(&s), 2);
    for (uint32_t place = 0; place < 4; place++) {
        assert_int_equal(decision_option_at(&s.questions[0], 0, place), place);
        assert_int_equal(decision_option_at(&s.questions[0], 1, place), 3 - place);
    }
    decision_set_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_question_has_its_prompts),
        cmocka_unit_test(test_all_rotations_are_fair),
        cmocka_unit_test(test_fewer_orders_are_spread),
        cmocka_unit_test(test_levels_keep_their_neighbours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
