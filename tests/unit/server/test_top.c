/* tests/unit/server/test_top.c - quire top: the text of /metrics, rates of two readings, what may
 * be shown on a terminal. */
#include "server/top/metrics_text.h"
#include "server/top/reading.h"
#include "server/top/request_table.h"
#include "server/top/screen.h"
#include "server/top/units.h"
#include "tests/fixtures/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"

/* ---- /metrics ---- */

static void test_samples(void **state)
{
    static const char text[] =
        "# HELP a b\n# TYPE a gauge\n\na 1\nb{} 2.5 17\n"
        "c{x=\"1\",y=\"q\\\"}\\\\\\n\"} -3e2\nbad\nbad{x=\"}\nbad{} x\nd +Inf";
    struct top_sample s;
    char value[16];
    size_t at = 0;

    (void)state;
    assert_true(top_sample_next(text, strlen(text), &at, &s));
    assert_true(top_sample_is(&s, "a") && !top_sample_is(&s, "aa") && s.value == 1);
    assert_false(top_sample_label(&s, "x", value, sizeof(value)));
    assert_true(top_sample_next(text, strlen(text), &at, &s));
    assert_true(top_sample_is(&s, "b") && s.value == 2.5);
    assert_true(top_sample_next(text, strlen(text), &at, &s));
    assert_true(s.value == -300 && top_sample_label(&s, "y", value, sizeof(value)));
    assert_string_equal(value, "q\"}\\\n");
    assert_true(top_sample_label(&s, "x", value, sizeof(value)));
    assert_string_equal(value, "1");
    assert_true(top_sample_label(&s, "y", value, 3));
    assert_string_equal(value, "q\"");
    assert_false(top_sample_label(&s, "z", value, sizeof(value)));
    assert_true(top_sample_next(text, strlen(text), &at, &s));
    assert_true(top_sample_is(&s, "d") && s.value > 1e300);
    assert_false(top_sample_next(text, strlen(text), &at, &s));
}

/* Any bytes are read within their bounds: each text ends where its memory does. */
static void test_samples_of_any_bytes(void **state)
{
    static const char pieces[] = "ab=\"\\{},\n 1#";
    uint64_t rng = 7;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        const size_t n = random_below(&rng, 24);
        char *text = mem_alloc(n + 1), value[8];
        struct top_sample s;
        size_t at = 0;

        for (size_t k = 0; k < n; k++)
            text[k] = pieces[random_below(&rng, (uint32_t)sizeof(pieces) - 1)];
        text = mem_realloc(text, n > 0 ? n : 1);
        while (top_sample_next(text, n, &at, &s)) {
            assert_true(s.name >= text && s.labels + s.n_labels <= text + n);
            (void)top_sample_label(&s, "a", value, sizeof(value));
            assert_true(strlen(value) < sizeof(value));
        }
        assert_true(at == n);
        mem_free(text);
    }
}

/* ---- readings ---- */

static void read_metrics(struct top_reading *r, const char *wanted, const char *text)
{
    top_reading_clear(r, wanted);
    top_reading_take_metrics(r, text, strlen(text));
}

#define TWO_MODELS                                                                                 \
    "quire_model_info{model=\"a\"} 1\nquire_model_info{model=\"b\"} 1\n"                           \
    "quire_requests_waiting{model=\"b\",priority=\"low\"} 2\n"                                     \
    "quire_requests_waiting{model=\"b\",priority=\"high\"} 3\n"                                    \
    "quire_kv_blocks{model=\"a\",state=\"held\"} 7\nquire_kv_blocks{model=\"a\",state=\"new\"} "   \
    "9\n"

