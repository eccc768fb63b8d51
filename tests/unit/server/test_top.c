/* tests/unit/server/test_top.c - quire top: the text of /metrics, rates of two readings, what may
 * be shown on a terminal. */
#include "server/top/reading.h"
#include "server/top/screen.h"
#include "server/top/view.h"
#include "tests/fixtures/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/fixed_text.h"
#include "core/base/mem.h"

static const char first_token[] = "quire_time_to_first_token_seconds_bucket";

/* ---- /metrics ---- */

/* Take a page out of a copy that ends where its memory does. */
static bool take_page(struct top_reading *r, enum top_page page, const char *text)
{
    const size_t n = strlen(text);
    char *copy = mem_dup(text, n + 1);
    const bool is_taken = top_reading_take(r, page, "m", copy, n);

    mem_free(copy);
    return is_taken;
}

static void read_metrics(struct top_reading *r, const char *wanted, const char *text)
{
    top_reading_clear(r, wanted);
    (void)take_page(r, TOP_METRICS, text);
}

/* Escapes, braces and names inside of values; what is no sample is passed over. */
static void test_samples(void **state)
{
    static struct top_reading r;

    (void)state;
    read_metrics(
        &r, "",
        "# HELP a b\n\nbad\nbad{x=\"}\nquire_uptime_seconds x\nquire_uptime_secondsx 3\n"
        "quire_uptime_seconds{} 2.5 17\nquire_build_info{q=\"1\",version=\"v}\\\"\\\\\\n\"} 1\n"
        "quire_model_info{xmodel=\"no\",model=\"a\"} 1\n"
        "quire_requests_running -3e2\nquire_requests_preempted +Inf");
    assert_true(r.has[TOP_METRICS] && r.uptime_s == 2.5 && r.n_models == 1);
    assert_string_equal(r.version, "v}\"\\\n");
    assert_string_equal(r.models[0], "a");
    assert_true(top_number(&r, "a", "quire_requests_running", NULL) == -300);
    assert_true(top_number(&r, "a", "quire_requests_preempted", NULL) > 1e300);
    read_metrics(&r, "", "quire_uptime_seconds 1\n");
    assert_false(r.has[TOP_METRICS]); /* no version: another server */
}

/* Any bytes are read within their bounds. */
static void test_samples_of_any_bytes(void **state)
{
    static const char *const pieces[] = {"quire_model_info",
                                         "quire_requests_waiting",
                                         "model",
                                         "le",
                                         "state",
                                         "quire_time_to_first_token_seconds_bucket",
                                         "=",
                                         "\"",
                                         "\\",
                                         "{",
                                         "}",
                                         ",",
                                         "\n",
                                         " ",
                                         "1",
                                         "#"};
    static struct top_reading r;
    uint64_t rng = 7;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        const uint32_t n = random_below(&rng, 24);
        char text[1024] = "";
        struct fixed_text t;

        fixed_text_init(&t, text, sizeof(text));
        for (uint32_t k = 0; k < n; k++)
            fixed_text_add(&t, "%s", pieces[random_below(&rng, 16)]);
        read_metrics(&r, "", text);
        top_reading_compare(&r, &r);
        assert_true(r.n_models <= n && r.n_samples <= n);
        (void)top_quantile(&r, first_token, 0.5);
    }
}

/* ---- readings ---- */

#define TWO_MODELS                                                                                 \
    "quire_model_info{model=\"a\"} 1\nquire_model_info{model=\"b\"} 1\n"                           \
    "quire_requests_waiting{model=\"b\",priority=\"low\"} 2\n"                                     \
    "quire_requests_waiting{model=\"b\",priority=\"high\"} 3\n"                                    \
    "quire_kv_blocks{model=\"a\",state=\"held\"} 7\nquire_kv_blocks{model=\"a\",state=\"new\"} "   \
    "9\n"

static void test_rates_are_of_the_servers_time(void **state)
{
    static const char tokens[] = "quire_generation_tokens_total";
    static struct top_reading before, now;
#define COUNTERS(uptime, a, b)                                                                     \
    "quire_build_info{version=\"1\"} 1\n" TWO_MODELS "quire_uptime_seconds " #uptime "\n"          \
    "quire_generation_tokens_total{model=\"a\"} " #a "\n"                                          \
    "quire_generation_tokens_total{model=\"b\"} " #b "\n"

    (void)state;
    read_metrics(&before, "", COUNTERS(10, 100, 50));
    read_metrics(&now, "b", COUNTERS(12, 120, 60));
    top_reading_compare(&now, &before);
    assert_true(top_number(&now, "b", "quire_requests_waiting", NULL) == 5);
    assert_true(top_number(&now, "b", "quire_kv_blocks", "held") == 0);
    assert_true(top_rate(&now, "b", tokens) == 5 && top_rate(&now, "a", tokens) == 10);
    assert_true(top_number(&now, "", "quire_requests_waiting", NULL) == 5);
    assert_true(top_number(&now, "", "quire_kv_blocks", "held") == 7);
    assert_true(top_rate(&now, "", tokens) == 15);
    /* Another process: its uptime is less. */
    top_reading_compare(&before, &now);
    assert_true(top_rate(&before, "b", tokens) == TOP_UNKNOWN);
    assert_true(top_rate(&before, "", tokens) == TOP_UNKNOWN);
}

