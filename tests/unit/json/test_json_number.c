/* tests/unit/json/test_json_number.c - numbers of a JSON text as they were written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/json/json.h"
#include "core/json/json_number.h"
#include "tests/fixtures/random.h"

static cJSON *parsed(const char *text)
{
    const char *why = NULL;
    cJSON *v = NULL;

    if (json_parse(text, strlen(text), &v, &why) < 0)
        fail_msg("%.60s: %s", text, why);
    return v;
}

static void assert_printed(const cJSON *v, const char *expected)
{
    char *text = json_value_text(v);

    assert_non_null(text);
    assert_string_equal(text, expected);
    mem_free(text);
}

static void a_number_keeps_its_text(void **state)
{
    static const char *const texts[] = {
        "0", "-1", "123456789012345", "1234567890123456", "9007199254740993", "-9007199254740993",
        "1234567890123456789", "18446744073709551616", "1.0", "-0.0", "-0", "0.0", "1e5",
        "1E5", "1e+05",
        "0.1000000000000000055511151231257827", "1E400", "-1e400", "1e-400", "5e-324",
        "123456789012345678901234567890123456789012345678901234567890123",
        "0.1234567890123456789012345678901234567890123456789012345678901234567890e-7"};
    (void)state;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        cJSON *v = parsed(texts[i]);

        assert_printed(v, texts[i]);
        assert_true(v->valuedouble == strtod(texts[i], NULL));
        cJSON_Delete(v);
    }
}

static void numbers_keep_theirs_wherever_they_stand(void **state)
{
    static const char text[] =
        "{\"1.0\":[1.0,{\"a\":-0.0,\"b\\\\\":\"2.0\"},\"\\\"3.0\"],\"c\":{},\"d\":[],\"e\":["
        "11111111111111111111111111111111111111111111111111111111111111111111111111,5,1e2],"
        "\"f\":[true,false,null,4.50]}";
    cJSON *v = parsed(text), *copy = cJSON_Duplicate(v, true), *around = cJSON_CreateObject();
    (void)state;

    assert_printed(v, text);
    json_put_reference(around, "e", cJSON_GetObjectItem(v, "e"));
    json_put_reference(around, "n", cJSON_GetObjectItem(v, "f")->child->prev);
    assert_printed(around, "{\"e\":[11111111111111111111111111111111111111111111111111111111111111"
                           "111111111111,5,1e2],\"n\":4.50}");
    cJSON_Delete(around);
    cJSON_Delete(v);
    assert_printed(copy, text);
    cJSON_Delete(copy);
    v = parsed("{\"a\":1.0,\"a\":2.0,\"b\":{\"a\":1,\"a\":3.00}}"); /* the later ones stay */
    assert_printed(v, "{\"a\":2.0,\"b\":{\"a\":3.00}}");
    cJSON_Delete(v);
}

/* A long number is cut out of the text that cJSON reads; what stands beside it is still checked. */
static void long_numbers_hide_no_fault(void **state)
{
    static const char *const faults[][2] = {{"[", "-1]"}, {"[", " 1]"}, {"", "}"},   {"[", ""},
                                            {"[", ".]"},  {"{", ":1}"}, {"[-", "-]"}, {"\"", ""},
                                            {"[", "e]"},  {"", "\x01"}, {"[0", "]"},  {"", "\""}};
    char digits[81], text[128];
    (void)state;

    memset(digits, '7', 80);
    digits[80] = '\0';
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        const char *why = NULL;
        cJSON *v;

        snprintf(text, sizeof(text), "%s%s%s", faults[i][0], digits, faults[i][1]);
        assert_int_equal(json_parse(text, strlen(text), &v, &why), ERR_INVAL);
        assert_null(v);
    }
}

static void whole_numbers_have_4300_digits_at_most(void **state)
{
    char *text = malloc(4500);
    const char *why = NULL;
    cJSON *v;
    (void)state;

    memset(text, '9', 4400);
    assert_int_equal(json_parse(text, 4300, &v, &why), 0);
    cJSON_Delete(v);
    assert_int_equal(json_parse(text, 4301, &v, &why), ERR_LIMIT);
    assert_non_null(strstr(why, "4300 digits"));
    text[0] = '-';
    assert_int_equal(json_parse(text, 4301, &v, &why), 0);
    cJSON_Delete(v);
    assert_int_equal(json_parse(text, 4302, &v, &why), ERR_LIMIT);
    text[4398] = 'e'; /* a float has as many as it likes */
    assert_int_equal(json_parse(text, 4400, &v, &why), 0);
    cJSON_Delete(v);
    free(text);
}

