/* tests/unit/grammar/test_json_schema.c - JSON Schema: which texts are written for it.
 *
 * That what is written validates is shown end to end with an independent validator; here it is
 * shown that nothing is missing: every member that may be left out, every number in a range.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/grammar/grammar.h"
#include "core/grammar/json_schema.h"
#include "tests/unit/grammar/byte_trie.h"

static struct constraint *compile(const char *text)
{
    struct constraint *c = NULL;
    struct grammar *g = NULL;
    const char *why = NULL;
    cJSON *schema;
    char err[300];

    assert_int_equal(json_parse(text, strlen(text), &schema, &why), 0);
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
    static const int ends[][2] = {{0, 0},      {0, 9},     {3, 7},     {7, 23},
                                  {-5, 5},     {-1, 0},    {99, 101},  {0, 1000},
                                  {-999, -98}, {123, 456}, {-10, 1100}};
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

static void all_multiples_in_a_range(void **state)
{
    static const struct {
        int of, zeros, low, high;
    } ranges[] = {{2, 0, -9, 9},     {3, 0, -3000, 3000},    {7, 0, 5, 2999},
                  {7, 0, -2999, -8}, {25, 0, -3000, 3000},   {6, 1, -3000, 3000},
                  {13, 2, 0, 3000},  {1024, 0, -3000, 3000}, {399, 0, -3000, 2000}};
    char schema[120], text[16];
    (void)state;

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        int of = ranges[i].of;
        struct constraint *c;

        for (int k = 0; k < ranges[i].zeros; k++)
            of *= 10;
        snprintf(schema, sizeof(schema),
                 "{\"type\":\"integer\",\"multipleOf\":%d,\"minimum\":%d,\"maximum\":%d}", of,
                 ranges[i].low, ranges[i].high);
        c = compile(schema);
        for (int n = -3100; n <= 3100; n++) {
            snprintf(text, sizeof(text), "%d", n);
            if (takes(c, text) != (n % of == 0 && n >= ranges[i].low && n <= ranges[i].high))
                fail_msg("%s: %s", schema, text);
        }
        assert_false(takes(c, "-0") || takes(c, "00") || takes(c, ""));
        constraint_unref(&c);
    }
    CHECK("{\"type\":\"number\",\"multipleOf\":0.25,\"minimum\":-1.5,\"maximum\":1000000}",
          {"0", true}, {"-1.50", true}, {"-1.75", false}, {"0.25", true}, {"0.26", false},
          {"777777.75", true}, {"777777.85", false}, {"3", true}, {"1000000.25", false});
    CHECK("{\"type\":\"integer\",\"multipleOf\":2.5}", {"5", true}, {"2", false}, {"-15", true});
    CHECK("{\"type\":\"integer\",\"multipleOf\":9}", {"999999999999999", true},
          {"999999999999991", false}, {"-123456789", true}, {"0", true});
}

static void items_that_differ(void **state)
{
    (void)state;
    CHECK("{\"items\":{\"enum\":[1,\"a\",1.0,2]},\"uniqueItems\":true,\"minItems\":1}",
          {"[]", false}, {"[1]", true}, {"[2,1, \"a\"]", true}, {"[1,2,1]", false},
          {"[1,1]", false}, {"[1,2,\"a\",2]", false});
    CHECK("{\"items\":{\"type\":\"boolean\"},\"uniqueItems\":true}", {"[]", true},
          {"[true,false]", true}, {"[true,true]", false}, {"[null]", false});
    CHECK("{\"items\":{\"enum\":[1,2,3,4,5,6,7,8,9,10,11,12]},\"uniqueItems\":true,\"maxItems\":3}",
          {"[12,1,2]", true}, {"[1,2,3,4]", false}, {"[1,2,1]", false});
}

static void keys_by_patterns(void **state)
{
    (void)state;
    CHECK("{\"patternProperties\":{\"^a\":{\"type\":\"integer\"},\"b$\":{\"maximum\":9}}}",
          {"{}", true}, {"{\"a\":10}", true}, {"{\"xb\":9}", true}, {"{\"xb\":10}", false},
          {"{\"ab\":9,\"a\":11}", true}, {"{\"ab\":10}", false}, {"{\"c\":1}", false});
    CHECK("{\"properties\":{\"a1\":{\"maximum\":9},\"z\":{\"const\":0}},\"patternProperties\":{\"^"
          "a\":{"
          "\"type\":\"integer\",\"minimum\":8}},\"additionalProperties\":{\"type\":\"null\"}}",
          {"{\"a1\":8}", true}, {"{\"a1\":7}", false}, {"{\"a1\":10}", false},
          {"{\"z\":0,\"a2\":99}", true}, {"{\"a2\":3}", false}, {"{\"q\":null}", true},
          {"{\"z\":null}", false}, {"{\"q\":8}", false});
    CHECK(
        "{\"propertyNames\":{\"pattern\":\"^[a-c]+$\",\"maxLength\":3},\"properties\":{\"abcd\":{},"
        "\"ab\":{\"const\":1}},\"additionalProperties\":{\"const\":2}}",
        {"{\"ab\":1,\"c\":2,\"cab\":2}", true}, {"{\"abcd\":1}", false}, {"{\"ab\":2}", false},
        {"{\"aaaa\":2}", false}, {"{\"d\":2}", false}, {"{\"\":2}", false});
    CHECK("{\"type\":\"object\",\"propertyNames\":false}", {"{}", true}, {"{\"a\":1}", false});
}

/* Each subset of four members, against the counts. */
static void members_are_counted(void **state)
{
    static const char *const members[] = {"\"a\":1", "\"b\":2", "\"c\":3", "\"x\":null"};
    char schema[300], text[100];
    (void)state;

    for (int min = 0; min <= 4; min++)
        for (int max = min > 1 ? min : 1; max <= 4; max++) {
            struct constraint *c;

            snprintf(
                schema, sizeof(schema),
                "{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{\"const\":3}},"
                "\"required\":[\"b\"],\"additionalProperties\":{\"type\":\"null\"},"
                "\"minProperties\":%d,\"maxProperties\":%d}",
                min, max);
            c = compile(schema);
            for (unsigned bits = 0; bits < 16; bits++) {
                const int count = __builtin_popcount(bits);
                size_t n = (size_t)snprintf(text, sizeof(text), "{");

                for (int i = 0; i < 4; i++)
                    if (bits >> i & 1)
                        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n > 1 ? "," : "",
                                              members[i]);
                snprintf(text + n, sizeof(text) - n, "}");
                if (takes(c, text) != ((bits & 2) && count >= min && count <= max))
                    fail_msg("%s: %s", schema, text);
            }
            constraint_unref(&c);
        }
}

