/* tests/unit/server/test_http_grammar.c - the small rules of HTTP: tokens, lengths, codings, hosts,
 * targets, percent encoding; and what a request's head says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/hosts.h"
#include "core/base/err.h"
#include "server/http/http_grammar.h"
#include "server/http/http_request.h"
#include "server/http/http_target.h"

#define LEN(array) (sizeof(array) / sizeof((array)[0]))

/* ---- http_grammar.h ---- */

static void test_tokens(void **state)
{
    (void)state;
    assert_true(http_is_token("X-a_b.1~", 8) && http_is_token("a b", 1));
    assert_false(http_is_token("", 0) || http_is_token("a b", 3) || http_is_token("a:", 2) ||
                 http_is_token("a\0", 2) || http_is_token("(a)", 3) || http_is_token("\xe4", 1));
    for (int c = 0; c < 256; c++)
        assert_int_equal(http_is_token_char((char)c),
                         c > 0x20 && c < 0x7f && strchr("\"(),/:;<=>?@[\\]{}", c) == NULL);
}

static void test_lengths(void **state)
{
    static const char *const wrong[] = {"",   " 1",  "1 ", "+1",  "-1", "0x1",
                                        "1,", "1,1", "1a", "1.0", "\"1\"",
                                        "9223372036854775808", "00000000000000000001"};
    uint64_t n = 1;

    (void)state;
    assert_true(http_read_length("0", &n) && n == 0);
    assert_true(http_read_length("0000000000000000012", &n) && n == 12);
    assert_true(http_read_length("9223372036854775807", &n) && n == INT64_MAX);
    for (size_t i = 0; i < LEN(wrong); i++)
        assert_false(http_read_length(wrong[i], &n));
}

static void test_codings(void **state)
{
    static const char *const foreign[] = {"gzip, chunked", "x,y,chunked", "GZIP\t , Chunked"};
    static const char *const other[] = {"", "chunked", "gzip", "chunked, gzip, chunked",
                                        "identity, chunked", "gzip, chunked, chunked",
                                        "gzip, chunkedx", "gzip;q=1, chunked", ", chunked"};

    (void)state;
    for (size_t i = 0; i < LEN(foreign); i++)
        assert_true(http_has_foreign_coding(foreign[i]));
    for (size_t i = 0; i < LEN(other); i++)
        assert_false(http_has_foreign_coding(other[i]));
}

/* ---- http_target.h ---- */

static void test_hosts(void **state)
{
    static const char *const fine[] = {"a",  "a.b:1", "127.0.0.1:65535", "[::1]",
                                       "[::ffff:1.2.3.4]:80",
                                       "a:", "x_y"};
    static const char *const wrong[] = {"",     ":80", "a b", "a/b",   "u@a", "a:b", "a:65536",
                                        "[::1", "[]",  "[1]", "a:1:2",
                                        "a,b", "[::1]x", "\xc3\xa4", "a%41"};

    (void)state;
    for (size_t i = 0; i < LEN(fine); i++)
        assert_true(http_host_is_valid(fine[i]));
    for (size_t i = 0; i < LEN(wrong); i++)
        assert_false(http_host_is_valid(wrong[i]));
    assert_int_equal(http_host_name_length("a.b:1"), 3);
    assert_int_equal(http_host_name_length("a"), 1);
    assert_int_equal(http_host_name_length("[::1]:80"), 5);
    assert_int_equal(http_host_name_length("[::1"), 4);
    assert_true(hosts_are_valid("*") && hosts_are_valid("a,*.b.c,[::1],127.0.0.1"));
    assert_false(hosts_are_valid("") || hosts_are_valid("a, b") || hosts_are_valid("a:80") ||
                 hosts_are_valid("*.") || hosts_are_valid("a,") || hosts_are_valid("[x]"));
    assert_true(hosts_is_local("127.1.2.3", 9) && hosts_is_local("[::1]", 5));
    assert_false(hosts_is_local("127.1", 5) || hosts_is_local("[::2]", 5) || hosts_is_local("", 0));
}

