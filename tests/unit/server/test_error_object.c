/* tests/unit/server/test_error_object.c - the errors of the APIs, and fields of a body that occur
 * twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/json/json.h"
#include "server/api/params/field.h"
#include "server/http/error.h"

#include <string.h>

static void renders_errors(void **state)
{
    struct api_error e;
    struct buf b;
    (void)state;

    buf_init(&b, 1000);
    assert_true(api_error_set(&e, 400, "temperature", NULL, "'%s' must be %d", "temperature", 1) <
                0);
    api_error_render(&e, &b);
    assert_string_equal(b.data,
                        "{\"error\":{\"message\":\"'temperature' must be 1\",\"type\":"
                        "\"invalid_request_error\",\"param\":\"temperature\",\"code\":null}}");
    buf_clear(&b);
    api_error_set(&e, 429, NULL, "queue_full", "full");
    api_error_render(&e, &b);
    assert_string_equal(b.data, "{\"error\":{\"message\":\"full\",\"type\":\"rate_limit_error\","
                                "\"param\":null,\"code\":\"queue_full\"}}");
    buf_release(&b);
}

/* A message is cut where it is too long, but never inside a character. */
static void cuts_messages_between_characters(void **state)
{
    char text[400];
    struct api_error e;
    (void)state;

    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof(text); i += 3)
            memcpy(text + i, "\xe2\x82\xac", 4);
        api_error_set(&e, 400, NULL, NULL, "%s", text);
        assert_true(json_is_utf8(e.message, strlen(e.message)));
        assert_true(strlen(e.message) > 250);
    }
}

static void finds_the_last_of_a_name(void **state)
{
    cJSON *v = cJSON_Parse("{\"a\":1,\"b\":2,\"a\":3,\"c\":5,\"c\":null}");
    (void)state;

    assert_int_equal(field_find(v, "a")->valueint, 3);
    assert_null(field_find(v, "c"));
    assert_null(field_find(v, "d"));
    cJSON_Delete(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_errors),
        cmocka_unit_test(cuts_messages_between_characters),
        cmocka_unit_test(finds_the_last_of_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
