/* tests/unit/server/test_usage_ledger.c - the ledger against a plain sum, its bounds, and days. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/storage/usage_ledger.h"
#include "tests/fixtures/random.h"

static struct usage_amounts amounts(uint64_t n)
{
    return (struct usage_amounts){.requests = 1,
                                  .prompt_tokens = n,
                                  .engine = {n + 1, n + 2, n + 3, n + 4, n + 5},
                                  .cpu_us = n + 6};
}

static struct usage_amounts sum_of(const struct usage_ledger *l, const char *owner, int32_t day)
{
    struct usage_amounts sum = {0};
    uint32_t n;
    const struct usage_row *rows = usage_ledger_rows(l, &n);

    for (uint32_t i = 0; i < n; i++)
        if ((owner == NULL || strcmp(owner, usage_ledger_name(l, rows[i].owner)) == 0) &&
            (day < 0 || day == rows[i].day))
            usage_amounts_add(&sum, &rows[i].amounts);
    return sum;
}

/* One row for each owner and day, by day, though days come in any order. */
static void check_order(const struct usage_ledger *l)
{
    uint32_t n;
    const struct usage_row *rows = usage_ledger_rows(l, &n);

    for (uint32_t i = 1; i < n; i++)
        assert_true(rows[i - 1].day <= rows[i].day);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_false(rows[i].day == rows[k].day && rows[i].owner == rows[k].owner);
}

static void test_sums(void **state)
{
    static struct usage_amounts want[8][20];
    struct usage_ledger *l;
    uint64_t rng = 3;

    (void)state;
    memset(want, 0, sizeof(want));
    assert_int_equal(usage_ledger_create(&l), 0);
    for (uint32_t i = 0; i < 3000; i++) {
        const uint32_t owner = random_below(&rng, 8), day = random_below(&rng, 20);
        const struct usage_amounts a = amounts(random_below(&rng, 1000));
        char name[16];

        snprintf(name, sizeof(name), "owner-%u", owner);
        usage_ledger_add(l, name, (int32_t)day, &a);
        usage_amounts_add(&want[owner][day], &a);
    }
    check_order(l);
    for (uint32_t owner = 0; owner < 8; owner++)
        for (uint32_t day = 0; day < 20; day++) {
            char name[16];
            struct usage_amounts got;

            snprintf(name, sizeof(name), "owner-%u", owner);
            got = sum_of(l, name, (int32_t)day);
            assert_memory_equal(&got, &want[owner][day], sizeof(got));
        }
    usage_ledger_destroy(&l);
    assert_null(l);
}

/* Owners beyond the most are one, and nothing of them is lost. */
static void test_too_many_owners(void **state)
{
    struct usage_ledger *l;

    (void)state;
    assert_int_equal(usage_ledger_create(&l), 0);
    for (uint32_t i = 0; i < USAGE_MAX_OWNERS + 10; i++) {
        const struct usage_amounts a = amounts(i);
        char name[16];

        snprintf(name, sizeof(name), "o%u", i);
        usage_ledger_add(l, name, 1, &a);
    }
    assert_int_equal(usage_ledger_n_owners(l), USAGE_MAX_OWNERS);
    assert_int_equal(sum_of(l, USAGE_OTHERS, 1).requests, 11);
    assert_int_equal(sum_of(l, NULL, 1).requests, USAGE_MAX_OWNERS + 10);
    usage_ledger_destroy(&l);
}

static void test_oldest_day_goes(void **state)
{
    const struct usage_amounts a = amounts(1);
    struct usage_ledger *l;
    uint32_t n;

    (void)state;
    assert_int_equal(usage_ledger_create(&l), 0);
    for (int32_t day = 0; day < USAGE_MAX_ROWS / 2 + 1; day++) {
        usage_ledger_add(l, "a", day, &a);
        usage_ledger_add(l, "b", day, &a);
    }
    usage_ledger_rows(l, &n);
    assert_int_equal(n, USAGE_MAX_ROWS);
    assert_int_equal(sum_of(l, NULL, 0).requests, 0);
    assert_int_equal(sum_of(l, NULL, 1).requests, 2);
    assert_int_equal(sum_of(l, "a", USAGE_MAX_ROWS / 2).requests, 1);
    usage_ledger_destroy(&l);
}

static void test_long_names(void **state)
{
    char name[2 * USAGE_MAX_NAME + 1], other[2 * USAGE_MAX_NAME + 1];
    const struct usage_amounts a = amounts(1);
    struct usage_ledger *l;

    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    memcpy(other, name, sizeof(name));
    other[USAGE_MAX_NAME] = 'y';
    assert_int_equal(usage_ledger_create(&l), 0);
    usage_ledger_add(l, name, 1, &a);
    usage_ledger_add(l, other, 1, &a);
    usage_ledger_add(l, "", 1, &a);
    /* Neither is cut to what the other is cut to: both are the others. */
    assert_int_equal(usage_ledger_n_owners(l), 2);
    assert_string_equal(usage_ledger_name(l, 0), USAGE_OTHERS);
    assert_string_equal(usage_ledger_name(l, 1), "");
    usage_ledger_destroy(&l);
}

static void test_days(void **state)
{
    static const char *const bad[] = {"",           "2026",        "2026-2-3",    "2026-02-30",
                                      "2026-13-01", "2026-11-26 ", " 2026-11-26", "1969-12-31",
                                      "today",      "99999-01-01"};
    char text[11];
    int32_t day;

    (void)state;
    assert_true(usage_day_parse("2026-11-26", &day));
    assert_int_equal(day, 20783);
    usage_day_text(day, text);
    assert_string_equal(text, "2026-11-26");
    assert_true(usage_day_parse("1970-01-01", &day));
    assert_int_equal(day, 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (usage_day_parse(bad[i], &day))
            fail_msg("'%s' is no day", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_too_many_owners),
        cmocka_unit_test(test_oldest_day_goes),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_days),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
