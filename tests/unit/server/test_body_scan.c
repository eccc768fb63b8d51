/* tests/unit/server/test_body_scan.c - what is found in a body without parsing it, beside what
 * parsing finds in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/json/json.h"
#include "server/api/body_scan.h"
#include "tests/fixtures/random.h"

static struct body_scan scan(const char *text)
{
    return body_scan(text, strlen(text));
}

static void the_model_is_that_of_the_body(void **state)
{
    static const struct {
        const char *body, *model;
    } cases[] = {
        {"{\"model\":\"a\"}", "\"a\""},
        {" { \"x\" : 1 , \"model\" : \"a b\" , \"y\":[{}]}", "\"a b\""},
        {"{\"model\":\"a\",\"model\":\"b\"}", "\"b\""},
        {"{\"mod\\u0065l\":\"a\"}", "\"a\""},
        {"{\"model\":null}", "null"},
        {"{\"model\":[1,{\"model\":2}]}", "[1,{\"model\":2}]"},
        {"{\"prompt\":\"{\\\"model\\\":\\\"a\\\"}\"}", NULL},
        {"{\"x\":{\"model\":\"a\"}}", NULL},
        {"{\"x\":\"model\",\"y\":\"a\"}", NULL},
        {"[\"model\",\"a\"]", NULL},
        {"", NULL},
        {"\"model\":\"a\"", NULL},
        {"{\"model", NULL},
        {"{\"model\":\"a", NULL},
        {"{\"model\\", NULL},
        {"}}}{\"model\":", NULL},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct body_scan s = scan(cases[i].body);

        if (cases[i].model == NULL ? s.model != NULL
                                   : s.model == NULL || s.n_model != strlen(cases[i].model) ||
                                         memcmp(s.model, cases[i].model, s.n_model) != 0)
            fail_msg("%s: %.*s", cases[i].body, (int)s.n_model, s.model);
    }
}

static void times_are_found_beside_it(void **state)
{
    struct body_scan s = scan("{\"deadline_ms\" : 1500 ,\"x\":{\"max_queue_ms\":7}}");

    (void)state;
    assert_true(s.deadline_ms == 1500 && s.max_queue_ms == 0);
    s = scan("{\"max_queue_ms\":20,\"deadline_ms\":\"5\",\"keep_alive\": \"5m\" }");
    assert_true(s.deadline_ms == 0 && s.max_queue_ms == 20);
    assert_true(s.n_keep_alive == 4 && memcmp(s.keep_alive, "\"5m\"", 4) == 0);
    s = scan("{\"deadline_ms\":99999999999999999999,\"max_queue_ms\":-1}");
    assert_true(s.deadline_ms == 0 && s.max_queue_ms == 0 && s.keep_alive == NULL);
}

static void the_older_member_is_found_beside_it(void **state)
{
    struct body_scan s = scan("{\"name\":\"a\",\"x\":{\"name\":\"b\"}}");

    (void)state;
    assert_true(s.model == NULL && s.n_name == 3 && memcmp(s.name, "\"a\"", 3) == 0);
    s = scan("{\"model\":\"m\", \"name\" : 5 }");
    assert_true(s.n_model == 3 && memcmp(s.model, "\"m\"", 3) == 0);
    assert_true(s.n_name == 1 && s.name[0] == '5');
    assert_null(scan("{\"x\":\"name\",\"y\":1}").name);
}

static void bodies_that_may_be_constrained(void **state)
{
    (void)state;
    assert_true(scan("{\"guided_regex\":\"a\"}").may_be_constrained);
    assert_true(scan("{\"response_format\":{}}").may_be_constrained);
    assert_true(scan("{\"format\":\"json\"}").may_be_constrained);
    assert_true(scan("{\"extra_body\":{\"grammar\":\"\"}}").may_be_constrained);
    assert_false(scan("{\"prompt\":\"a grammar\"}").may_be_constrained);
    assert_false(scan("{\"prompt\":\"\\\"grammar\\\"\"}").may_be_constrained);
    assert_false(scan("").may_be_constrained);
}

static uint64_t n_values(const cJSON *v)
{
    uint64_t n = 1;

    for (const cJSON *it = v->child; it != NULL; it = it->next)
        n += n_values(it);
    return n;
}

#define ZEROS_60 "000000000000000000000000000000000000000000000000000000000000"

/* Names and strings, and the numbers that keep their text beside the double. */
static void numbers_that_keep_their_text_are_counted(void **state)
{
    (void)state;
    assert_int_equal(scan("{\"a\":[1,-20,999999999999999,0]}").n_strings, 1);
    assert_int_equal(scan("{\"a\":[1.0,-0,1e5,9007199254740993,1E+2]}").n_strings, 6);
    assert_int_equal(scan("[1.5,\"1.5\",[1.5]]").n_strings, 3);
    assert_int_equal(scan("1.").n_strings, 1);
    assert_int_equal(body_scan((const char[1]){'-'}, 1).n_strings, 0); /* and nothing behind it */
    assert_false(scan("[" ZEROS_60 "00]").has_long_number);
    assert_true(scan("[-" ZEROS_60 "00]").has_long_number);
}

/* Random text that JSON accepts now and then: the scan ends, counts at least what is there, and
 * finds the same model as a look into the text does. */
static void it_agrees_with_the_parser(void **state)
{
    static const char *const pieces[] = {"{", "}", "[", "]", ",", ":", "\"model\"", "\"a\"",
                                         "1",   " ", "\"\\\"\"", "1.5", "null",
                                         "{\"model\":", "\"b\""};
    uint64_t random = 7;
    const uint32_t n_pieces = sizeof(pieces) / sizeof(pieces[0]);
    int n_parsed = 0;
    (void)state;

    for (int round = 0; round < 400000; round++) {
        const char *why, *value;
        struct buf text;
        struct body_scan s;
        cJSON *json = NULL;
        size_t len;

        buf_init(&text, 1000);
        buf_add_char(&text, '{');
        for (int i = 0, n = (int)random_below(&random, 9); i < n; i++)
            buf_add_str(&text, pieces[random_below(&random, n_pieces)]);
        buf_add_char(&text, '}');
        s = body_scan(text.data, text.len);
        if (json_parse(text.data, text.len, &json, &why) < 0) {
            buf_release(&text);
            continue;
        }
        n_parsed++;
        assert_true(s.n_values >= n_values(json));
        if (json_member_text(text.data, text.len, "model", &value, &len))
            assert_true(s.model == value && s.n_model == len);
        else
            assert_null(s.model);
        cJSON_Delete(json);
        buf_release(&text);
    }
    assert_true(n_parsed > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_is_that_of_the_body),
        cmocka_unit_test(times_are_found_beside_it),
        cmocka_unit_test(the_older_member_is_found_beside_it),
        cmocka_unit_test(bodies_that_may_be_constrained),
        cmocka_unit_test(numbers_that_keep_their_text_are_counted),
        cmocka_unit_test(it_agrees_with_the_parser),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