static void what_others_write(void **state)
{
    (void)state;
    CHECK("{\"type\":\"string\",\"format\":\"int64\"}", {"\"x\"", true});
    CHECK("{\"format\":\"int64\"}", {"7", true});
    CHECK("{\"type\":\"string\",\"format\":\"date\",\"pattern\":\"^2024\"}",
          {"\"2024-02-28\"", true}, {"\"2023-02-28\"", false}, {"\"2024-02-30\"", false});
    CHECK("{\"type\":\"string\",\"pattern\":\"b\",\"minLength\":2,\"maxLength\":3}",
          {"\"ab\"", true}, {"\"b\"", false}, {"\"abcd\"", false}, {"\"aaa\"", false},
          {"\"\\n\\\"b\"", true});
    CHECK("{\"type\":\"string\",\"nullable\":true}", {"null", true}, {"\"\"", true}, {"1", false});
    CHECK("{\"type\":\"string\",\"enum\":[\"a\"],\"nullable\":true}", {"null", false},
          {"\"a\"", true});
    CHECK("{\"$defs\":{\"a\":{\"const\":1}},\"$ref\":\"#/$defs/a\",\"nullable\":true}",
          {"null", true}, {"1", true});
    CHECK("{\"allOf\":[{\"type\":\"integer\",\"nullable\":true},{\"minimum\":3}]}", {"null", true},
          {"3", true}, {"2", false});
    CHECK("{\"allOf\":[{\"type\":\"integer\",\"nullable\":true},{\"type\":\"integer\"}]}",
          {"null", false}, {"3", true});
    CHECK("{\"items\":[{\"const\":1},{\"const\":2}],\"additionalItems\":{\"const\":3}}",
          {"[1,2]", true}, {"[1,2,3,3]", true}, {"[1,2,4]", false}, {"[2]", false});
    CHECK("{\"items\":[{\"const\":1}]}", {"[1]", true}, {"[1,2]", false});
    CHECK("{\"type\":\"array\",\"items\":[]}", {"[]", true}, {"[1]", true});
    CHECK("{\"allOf\":[{\"prefixItems\":[{\"minimum\":3}]},{\"items\":{\"type\":\"integer\"}}]}",
          {"[3]", true}, {"[2]", false}, {"[3,2]", true}, {"[3.5]", false});
    CHECK("{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", {"1", true}, {"1.5", true});
    CHECK("{\"enum\":[1,5,\"ab\",\"abc\"],\"minimum\":2,\"maxLength\":2,\"pattern\":\"b$\"}",
          {"1", false}, {"5", true}, {"\"ab\"", true}, {"\"abc\"", false});
    CHECK("{\"const\":9007199254740992}", {"9007199254740992", true});
    CHECK("{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", {"0.5", true}, {"0.50", true},
          {"1.5", false});
}

