/* tests/unit/json/test_json_scan.c - JSON looked at byte by byte, against json_parse(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "core/json/json_scan.h"
#include "tests/fixtures/random.h"

#include <stdio.h>
#include <string.h>

#define MAX_TEXT 4096

/* Is text[0..n) one object or list, as the scan sees it? */
static bool scans(const char *text, size_t n)
{
    struct json_scan s;
    bool has_ended = false;

    json_scan_init(&s);
    for (size_t i = 0; i < n; i++) {
        const unsigned events = json_scan_byte(&s, text[i]);

        if ((events & JSON_EVENT_BAD) != 0)
            return false;
        has_ended = has_ended || ((events & JSON_EVENT_END) != 0 && s.depth == 0);
    }
    return has_ended;
}

static bool parses(const char *text, size_t n)
{
    const char *why = NULL;
    cJSON *json = NULL;
    bool yes;

    (void)json_parse(text, n, &json, &why);
    yes = cJSON_IsObject(json) || cJSON_IsArray(json);
    cJSON_Delete(json);
    return yes;
}

static void what_is_json(void **state)
{
    static const char *const yes[] = {
        "{}",
        " [ ] ",
        "[1,-0,0.5,1e9,2E+3,3.25e-1]",
        "{\"a\":{\"b\":[true,false,null]},\"\":\"\"}",
        "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"]",
        "[\"\n\t\"]",
        "{\"a\":[[],{}] , \"b\" : 1 }",
    };
    static const char *const no[] = {
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "[01]",
        "[1.]",
        "[.5]",
        "[1e]",
        "[-]",
        "[+1]",
        "[tru]",
        "[truex]",
        "[\"\\x\"]",
        "[\"\\u12g4\"]",
        "[\"\\u0000\"]",
        "[\"\\ud83d\"]",
        "[\"\\ude00\"]",
        "[\"\\ud83dx\"]",
        "[\"\\ud83d\\n\"]",
        "[\"\\ud83d\\u0041\"]",
        "[}",
        "{]",
        "[]]",
        "[1 2]",
        "[] []",
        "{\"a\"}",
        "{,}",
        "[,1]",
    };
    (void)state;

    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        if (!scans(yes[i], strlen(yes[i])) || !parses(yes[i], strlen(yes[i])))
            fail_msg("%s", yes[i]);
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        if (scans(no[i], strlen(no[i])) || parses(no[i], strlen(no[i])))
            fail_msg("%s", no[i]);
}

