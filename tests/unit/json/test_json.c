/* tests/unit/json/test_json.c - texts that json_parse() accepts and refuses; writers of json.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json.h"

static int parse(const char *text, size_t n)
{
    const char *why = NULL;
    cJSON *v = NULL;
    const int rc = json_parse(text, n, &v, &why);

    assert_true((rc == 0) == (v != NULL));
    assert_true((rc == 0) == (why == NULL));
    cJSON_Delete(v);
    return rc;
}

#define PARSE(literal) parse(literal, sizeof(literal) - 1)

static void parses_one_value(void **state)
{
    (void)state;
    assert_int_equal(PARSE("{\"a\":[1,2,{\"b\":null}]} \r\n\t"), 0);
    assert_int_equal(PARSE("  5"), 0);
    assert_int_equal(PARSE("\"\\\\u0000\""), 0); /* an escaped backslash, not a NUL */
    assert_int_equal(PARSE("\"\xf0\x9f\x98\x80\""), 0);
    assert_int_equal(PARSE(""), ERR_INVAL);
    assert_int_equal(PARSE("{"), ERR_INVAL);
    assert_int_equal(PARSE("{} {}"), ERR_INVAL);
    assert_int_equal(PARSE("{}\0"), ERR_INVAL);
    assert_int_equal(PARSE("\"a\\u0000b\""), ERR_INVAL);
    assert_int_equal(PARSE("\"a\\u00g1b\""), ERR_INVAL);
    assert_int_equal(PARSE("\"a\\u12\""), ERR_INVAL);
    assert_int_equal(PARSE("\"a\0b\""), ERR_INVAL);
    assert_int_equal(PARSE("\"open"), ERR_INVAL);
    assert_int_equal(PARSE("\"open\\"), ERR_INVAL);
}

/* Blanks between values are JSON's four, wherever a value may have them. */
static void refuses_control_characters_between_values(void **state)
{
    char text[] = "[1, {\"a\" :2} ]";
    (void)state;

    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        const char was = text[i];

        if (was != ' ')
            continue;
        for (char c = 0; c < ' '; c++) {
            const bool is_blank = c == '\t' || c == '\n' || c == '\r';

            text[i] = c;
            assert_int_equal(parse(text, sizeof(text) - 1), is_blank ? 0 : ERR_INVAL);
        }
        text[i] = was;
    }
    assert_int_equal(PARSE("\x01{}"), ERR_INVAL);
    assert_int_equal(PARSE("{}\x1f"), ERR_INVAL);
}