/* Draft 4 and OpenAPI 3.0: true makes `minimum` or `maximum` an exclusive one. */
static void bounds_of_draft_4(void **state)
{
    (void)state;
    CHECK("{\"type\":\"integer\",\"minimum\":5,\"exclusiveMinimum\":true}", {"5", false},
          {"6", true});
    CHECK("{\"type\":\"number\",\"maximum\":5,\"exclusiveMaximum\":true}", {"5", false},
          {"4.9", true}, {"5.0", false});
    CHECK("{\"type\":\"integer\",\"exclusiveMaximum\":false,\"maximum\":5}", {"5", true},
          {"6", false});
    CHECK("{\"type\":\"integer\",\"exclusiveMinimum\":true}", {"5", true}, {"-5", true});
    CHECK("{\"allOf\":[{\"type\":\"integer\",\"minimum\":5},"
          "{\"minimum\":5,\"exclusiveMinimum\":true}]}",
          {"5", false}, {"6", true});
    CHECK("{\"allOf\":[{\"type\":\"integer\",\"minimum\":5},"
          "{\"minimum\":3,\"exclusiveMinimum\":true}]}",
          {"4", false}, {"5", true});
    CHECK("{\"type\":\"integer\",\"minimum\":1,\"exclusiveMinimum\":true,\"nullable\":true}",
          {"1", false}, {"2", true}, {"null", true});
    CHECK("{\"enum\":[1,2,3],\"minimum\":1,\"exclusiveMinimum\":true}", {"1", false},
          {"2", true});
    CHECK("{\"type\":\"integer\",\"minimum\":4,\"exclusiveMinimum\":true,\"multipleOf\":4}",
          {"4", false}, {"8", true});
    CHECK("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"minimum\":4,"
          "\"exclusiveMinimum\":true}",
          {"4", false}, {"5", true}, {"null", true});
}