static void test_one_model_has_no_label(void **state)
{
    static struct top_reading r;

    (void)state;
    read_metrics(&r, "",
                 "quire_requests_running 9\nquire_model_info{model=\"m\"} 1\n"
                 "quire_requests_running 3\n");
    assert_true(r.n_models == 1 && top_number(&r, "m", "quire_requests_running", NULL) == 3);
}

/* Since the first reading of the same view and process; of all when nothing came since. */
static void test_quantiles(void **state)
{
    static struct top_reading first, now, last;
#define BUCKETS(uptime, x, y, z)                                                                   \
    "quire_build_info{version=\"1\"} 1\nquire_uptime_seconds " #uptime "\n"                        \
    "quire_model_info{model=\"m\"} 1\n"                                                            \
    "quire_time_to_first_token_seconds_bucket{le=\"0.1\"} " #x "\n"                                \
    "quire_time_to_first_token_seconds_bucket{le=\"0.5\"} " #y "\n"                                \
    "quire_time_to_first_token_seconds_bucket{le=\"+Inf\"} " #z "\n"

    (void)state;
    read_metrics(&first, "", BUCKETS(1, 10, 10, 10));
    top_reading_compare(&first, &now);
    assert_true(top_quantile(&first, first_token, 0.5) == 0.1);
    read_metrics(&now, "", BUCKETS(2, 10, 10, 10));
    top_reading_compare(&now, &first);
    assert_true(top_quantile(&now, first_token, 0.5) == 0.1);
    read_metrics(&last, "", BUCKETS(3, 10, 12, 13));
    top_reading_compare(&last, &now);
    assert_true(top_quantile(&last, first_token, 0.5) == 0.5);
    assert_true(top_quantile(&last, first_token, 0.95) > 1e300);
    assert_true(top_quantile(&last, "quire_inter_token_latency_seconds_bucket", 0.5) ==
                TOP_UNKNOWN);
    read_metrics(&now, "m", BUCKETS(4, 10, 12, 13)); /* another view begins anew */
    top_reading_compare(&now, &last);
    assert_true(top_quantile(&now, first_token, 0.5) == 0.1);
}

/* A request's rate is over its own age; a new one's over the time since it left the queue. */
static void test_requests(void **state)
{
    static struct top_reading before, now;
    static const char metrics[] = "quire_build_info{version=\"1\"} 1\n"
                                  "quire_model_info{model=\"m\"} 1\nquire_uptime_seconds ";
    char text[200];

    (void)state;
    snprintf(text, sizeof(text), "%s1\n", metrics);
    read_metrics(&before, "", text);
    snprintf(text, sizeof(text), "%s2\n", metrics);
    read_metrics(&now, "", text);
    assert_true(take_page(&before, TOP_REQUESTS,
                          "{\"object\":\"debug.requests\",\"requests\":[{\"id\":5,"
                          "\"known_tokens\":30,\"prompt_tokens\":20,\"age_ms\":1000}]}"));
    assert_true(take_page(&now, TOP_REQUESTS,
                          "{\"object\":\"debug.requests\",\"requests\":[{\"id\":5,"
                          "\"known_tokens\":40,\"discarded_tokens\":10,\"prompt_tokens\":20,"
                          "\"age_ms\":1500},{\"id\":6,\"known_tokens\":8,\"prompt_tokens\":4,"
                          "\"age_ms\":600,\"queue_ms\":100,\"blocks\":3,\"tenant\":\"t\"}]}"));
    assert_false(take_page(&now, TOP_REQUESTS, "{\"object\":\"debug.kv\"}"));
    assert_int_equal(now.n_requests, 2);
    top_reading_compare(&now, &before);
    assert_true(now.requests[0].number[TOP_GENERATED] == 30 &&
                now.requests[0].number[TOP_RATE] == 40);
    assert_true(now.requests[1].number[TOP_GENERATED] == 4 &&
                now.requests[1].number[TOP_RATE] == 8);
    assert_string_equal(now.requests[0].text[TOP_REQUEST], "5");
    assert_string_equal(now.requests[0].text[TOP_TENANT], "-");
    top_requests_sort(&now, top_sort_of("blocks"));
    assert_string_equal(now.requests[0].text[TOP_TENANT], "t");
    top_requests_sort(&now, top_sort_of("state"));
    assert_string_equal(now.requests[0].text[TOP_TENANT], "-");
}