static void test_rates_are_of_the_servers_time(void **state)
{
    static struct top_reading before, now;

    (void)state;
    read_metrics(&before, "",
                 TWO_MODELS "quire_uptime_seconds 10\n"
                            "quire_generation_tokens_total{model=\"a\"} 100\n"
                            "quire_generation_tokens_total{model=\"b\"} 50\n");
    read_metrics(&now, "b",
                 TWO_MODELS "quire_uptime_seconds 12\n"
                            "quire_generation_tokens_total{model=\"a\"} 120\n"
                            "quire_generation_tokens_total{model=\"b\"} 60\n");
    assert_int_equal(now.shown, 1);
    assert_int_equal(before.shown, TOP_ALL_MODELS);
    assert_true(top_reading_number(&now, TOP_ALL_MODELS, TOP_WAITING) == 5);
    assert_true(top_reading_number(&now, 0, TOP_KV_HELD) == 7);
    assert_true(top_reading_rate(&now, &before, TOP_ALL_MODELS, TOP_GENERATION_TOKENS) == 15);
    assert_true(top_reading_rate(&now, &before, 1, TOP_GENERATION_TOKENS) == 5);
    /* Another process: its uptime is less. */
    assert_true(top_reading_rate(&before, &now, 1, TOP_GENERATION_TOKENS) == TOP_UNKNOWN);
}

static void test_one_model_has_no_label(void **state)
{
    static struct top_reading r;

    (void)state;
    read_metrics(&r, "",
                 "quire_requests_running 9\nquire_model_info{model=\"m\"} 1\n"
                 "quire_requests_running 3\n");
    assert_true(r.n_models == 1 && top_reading_number(&r, 0, TOP_RUNNING) == 3);
}

static void test_quantiles(void **state)
{
    static struct top_reading before, now;
#define BUCKETS(x, y, z)                                                                           \
    "quire_model_info{model=\"m\"} 1\n"                                                            \
    "quire_time_to_first_token_seconds_bucket{le=\"0.1\"} " #x "\n"                                \
    "quire_time_to_first_token_seconds_bucket{le=\"0.5\"} " #y "\n"                                \
    "quire_time_to_first_token_seconds_bucket{le=\"+Inf\"} " #z "\n"

    (void)state;
    read_metrics(&before, "", BUCKETS(10, 10, 10));
    read_metrics(&now, "", BUCKETS(10, 12, 13));
    assert_true(top_histogram_quantile(&now.first_token, NULL, 0.5) == 0.1);
    assert_true(top_histogram_quantile(&now.first_token, &before.first_token, 0.5) == 0.5);
    assert_true(top_histogram_quantile(&now.first_token, &before.first_token, 0.95) > 1e300);
    assert_true(top_histogram_quantile(&now.first_token, &now.first_token, 0.5) == TOP_UNKNOWN);
    assert_true(top_histogram_quantile(&now.between_tokens, NULL, 0.5) == TOP_UNKNOWN);
}

static void take(struct top_reading *r, const char *text)
{
    assert_int_equal(top_reading_take_requests(r, 0, text, strlen(text)), 0);
}

/* A request's rate is over its own age; a new one's over the time since it left the queue. */
static void test_requests(void **state)
{
    static struct top_reading before, now;
    static const char metrics[] = "quire_model_info{model=\"m\"} 1\nquire_uptime_seconds ";
    char text[200];

    (void)state;
    snprintf(text, sizeof(text), "%s1\n", metrics);
    read_metrics(&before, "", text);
    snprintf(text, sizeof(text), "%s2\n", metrics);
    read_metrics(&now, "", text);
    take(&before, "{\"object\":\"debug.requests\",\"requests\":[{\"id\":5,\"known_tokens\":30,"
                  "\"prompt_tokens\":20,\"age_ms\":1000}]}");
    take(&now, "{\"object\":\"debug.requests\",\"requests\":[{\"id\":5,\"known_tokens\":40,"
               "\"discarded_tokens\":10,\"prompt_tokens\":20,\"age_ms\":1500},"
               "{\"id\":6,\"known_tokens\":8,\"prompt_tokens\":4,\"age_ms\":600,"
               "\"queue_ms\":100,\"blocks\":3}]}");
    top_reading_compare(&now, &before);
    assert_true(now.requests[0].n_generated == 30 && now.requests[0].rate == 40);
    assert_true(now.requests[1].n_generated == 4 && now.requests[1].rate == 8);
    top_requests_sort(&now, TOP_SORT_BLOCKS);
    assert_int_equal(now.requests[0].id, 6);
    top_requests_sort(&now, TOP_SORT_STATE);
    assert_int_equal(now.requests[0].id, 5);
    top_reading_release(&before);
    top_reading_release(&now);
}

