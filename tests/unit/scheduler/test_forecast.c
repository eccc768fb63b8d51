/* tests/unit/scheduler/test_forecast.c - forecasts against sums done by hand: a step takes 10 ms, a
 * prompt row 1 ms, a stream 2 ms. How they compare with what then happens is in sim_load. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scheduler/forecast.h"

#define MS 1000u

static struct engine_stats idle_engine(void)
{
    return (struct engine_stats){
        .blocks_total = 1000,
        .blocks_free = 1000,
        .target_us = 50 * MS,
        .costs = {.is_known = true, .step_ns = 10000000, .prefill_ns = 1000000,
                  .decode_ns = 2000000},
    };
}

/* Four streams with 100 tokens left each, on average, and 10 blocks. */
static struct engine_stats busy_engine(void)
{
    struct engine_stats s = idle_engine();

    s.n_running = 4;
    s.streams = (struct step_work){.n_decode = 4, .kv_decode = 640};
    s.running_left = 400;
    s.blocks_held = 40;
    s.blocks_free = 960;
    return s;
}

static struct forecast_ask an_ask(uint32_t n_prompt, uint32_t max_tokens)
{
    return (struct forecast_ask){.n_prompt = n_prompt, .max_tokens = max_tokens,
        .priority = PRIORITY_NORMAL, .max_batch_tokens = 1024, .prefill_chunk = 512,
        .max_sequences = 64};
}

static void without_costs_nothing_is_known(void **state)
{
    const struct forecast_ask ask = an_ask(100, 11);
    struct engine_stats s = idle_engine();
    (void)state;

    s.costs = (struct step_costs){0};
    assert_false(forecast_make(&s, &ask).is_known);
    assert_int_equal(forecast_make(&s, &ask).first_us, 0);
    assert_int_equal(forecast_room_us(&s), 0);
}

static void alone_it_is_the_prompt_and_the_tokens(void **state)
{
    const struct engine_stats s = idle_engine();
    struct forecast_ask ask = an_ask(100, 11);
    struct forecast f = forecast_make(&s, &ask);
    (void)state;

    assert_true(f.is_known);
    assert_int_equal(f.start_us, 0);
    assert_int_equal(f.first_us, 110 * MS);           /* a step and 100 rows */
    assert_int_equal(f.finish_us, (110 + 10 * 12) * MS); /* ten more tokens */
    ask.max_tokens = 0;
    assert_int_equal(forecast_make(&s, &ask).finish_us, 110 * MS);
    ask.prefill_chunk = 40;
    assert_int_equal(forecast_make(&s, &ask).first_us, 130 * MS); /* three steps */
    ask.n_cached = 60;
    assert_int_equal(forecast_make(&s, &ask).first_us, 50 * MS);
}

static void streams_share_the_step(void **state)
{
    struct engine_stats s = busy_engine();
    struct forecast_ask ask = an_ask(64, 11);
    (void)state;

    /* 18 ms for the streams leave room for 32 rows: two steps. */
    assert_int_equal(forecast_make(&s, &ask).first_us, (2 * 18 + 64) * MS);
    assert_int_equal(forecast_make(&s, &ask).finish_us, (2 * 18 + 64 + 10 * 20) * MS);
    s.target_us = 5 * MS; /* less than the streams need: 16 rows a step are granted always */
    assert_int_equal(forecast_make(&s, &ask).first_us, (4 * 18 + 64) * MS);
    s.target_us = 0; /* no target: all in one */
    assert_int_equal(forecast_make(&s, &ask).first_us, (18 + 64) * MS);
    s.busy = true; /* in the middle of a step of 18 ms */
    assert_int_equal(forecast_make(&s, &ask).start_us, 9 * MS);
}

