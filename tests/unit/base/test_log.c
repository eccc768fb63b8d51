/* tests/unit/base/test_log.c - core/base/log.h: levels, plain lines, JSON, quoting, cutting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/log.h"

#include <cjson/cJSON.h>
#include <string.h>
#include <unistd.h>

static int log_pipe[2];
static char log_text[4 * LOG_LINE_MAX];

static void log_begin(enum log_level level, bool as_json)
{
    assert_int_equal(pipe(log_pipe), 0);
    log_setup(level, as_json, log_pipe[1]);
}

/* What was written; the log is back to its default. */
static const char *log_end(void)
{
    ssize_t n, total = 0;

    log_setup(LOG_INFO, false, STDERR_FILENO);
    close(log_pipe[1]);
    while ((n = read(log_pipe[0], log_text + total, sizeof(log_text) - 1 - (size_t)total)) > 0)
        total += n;
    close(log_pipe[0]);
    log_text[total] = '\0';
    return log_text;
}

/* 2026-11-20T10:11:38.123Z */
static void assert_time(const char *s)
{
    static const char form[] = "0000-00-00T00:00:00.000Z";

    for (size_t i = 0; form[i] != '\0'; i++)
        assert_true(form[i] == '0' ? s[i] >= '0' && s[i] <= '9' : s[i] == form[i]);
}

static void log_writes_plain_lines(void **state)
{
    const char *line;

    (void)state;
    log_begin(LOG_DEBUG, false);
    log_debug("sched", "step=%d ms=%.1f", 812, 31.5);
    log_warn("http", "x=1");
    line = log_end();
    assert_time(line);
    assert_memory_equal(line + 24, " D sched step=812 ms=31.5\n", 26);
    line = strchr(line, '\n') + 1;
    assert_time(line);
    assert_string_equal(line + 24, " W http x=1\n");
}

/* What should have been quoted and was not stays within its line. */
static void log_keeps_values_in_their_line(void **state)
{
    (void)state;
    log_begin(LOG_INFO, false);
    log_info("m", "id=%s", "x\n2026 E forged\r\x1b[2J\x9b\xc2\x9b\xc3\xa9");
    assert_string_equal(log_end() + 24, " I m id=x?2026 E forged??[2J??\xc3\xa9\n");
}

static void log_respects_the_level(void **state)
{
    (void)state;
    log_begin(LOG_WARN, false);
    assert_false(log_is_on(LOG_DEBUG));
    assert_false(log_is_on(LOG_INFO));
    assert_true(log_is_on(LOG_WARN));
    log_debug("m", "a=1");
    log_info("m", "a=2");
    log_warn("m", "a=3");
    log_error("m", "a=4");
    log_end();
    assert_null(strstr(log_text, "a=1"));
    assert_null(strstr(log_text, "a=2"));
    assert_non_null(strstr(log_text, " W m a=3\n"));
    assert_non_null(strstr(log_text, " E m a=4\n"));
    log_begin(LOG_OFF, false);
    assert_false(log_is_on(LOG_ERROR));
    assert_false(log_is_on(LOG_OFF));
    log_error("m", "a=1");
    assert_string_equal(log_end(), "");
}

/* One line, one object. */
static cJSON *parse_line(const char *line)
{
    const char *end = NULL;
    cJSON *o = cJSON_ParseWithOpts(line, &end, 0);

    if (o == NULL || *end != '\n' || end[1] != '\0')
        fail_msg("not one JSON object and a line end: %s", line);
    assert_true(cJSON_IsObject(o));
    assert_time(cJSON_GetStringValue(cJSON_GetObjectItem(o, "time")));
    return o;
}

static const char *text_of(const cJSON *o, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(o, key));
}

static void log_writes_json_that_parses(void **state)
{
    char quoted[100];
    cJSON *o;

    (void)state;
    log_begin(LOG_INFO, true);
    log_info(
        "http", "n=%d t=-0.5 bare=abc name=%s zero=0 octal=007 dot=1. huge=%s on path=C:\\x q=a\"b",
        7, log_quote(quoted, sizeof(quoted), "a \"b\" \\ \n\x01 \xc3\xa9"), "12345678901234567890");
    o = parse_line(log_end());
    assert_string_equal(text_of(o, "level"), "info");
    assert_string_equal(text_of(o, "module"), "http");
    assert_true(cJSON_GetObjectItem(o, "n")->valuedouble == 7);
    assert_true(cJSON_GetObjectItem(o, "t")->valuedouble == -0.5);
    assert_true(cJSON_IsNumber(cJSON_GetObjectItem(o, "zero")));
    assert_string_equal(text_of(o, "octal"), "007");
    assert_string_equal(text_of(o, "dot"), "1.");
    assert_string_equal(text_of(o, "huge"), "12345678901234567890");
    assert_string_equal(text_of(o, "bare"), "abc");
    assert_string_equal(text_of(o, "name"), "a \"b\" \\ \n\x01 \xc3\xa9");
    assert_string_equal(text_of(o, "path"), "C:\\x");
    assert_string_equal(text_of(o, "q"), "a\"b");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(o, "on")));
    cJSON_Delete(o);
    /* Bytes that are no UTF-8 would spoil the line for every strict reader. */
    log_begin(LOG_INFO, true);
    log_info("m", "name=%s", log_quote(quoted, sizeof(quoted), "a\xff" "b\xc3"));
    o = parse_line(log_end());
    assert_string_equal(text_of(o, "name"), "a?b?");
    cJSON_Delete(o);
}

