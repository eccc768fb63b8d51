/* tests/unit/scheduler/test_quantiles.c - percentiles out of buckets against sorted values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler/replay/quantiles.h"

static struct quantiles q;

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void small_values_are_exact(void **state)
{
    (void)state;
    memset(&q, 0, sizeof(q));
    assert_int_equal(quantiles_get(&q, 50), 0);
    for (uint64_t v = 1; v <= 50; v++)
        quantiles_add(&q, v);
    assert_int_equal(quantiles_get(&q, 0), 1);
    assert_int_equal(quantiles_get(&q, 50), 25);
    assert_int_equal(quantiles_get(&q, 100), 50);
}

static void large_ones_are_within_three_percent(void **state)
{
    static uint64_t v[5000];
    uint64_t rng = 1;
    (void)state;

    memset(&q, 0, sizeof(q));
    for (size_t i = 0; i < 5000; i++) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        v[i] = rng >> (8 + rng % 56);
        quantiles_add(&q, v[i]);
    }
    qsort(v, 5000, sizeof(*v), by_value);
    for (uint32_t p = 0; p <= 100; p++) {
        const uint64_t exact = v[4999 * p / 100], got = quantiles_get(&q, p);

        assert_true(got <= exact && exact - got <= exact / 32);
    }
}

static void both_ends_have_a_bucket(void **state)
{
    (void)state;
    memset(&q, 0, sizeof(q));
    quantiles_add(&q, 0);
    quantiles_add(&q, UINT64_MAX);
    assert_int_equal(quantiles_get(&q, 0), 0);
    assert_true(quantiles_get(&q, 100) >= UINT64_MAX / 64 * 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(large_ones_are_within_three_percent),
        cmocka_unit_test(both_ends_have_a_bucket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