/* ---- the screen ---- */

static void show(struct top_screen *s, const char *text, const char *expected)
{
    top_screen_begin(s);
    top_screen_text(s, TOP_PLAIN, text);
    assert_string_equal(s->frame.data, expected);
    assert_int_equal(s->column, top_screen_width_of(s, text));
}

static void test_only_visible_characters(void **state)
{
    struct top_screen s;

    (void)state;
    top_screen_init(&s);
    s.width = 80;
    s.height = 2;
    s.has_utf8 = true;
    show(&s, "plain ~", "plain ~");
    show(&s, "\033[2J\r\n\t\x7f", "?[2J????");
    show(&s,
         "\xc2\x9b"
         "31m",
         "?31m");                                            /* CSI as one character */
    show(&s, "\xe2\x80\xae\xe2\x80\x8b\xef\xbb\xbf", "???"); /* direction, no width, mark */
    show(&s, "e\xcc\x81", "e?");                             /* drawn upon the one before */
    show(&s, "\xff\xc3", "??");
    show(&s, "\xc3\xa9\xe6\x97\xa5", "\xc3\xa9\xe6\x97\xa5");
    assert_int_equal(s.column, 3);
    s.has_utf8 = false;
    show(&s, "\xc3\xa9\xe6\x97\xa5", "??");
    top_screen_release(&s);
}

static void test_nothing_beyond_the_width(void **state)
{
    struct top_screen s;

    (void)state;
    top_screen_init(&s);
    s.width = 5;
    s.height = 1;
    s.has_utf8 = true;
    top_screen_begin(&s);
    top_screen_text(&s, TOP_BOLD, "abcd\xe6\x97\xa5z"); /* the fifth is two columns wide */
    assert_string_equal(s.frame.data, "abcd");
    top_screen_end_line(&s);
    top_screen_text(&s, TOP_BOLD, "below");
    assert_string_equal(s.frame.data, "abcd");
    s.height = 2;
    top_screen_begin(&s);
    top_screen_cell(&s, TOP_PLAIN, TOP_RIGHT, 3, "7");
    top_screen_cell(&s, TOP_PLAIN, TOP_LEFT, 3, "longer");
    assert_string_equal(s.frame.data, "  7 l");
    top_screen_release(&s);
}

static void test_units(void **state)
{
    (void)state;
    assert_string_equal(top_count(TOP_UNKNOWN).text, "-");
    assert_string_equal(top_count(0).text, "0");
    assert_string_equal(top_count(12.34).text, "12.3");
    assert_string_equal(top_count(9999).text, "9999");
    assert_string_equal(top_count(12345).text, "12.3k");
    assert_string_equal(top_count(4.5e6).text, "4.50M");
    assert_string_equal(top_count(1e300 * 1e300).text, "infG");
    assert_string_equal(top_time(0.0042).text, "4.2 ms");
    assert_string_equal(top_time(59.96).text, "60.0 s");
    assert_string_equal(top_time(61).text, "1m01");
    assert_string_equal(top_time(3 * 3600 + 300).text, "3h05");
    assert_string_equal(top_time(90000).text, "1d01h");
    assert_string_equal(top_time(1e300 * 1e300).text, "long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_samples_of_any_bytes),
        cmocka_unit_test(test_rates_are_of_the_servers_time),
        cmocka_unit_test(test_one_model_has_no_label),
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_only_visible_characters),
        cmocka_unit_test(test_nothing_beyond_the_width),
        cmocka_unit_test(test_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
