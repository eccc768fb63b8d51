/* tests/unit/server/test_http_parser.c - HTTP/1.1 as it stands in RFC 9112, however it is cut;
 * limits; memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/hosts.h"
#include "core/base/mem.h"
#include "server/http/http_grammar.h"
#include "tests/unit/server/http_transcript.h"

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\n" HOST
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define NUL "\0"

struct text {
    const char *bytes;
    size_t n;
};
#define TEXT(literal) {literal, sizeof(literal) - 1}

static const struct text good[] = {
    TEXT(GET HOST "\r\n"),
    TEXT("\r\nGET /a%20b?x=1&y=%41+ HTTP/1.1\r\nhOsT: a:80\r\nX:\r\nY: \t z \t\r\n\r\n"),
    TEXT(POST "Content-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n" HOST "\r\n"),
    TEXT(POST "Content-Length: 0\r\n\r\nGET / HTTP/1.0\r\n\r\n"),
    TEXT(CHUNKED "5\r\nhello\r\n00b;a=b;c=\"d\\\"\"\r\n"
         "hello world\r\n0;x\r\nA: b\r\nC:\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n"),
    TEXT(POST "Transfer-Encoding: CHUNKED\r\nExpect: 100-Continue\r\n\r\n0\r\n\r\n"),
    TEXT("GET http://b.example:1/c?d HTTP/1.1\r\n" HOST "Connection: x, Close\r\n\r\n"),
    TEXT("OPTIONS * HTTP/1.1\r\n" HOST "\r\n"),
    TEXT("GET / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: tea\r\n\r\n"),
};

static const struct text bad[] = {
    TEXT("\r\n\r\n"), TEXT("\n"), TEXT("\rG"), TEXT("GET\r\n"), TEXT("GET /\r\n"),
    TEXT(" GET / HTTP/1.1\r\n"),
    TEXT("GET / HTTP/1.1\n"), TEXT("GET / HTTP/1.1\r\r\n"), TEXT("GET /" NUL " HTTP/1.1\r\n"),
    TEXT("GET / HTTP/1.1\r\nHost: a\n"), TEXT("GET / HTTP/1.1\r\n Host: a\r\n"),
    TEXT("GET / HTTP/1.1\r\n\r\n"),
    TEXT(GET HOST "A: b\r\n c\r\n"), TEXT(GET HOST HOST "\r\n"),
    TEXT(GET HOST "A b: c\r\n"), TEXT(GET HOST "A : c\r\n"),
    TEXT(GET HOST ": c\r\n"), TEXT(GET HOST "A\r\n"),
    TEXT(GET HOST "A: b" NUL "\r\n"), TEXT("GET / HTTP/3.0\r\n"), TEXT("CONNECT a:1 HTTP/1.1\r\n"),
    TEXT("GET /%0 HTTP/1.1\r\n" HOST "\r\n"), TEXT("GET /%00 HTTP/1.1\r\n" HOST "\r\n"),
    TEXT("GET a HTTP/1.1\r\n" HOST "\r\n"), TEXT("GET http:///a HTTP/1.1\r\n" HOST "\r\n"),
    TEXT(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
    TEXT(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"),
    TEXT(POST "Content-Length: 9223372036854775808\r\n\r\n"),
    TEXT(POST "Transfer-Encoding: gzip, chunked\r\n\r\n"),
    TEXT(CHUNKED "5\r\nhellox"),
    TEXT(CHUNKED "5\n"),
    TEXT(CHUNKED "5;\r\n"),
    TEXT(CHUNKED "5;a=\"b\r\n"),
    TEXT(CHUNKED "8000000000000000\r\n"),
    TEXT(CHUNKED "00000000000000005\r\n"),
    TEXT(CHUNKED "0\r\nHost: b\r\n\r\n"),
};

/* ---- cuts ---- */

static size_t cut_once(void *ud, size_t at)
{
    const size_t *where = ud;

    return at < *where ? *where - at : SIZE_MAX;
}

static size_t cut_always(void *ud, size_t at)
{
    (void)ud, (void)at;
    return 1;
}