/* Beside a format a length counts where it can matter. */
static void formats_of_any_length(void **state)
{
    static const char *const formats[][2] = {
        {"email", "john.smith+x@mail.example.co.uk"}, {"hostname", "mail.example.co.uk"},
        {"uri", "https://www.example.com/a-b/c"},     {"date", "2024-02-28"},
        {"date-time", "2024-02-28T10:20:30Z"},        {"time", "10:20:30+01:00"},
        {"ipv4", "192.168.100.200"},                  {"duration", "PT8204H"},
        {"uuid", "392afb24-cac4-5a26-cf2d-6128ef2b0e3a"},
        {"ipv6", "3389:bca4:a251:aa98:f59b:1:8:f"}};
    (void)state;

    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        const unsigned n = (unsigned)strlen(formats[i][1]);
        const unsigned most[] = {n, n + 1, 40, 50, 64, 80, 100, 128, 200, 254, 255, 320, 2000};

        for (size_t k = 0; k < sizeof(most) / sizeof(most[0]); k++) {
            char schema[120], text[120];
            struct constraint *c;

            snprintf(schema, sizeof(schema),
                     "{\"type\":\"string\",\"format\":\"%s\",\"maxLength\":%u}", formats[i][0],
                     most[k]);
            snprintf(text, sizeof(text), "\"%s\"", formats[i][1]);
            c = compile(schema);
            if (takes(c, text) != (most[k] >= n))
                fail_msg("%s: %s", schema, text);
            constraint_unref(&c);
        }
    }
    CHECK("{\"type\":\"string\",\"format\":\"email\",\"maxLength\":6}", {"\"a@b.de\"", true},
          {"\"ab@b.de\"", false});
    CHECK("{\"type\":\"string\",\"format\":\"email\",\"minLength\":8,\"maxLength\":60}",
          {"\"ab@b.de\"", false}, {"\"abc@b.de\"", true});
    CHECK("{\"type\":\"string\",\"format\":\"email\",\"minLength\":3,\"pattern\":\"^j\"}",
          {"\"john@b.de\"", true}, {"\"ann@b.de\"", false});
    CHECK("{\"type\":\"string\",\"format\":\"hostname\",\"minLength\":5,\"maxLength\":63}",
          {"\"a.de\"", false}, {"\"ab.de\"", true});
}

static void refuses(const char *text, const char *why)
{
    struct grammar *g = NULL;
    cJSON *schema = cJSON_Parse(text);
    char err[300];

    assert_non_null(schema);
    if (schema_to_grammar(&g, schema, NULL, err, sizeof(err)) >= 0 || strstr(err, why) == NULL)
        fail_msg("%s: \"%s\" and not \"%s\"", text, g != NULL ? "it is taken" : err, why);
    cJSON_Delete(schema);
}

/* Schemas that no value fits are refused, and say so. */
static void contradictions_are_named(void **state)
{
    (void)state;
    refuses("{\"allOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", "no value is valid");
    refuses("{\"type\":\"string\",\"allOf\":[{\"type\":\"integer\"}]}", "no value is valid");
    refuses("{\"$ref\":\"#/$defs/a\",\"type\":\"null\",\"$defs\":{\"a\":{\"type\":\"object\"}}}",
            "no value is valid");
    refuses("{\"type\":\"object\",\"properties\":{\"a\":{\"allOf\":[{\"type\":\"array\"},{"
            "\"type\":\"object\"}]}}}",
            "at '#/properties/a': no value is valid");
    refuses("{\"allOf\":[{\"enum\":[1]},{\"enum\":[2]}]}", "no value is valid");
    refuses("{\"allOf\":[{\"const\":1},{\"const\":2}]}", "no value is valid");
    refuses("{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}},{"
            "\"properties\":{\"a\":{\"type\":\"integer\"}}}]}",
            "no value is valid");
    CHECK("{\"anyOf\":[{\"allOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]},"
          "{\"type\":\"null\"}]}",
          {"null", true}, {"1", false});
}

/* 64 objects within each other, and what happens where the stack ends. */
/* 1e300 is an integer, and no int64_t. */
/* JSON Schema 2020-12, 6.5: what an implementation does not know asserts nothing, nor do some known
 * ones without the keyword that they belong to. */
