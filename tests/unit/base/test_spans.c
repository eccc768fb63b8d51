/* tests/unit/base/test_spans.c - ranges of a text against a plain array of flags. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "tests/fixtures/random.h"

#define N 400

static void agrees(const struct spans *s, const bool *flags)
{
    for (size_t from = 0; from < N; from += 7)
        for (size_t to = from + 1; to < N && to < from + 20; to += 3) {
            bool all = true;

            for (size_t i = from; i < to; i++)
                all = all && flags[i];
            assert_int_equal(spans_cover(s, from, to), all);
        }
    for (size_t i = 1; i < s->n; i++)
        assert_true(s->at[i - 1].to < s->at[i].from);
}

static void spans_are_flags(void **state)
{
    uint64_t rng = 5;

    (void)state;
    for (int round = 0; round < 50; round++) {
        bool flags[N] = {false};
        struct spans s = {0};

        for (size_t at = 0; at < N;) {
            const size_t n = random_below(&rng, 9), to = at + n < N ? at + n : N;

            if (random_below(&rng, 2) == 0) {
                assert_int_equal(spans_add(&s, at, to), 0);
                memset(flags + at, 1, to - at);
            }
            at = to;
        }
        agrees(&s, flags);
        for (size_t end = N; end > 0; end -= end < 37 ? end : 37) {
            spans_cut(&s, end);
            memset(flags + end, 0, N - end);
            agrees(&s, flags);
        }
        spans_cut(&s, 0);
        assert_int_equal(s.n, 0);
        spans_release(&s);
    }
}

static void lack_of_memory_is_remembered(void **state)
{
    struct spans s = {0};

    (void)state;
    mem_fail_after(0);
    assert_int_equal(spans_add(&s, 0, 1), ERR_NOMEM);
    mem_fail_after(-1);
    assert_int_equal(spans_add(&s, 2, 3), ERR_NOMEM);
    assert_int_equal(s.n, 0);
    spans_release(&s);
    assert_int_equal(s.err, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_flags),
        cmocka_unit_test(lack_of_memory_is_remembered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