static void literals_need_memory(void **state)
{
    static const char text[] = "{\"a\":[1.0,2.00,{\"b\":1e5}],\"c\":7777777777777777777777777777777"
                               "777777777777777777777777777777777777777777777777777777777777}";
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
        else
            assert_printed(v, text);
        cJSON_Delete(v);
    }
}

static int compared(const char *a, const char *b)
{
    cJSON *x = parsed(a), *y = parsed(b);
    const int c = json_number_compare(x, y);

    assert_int_equal(json_number_compare(y, x), -c);
    cJSON_Delete(x);
    cJSON_Delete(y);
    return c;
}

static void exact_values_are_compared(void **state)
{
    static const char *const rising[] = {
        "-1e400", "-9007199254740993", "-9007199254740992", "-1.5", "-1", "-0.1", "-1e-400", "0",
        "1e-400", "0.09", "0.1", "0.10000000000000000001", "0.9", "1",
        "1.00000000000000000001", "9", "10",
        "99.9", "100", "9007199254740992", "9007199254740993", "9007199254740993.1", "1e400",
        "1e401"};
    static const char *const same[][2] = {
        {"1", "1.0"}, {"1e5", "100000"}, {"100e-2", "1"}, {"-0.0", "0"}, {"0e9", "0"},
        {"0.050", "5e-2"},
        {"120", "1.2E+2"}, {"0.1", "1.000e-1"}, {"9007199254740993", "9007199254740.993e3"}};
    const size_t n = sizeof(rising) / sizeof(rising[0]);
    (void)state;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            if (compared(rising[i], rising[k]) != (i > k) - (i < k))
                fail_msg("%s and %s", rising[i], rising[k]);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        if (compared(same[i][0], same[i][1]) != 0)
            fail_msg("%s and %s", same[i][0], same[i][1]);
}

static bool is_whole(const char *text)
{
    cJSON *v = parsed(text);
    const bool yes = json_number_is_whole(v);

    cJSON_Delete(v);
    return yes;
}

static void whole_numbers_are_told_from_others(void **state)
{
    (void)state;
    assert_true(is_whole("0") && is_whole("-0.0") && is_whole("1.0") && is_whole("1.5e1"));
    assert_true(is_whole("1e400") && is_whole("123") && is_whole("10e-1"));
    assert_false(is_whole("1.5") || is_whole("1e-1") || is_whole("9007199254740993.5"));
    assert_false(is_whole("12.34e1") || is_whole("1e-400"));
}

static void digits_come_one_by_one(void **state)
{
    static const char *const texts[] = {"1203.0450", "0.0012030450", "120304500e-7",
                                        "12.03045", "1203045"};
    (void)state;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        cJSON *v = parsed(texts[i]);
        struct json_decimal d;
        char found[10] = "";

        json_decimal_read(&d, v);
        for (int k = 0; k < 9; k++)
            found[k] = json_decimal_digit(&d, k);
        assert_string_equal(found, "120304500");
        assert_int_equal(d.n_digits, 7);
        cJSON_Delete(v);
    }
}

/* A number of our own has no text: it is the shortest that reads back. */
static void numbers_of_ours_are_printed_short(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {{0, "0"}, {3, "3"}, {-7, "-7"}, {0.1, "0.1"}, {1e15, "1e+15"},
                 {1.0 / 3, "0.3333333333333333"},
                 {INFINITY, "1e999"}, {-INFINITY, "-1e999"}, {2147483648.0, "2147483648"}};
    uint64_t random = 3;
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cJSON *v = cJSON_CreateNumber(cases[i].v);

        assert_printed(v, cases[i].text);
        cJSON_Delete(v);
    }
    for (int i = 0; i < 1000; i++) {
        const double high = random_below(&random, UINT32_MAX);
        const double low = random_below(&random, UINT32_MAX);
        const double f = ldexp(high * 0x1p21 + low, (int)random_below(&random, 600) - 300);
        cJSON *v = cJSON_CreateNumber(f);
        char *text = json_value_text(v);

        assert_true(strtod(text, NULL) == f);
        mem_free(text);
        cJSON_Delete(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_keeps_its_text),
        cmocka_unit_test(numbers_keep_theirs_wherever_they_stand),
        cmocka_unit_test(long_numbers_hide_no_fault),
        cmocka_unit_test(whole_numbers_have_4300_digits_at_most),
        cmocka_unit_test(literals_need_memory),
        cmocka_unit_test(exact_values_are_compared),
        cmocka_unit_test(whole_numbers_are_told_from_others),
        cmocka_unit_test(digits_come_one_by_one),
        cmocka_unit_test(numbers_of_ours_are_printed_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
