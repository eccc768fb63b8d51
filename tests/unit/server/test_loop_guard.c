/* tests/unit/server/test_loop_guard.c - what the guard counts of a callback, and when a list is to
 * wait. CPU time is spent, not waited for: no bound here depends on how busy the machine is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "server/api/body_scan.h"
#include "server/api/engine_client.h"
#include "server/http/exchange.h"
#include "server/models/model_waits.h"
#include "server/process/loop_guard.h"

static uint64_t cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void compute(uint64_t ms)
{
    const uint64_t end = cpu_ms() + ms + 1;

    while (cpu_ms() < end)
        ;
}

struct world {
    uv_loop_t loop;
    struct loop_guard guard;
    bool was_due;
};

static void set_up(struct world *w)
{
    *w = (struct world){0};
    assert_int_equal(uv_loop_init(&w->loop), 0);
    loop_guard_attach(&w->guard, &w->loop);
    w->guard.limit_ns = 0; /* a debug build ends a process whose machine is slow enough */
}

static void callback(struct world *w, const char *name, uint64_t ms)
{
    LOOP_CALLBACK(&w->loop, name);
    compute(ms);
    w->was_due = loop_guard_is_due(&w->loop);
}

static void with_parts(struct world *w)
{
    LOOP_CALLBACK(&w->loop, "both");
    {
        LOOP_PART(&w->loop, "long");
        compute(20);
    }
    {
        LOOP_PART(&w->loop, "short");
        compute(1);
    }
}

static void test_counts_each_callback_and_names_the_longest(void **state)
{
    struct world w;

    (void)state;
    set_up(&w);
    callback(&w, "short", 1);
    callback(&w, "long", 30);
    callback(&w, "short", 1);
    assert_int_equal(hist_total(&w.guard.seconds), 3);
    assert_true(w.guard.longest_ns >= 30u * 1000000);
    assert_string_equal(w.guard.longest, "long");
    assert_null(w.guard.longest_part);
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

static void test_a_part_is_counted_with_its_callback(void **state)
{
    struct world w;

    (void)state;
    set_up(&w);
    with_parts(&w);
    assert_int_equal(hist_total(&w.guard.seconds), 1);
    assert_string_equal(w.guard.longest, "both");
    assert_string_equal(w.guard.longest_part, "long");
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

static void test_a_callback_is_due_after_its_share(void **state)
{
    struct world w;

    (void)state;
    set_up(&w);
    callback(&w, "long", 10);
    assert_true(w.was_due);
    assert_false(loop_guard_is_due(&w.loop)); /* none is under way */
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

static void test_waiting_is_no_computing(void **state)
{
    const struct timespec pause = {.tv_nsec = 30 * 1000000};
    struct world w;

    (void)state;
    set_up(&w);
    {
        LOOP_CALLBACK(&w.loop, "asleep");
        nanosleep(&pause, NULL);
    }
    assert_true(w.guard.longest_ns < 20u * 1000000);
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

static void test_a_loop_without_a_guard(void **state)
{
    struct world w;

    (void)state;
    set_up(&w);
    w.loop.data = NULL;
    callback(&w, "any", 10);
    assert_false(w.was_due);
    assert_int_equal(hist_total(&w.guard.seconds), 0);
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

/* A body that takes a millisecond. */
static void start_call(struct engine_client *engine, struct http_call *call,
                       const struct wire_format *wire_format, const struct body_scan *scan)
{
    (void)engine;
    (void)wire_format;
    (void)scan;
    compute(1);
    call->arrival_us = 0;
}

#define N_CALLS 40

static void test_calls_that_waited_for_a_model_begin_in_several_turns(void **state)
{
    const struct server_model model = {.request_timeout_s = 60};
    const struct body_scan scan = {0};
    struct engine_shared shared = {0};
    struct engine_client engine = {.model = &model, .shared = &shared};
    struct http_call calls[N_CALLS] = {0};
    struct model_waits waits;
    struct world w;
    uint32_t n_turns = 0;

    (void)state;
    set_up(&w);
    shared.loop = &w.loop;
    model_waits_init(&waits, &engine, N_CALLS, start_call);
    for (uint32_t i = 0; i < N_CALLS; i++) {
        calls[i].arrival_us = i + 1;
        assert_int_equal(model_waits_add(&waits, &calls[i], NULL, &scan), 0);
    }
    for (; waits.n > 0; n_turns++) {
        LOOP_CALLBACK(&w.loop, "turn");
        model_waits_start(&waits);
        assert_int_equal(model_waits_since_us(&waits), waits.n > 0 ? N_CALLS - waits.n + 1 : 0);
    }
    assert_true(n_turns >= N_CALLS / 6); /* 5 ms each, and the call that is under way then */
    assert_int_equal(calls[N_CALLS - 1].arrival_us, 0);
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_each_callback_and_names_the_longest),
        cmocka_unit_test(test_a_part_is_counted_with_its_callback),
        cmocka_unit_test(test_a_callback_is_due_after_its_share),
        cmocka_unit_test(test_waiting_is_no_computing),
        cmocka_unit_test(test_a_loop_without_a_guard),
        cmocka_unit_test(test_calls_that_waited_for_a_model_begin_in_several_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