static void unknown_keywords_assert_nothing(void **state)
{
    static const char *const keywords[] = {
        "\"strict\":true", "\"optional\":true", "\"xml\":{\"name\":\"a\"}", "\"example\":1",
        "\"x-order\":3", "\"propertyOrdering\":[\"a\"]", "\"markdownDescription\":\"\"",
        "\"errorMessage\":{}", "\"$dynamicAnchor\":\"n\"", "\"widget\":null", "\"then\":false",
        "\"else\":{\"not\":{}}", "\"if\":{\"not\":{}}", "\"minContains\":2", "\"maxContains\":0",
        "\"not\":false", "\"unevaluatedItems\":true", "\"unevaluatedProperties\":{}"};
    char schema[300];
    (void)state;

    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
        snprintf(schema, sizeof(schema), "{\"type\":\"integer\",\"maximum\":9,%s}", keywords[i]);
        CHECK(schema, {"7", true}, {"17", false}, {"\"7\"", false});
        snprintf(schema, sizeof(schema), "{\"enum\":[7,8],%s}", keywords[i]);
        CHECK(schema, {"7", true}, {"9", false});
        snprintf(schema, sizeof(schema),
                 "{\"allOf\":[{\"type\":\"integer\",%s},{\"maximum\":9,%s}]}", keywords[i],
                 keywords[i]);
        CHECK(schema, {"7", true}, {"17", false});
        snprintf(schema, sizeof(schema),
                 "{\"anyOf\":[{\"const\":7},{\"$ref\":\"#/$defs/n\",%s}],%s,"
                 "\"$defs\":{\"n\":{\"const\":8}}}",
                 keywords[i], keywords[i]);
        CHECK(schema, {"7", true}, {"8", true}, {"9", false});
    }
}

/* What is known, asserts something, and is not kept to. */
static void assertions_are_refused_by_name(void **state)
{
    static const char *const keywords[][2] = {
        {"not", "{}"},
        {"if", "{},\"then\":false"},
        {"if", "true,\"else\":{\"type\":\"null\"}"},
        {"contains", "{}"},
        {"dependentRequired", "{\"a\":[\"b\"]}"},
        {"dependentSchemas", "{\"a\":{}}"},
        {"dependencies", "{\"a\":[\"b\"]}"},
        {"unevaluatedProperties", "false"},
        {"unevaluatedItems", "{\"type\":\"null\"}"},
        {"$dynamicRef", "\"#n\""},
        {"$recursiveRef", "\"#\""},
        {"divisibleBy", "2"},
        {"disallow", "\"string\""},
        {"extends", "{}"},
    };
    char text[300], want[80], err[300];
    (void)state;

    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
        struct grammar *g = NULL;
        cJSON *schema;

        snprintf(text, sizeof(text), "{\"properties\":{\"a\":{\"strict\":true,\"%s\":%s}}}",
                 keywords[i][0], keywords[i][1]);
        snprintf(want, sizeof(want), "at '#/properties/a': the keyword '%s' is not supported",
                 keywords[i][0]);
        schema = cJSON_Parse(text);
        assert_non_null(schema);
        assert_int_equal(schema_to_grammar(&g, schema, NULL, err, sizeof(err)), ERR_UNSUPPORTED);
        if (strstr(err, want) == NULL)
            fail_msg("%s: %s", text, err);
        cJSON_Delete(schema);
        snprintf(text, sizeof(text), "{\"allOf\":[{\"type\":\"integer\"},{\"%s\":%s}]}",
                 keywords[i][0], keywords[i][1]);
        schema = cJSON_Parse(text);
        assert_int_equal(schema_to_grammar(&g, schema, NULL, err, sizeof(err)), ERR_UNSUPPORTED);
        cJSON_Delete(schema);
        snprintf(text, sizeof(text), "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":true},\"%s\":%s}",
                 keywords[i][0], keywords[i][1]);
        schema = cJSON_Parse(text);
        assert_int_equal(schema_to_grammar(&g, schema, NULL, err, sizeof(err)), ERR_UNSUPPORTED);
        cJSON_Delete(schema);
        snprintf(text, sizeof(text), "{\"anyOf\":[{\"type\":\"null\"},true],\"%s\":%s}",
                 keywords[i][0], keywords[i][1]);
        schema = cJSON_Parse(text);
        assert_int_equal(schema_to_grammar(&g, schema, NULL, err, sizeof(err)), ERR_UNSUPPORTED);
        cJSON_Delete(schema);
    }
}

