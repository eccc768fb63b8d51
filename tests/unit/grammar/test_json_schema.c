/* tests/unit/grammar/test_json_schema.c - JSON Schema: which texts are written for it.
 *
 * That what is written validates is shown end to end with an independent validator; here it is
 * shown that nothing is missing: every member that may be left out, every number in a range.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/grammar/grammar.h"
#include "core/grammar/json_schema.h"
#include "tests/unit/grammar/byte_trie.h"

static struct constraint *compile(const char *text)
{
    struct constraint *c = NULL;
    struct grammar *g = NULL;
    cJSON *schema = cJSON_Parse(text);
    char err[300];

    assert_non_null(schema);
    if (schema_to_grammar(&g, schema, NULL, err, sizeof(err)) < 0 ||
        constraint_create(&c, g, bytes, NULL, err, sizeof(err)) < 0)
        fail_msg("%s: %s", text, err);
    cJSON_Delete(schema);
    return c;
}

static bool takes(const struct constraint *c, const char *text)
{
    return answer_to(c, text) == MATCH;
}

struct example {
    const char *text;
    bool is_taken;
};

static void check(const char *schema, const struct example *examples)
{
    struct constraint *c = compile(schema);

    for (; examples->text != NULL; examples++)
        if (takes(c, examples->text) != examples->is_taken)
            fail_msg("%s: %s", schema, examples->text);
    constraint_unref(&c);
}

#define CHECK(schema, ...) check(schema, (const struct example[]){__VA_ARGS__, {NULL, false}})

static void members_in_order_with_any_left_out(void **state)
{
    static const char *const members[] = {"\"a\":1", "\"b\":2", "\"c\":3", "\"d\":4"};
    static const char *const required[] = {"[]", "[\"a\"]", "[\"c\"]", "[\"b\",\"d\"]"};
    static const unsigned required_bits[] = {0, 1, 4, 10};
    char schema[300], text[100];
    (void)state;

    for (int k = 0; k < 4; k++) {
        struct constraint *c;

        snprintf(schema, sizeof(schema),
                 "{\"type\":\"object\",\"required\":%s,\"properties\":{\"a\":{\"const\":1},\"b\":{"
                 "\"const\":2},\"c\":{\"const\":3},\"d\":{\"const\":4}}}",
                 required[k]);
        c = compile(schema);
        for (unsigned bits = 0; bits < 16; bits++) {
            size_t n = (size_t)snprintf(text, sizeof(text), "{");

            for (int i = 0; i < 4; i++)
                if (bits >> i & 1)
                    n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n > 1 ? "," : "",
                                          members[i]);
            snprintf(text + n, sizeof(text) - n, "}");
            if (takes(c, text) != ((bits & required_bits[k]) == required_bits[k]))
                fail_msg("%s: %s", schema, text);
        }
        assert_false(takes(c, "{\"b\":2,\"a\":1,\"c\":3,\"d\":4}"));
        constraint_unref(&c);
    }
}

static void all_integers_in_a_range(void **state)
{
    static const int ends[][2] = {{0, 0},    {0, 9},    {3, 7},      {7, 23},   {-5, 5},  {-1, 0},
                                  {99, 101}, {0, 1000}, {-999, -98}, {123, 456}, {-10, 1100}};
    char schema[120], text[16];
    (void)state;

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct constraint *c;

        snprintf(schema, sizeof(schema), "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}",
                 ends[i][0], ends[i][1]);
        c = compile(schema);
        for (int n = -1200; n <= 1200; n++) {
            snprintf(text, sizeof(text), "%d", n);
            if (takes(c, text) != (n >= ends[i][0] && n <= ends[i][1]))
                fail_msg("%s: %s", schema, text);
        }
        assert_false(takes(c, "-0") || takes(c, "00") || takes(c, "07") || takes(c, ""));
        constraint_unref(&c);
    }
}

static void all_hundredths_in_a_range(void **state)
{
    static const struct {
        const char *schema;
        int low, high;
    } ranges[] = {
        {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", 0, 100},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":1}", 1, 99},
        {"{\"type\":\"number\",\"minimum\":-1.5,\"maximum\":2.25}", -150, 225},
        {"{\"type\":\"number\",\"minimum\":0.5,\"exclusiveMaximum\":12.3}", 50, 1229},
        {"{\"type\":\"number\",\"maximum\":-0.75}", INT32_MIN, -75},
    };
    char text[16];
    (void)state;

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        struct constraint *c = compile(ranges[i].schema);

        for (int n = -1400; n <= 1400; n++) {
            const bool inside = n >= ranges[i].low && n <= ranges[i].high;

            if (n == 0 && ranges[i].low < 0)
                continue; /* only one of 0.00 and -0.00 */
            snprintf(text, sizeof(text), "%s%d.%02d", n < 0 ? "-" : "", abs(n) / 100, abs(n) % 100);
            if (takes(c, text) != inside)
                fail_msg("%s: %s", ranges[i].schema, text);
            if (n % 100 == 0) {
                snprintf(text, sizeof(text), "%d", n / 100);
                assert_int_equal(takes(c, text), inside);
            }
        }
        constraint_unref(&c);
    }
}