static void depth_has_an_end(void **state)
{
    char text[2 * JSON_MAX_DEPTH + 2];
    (void)state;

    memset(text, '[', JSON_MAX_DEPTH + 1);
    memset(text + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
    assert_true(scans(text + 1, (size_t)2 * JSON_MAX_DEPTH));
    assert_false(scans(text, (size_t)2 * JSON_MAX_DEPTH + 2));
}

/* ---- random texts ---- */

static void add_any(struct buf *b, uint64_t *r, uint32_t depth);

static void add_text(struct buf *b, uint64_t *r)
{
    static const char *const pieces[] = {"a", "é", "\\n", "\\\"", "\\u00e9", "\\ud83d\\ude00",
                                         " ", "{", "]"};

    buf_add_char(b, '"');
    for (uint32_t n = random_below(r, 5); n > 0; n--)
        buf_add_str(b, pieces[random_below(r, sizeof(pieces) / sizeof(pieces[0]))]);
    buf_add_char(b, '"');
}

static void add_members(struct buf *b, uint64_t *r, uint32_t depth, bool is_object)
{
    buf_add_char(b, is_object ? '{' : '[');
    for (uint32_t n = random_below(r, 4), i = 0; i < n; i++) {
        buf_add_str(b, i > 0 ? ", " : "");
        if (is_object) {
            buf_printf(b, "\"k%u", i);
            buf_add_str(b, random_below(r, 2) == 0 ? "\\\\\" : " : "\":");
        }
        add_any(b, r, depth + 1);
    }
    buf_add_char(b, is_object ? '}' : ']');
}

static void add_any(struct buf *b, uint64_t *r, uint32_t depth)
{
    static const char *const scalars[] = {"0", "-12", "3.75", "1e-3", "true", "false", "null"};
    const uint32_t kind = random_below(r, depth > 5 ? 2 : 5);

    if (kind == 0)
        buf_add_str(b, scalars[random_below(r, sizeof(scalars) / sizeof(scalars[0]))]);
    else if (kind == 1)
        add_text(b, r);
    else
        add_members(b, r, depth, kind != 2);
}

/* Are `cut`'s values those of `whole`, as far as there are any? */
static bool is_part(const cJSON *cut, const cJSON *whole)
{
    const cJSON *b = whole != NULL ? whole->child : NULL;

    if (whole == NULL)
        return false;
    if (cJSON_IsString(cut))
        return cJSON_IsString(whole) &&
               strncmp(whole->valuestring, cut->valuestring, strlen(cut->valuestring)) == 0;
    if (!cJSON_IsObject(cut) && !cJSON_IsArray(cut))
        return cJSON_Compare(cut, whole, true);
    for (const cJSON *a = cut->child; a != NULL; a = a->next, b = b->next)
        if (!is_part(a, b))
            return false;
    return cJSON_IsObject(cut) == cJSON_IsObject(whole);
}

static void check_cut(const char *text, size_t n, const cJSON *whole)
{
    const char *why = NULL;
    struct buf closed;
    cJSON *json = NULL;

    buf_init(&closed, (size_t)2 * MAX_TEXT);
    assert_int_equal(json_add_closed(&closed, text, n), 0);
    if (json_parse(closed.data, closed.len, &json, &why) < 0 ||
        (n > 0 && !is_part(json, whole) && strcmp(closed.data, "{}") != 0))
        fail_msg("%.*s -> %s", (int)n, text, closed.data);
    cJSON_Delete(json);
    buf_release(&closed);
}

/* Each beginning can be closed, and says what the whole text says; each change of a byte is seen by
 * both or by none. */
static void as_the_parser(void **state)
{
    uint64_t r = 11;
    (void)state;

    for (int round = 0; round < 400; round++) {
        const char *why = NULL;
        struct buf b;
        cJSON *whole = NULL;

        buf_init(&b, MAX_TEXT);
        add_members(&b, &r, 0, true);
        if (b.err == 0) {
            assert_int_equal(json_parse(b.data, b.len, &whole, &why), 0);
            assert_true(scans(b.data, b.len));
            for (size_t n = 0; n <= b.len; n++)
                if (n == b.len || ((unsigned char)b.data[n] & 0xc0) != 0x80)
                    check_cut(b.data, n, whole);
            b.data[random_below(&r, (uint32_t)b.len)] = " {}[]:,\"\\9.e-t"[random_below(&r, 14)];
            if (json_is_utf8(b.data, b.len) && scans(b.data, b.len) != parses(b.data, b.len))
                fail_msg("%s", b.data);
        }
        cJSON_Delete(whole);
        buf_release(&b);
    }
}

static void what_is_left_out(void **state)
{
    static const char *const cases[][2] = {
        {"", "{}"},
        {"  ", "{}"},
        {"12", "{}"},
        {"\"a", "{}"},
        {"oops", "{}"},
        {"{\"a", "{}"},
        {"{\"a\":", "{}"},
        {"{\"a\":12", "{}"},
        {"{\"a\":12,", "{\"a\":12}"},
        {"{\"a\":tr", "{}"},
        {"{\"a\":\"x\\", "{\"a\":\"x\"}"},
        {"{\"a\":\"x\\u00", "{\"a\":\"x\"}"},
        {"{\"a\":\"\\ud83d\\ude", "{\"a\":\"\"}"},
        {"{\"a\":[1,{\"b\":null", "{\"a\":[1,{\"b\":null}]}"},
        {"{\"a\":[1 oops", "{\"a\":[1]}"},
        {"{\"a\":1}", "{\"a\":1}"},
        {"[{", "[{}]"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out;

        buf_init(&out, 100);
        assert_int_equal(json_add_closed(&out, cases[i][0], strlen(cases[i][0])), 0);
        assert_string_equal(out.data, cases[i][1]);
        buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_json),
        cmocka_unit_test(depth_has_an_end),
        cmocka_unit_test(as_the_parser),
        cmocka_unit_test(what_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