static void read_text(const struct text *t, size_t (*cut)(void *ud, size_t at), void *ud,
                      struct buf *out)
{
    char *copy = mem_dup(t->bytes, t->n); /* its own block: a sanitizer sees a read past the end */

    buf_init(out, TRANSCRIPT_MAX);
    assert_non_null(copy);
    transcribe(copy, t->n, cut, ud, out, NULL, NULL, 0);
    mem_free(copy);
}

static void check_cuts(const struct text *t, const char *last)
{
    struct buf whole, cut;

    read_text(t, NULL, NULL, &whole);
    if (strstr(whole.data, last) == NULL)
        fail_msg("no %s in %s", last, whole.data);
    for (size_t where = 1; where < t->n; where++) {
        read_text(t, cut_once, &where, &cut);
        assert_string_equal(cut.data, whole.data);
        buf_release(&cut);
    }
    read_text(t, cut_always, NULL, &cut);
    assert_string_equal(cut.data, whole.data);
    buf_release(&cut);
    buf_release(&whole);
}

static void test_good_at_every_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        check_cuts(&good[i], "end\nbegun=0\n");
}

static void test_bad_at_every_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        check_cuts(&bad[i], "\nbad ");
}

static void test_what_is_read(void **state)
{
    struct buf out;

    (void)state;
    read_text(&good[1], NULL, NULL, &out);
    assert_string_equal(out.data,
                        "head GET path=/a b query=x=1&y=%41+ host=a:80 10=0 keep=1 expect=00 "
                        "framing=0:0\n hOsT=a:80\n X=\n Y=z\n\nend\nbegun=0\n");
    buf_release(&out);
    read_text(&good[4], NULL, NULL, &out);
    assert_non_null(strstr(out.data, "chunked\nhellohello world\nend\nhead GET"));
    buf_release(&out);
    read_text(&good[6], NULL, NULL, &out);
    assert_non_null(strstr(out.data, "path=/c query=d host=b.example:1 10=0 keep=0 "));
    buf_release(&out);
}

/* ---- limits ---- */

static int status_of(const struct buf *text)
{
    struct http_parser p = {0};
    const char *at = text->data, *body = NULL;
    enum http_event e = HTTP_BODY;
    size_t n_body = 0;
    int status;

    while (e != HTTP_MORE && e != HTTP_BAD && e != HTTP_END)
        e = http_parser_next(&p, &at, text->data + text->len, &body, &n_body);
    status = e == HTTP_BAD ? p.status : e == HTTP_END ? 200 : 0;
    assert_true(p.head.cap <= 2 * HTTP_MAX_HEAD + 64 && p.trailer.cap <= 2 * HTTP_MAX_TRAILER + 64);
    http_parser_reset(&p);
    return status;
}

static void add_many(struct buf *b, char c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_add_char(b, c);
}

static int with_line_of(size_t n)
{
    struct buf b;

    buf_init(&b, TRANSCRIPT_MAX);
    buf_add_str(&b, "GET /");
    add_many(&b, 'a', n - strlen("GET / HTTP/1.1"));
    buf_add_str(&b, " HTTP/1.1\r\n" HOST "\r\n");
    const int status = status_of(&b);

    buf_release(&b);
    return status;
}

static int with_fields(size_t n, size_t bytes)
{
    struct buf b;

    buf_init(&b, TRANSCRIPT_MAX);
    buf_add_str(&b, GET HOST);
    for (size_t i = 1; i < n; i++) {
        buf_add_str(&b, "A:");
        add_many(&b, 'b', bytes);
        buf_add_str(&b, "\r\n");
    }
    buf_add_str(&b, "\r\n");
    const int status = status_of(&b);

    buf_release(&b);
    return status;
}

static int with_chunks(size_t n_chunks, size_t extension, size_t trailer)
{
    struct buf b;

    buf_init(&b, TRANSCRIPT_MAX);
    buf_add_str(&b, CHUNKED "");
    for (size_t i = 0; i < n_chunks; i++) {
        buf_add_str(&b, "1;");
        add_many(&b, 'e', extension);
        buf_add_str(&b, "\r\nx\r\n");
    }
    buf_add_str(&b, "0\r\nA:");
    add_many(&b, 't', trailer);
    buf_add_str(&b, "\r\n\r\n");
    const int status = status_of(&b);

    buf_release(&b);
    return status;
}