static void what_is_ahead_is_counted(void **state)
{
    struct engine_stats s = idle_engine();
    struct forecast_ask ask = an_ask(64, 1);
    (void)state;

    s.n_waiting[PRIORITY_NORMAL] = 1;
    s.waiting_tokens[PRIORITY_NORMAL] = 30;
    assert_int_equal(forecast_make(&s, &ask).start_us, 40 * MS);
    assert_int_equal(forecast_make(&s, &ask).first_us, (40 + 74) * MS);
    ask.priority = PRIORITY_HIGH; /* goes before it */
    assert_int_equal(forecast_make(&s, &ask).start_us, 0);
    ask.tokens_ahead = 20; /* posted, not in the statistics yet */
    assert_int_equal(forecast_make(&s, &ask).start_us, 30 * MS);
    ask.tokens_ahead = 0;
    s.n_running = 1; /* a prompt that is being computed */
    s.running_prefill = 50;
    assert_int_equal(forecast_make(&s, &ask).start_us, 60 * MS);
}

/* All slots taken: of four streams with 0 to 200 tokens left, the first ends after 40. */
static void slots_become_free_at_ends(void **state)
{
    struct engine_stats s = busy_engine();
    struct forecast_ask ask = an_ask(64, 1);
    (void)state;

    ask.max_sequences = 4;
    assert_int_equal(forecast_make(&s, &ask).start_us, 40 * 18 * MS);
    s.n_waiting[PRIORITY_CRITICAL] = 1; /* the second one's slot, then */
    assert_int_equal(forecast_make(&s, &ask).start_us, 80 * 18 * MS);
    ask.max_sequences = 6;
    assert_int_equal(forecast_make(&s, &ask).start_us, 0);
}

static void blocks_become_free_at_ends(void **state)
{
    struct engine_stats s = busy_engine();
    struct forecast_ask ask = an_ask(64, 1);
    (void)state;

    s.blocks_free = 3;
    s.blocks_cached = 2; /* five are there, five are needed */
    assert_int_equal(forecast_make(&s, &ask).start_us, 0);
    s.blocks_cached = 1;
    assert_int_equal(forecast_make(&s, &ask).start_us, 40 * 18 * MS);
    ask.n_prompt = 64 + 10 * 16; /* ten more: of two ends */
    assert_int_equal(forecast_make(&s, &ask).start_us, 80 * 18 * MS);
}

static void room_is_the_next_end(void **state)
{
    struct engine_stats s = busy_engine();
    (void)state;

    assert_int_equal(forecast_room_us(&s), 40 * 18 * MS);
    s.running_left = 0; /* each is at its last token */
    assert_int_equal(forecast_room_us(&s), 18 * MS);
}

/* The largest numbers that limits allow: no division by zero, no wrap-around. */
static void extremes_stay_in_range(void **state)
{
    struct engine_stats s = busy_engine();
    struct forecast_ask ask = an_ask(1 << 20, 1 << 20);
    struct forecast f;
    (void)state;

    s.costs.kv_decode_ps = s.costs.kv_prefill_ps = 1000000;
    s.running_prefill = (uint64_t)256 << 20;
    s.running_left = (uint64_t)256 << 20;
    for (int p = 0; p < PRIORITY_COUNT; p++) {
        s.n_waiting[p] = 1000;
        s.waiting_tokens[p] = (uint64_t)1000 << 20;
    }
    s.blocks_held = s.blocks_free = 0;
    ask.max_sequences = 1;
    ask.max_batch_tokens = 1;
    ask.prefill_chunk = 1;
    f = forecast_make(&s, &ask);
    assert_true(f.start_us < f.first_us && f.first_us < f.finish_us);
    assert_true(f.finish_us < (uint64_t)1 << 62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_costs_nothing_is_known),
        cmocka_unit_test(alone_it_is_the_prompt_and_the_tokens),
        cmocka_unit_test(streams_share_the_step),
        cmocka_unit_test(what_is_ahead_is_counted),
        cmocka_unit_test(slots_become_free_at_ends),
        cmocka_unit_test(blocks_become_free_at_ends),
        cmocka_unit_test(room_is_the_next_end),
        cmocka_unit_test(extremes_stay_in_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
