/* tests/unit/base/test_buf.c - core/base/buf.h: bytes that grow up to a maximum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"

#include <string.h>

static void buf_stops_at_its_maximum(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(buf_add_char(&b, (char)('a' + i % 26)), 0);
    assert_int_equal(b.len, 100);
    assert_int_equal(b.data[99], 'a' + 99 % 26);
    assert_int_equal(b.data[100], '\0');
    assert_int_equal(buf_add(&b, "", 0), 0);
    assert_int_equal(buf_add_char(&b, '!'), ERR_LIMIT);
    assert_int_equal(b.len, 100);
    /* Sticky: what would fit fails too, until it is cleared. */
    buf_consume(&b, 50);
    assert_int_equal(buf_add_str(&b, "x"), ERR_LIMIT);
    assert_int_equal(buf_printf(&b, "%d", 1), ERR_LIMIT);
    assert_int_equal(buf_reserve(&b, 0), ERR_LIMIT);
    assert_int_equal(b.err, ERR_LIMIT);
    assert_int_equal(b.len, 50);
    buf_clear(&b);
    assert_string_equal(b.data, "");
    assert_int_equal(buf_add_str(&b, "again"), 0);
    assert_string_equal(b.data, "again");
    buf_release(&b);
    assert_null(b.data);
    assert_int_equal(b.max, 100);
}

static void buf_refuses_absurd_sizes(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, SIZE_MAX);
    assert_int_equal(buf_add_str(&b, "x"), 0);
    assert_int_equal(buf_reserve(&b, SIZE_MAX - 1), ERR_NOMEM);
    assert_string_equal(b.data, "x");
    buf_clear(&b);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), ERR_NOMEM);
    buf_clear(&b);
    assert_int_equal(buf_add_str(&b, "y"), 0);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), ERR_LIMIT); /* 1 + SIZE_MAX */
    buf_release(&b);
}

static void buf_prints_consumes_and_detaches(void **state)
{
    struct buf b;
    size_t n = 7;
    char *text;

    (void)state;
    buf_init(&b, 10000);
    buf_clear(&b); /* nothing there yet */
    buf_consume(&b, 0);
    assert_null(buf_detach(&b, &n));
    assert_int_equal(n, 0);
    assert_int_equal(buf_printf(&b, "%s-%05d", "abc", 42), 0);
    assert_string_equal(b.data, "abc-00042");
    assert_int_equal(buf_printf(&b, "%1000s|", "x"), 0);
    assert_int_equal(b.len, 9 + 1001);
    buf_consume(&b, 4);
    assert_memory_equal(b.data, "00042 ", 6);
    assert_int_equal(b.len, 5 + 1001);
    buf_consume(&b, b.len);
    assert_string_equal(b.data, "");
    assert_int_equal(buf_add(&b, "a\0b", 3), 0);
    text = buf_detach(&b, &n);
    assert_int_equal(n, 3);
    assert_memory_equal(text, "a\0b", 4);
    assert_null(b.data);
    assert_int_equal(b.len, 0);
    assert_int_equal(b.cap, 0);
    assert_int_equal(buf_add_str(&b, "new"), 0); /* as good as new, with the old maximum */
    assert_int_equal(b.max, 10000);
    assert_string_equal(b.data, "new");
    mem_free(text);
    buf_release(&b);
}

static void buf_borrows_bytes(void **state)
{
    static const char text[6] = {'a', 'b', 'c', 'd', 'e', 'f'}; /* without a NUL */
    struct buf b;
    char *owned;
    size_t n;

    (void)state;
    buf_init(&b, 7);
    assert_int_equal(buf_add_str(&b, "old"), 0);
    buf_borrow(&b, text, sizeof(text));
    assert_ptr_equal(b.data, text);
    buf_consume(&b, 2);
    assert_ptr_equal(b.data, text + 2);
    assert_int_equal(b.len, 4);
    assert_int_equal(buf_add_str(&b, "ghi"), 0);
    assert_string_equal(b.data, "cdefghi");
    assert_int_equal(buf_add_char(&b, '!'), ERR_LIMIT);
    buf_borrow(&b, text, 3);
    owned = buf_detach(&b, &n);
    assert_string_equal(owned, "abc");
    assert_int_equal(n, 3);
    mem_free(owned);
    buf_borrow(&b, text, 3);
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_int_equal(buf_add_str(&b, "new"), 0);
    assert_string_equal(b.data, "new");
    buf_borrow(&b, text, 3);
    buf_release(&b);
    assert_null(b.data);
    buf_init(&b, 5);
    buf_borrow(&b, text, sizeof(text));
    assert_int_equal(b.err, ERR_LIMIT);
    buf_release(&b);
}

static void buf_keeps_its_bytes_without_memory(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 10000);
    mem_fail_after(0);
    assert_int_equal(buf_add_str(&b, "x"), ERR_NOMEM);
    mem_fail_after(-1);
    assert_null(b.data);
    buf_clear(&b);
    assert_int_equal(buf_add_str(&b, "kept"), 0);
    mem_fail_after(0);
    assert_int_equal(buf_printf(&b, "%500d", 1), ERR_NOMEM);
    mem_fail_after(-1);
    assert_int_equal(buf_add_str(&b, "x"), ERR_NOMEM);
    assert_string_equal(b.data, "kept");
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf_stops_at_its_maximum),
        cmocka_unit_test(buf_refuses_absurd_sizes),
        cmocka_unit_test(buf_prints_consumes_and_detaches),
        cmocka_unit_test(buf_borrows_bytes),
        cmocka_unit_test(buf_keeps_its_bytes_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