static void numbers_of_any_size(void **state)
{
    (void)state;
    check("{\"type\":\"integer\",\"enum\":[1e300,-1e300,0.5,7]}",
          (const struct example[]){
              {"1e300", true}, {"-1e300", true}, {"0.5", false}, {"7", true}, {NULL, false}});
}

static void constants_are_written_as_they_stand(void **state)
{
    (void)state;
    CHECK("{\"enum\":[1.0,-0.0,1E5,9007199254740993,0.10,1e400]}", {"1.0", true}, {"1", false},
          {"-0.0", true}, {"0", false}, {"1E5", true}, {"100000", false},
          {"9007199254740993", true},
          {"9007199254740992", false}, {"0.10", true}, {"0.1", false}, {"1e400", true});
    CHECK("{\"const\":{\"a\":[1.50,{\"b\":12345678901234567890123}]}}",
          {"{\"a\":[1.50,{\"b\":12345678901234567890123}]}", true},
          {"{\"a\":[1.5,{\"b\":12345678901234567890123}]}", false});
    CHECK("{\"type\":\"integer\",\"enum\":[1.0,1.5,9007199254740993.5,1e2]}", {"1.0", true},
          {"1.5", false}, {"9007199254740993.5", false}, {"1e2", true});
    CHECK("{\"allOf\":[{\"enum\":[1,9007199254740992]},{\"enum\":[1.0,9007199254740993]}]}",
          {"1", true}, {"9007199254740992", false}, {"9007199254740993", false});
}

static void bounds_are_exact(void **state)
{
    (void)state;
    CHECK("{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807}",
          {"9223372036854775807", true}, {"9223372036854775808", false}, {"0", true},
          {"-9223372036854775808", true}, {"-9223372036854775809", false});
    CHECK("{\"type\":\"integer\",\"exclusiveMinimum\":9007199254740992}",
          {"9007199254740992", false},
          {"9007199254740993", true}, {"90071992547409930", true}, {"5", false});
    CHECK("{\"type\":\"integer\",\"maximum\":-1e20}", {"-100000000000000000000", true},
          {"-99999999999999999999", false}, {"-999999999999999999999", true}, {"0", false});
    CHECK("{\"type\":\"integer\",\"minimum\":0,\"maximum\":1e308}", {"999999999999999", true},
          {"-1", false}, {"0", true});
    CHECK("{\"type\":\"integer\",\"minimum\":99999999999999999999999999999999999e0}",
          {"99999999999999999999999999999999999", true},
          {"99999999999999999999999999999999998", false},
          {"100000000000000000000000000000000000", true});
    CHECK("{\"type\":\"number\",\"minimum\":1.5e-10,\"exclusiveMaximum\":0.0000000003}",
          {"0.0000000002", true}, {"0.0000000003", false}, {"0", false}, {"0.0000000001", false});
    CHECK("{\"type\":\"number\",\"minimum\":1e18,\"maximum\":2.5E18}",
          {"1000000000000000000", true},
          {"1000000000000000000.25", true}, {"2500000000000000000", true},
          {"2500000000000000001", false}, {"999999999999999999", false});
    CHECK("{\"enum\":[9007199254740992,9007199254740993,5],\"minimum\":9007199254740993}",
          {"9007199254740993", true}, {"9007199254740992", false}, {"5", false});
    CHECK("{\"type\":\"integer\"}", {"9223372036854775807", true}, {"-1234567890123456789", true});
}