static void refuses_what_is_no_utf8(void **state)
{
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc3",
                                      "\xe2\x82",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf8\x88\x80\x80\x80",
                                      "\xff",
                                      "\xe0\x80\x80",
                                      "\xf0\x80\x80\x80"};
    char text[32];
    (void)state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "\"%s\"", bad[i]);
        assert_int_equal(parse(text, strlen(text)), ERR_INVAL);
        assert_false(json_is_utf8(bad[i], strlen(bad[i])));
    }
    assert_true(json_is_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf", 14));
    assert_int_equal(json_n_chars("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10), 4);
}

static void bounds_depth_and_size(void **state)
{
    char text[2 * JSON_MAX_DEPTH + 4];
    char *long_list = malloc(2 * (size_t)JSON_MAX_VALUES + 8);
    (void)state;

    memset(text, '[', JSON_MAX_DEPTH);
    memset(text + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
    assert_int_equal(parse(text, 2 * JSON_MAX_DEPTH), 0);
    memset(text, '[', JSON_MAX_DEPTH + 1);
    memset(text + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
    assert_int_equal(parse(text, 2 * JSON_MAX_DEPTH + 2), ERR_LIMIT);
    assert_non_null(long_list);
    long_list[0] = '[';
    for (size_t i = 0; i < JSON_MAX_VALUES; i++)
        memcpy(long_list + 1 + 2 * i, "1,", 2);
    memcpy(long_list + 1 + 2 * (size_t)JSON_MAX_VALUES, "1]", 2);
    assert_int_equal(parse(long_list, 2 * (size_t)JSON_MAX_VALUES + 3), ERR_LIMIT);
    free(long_list);
}

static void assert_string(const char *text, size_t n, const char *expected)
{
    struct buf b;

    buf_init(&b, 1000);
    json_add_string(&b, text, n);
    assert_string_equal(b.data, expected);
    buf_release(&b);
}

/* What stays of a text: the members in the order of their first mention, with their last value. */
static void assert_unique(const char *text, const char *expected)
{
    const char *why = NULL;
    cJSON *v = NULL;
    char *printed;

    assert_int_equal(json_parse(text, strlen(text), &v, &why), 0);
    printed = cJSON_PrintUnformatted(v);
    assert_string_equal(printed, expected);
    cJSON_free(printed);
    cJSON_Delete(v);
}

static void names_are_unique(void **state)
{
    struct buf many, once;
    (void)state;

    assert_unique("{\"a\":[{}],\"b\":2,\"a\":\"x\"}", "{\"a\":\"x\",\"b\":2}");
    assert_unique("[{\"c\":{\"a\":1,\"a\":null}}]", "[{\"c\":{\"a\":null}}]");
    assert_unique("{\"a\":1,\"a\":2,\"a\":{\"b\":1,\"b\":3}}", "{\"a\":{\"b\":3}}");
    assert_unique("{\"\":1,\"A\":2,\"a\":3,\"\":4}", "{\"\":4,\"A\":2,\"a\":3}");
    assert_unique("{}", "{}");
    for (int n = 2; n < 100; n += 7) { /* few members and many: 0..n, then the odd ones again */
        buf_init(&many, 10000);
        buf_init(&once, 10000);
        for (int i = 0; i < 2 * n; i++)
            if (i < n || (i - n) % 2 == 1)
                buf_printf(&many, "%s\"%d\":%d", i == 0 ? "{" : ",", i % n, i);
        for (int i = 0; i < n; i++)
            buf_printf(&once, "%s\"%d\":%d", i == 0 ? "{" : ",", i, i % 2 == 1 ? i + n : i);
        buf_add_char(&many, '}');
        buf_add_char(&once, '}');
        assert_unique(many.data, once.data);
        buf_release(&many);
        buf_release(&once);
    }
}

static void names_need_memory(void **state)
{
    static const char text[] = "{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,"
                               "\"9\":{\"1\":1,\"1\":2}}";
    bool has_failed = true;
    (void)state;

    for (int64_t i = 0; has_failed; i++) {
        const char *why = NULL;
        cJSON *v = NULL;

        mem_fail_after(i);
        has_failed = json_parse(text, sizeof(text) - 1, &v, &why) < 0;
        mem_fail_after(-1);
        assert_true(has_failed == (v == NULL));
        if (has_failed)
            assert_string_equal(why, "out of memory");
        cJSON_Delete(v);
    }
}

static void escapes_strings(void **state)
{
    (void)state;
    assert_string("", 0, "\"\"");
    assert_string("a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\"");
    assert_string("\n\r\t\x01\x1f\x7f", 6, "\"\\n\\r\\t\\u0001\\u001f\x7f\"");
    assert_string("\xc3\xa9", 2, "\"\xc3\xa9\"");
    assert_string("a\0b", 3, "\"a\\u0000b\"");
}

/* Every float reads back as itself: streamed log-probabilities are compared bit by bit. */
static void writes_floats_that_read_back(void **state)
{
    static const float values[] = {0.0f,    -0.25f, -0.31f,    1e-30f,      -123456.7f, FLT_MAX,
                                   FLT_MIN, 0.1f,   -1.0f / 3, 16777216.0f, -1e-7f,     3.4e-45f};
    struct buf b;
    (void)state;

    buf_init(&b, 100);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        buf_clear(&b);
        json_add_float(&b, values[i]);
        assert_true(strtof(b.data, NULL) == values[i]);
    }
    buf_clear(&b);
    json_add_float(&b, -0.31f);
    assert_string_equal(b.data, "-0.31");
    buf_clear(&b);
    json_add_float(&b, -INFINITY);
    assert_string_equal(b.data, "-9999");
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_one_value),
        cmocka_unit_test(refuses_control_characters_between_values),
        cmocka_unit_test(refuses_what_is_no_utf8),
        cmocka_unit_test(bounds_depth_and_size),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(names_need_memory),
        cmocka_unit_test(escapes_strings),
        cmocka_unit_test(writes_floats_that_read_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
