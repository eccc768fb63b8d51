/* tests/unit/server/test_multipart.c - forms, whole and cut at every byte, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "server/batches/multipart.h"

#define TYPE "multipart/form-data; boundary=xyz"

/* "name=data;" of each part, "name:filename=data;" of a file, "." at the end, "!" for an error. */
static const char *read_form(const char *type, const char *text, size_t n, size_t piece,
                             struct buf *out)
{
    enum multipart_event e = MULTIPART_MORE;
    struct multipart m;

    buf_clear(out);
    buf_add_str(out, "");
    if (!multipart_init(&m, type))
        return "no form";
    for (size_t from = 0; from < n && e != MULTIPART_BAD; from += piece) {
        const char *at = text + from, *end = text + (n - from < piece ? n : from + piece);
        const char *data;
        size_t n_data;

        while ((e = multipart_next(&m, &at, end, &data, &n_data)) != MULTIPART_MORE) {
            if (e == MULTIPART_PART)
                buf_printf(out, "%s%s%s=", m.name, m.has_filename ? ":" : "", m.filename);
            else if (e == MULTIPART_DATA)
                buf_add(out, data, n_data);
            else
                buf_add_char(out, e == MULTIPART_PART_END ? ';' : e == MULTIPART_END ? '.' : '!');
            if (e == MULTIPART_BAD)
                break;
        }
    }
    return out->data;
}

/* The same however it is cut. */
static void expect(const char *type, const char *text, const char *what)
{
    const size_t n = strlen(text);
    struct buf out;

    buf_init(&out, 1 << 16);
    for (size_t piece = 1; piece <= n; piece++)
        assert_string_equal(read_form(type, text, n, piece, &out), what);
    buf_release(&out);
}

static void test_forms(void **state)
{
    (void)state;
    expect(TYPE,
           "--xyz\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
           "--xyz\r\nContent-Type: text/plain\r\ncontent-disposition: form-data; "
           "name=file; filename=\"a b.jsonl\"\r\n\r\n{}\r\n{}\r\n\r\n--xyz--\r\nwhat follows",
           "purpose=batch;file:a b.jsonl={}\r\n{}\r\n;.");
    expect("Multipart/Form-Data;charset=utf-8; boundary=\"a b\"",
           "before\r\n--a b  \r\nContent-Disposition: form-data; name=\"q\\\"\\\\\"\r\n\r\n"
           "\r\n--a b--",
           "q\"\\=;.");
}

/* What looks like the begin of a boundary is data. */
static void test_almost_boundaries(void **state)
{
    (void)state;
    expect(TYPE,
           "--xyz\r\nContent-Disposition: form-data; name=f\r\n\r\n"
           "\r\n--xy\r\r\n\r\n-\r\n--xY--xyz\r\n--x\r\n--xyz--",
           "f=\r\n--xy\r\r\n\r\n-\r\n--xY--xyz\r\n--x;.");
}

static void test_refused(void **state)
{
    (void)state;
    expect(TYPE, "--xyz\r\nContent-Type: text/plain\r\n\r\n", "!");
    expect(TYPE, "--xyz\r\nContent-Disposition: form-data\r\n\r\n", "!");
    expect(TYPE, "--xyz\r\nContent-Disposition: attachment; name=f\r\n\r\n", "!");
    expect(TYPE, "--xyz\r\nContent-Disposition: form-data; name=\"f\r\n\r\n", "!");
    expect(TYPE, "--xyz\nContent-Disposition: form-data; name=f\r\n\r\n", "!");
    expect(TYPE, "--xyz\r\nContent-Disposition: form-data; name=f\n\r\n", "!");
    expect(TYPE, "--xyzw\r\n", "!");
    expect(TYPE, "--xyz-\r\n", "!");
}

static void test_limits(void **state)
{
    struct buf text, out;

    (void)state;
    buf_init(&text, 1 << 16);
    buf_init(&out, 1 << 16);
    buf_add_str(&text, "--xyz\r\nContent-Disposition: form-data; name=");
    for (int i = 0; i < MULTIPART_MAX_NAME + 1; i++)
        buf_add_char(&text, 'n');
    buf_add_str(&text, "\r\n\r\n");
    assert_string_equal(read_form(TYPE, text.data, text.len, 7, &out), "!");
    buf_clear(&text);
    buf_add_str(&text, "--xyz\r\nX: ");
    for (int i = 0; i < MULTIPART_MAX_HEADERS; i++)
        buf_add_char(&text, 'n');
    assert_string_equal(read_form(TYPE, text.data, text.len, 4096, &out), "!");
    assert_string_equal(read_form(TYPE, text.data, text.len - 1, 1, &out), "!");
    buf_release(&text);
    buf_release(&out);
}

static void test_types(void **state)
{
    static const char *const bad[] = {
        "application/json", "multipart/form-data", "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"a", "multipart/form-data; boundary=a\\b",
        "multipart/form-data; boundary=\"a \"", "multipart/form-databoundary=a",
        "multipart/form-data; boundary="
        "0123456789012345678901234567890123456789012345678901234567890123456789x",
    };
    struct multipart m;

    (void)state;
    assert_false(multipart_init(&m, NULL));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(multipart_init(&m, bad[i]));
    assert_true(multipart_init(&m, "multipart/form-data; x=1; BOUNDARY=a'()+_,-./:=?b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),   cmocka_unit_test(test_almost_boundaries),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
