/* tests/unit/server/test_engine_rate.c - the completion rate, from which refused clients learn when
 * to retry, and the watchdog that finds a stuck step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/admin/info.h"
#include "server/api/completion_rate.h"
#include "server/http/retry_after.h"

#include <math.h>

static void completion_rate_tells_when_to_come_back(void **state)
{
    struct completion_rate p;
    uint64_t now = 1000000;
    (void)state;

    completion_rate_start(&p, now);
    assert_int_equal(completion_rate_wait_ms(&p, 1, now), COMPLETION_RATE_GUESS_MS);
    for (int i = 0; i < 1000; i++) /* ten a second, for longer than the window */
        completion_rate_end(&p, now += 100000);
    assert_true(fabs(completion_rate_per_s(&p, now) - 10) < 0.5);
    assert_true(completion_rate_wait_ms(&p, 20, now) > 1900 &&
                completion_rate_wait_ms(&p, 20, now) < 2100);
    assert_int_equal(completion_rate_wait_ms(&p, 0, now), RETRY_AFTER_MIN_MS);
    assert_int_equal(completion_rate_wait_ms(&p, 1000000, now), RETRY_AFTER_MAX_MS);
    now += 150000000; /* ten windows of silence */
    assert_true(completion_rate_per_s(&p, now) < 0.01);
    assert_int_equal(completion_rate_wait_ms(&p, 1, now), COMPLETION_RATE_GUESS_MS);
    completion_rate_start(&p, now);
    for (int i = 0; i < 10; i++) /* a young estimate is not too low */
        completion_rate_end(&p, now += 100000);
    assert_true(fabs(completion_rate_per_s(&p, now) - 10) < 1);
}

/* A step is wedged when it was seen under way for a minute, not when the engine slept before it. */
static void watchdog_sees_a_stuck_step_only(void **state)
{
    struct engine_stats s = {.last_step_us = 5, .busy = false};
    struct info_watchdog w = {0};
    uint64_t now = 1000 * (uint64_t)INFO_WEDGED_US;
    (void)state;

    assert_false(info_is_wedged(&w, &s, now));
    s.busy = true;
    assert_false(info_is_wedged(&w, &s, now += INFO_WEDGED_US + 1));
    assert_false(info_is_wedged(&w, &s, now += INFO_WEDGED_US));
    assert_true(info_is_wedged(&w, &s, now += 1));
    s.last_step_us = now;
    assert_false(info_is_wedged(&w, &s, now));
    assert_true(info_is_wedged(&w, &s, now += INFO_WEDGED_US + 1));
    s.busy = false;
    assert_false(info_is_wedged(&w, &s, now));
    s.busy = true;
    assert_false(info_is_wedged(&w, &s, now += INFO_WEDGED_US + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completion_rate_tells_when_to_come_back),
        cmocka_unit_test(watchdog_sees_a_stuck_step_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