static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(with_line_of(HTTP_MAX_LINE), 200);
    assert_int_equal(with_line_of(HTTP_MAX_LINE + 1), 414);
    assert_int_equal(with_fields(HTTP_MAX_FIELDS, 1), 200);
    assert_int_equal(with_fields(HTTP_MAX_FIELDS + 1, 1), 431);
    for (size_t left = 0; left < 40; left++) /* around the end of the head's room */
        assert_int_equal(with_fields(2, HTTP_MAX_HEAD - 60 + left) == 200,
                         left + strlen("GET / HTTP/1.1_Host: a_A:") <= 60);
    assert_int_equal(with_fields(90, 170), 200);
    assert_int_equal(with_fields(90, 200), 431);
    assert_int_equal(with_chunks(1, HTTP_MAX_EXTENSION, 1), 200);
    assert_int_equal(with_chunks(1, HTTP_MAX_EXTENSION + 1, 1), 400);
    assert_int_equal(with_chunks(HTTP_MAX_EXTENSIONS / 64, 64, 1), 200);
    assert_int_equal(with_chunks(HTTP_MAX_EXTENSIONS / 64 + 1, 64, 1), 400);
    assert_int_equal(with_chunks(1, 1, HTTP_MAX_TRAILER - 2), 200);
    assert_int_equal(with_chunks(1, 1, HTTP_MAX_TRAILER - 1), 431);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 20; n++) {
        struct buf b;

        buf_init(&b, TRANSCRIPT_MAX);
        buf_add(&b, good[4].bytes, good[4].n);
        mem_fail_after(n);
        const int status = status_of(&b);
        const int has_failed = mem_has_failed();

        mem_fail_after(-1);
        assert_int_equal(status, has_failed ? 503 : 200);
        buf_release(&b);
    }
}

/* ---- small rules ---- */

static void test_hosts(void **state)
{
    static const char *const fine[] = {"a",  "a.b:1", "127.0.0.1:65535", "[::1]",
                                       "[::ffff:1.2.3.4]:80",
                                       "a:", "x_y"};
    static const char *const wrong[] = {"",     ":80", "a b", "a/b",   "u@a", "a:b", "a:65536",
                                        "[::1", "[]",  "[1]", "a:1:2",
                                        "a,b", "[::1]x", "\xc3\xa4", "a%41"};

    (void)state;
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
        assert_true(http_host_is_valid(fine[i]));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(http_host_is_valid(wrong[i]));
    assert_true(hosts_are_valid("*") && hosts_are_valid("a,*.b.c,[::1],127.0.0.1"));
    assert_false(hosts_are_valid("") || hosts_are_valid("a, b") || hosts_are_valid("a:80") ||
                 hosts_are_valid("*.") || hosts_are_valid("a,") || hosts_are_valid("[x]"));
    assert_true(hosts_is_local("127.1.2.3", 9) && hosts_is_local("[::1]", 5));
    assert_false(hosts_is_local("127.1", 5) || hosts_is_local("[::2]", 5) || hosts_is_local("", 0));
}

static void test_lists(void **state)
{
    uint64_t n = 0;

    (void)state;
    assert_true(http_list_has("a, CLOSE ,b", "close") && http_list_has("close", "close"));
    assert_false(http_list_has("closed", "close") || http_list_has("", "close") ||
                 http_list_has("a;close", "close"));
    assert_true(http_has_foreign_coding("gzip, chunked") && http_has_foreign_coding("x,y,chunked"));
    assert_false(http_has_foreign_coding("chunked") || http_has_foreign_coding("gzip") ||
                 http_has_foreign_coding("chunked, gzip, chunked") ||
                 http_has_foreign_coding("identity, chunked"));
    assert_true(http_read_length("9223372036854775807", &n) && n == INT64_MAX);
    assert_false(http_read_length("9223372036854775808", &n) || http_read_length("", &n) ||
                 http_read_length("00000000000000000001", &n) || http_read_length("1 ", &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_at_every_cut), cmocka_unit_test(test_bad_at_every_cut),
        cmocka_unit_test(test_what_is_read),      cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_memory),         cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
