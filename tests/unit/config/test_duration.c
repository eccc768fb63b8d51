/* tests/unit/config/test_duration.c - spans of time as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/duration.h"
#include "core/base/err.h"

static void reads_units_and_their_sums(void **state)
{
    static const struct {
        const char *text;
        uint64_t us;
    } cases[] = {
        {"0", 0},           {"90", 90000000},        {"1.5", 1500000},
        {"300ms", 300000},  {"10m", 600000000},      {"1h30m", 5400000000},
        {"2us", 2},         {"0.5s", 500000},        {"-1", DURATION_NEVER},
        {"-5m", DURATION_NEVER}, {"24h", 86400000000},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t us = 7;

        if (duration_parse(cases[i].text, &us) != 0 || us != cases[i].us)
            fail_msg("%s is %llu", cases[i].text, (unsigned long long)us);
    }
}

static void refuses_what_is_no_duration(void **state)
{
    static const char *const cases[] = {"",   "m",   "10 m", "10x", "1m5", "5m ", "--1", "1e9",
                                        "0x1", "nan", "-",    "inf", "1h-1m", "999999999h",
                                        "1E5", "1E5s", "1.5E1m", "1s1E1s", "1e5s", "0X1"};
    uint64_t us;
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (duration_parse(cases[i], &us) != ERR_INVAL)
            fail_msg("'%s' is taken for a duration", cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_units_and_their_sums),
        cmocka_unit_test(refuses_what_is_no_duration),
    };

    return cmocka_run_group_tests_name("duration", tests, NULL, NULL);
}
