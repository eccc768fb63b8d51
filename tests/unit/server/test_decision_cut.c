/* tests/unit/server/test_decision_cut.c - long questions and options are cut, the input never. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/tokenizer/tokenizer.h"
#include "server/api/decisions/decision_cut.h"

enum { CLS = 1, SEP = 2, MASK = 4, MAX = 4096 };

static void add(struct token_list *list, int32_t id, uint32_t n)
{
    while (n-- > 0)
        assert_int_equal(token_list_add(list, id, MAX), 0);
}

/* [CLS] question [SEP] ([MASK] option)* [SEP] input [SEP], all of so many tokens. */
static void build(struct token_list *list, uint32_t question, uint32_t option, uint32_t n,
                  uint32_t input)
{
    add(list, CLS, 1);
    add(list, 10, question);
    add(list, SEP, 1);
    for (uint32_t i = 0; i < n; i++) {
        add(list, MASK, 1);
        add(list, (int32_t)(100 + i), option);
    }
    add(list, SEP, 1);
    add(list, 20, input);
    add(list, SEP, 1);
}

static void check(uint32_t max, const uint32_t given[3], const uint32_t left[2])
{
    const struct decision_layout layout = {MASK, SEP, given[2], max};
    struct token_list list = {0}, want = {0};

    build(&list, given[0], given[1], given[2], 77);
    build(&want, left[0], left[1], given[2], 77);
    assert_int_equal(decision_cut(&list, &layout), 0);
    assert_int_equal(list.n, want.n);
    assert_memory_equal(list.ids, want.ids, want.n * sizeof(*want.ids));
    token_list_release(&list);
    token_list_release(&want);
}

#define CHECK(max, question, option, n, question_left, option_left)                                \
    check(max, (const uint32_t[]){question, option, n},                                            \
          (const uint32_t[]){question_left, option_left})

static void test_what_fits_stays(void **state)
{
    (void)state;
    CHECK(100, 40, 9, 4, 40, 9);
    CHECK(100, 60, 9, 4, 60, 9);
    CHECK(100, 1, 0, 2, 1, 0);
}

static void test_questions_are_cut_to_the_rest(void **state)
{
    (void)state;
    CHECK(100, 61, 9, 4, 60, 9);
    CHECK(192, 1000, 48, 2, 192 - 2 * 49, 48);
}

static void test_options_are_cut(void **state)
{
    (void)state;
    CHECK(500, 3, 200, 2, 3, 48);   /* 48 tokens are the most */
    CHECK(100, 3, 30, 4, 3, 20);    /* equal shares of 84, with the marker */
    CHECK(100, 200, 30, 4, 16, 20); /* and the rest for the question */
    CHECK(100, 20, 30, 100, 8, 3);  /* three tokens are the least, and eight of the question */
    CHECK(10, 20, 30, 2, 8, 3);
}

static void test_other_forms(void **state)
{
    const struct decision_layout layout = {MASK, SEP, 2, 100}, three = {MASK, SEP, 3, 100};
    struct token_list list = {0};
    (void)state;

    build(&list, 5, 5, 2, 5);
    assert_int_equal(decision_cut(&list, &three), ERR_INVAL);
    list.ids[list.n - 1] = 9; /* no separator at the end */
    assert_int_equal(decision_cut(&list, &layout), ERR_INVAL);
    list.ids[list.n - 1] = MASK; /* a marker more */
    assert_int_equal(decision_cut(&list, &layout), ERR_INVAL);
    token_list_release(&list);
    build(&list, 5, 5, 2, 5);
    list.ids[6] = 10; /* no separator before the options */
    assert_int_equal(decision_cut(&list, &layout), ERR_INVAL);
    list.ids[6] = SEP;
    list.n -= 6; /* no input */
    assert_int_equal(decision_cut(&list, &layout), ERR_INVAL);
    token_list_release(&list);
    add(&list, MASK, 2);
    add(&list, SEP, 2);
    assert_int_equal(decision_cut(&list, &layout), ERR_INVAL);
    token_list_release(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fits_stays),
        cmocka_unit_test(test_questions_are_cut_to_the_rest),
        cmocka_unit_test(test_options_are_cut),
        cmocka_unit_test(test_other_forms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