/* Whatever the length, of a string or of the pairs before it, the line parses and ends. */
static void log_cuts_at_the_maximum(void **state)
{
    static const char *const units[] = {"x", "\"", "\\", "\n", "\xc3\xa9", "\xf0\x9f\xa6\x99"};
    char text[2 * LOG_LINE_MAX], quoted[2 * LOG_LINE_MAX];

    (void)state;
    for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
        const size_t len = strlen(units[u]);

        for (size_t pad = 0; pad < 140; pad++) {
            size_t n = 0;
            cJSON *o;

            for (; n < 900 + pad; n += len)
                memcpy(text + n, units[u], len);
            text[n] = '\0';
            log_quote(quoted, sizeof(quoted), text);
            log_begin(LOG_INFO, true);
            log_info("m", "s=%s after=123456 word=abcdef", quoted);
            o = parse_line(log_end());
            assert_true(strlen(log_text) <= LOG_LINE_MAX);
            n = strlen(text_of(o, "s"));
            assert_memory_equal(text_of(o, "s"), text, n);
            assert_true(n >= 150);
            /* A number is there whole or not at all. */
            if (cJSON_HasObjectItem(o, "after"))
                assert_true(cJSON_GetObjectItem(o, "after")->valuedouble == 123456);
            if (cJSON_HasObjectItem(o, "word"))
                assert_memory_equal(text_of(o, "word"), "abcdef", strlen(text_of(o, "word")));
            cJSON_Delete(o);
        }
    }
    log_begin(LOG_INFO, false);
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_info("m", "s=%s", text);
    log_end();
    assert_true(strlen(log_text) <= LOG_LINE_MAX && strlen(log_text) > LOG_LINE_MAX - 50);
    assert_ptr_equal(strchr(log_text, '\n'), log_text + strlen(log_text) - 1);
}

static void log_quotes(void **state)
{
    char buf[32], tiny[4];

    (void)state;
    assert_string_equal(log_quote(buf, sizeof(buf), "a b"), "\"a b\"");
    assert_string_equal(log_quote(buf, sizeof(buf), ""), "\"\"");
    assert_string_equal(log_quote(buf, sizeof(buf), "\"\\"), "\"\\\"\\\\\"");
    assert_string_equal(log_quote(buf, sizeof(buf), "\t"), "\"\\u0009\"");
    assert_string_equal(log_quote(tiny, sizeof(tiny), "long"), "\"\"");
    /* DEL, C1 as a character and as a byte, what reorders a line, bytes that are no UTF-8. */
    assert_string_equal(log_quote(buf, sizeof(buf), "a\x7f\xc2\x9b"), "\"a\\u007f\\u009b\"");
    assert_string_equal(log_quote(buf, sizeof(buf), "\x9b\xff\xc3"), "\"???\"");
    assert_string_equal(log_quote(buf, sizeof(buf), "\xe2\x80\xae\xe2\x81\xa9"),
                        "\"\\u202e\\u2069\"");
    assert_string_equal(log_quote(buf, sizeof(buf), "\xe2\x82\xac\xc2\xa0"),
                        "\"\xe2\x82\xac\xc2\xa0\"");
    /* Cut, and never within an escape or past the end. */
    for (size_t size = 8; size <= sizeof(buf); size++) {
        const char *q = log_quote(buf, size, "\n\n\n\n\n\n\n\n\n");

        assert_true(strlen(q) < size);
        assert_int_equal((strlen(q) - 2) % 6, 0);
        assert_int_equal(q[strlen(q) - 1], '"');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_writes_plain_lines),
        cmocka_unit_test(log_respects_the_level),
        cmocka_unit_test(log_writes_json_that_parses),
        cmocka_unit_test(log_cuts_at_the_maximum),
        cmocka_unit_test(log_quotes),
        cmocka_unit_test(log_keeps_values_in_their_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