/* A list without end is cut; pages of other servers are refused. */
static void test_pages_that_lie(void **state)
{
    static struct top_reading r;
    struct buf page;

    (void)state;
    top_reading_clear(&r, "");
    buf_init(&page, (size_t)16 << 20);
    buf_add_str(&page, "{\"object\":\"debug.requests\",\"requests\":[7");
    for (int i = 0; i < TOP_MAX_REQUESTS; i++)
        buf_add_str(&page, ",{\"blocks\":1e300,\"age_ms\":-5,\"state\":7}");
    buf_add_str(&page, "]}");
    assert_true(take_page(&r, TOP_REQUESTS, page.data));
    assert_int_equal(r.n_requests, TOP_MAX_REQUESTS);
    assert_true(r.requests[9].number[TOP_BLOCKS] == 1e15 && r.requests[9].number[TOP_AGE] == 0);
    for (int i = 0; i < 3; i++)
        assert_true(take_page(&r, TOP_STEP_TIMES,
                              "{\"object\":\"debug.iterations\","
                              "\"iterations\":[{\"took_ms\":2000}]}"));
    assert_true(r.n_steps <= TOP_MAX_STEPS && r.step_s[0] == 2);
    assert_false(take_page(&r, TOP_KV, "[1, 2]"));
    assert_false(take_page(&r, TOP_KV, "{\"object\":7}"));
    assert_false(take_page(&r, TOP_KV, ""));
    buf_release(&page);
}

/* ---- the screen ---- */

/* A frame of two lines, written to a file. */
static void show(struct top_screen *s, const char *text, const char *expected)
{
    char *frame = NULL;
    size_t n;

    s->out = open_memstream(&frame, &n);
    assert_non_null(s->out);
    top_screen_begin(s);
    top_screen_add(s, TOP_PLAIN, 0, "%s", text);
    assert_true(top_screen_end(s));
    assert_string_equal(frame, expected);
    assert_int_equal(fclose(s->out), 0);
    free(frame);
}

static void test_only_visible_characters(void **state)
{
    struct top_screen s;

    (void)state;
    assert_int_equal(setenv("LC_ALL", "C.UTF-8", 1), 0);
    top_screen_init(&s);
    assert_true(s.has_utf8);
    show(&s, "plain ~", "plain ~");
    show(&s, "blanks  ", "blanks");
    show(&s, "\033[2J\r\n\t\x7f", "?[2J????");
    show(&s,
         "\xc2\x9b"
         "31m",
         "?31m");                                                 /* CSI as one character */
    show(&s, "\xe2\x80\xae\xe2\x80\x8b\xef\xbb\xbf", "???");      /* direction, no width, mark */
    show(&s, "\xe2\x80\x8f\xe2\x81\xa6\xd8\x9c\xc2\xad", "????"); /* more of these */
    show(&s, "e\xcc\x81", "e?");                                  /* drawn upon the one before */
    show(&s, "\xff\xc3", "??");
    show(&s, "\xc3\xa9\xe6\x97\xa5", "\xc3\xa9\xe6\x97\xa5");
    assert_int_equal(s.column, 3);
    s.has_utf8 = false;
    show(&s, "\xc3\xa9\xe6\x97\xa5", "??");
}

static void test_nothing_beyond_the_width(void **state)
{
    struct top_screen s;
    char *frame = NULL;
    size_t n;

    (void)state;
    top_screen_init(&s);
    s.width = 5;
    s.has_utf8 = true;
    show(&s, "abcd\xe6\x97\xa5z", "abcd"); /* the fifth is two columns wide */
    s.height = 1;
    s.out = open_memstream(&frame, &n);
    top_screen_begin(&s);
    top_screen_add(&s, TOP_PLAIN, 3, "7");
    top_screen_add(&s, TOP_PLAIN, 0, " ");
    top_screen_add(&s, TOP_PLAIN, -3, "longer");
    top_screen_add(&s, TOP_PLAIN, 0, " right");
    assert_int_equal(s.column, 5);
    top_screen_add(&s, TOP_PLAIN, 3, "9"); /* a field without room */
    top_screen_add(&s, TOP_PLAIN, -3, "9");
    assert_int_equal(s.column, 5);
    top_screen_next_line(&s);
    top_screen_add(&s, TOP_BOLD, 0, "below");
    assert_true(top_screen_end(&s));
    assert_string_equal(frame, "  7 l\n");
    assert_int_equal(fclose(s.out), 0);
    free(frame);
}

static void test_units(void **state)
{
    (void)state;
    assert_string_equal(top_count(TOP_UNKNOWN).text, "-");
    assert_string_equal(top_count(0).text, "0");
    assert_string_equal(top_count(12.34).text, "12.3");
    assert_string_equal(top_count(9999).text, "9999");
    assert_string_equal(top_count(12345).text, "12.3k");
    assert_string_equal(top_count(999400).text, "999k");
    assert_string_equal(top_count(4.5e6).text, "4.50M");
    assert_string_equal(top_count(1e300 * 1e300).text, "infG");
    assert_string_equal(top_time(0.0042).text, "4.2 ms");
    assert_string_equal(top_time(59.96).text, "60.0 s");
    assert_string_equal(top_time(61).text, "1m01");
    assert_string_equal(top_time(125).text, "2m05");
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
        cmocka_unit_test(test_pages_that_lie),
        cmocka_unit_test(test_only_visible_characters),
        cmocka_unit_test(test_nothing_beyond_the_width),
        cmocka_unit_test(test_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
