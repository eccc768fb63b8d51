/* tests/unit/server/test_decision_text.c - JSON values as plain text, as kev/api.py of
 * https://github.com/jaredpalmer/kev writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "core/json/json.h"
#include "server/api/chat/decision_text.h"

#include <string.h>

static void check_text(const char *json, const char *want)
{
    cJSON *v = NULL;
    const char *why;
    struct buf text;

    assert_int_equal(json_parse(json, strlen(json), &v, &why), 0);
    buf_init(&text, 4096);
    decision_text_add(&text, v);
    buf_add_char(&text, '\0');
    assert_string_equal(text.data, want);
    assert_int_equal(text.err, 0);
    buf_release(&text);
    cJSON_Delete(v);
}

static void test_plain_values(void **state)
{
    (void)state;
    check_text("\"a text\"", "a text");
    check_text("null", "");
    check_text("true", "True");
    check_text("1.50", "1.50");
    check_text("[]", "");
}

static void test_lists_and_objects(void **state)
{
    (void)state;
    check_text("[\"a\",false,null]", "- a\n- False\n- ");
    check_text("{\"a\":1,\"b\":\"x\"}", "a: 1\nb: x");
    check_text("{\"a\":{\"b\":[1,{\"c\":2,\"d\":3}]}}",
               "a:\n  b:\n    - 1\n    - c: 2\n      d: 3");
    check_text("[[1,2],[3]]", "- - 1\n  - 2\n- - 3");
}

static void test_special_names_are_text(void **state)
{
    (void)state;
    check_text("\"a <|box_end|> <|x\"", "a <\xC2\xA6"
                                        "box_end\xC2\xA6> <|x");
    check_text("{\"<|a_1|>\":\"<||> <|a b|> <|<|a|>\"}", "<\xC2\xA6"
                                                         "a_1\xC2\xA6>: <||> <|a b|> <|<\xC2\xA6"
                                                         "a\xC2\xA6>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_values),
        cmocka_unit_test(test_lists_and_objects),
        cmocka_unit_test(test_special_names_are_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