static void check_part(const char *is, const char *wanted)
{
    assert_int_equal(is != NULL, wanted != NULL);
    if (wanted != NULL)
        assert_string_equal(is, wanted);
}

static void test_targets(void **state)
{
    static const struct {
        const char *text, *method, *path, *query, *host;
    } fine[] = {
        {"/", "GET", "/", NULL, NULL},
        {"/a%20b+c?x=1&y=%41+", "GET", "/a b+c", "x=1&y=%41+", NULL},
        {"/a?", "POST", "/a", "", NULL},
        {"//a/../b?c?d", "GET", "//a/../b", "c?d", NULL},
        {"/a|b{c}", "GET", "/a|b{c}", NULL, NULL},
        {"*", "OPTIONS", "*", NULL, NULL},
        {"http://b.example:1/c?d", "GET", "/c", "d", "b.example:1"},
        {"HTTPS://[::1]/", "GET", "/", NULL, "[::1]"},
        {"http://a", "GET", "/", NULL, "a"},
        {"http://a?b", "GET", "/", "b", "a"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(fine); i++) {
        struct http_target t;
        char text[64];

        snprintf(text, sizeof(text), "%s", fine[i].text);
        assert_int_equal(http_target_parse(&t, text, fine[i].method), 0);
        check_part(t.path, fine[i].path);
        check_part(t.query, fine[i].query);
        check_part(t.host, fine[i].host);
    }
}

static void test_targets_that_are_none(void **state)
{
    static const char *const wrong[] = {
        "",           "*",          "a",       "a:1",       "http:///a", "http://a:b/", "ftp://a/",
        "http://u@a", "http:/a",    "/a#b",    "/a b",      "/a\tb",     "/a\\b",       "/\x7f",
        "/\xc3\xa4",  "/\"",        "/<a>",    "/%",        "/%4",       "/%4g",        "/%00",
        "/a?%00",     "/a?b=%4",    "http://a/%00",
    };

    (void)state;
    for (size_t i = 0; i < LEN(wrong); i++) {
        struct http_target t;
        char text[64];

        snprintf(text, sizeof(text), "%s", wrong[i]);
        assert_int_equal(http_target_parse(&t, text, "GET"), ERR_INVAL);
    }
}

static void test_percent_decoding(void **state)
{
    char path[] = "%41+%2B%c3%A4%25", query[] = "%41+%2B%c3%A4%25", none[] = "";

    (void)state;
    http_percent_decode(path, false);
    assert_string_equal(path, "A++\xc3\xa4%");
    http_percent_decode(query, true);
    assert_string_equal(query, "A +\xc3\xa4%");
    http_percent_decode(none, true);
    assert_string_equal(none, "");
}

/* ---- http_request.h ---- */

static void test_requests(void **state)
{
    const struct http_request none = {0}, chunked = {.is_chunked = true}, sized = {.length = 1};
    const struct http_request r = {
        .method = "POST",
        .n_fields = 3,
        .fields = {{"hOsT", "a"}, {"X", ""}, {"host", "b"}},
    };

    (void)state;
    assert_string_equal(http_request_method(&r), "POST");
    assert_string_equal(http_request_method(&none), "");
    assert_string_equal(http_request_field(&r, "Host"), "a");
    assert_string_equal(http_request_field(&r, "x"), "");
    assert_null(http_request_field(&r, "Hos"));
    assert_int_equal(http_request_count(&r, "HOST"), 2);
    assert_int_equal(http_request_count(&r, "Y"), 0);
    assert_true(http_request_has_body(&chunked) && http_request_has_body(&sized));
    assert_false(http_request_has_body(&r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_codings),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_targets_that_are_none),
        cmocka_unit_test(test_percent_decoding),
        cmocka_unit_test(test_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