static void equal_items_are_one(void **state)
{
    (void)state;
    CHECK("{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":1,\"items\":{\"enum\":[1,1.0,"
          "{\"a\":1,\"b\":2},{\"b\":2.0,\"a\":1e0}]}}",
          {"[1]", true}, {"[1.0]", false}, {"[1,{\"a\":1,\"b\":2}]", true}, {"[1,1.0]", false},
          {"[{\"b\":2.0,\"a\":1e0}]", false});
    CHECK("{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":2,\"items\":{\"enum\":["
          "9007199254740992,9007199254740993]}}",
          {"[9007199254740992,9007199254740993]", true}, {"[9007199254740992]", false});
}

static void multiples_of_long_numbers(void **state)
{
    (void)state;
    CHECK("{\"type\":\"integer\",\"multipleOf\":1234567890123456789}", {"0", true},
          {"1234567890123456789", true}, {"-2469135780246913578", true},
          {"1234567890123456788", false});
    CHECK("{\"type\":\"integer\",\"multipleOf\":1e20}", {"100000000000000000000", true},
          {"0", true},
          {"10000000000000000000", false});
    CHECK("{\"type\":\"number\",\"multipleOf\":1e-7}", {"0.0000001", true}, {"3", true},
          {"0.00000001", false}, {"12.3456789", true});
    CHECK("{\"type\":\"integer\",\"multipleOf\":1.0}", {"3", true}, {"1.0", false});
    CHECK("{\"type\":\"integer\",\"multipleOf\":7,"
          "\"minimum\":1e18,\"maximum\":1000000000000000010}",
          {"1000000000000000006", true}, {"1000000000000000005", false}, {"7", false});
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
        "{\"$defs\":{\"a\":{\"enum\":[1,2]},\"b\":{\"items\":{\"$ref\":\"#/$defs/"
        "a\"},\"uniqueItems\":true},"
        "\"c\":{\"type\":\"string\",\"pattern\":\"^(?!b)a+\\\\b\",\"maxLength\":5},\"d\":{"
        "\"patternProperties\":{\"^a\":{},\"b$\":{\"type\":\"integer\",\"multipleOf\":7,"
        "\"nullable\":true}},"
        "\"propertyNames\":{\"maxLength\":4},\"minProperties\":1,\"properties\":{\"q\":{\"$ref\":"
        "\"#/$defs/b\"},"
        "\"r\":{\"$ref\":\"#/$defs/c\"}}}},\"type\":\"object\",\"properties\":{\"x\":{\"$ref\":"
        "\"#/$defs/a\"},\"z\":{\"$ref\":\"#/$defs/"
        "d\"},\"y\":{\"type\":\"string\",\"maxLength\":9}},\"additionalProperties\":{"
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
        cmocka_unit_test(unknown_keywords_assert_nothing),
        cmocka_unit_test(assertions_are_refused_by_name),
        cmocka_unit_test(numbers_of_any_size),
        cmocka_unit_test(constants_are_written_as_they_stand),
        cmocka_unit_test(bounds_are_exact),
        cmocka_unit_test(equal_items_are_one),
        cmocka_unit_test(multiples_of_long_numbers),
        cmocka_unit_test(all_multiples_in_a_range),
        cmocka_unit_test(items_that_differ),
        cmocka_unit_test(keys_by_patterns),
        cmocka_unit_test(members_are_counted),
        cmocka_unit_test(what_others_write),
        cmocka_unit_test(bounds_of_draft_4),
        cmocka_unit_test(formats_of_any_length),
        cmocka_unit_test(contradictions_are_named),
        cmocka_unit_test(deep_nesting),
        cmocka_unit_test(out_of_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