static void strings_are_counted_in_characters(void **state)
{
    (void)state;
    CHECK("{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", {"\"ab\"", true},
          {"\"a\"", false}, {"\"abcd\"", false}, {"\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\"", true},
          {"\"\\n\\\"\\u001f\"", true}, {"\"\\u0000a\"", false}, {"\"\t\t\"", false});
    CHECK("{\"type\":\"string\",\"pattern\":\"b+\"}", {"\"abc\"", true}, {"\"ac\"", false});
    CHECK("{\"type\":\"string\",\"format\":\"date\"}", {"\"2024-02-28\"", true},
          {"\"2024-02-30\"", false}, {"\"2024-12-31\"", true}, {"\"2024-13-01\"", false});
    CHECK("{\"type\":\"string\",\"format\":\"ipv4\"}", {"\"255.0.13.9\"", true},
          {"\"256.0.0.1\"", false}, {"\"01.0.0.1\"", false});
}

static void other_keys_are_no_known_ones(void **state)
{
    (void)state;
    CHECK("{\"type\":\"object\",\"properties\":{\"ab\":{\"const\":1},\"abc\":{\"const\":2},\"x\":{"
          "\"const\":3}},\"additionalProperties\":{\"type\":\"null\"}}",
          {"{}", true}, {"{\"ab\":1}", true}, {"{\"ab\":null}", false}, {"{\"abc\":null}", false},
          {"{\"a\":null}", true}, {"{\"abcd\":null,\"\":null}", true}, {"{\"xx\":null}", true},
          {"{\"x\":3,\"y\":null}", true}, {"{\"x\":null}", false}, {"{\"\\u0078\":null}", false});
    CHECK("{\"type\":\"object\"}", {"{}", true}, {"{\"a\":[1,{\"b\":null}],\"c\":-1.5e3}", true},
          {"{\"a\":1,}", false}, {"[]", false});
    CHECK("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"},\"maxProperties\":2}",
          {"{\"a\":null,\"b\":null}", true}, {"{\"a\":null,\"b\":null,\"c\":null}", false});
}

static void arrays_and_unions(void **state)
{
    (void)state;
    CHECK("{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":3}",
          {"[]", false}, {"[true]", true}, {"[true, false,true]", true},
          {"[true,true,true,true]", false}, {"[true,  true]", false});
    CHECK("{\"prefixItems\":[{\"const\":1},{\"const\":\"x\"}],\"items\":{\"type\":\"null\"}}",
          {"[1,\"x\"]", true}, {"[1,\"x\",null,null]", true}, {"[1]", false});
    CHECK("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"minimum\":3,\"maximum\":4}",
          {"3", true}, {"null", true}, {"5", false});
    CHECK("{\"enum\":[1,\"1\",{\"a\":[1,2]},null],\"type\":[\"string\",\"object\"]}",
          {"\"1\"", true}, {"1", false}, {"{\"a\":[1,2]}", true}, {"null", false});
    CHECK("{\"$defs\":{\"t\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"}}},\"$ref\":"
          "\"#/$defs/t\"}",
          {"[]", true}, {"[[],[[],[[]]]]", true}, {"[1]", false});
}

/* 64 objects within each other, and what happens where the stack ends. */
/* 1e300 is an integer, and no int64_t. */
static void numbers_of_any_size(void **state)
{
    (void)state;
    check("{\"type\":\"integer\",\"enum\":[1e300,-1e300,0.5,7]}",
          (const struct example[]){{"1e+300", true}, {"-1e+300", true}, {"0.5", false},
                                   {"7", true}, {NULL, false}});
}

static void deep_nesting(void **state)
{
    struct constraint *c = compile("{\"type\":\"object\"}");
    char text[4096];
    size_t n = 0;
    (void)state;

    for (int i = 0; i < 64; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "{\"k\":[");
    for (int i = 0; i < 64; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "]}");
    assert_true(takes(c, text));
    constraint_state_init(state_of_text, c);
    for (n = 0; n < 1000; n++)
        if (constraint_advance(state_of_text, scratch, n == 0 ? "{\"\":" : "[", n == 0 ? 4 : 1) ==
            CONSTRAINT_BROKEN)
            break;
    assert_in_range(n, 64, CONSTRAINT_MAX_DEPTH + 1);
    for (; n > 1; n--) /* and all the way back */
        assert_int_equal(constraint_advance(state_of_text, scratch, "]", 1), CONSTRAINT_OPEN);
    assert_int_equal(constraint_advance(state_of_text, scratch, "}", 1), CONSTRAINT_DONE);
    constraint_unref(&c);
}

/* Without memory: an error and no leak. */
static void out_of_memory(void **state)
{
    static const char text[] =
        "{\"$defs\":{\"a\":{\"enum\":[1,2]}},\"type\":\"object\",\"properties\":{\"x\":{\"$ref\":"
        "\"#/$defs/a\"},\"y\":{\"type\":\"string\",\"maxLength\":9}},\"additionalProperties\":{"
        "\"type\":\"integer\",\"minimum\":3}}";
    cJSON *schema = cJSON_Parse(text);
    (void)state;

    for (int64_t n = 0;; n++) {
        struct grammar *g;
        char err[200] = "";
        int rc;

        mem_fail_after(n);
        rc = schema_to_grammar(&g, schema, NULL, err, sizeof(err));
        mem_fail_after(-1);
        grammar_destroy(&g);
        if (rc == 0)
            break;
        assert_string_equal(err, "out of memory");
    }
    cJSON_Delete(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_in_order_with_any_left_out),
        cmocka_unit_test(all_integers_in_a_range),
        cmocka_unit_test(all_hundredths_in_a_range),
        cmocka_unit_test(strings_are_counted_in_characters),
        cmocka_unit_test(other_keys_are_no_known_ones),
        cmocka_unit_test(arrays_and_unions),
        cmocka_unit_test(numbers_of_any_size),
        cmocka_unit_test(deep_nesting),
        cmocka_unit_test(out_of_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
