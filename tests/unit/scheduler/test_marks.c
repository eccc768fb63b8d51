/* tests/unit/scheduler/test_marks.c - scores of options from what a head makes at their marks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "scheduler/request/marks.h"

static void check_shares(const double *scores, const float *logprobs, const uint32_t *option,
                         uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += exp(scores[i]);
    for (uint32_t i = 0; i < n; i++)
        assert_float_equal(logprobs[option[i]], scores[i] - log(sum), 1e-6);
}

/* The last mark's first half points at the others' second halves; options stand in any order. */
static void test_a_pointer(void **state)
{
    const struct mark at[] = {{3, 2}, {5, 0}, {9, 1}, {11, 3}};
    const uint32_t option[] = {2, 0, 1};
    float outs[] = {9, 9, 1, 2, 9, 9, -3, 0.5f, 9, 9, 0.25f, -1, 2, -1.5f, 9, 9}, logprobs[3];
    const struct marks m = {
        .read = MARKS_POINTER, .n = 4, .at = at, .n_out = 4, .outs = outs, .logprobs = logprobs};
    double scores[3];
    (void)state;

    for (int i = 0; i < 3; i++)
        scores[i] = (2 * outs[4 * i + 2] - 1.5 * outs[4 * i + 3]) / sqrt(2);
    marks_settle(&m);
    check_shares(scores, logprobs, option, 3);
}

/* Scores that are far apart, and one option alone. */
static void test_extremes(void **state)
{
    const struct mark at[] = {{0, 0}, {1, 1}, {2, 2}}, one[] = {{4, 0}, {5, 1}};
    float outs[] = {0, 3e4f, 0, -3e4f, 1, 0}, alone[] = {0, 7, 2, 0}, logprobs[2];
    struct marks m = {.n = 3, .at = at, .n_out = 2, .outs = outs, .logprobs = logprobs};
    (void)state;

    marks_settle(&m);
    assert_float_equal(logprobs[0], 0, 0);
    assert_float_equal(logprobs[1], -6e4, 0.01);
    m.n = 2, m.at = one, m.outs = alone;
    marks_settle(&m);
    assert_float_equal(logprobs[0], 0, 0);
}

/* Each mark has its own score. */
static void test_each(void **state)
{
    const struct mark at[] = {{3, 1}, {5, 0}};
    const uint32_t option[] = {1, 0};
    const double scores[] = {1.5, -0.25};
    float outs[] = {1.5f, -0.25f}, logprobs[2];
    const struct marks m = {
        .read = MARKS_EACH, .n = 2, .at = at, .n_out = 1, .outs = outs, .logprobs = logprobs};
    (void)state;

    marks_settle(&m);
    check_shares(scores, logprobs, option, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pointer),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
