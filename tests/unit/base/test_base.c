/* tests/unit/base/test_base.c - core/base: buf, err, list, hist, log, mem, file_stem. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/file_stem.h"
#include "core/base/fixed_text.h"
#include "core/base/hex.h"
#include "core/base/hist.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/version.h"
#include "tests/fixtures/emulated.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER 0
#endif

/* ---- buf */

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

/* ---- err */

static void err_has_a_name_and_a_sentence(void **state)
{
    static const struct {
        int err;
        const char *name, *text;
    } all[] = {
#define XX(name, value, text) {value, #name, text},
        ERR_MAP(XX)
#undef XX
    };
    const size_t n = sizeof(all) / sizeof(all[0]);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        assert_true(all[i].err < 0);
        assert_string_equal(err_name(all[i].err), all[i].name);
        assert_string_equal(err_text(all[i].err), all[i].text);
        assert_true(strlen(all[i].text) > 3 && all[i].text[strlen(all[i].text) - 1] != '.');
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(all[i].err, all[j].err);
    }
    assert_string_equal(err_name(0), "UNKNOWN");
    assert_string_equal(err_name(-1000), "UNKNOWN");
    assert_string_equal(err_text(17), "unknown error");
    assert_int_equal(err_from_errno(ENOMEM), ERR_NOMEM);
    assert_int_equal(err_from_errno(ENOENT), ERR_NOENT);
    assert_int_equal(err_from_errno(EAGAIN), ERR_AGAIN);
    assert_int_equal(err_from_errno(EPIPE), ERR_IO);
}

/* ---- list */

struct item {
    int n;
    struct list link;
};

/* The numbers in order, forwards and backwards. */
static void assert_list(const struct list *head, const char *expected)
{
    char forward[32] = "", backward[32] = "";
    size_t n = 0;

    list_each(it, head)
        forward[n++] = (char)('0' + list_entry(it, struct item, link)->n);
    assert_string_equal(forward, expected);
    for (const struct list *it = head->prev; it != head; it = it->prev)
        backward[--n] = (char)('0' + list_entry(it, struct item, link)->n);
    assert_int_equal(n, 0);
    assert_string_equal(backward, expected);
    assert_int_equal(list_is_empty(head), expected[0] == '\0');
}

static void list_keeps_its_order(void **state)
{
    struct item items[6];
    struct list head;

    (void)state;
    list_init(&head);
    assert_list(&head, "");
    for (int i = 0; i < 6; i++) {
        items[i].n = i;
        list_init(&items[i].link);
        assert_true(list_is_empty(&items[i].link));
    }
    list_push_back(&head, &items[1].link);
    list_push_back(&head, &items[2].link);
    list_push_front(&head, &items[0].link);
    assert_list(&head, "012");
    list_unlink(&items[1].link);
    assert_true(list_is_empty(&items[1].link));
    assert_list(&head, "02");
    list_unlink(&items[1].link); /* again: no harm */
    list_push_front(&head, &items[1].link);
    assert_list(&head, "102");
    for (int i = 3; i < 6; i++)
        list_push_back(&head, &items[i].link);
    list_each(it, &head)
        if (list_entry(it, struct item, link)->n % 2 == 1)
            list_unlink(it);
    assert_list(&head, "024");
    list_each(it, &head)
        list_unlink(it);
    assert_list(&head, "");
}

static void a_list_moves_whole(void **state)
{
    struct item items[6];
    struct list head, from;

    (void)state;
    list_init(&head);
    list_init(&from);
    list_move_back(&head, &from);
    list_move_front(&head, &from);
    assert_list(&head, "");
    for (int i = 0; i < 6; i++) {
        items[i].n = i;
        list_push_back(&from, &items[i].link);
        if (i == 1 || i == 5)
            list_move_back(&head, &from);
        if (i == 3)
            list_move_front(&head, &from);
    }
    assert_list(&from, "");
    assert_list(&head, "230145");
    list_unlink(&items[1].link);
    assert_list(&head, "23045");
}

/* ---- hist */

static void hist_counts_into_its_bounds(void **state)
{
    static const double bounds[] = {1, 2, 5};
    struct hist h, copy;

    (void)state;
    memset(&h, 0xff, sizeof(h));
    hist_init(&h, bounds, 3);
    assert_int_equal(hist_total(&h), 0);
    hist_add(&h, 0);
    hist_add(&h, 1); /* an upper bound belongs to its bucket */
    hist_add(&h, 1.5);
    hist_add(&h, 5);
    hist_add(&h, 5.5);
    hist_add(&h, 1e9);
    assert_int_equal(h.count[0], 2);
    assert_int_equal(h.count[1], 1);
    assert_int_equal(h.count[2], 1);
    assert_int_equal(h.count[3], 2);
    assert_int_equal(hist_total(&h), 6);
    assert_true(h.sum == 0 + 1 + 1.5 + 5 + 5.5 + 1e9);
    copy = h;
    hist_add(&h, 1);
    assert_int_equal(hist_total(&copy), 6);
    hist_init(&h, bounds, 3);
    assert_int_equal(hist_total(&h), 0);
}

static void hist_bounds_ascend(void **state)
{
    void (*const inits[])(struct hist *) = {hist_init_ttft, hist_init_itl, hist_init_latency,
                                            hist_init_tokens};
    (void)state;

    for (size_t k = 0; k < sizeof(inits) / sizeof(inits[0]); k++) {
        struct hist h;

        inits[k](&h);
        assert_true(h.n > 10 && h.n <= HIST_MAX);
        for (uint32_t i = 0; i < h.n; i++) {
            assert_true(i == 0 || h.bounds[i] > h.bounds[i - 1]);
            hist_add(&h, h.bounds[i]);
            assert_int_equal(h.count[i], 1);
        }
        assert_int_equal(hist_total(&h), h.n);
        assert_true(h.bounds[0] > 0);
    }
}

/* ---- log */

static int log_pipe[2];
static char log_text[4 * LOG_LINE_MAX];

static void log_begin(enum log_level level, bool as_json)
{
    assert_int_equal(pipe(log_pipe), 0);
    log_setup(level, as_json, log_pipe[1]);
}

/* What was written; the log is back to its default. */
static const char *log_end(void)
{
    ssize_t n, total = 0;

    log_setup(LOG_INFO, false, STDERR_FILENO);
    close(log_pipe[1]);
    while ((n = read(log_pipe[0], log_text + total, sizeof(log_text) - 1 - (size_t)total)) > 0)
        total += n;
    close(log_pipe[0]);
    log_text[total] = '\0';
    return log_text;
}

/* 2026-11-20T10:11:38.123Z */
static void assert_time(const char *s)
{
    static const char form[] = "0000-00-00T00:00:00.000Z";

    for (size_t i = 0; form[i] != '\0'; i++)
        assert_true(form[i] == '0' ? s[i] >= '0' && s[i] <= '9' : s[i] == form[i]);
}

static void log_writes_plain_lines(void **state)
{
    const char *line;

    (void)state;
    log_begin(LOG_DEBUG, false);
    log_debug("sched", "step=%d ms=%.1f", 812, 31.5);
    log_warn("http", "x=1");
    line = log_end();
    assert_time(line);
    assert_memory_equal(line + 24, " D sched step=812 ms=31.5\n", 26);
    line = strchr(line, '\n') + 1;
    assert_time(line);
    assert_string_equal(line + 24, " W http x=1\n");
}

/* What should have been quoted and was not stays within its line. */
static void log_keeps_values_in_their_line(void **state)
{
    (void)state;
    log_begin(LOG_INFO, false);
    log_info("m", "id=%s", "x\n2026 E forged\r\x1b[2J\x9b\xc2\x9b\xc3\xa9");
    assert_string_equal(log_end() + 24, " I m id=x?2026 E forged??[2J??\xc3\xa9\n");
}

static void log_respects_the_level(void **state)
{
    (void)state;
    log_begin(LOG_WARN, false);
    assert_false(log_is_on(LOG_DEBUG));
    assert_false(log_is_on(LOG_INFO));
    assert_true(log_is_on(LOG_WARN));
    log_debug("m", "a=1");
    log_info("m", "a=2");
    log_warn("m", "a=3");
    log_error("m", "a=4");
    log_end();
    assert_null(strstr(log_text, "a=1"));
    assert_null(strstr(log_text, "a=2"));
    assert_non_null(strstr(log_text, " W m a=3\n"));
    assert_non_null(strstr(log_text, " E m a=4\n"));
    log_begin(LOG_OFF, false);
    assert_false(log_is_on(LOG_ERROR));
    assert_false(log_is_on(LOG_OFF));
    log_error("m", "a=1");
    assert_string_equal(log_end(), "");
}

/* One line, one object. */
static cJSON *parse_line(const char *line)
{
    const char *end = NULL;
    cJSON *o = cJSON_ParseWithOpts(line, &end, 0);

    if (o == NULL || *end != '\n' || end[1] != '\0')
        fail_msg("not one JSON object and a line end: %s", line);
    assert_true(cJSON_IsObject(o));
    assert_time(cJSON_GetStringValue(cJSON_GetObjectItem(o, "time")));
    return o;
}

static const char *text_of(const cJSON *o, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(o, key));
}

static void log_writes_json_that_parses(void **state)
{
    char quoted[100];
    cJSON *o;

    (void)state;
    log_begin(LOG_INFO, true);
    log_info(
        "http", "n=%d t=-0.5 bare=abc name=%s zero=0 octal=007 dot=1. huge=%s on path=C:\\x q=a\"b",
        7, log_quote(quoted, sizeof(quoted), "a \"b\" \\ \n\x01 \xc3\xa9"), "12345678901234567890");
    o = parse_line(log_end());
    assert_string_equal(text_of(o, "level"), "info");
    assert_string_equal(text_of(o, "module"), "http");
    assert_true(cJSON_GetObjectItem(o, "n")->valuedouble == 7);
    assert_true(cJSON_GetObjectItem(o, "t")->valuedouble == -0.5);
    assert_true(cJSON_IsNumber(cJSON_GetObjectItem(o, "zero")));
    assert_string_equal(text_of(o, "octal"), "007");
    assert_string_equal(text_of(o, "dot"), "1.");
    assert_string_equal(text_of(o, "huge"), "12345678901234567890");
    assert_string_equal(text_of(o, "bare"), "abc");
    assert_string_equal(text_of(o, "name"), "a \"b\" \\ \n\x01 \xc3\xa9");
    assert_string_equal(text_of(o, "path"), "C:\\x");
    assert_string_equal(text_of(o, "q"), "a\"b");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(o, "on")));
    cJSON_Delete(o);
    /* Bytes that are no UTF-8 would spoil the line for every strict reader. */
    log_begin(LOG_INFO, true);
    log_info("m", "name=%s", log_quote(quoted, sizeof(quoted), "a\xff" "b\xc3"));
    o = parse_line(log_end());
    assert_string_equal(text_of(o, "name"), "a?b?");
    cJSON_Delete(o);
}

/* Whatever the length, of a string or of the pairs before it, the line parses and ends. */
static void log_cuts_at_the_maximum(void **state)
{
    static const char *const units[] = {"x", "\"", "\\", "\n", "\xc3\xa9", "\xf0\x9f\xa6\x99"};
    char text[2 * LOG_LINE_MAX], quoted[2 * LOG_LINE_MAX];

    (void)state;
    for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
        const size_t len = strlen(units[u]);

        for (size_t pad = 0; pad < 140; pad++) {
            size_t n = 0;
            cJSON *o;

            for (; n < 900 + pad; n += len)
                memcpy(text + n, units[u], len);
            text[n] = '\0';
            log_quote(quoted, sizeof(quoted), text);
            log_begin(LOG_INFO, true);
            log_info("m", "s=%s after=123456 word=abcdef", quoted);
            o = parse_line(log_end());
            assert_true(strlen(log_text) <= LOG_LINE_MAX);
            n = strlen(text_of(o, "s"));
            assert_memory_equal(text_of(o, "s"), text, n);
            assert_true(n >= 150);
            /* A number is there whole or not at all. */
            if (cJSON_HasObjectItem(o, "after"))
                assert_true(cJSON_GetObjectItem(o, "after")->valuedouble == 123456);
            if (cJSON_HasObjectItem(o, "word"))
                assert_memory_equal(text_of(o, "word"), "abcdef", strlen(text_of(o, "word")));
            cJSON_Delete(o);
        }
    }
    log_begin(LOG_INFO, false);
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_info("m", "s=%s", text);
    log_end();
    assert_true(strlen(log_text) <= LOG_LINE_MAX && strlen(log_text) > LOG_LINE_MAX - 50);
    assert_ptr_equal(strchr(log_text, '\n'), log_text + strlen(log_text) - 1);
}

static void log_quotes(void **state)
{
    char buf[32], tiny[4];

    (void)state;
    assert_string_equal(log_quote(buf, sizeof(buf), "a b"), "\"a b\"");
    assert_string_equal(log_quote(buf, sizeof(buf), ""), "\"\"");
    assert_string_equal(log_quote(buf, sizeof(buf), "\"\\"), "\"\\\"\\\\\"");
    assert_string_equal(log_quote(buf, sizeof(buf), "\t"), "\"\\u0009\"");
    assert_string_equal(log_quote(tiny, sizeof(tiny), "long"), "\"\"");
    /* DEL, C1 as a character and as a byte, what reorders a line, bytes that are no UTF-8. */
    assert_string_equal(log_quote(buf, sizeof(buf), "a\x7f\xc2\x9b"), "\"a\\u007f\\u009b\"");
    assert_string_equal(log_quote(buf, sizeof(buf), "\x9b\xff\xc3"), "\"???\"");
    assert_string_equal(log_quote(buf, sizeof(buf), "\xe2\x80\xae\xe2\x81\xa9"),
                        "\"\\u202e\\u2069\"");
    assert_string_equal(log_quote(buf, sizeof(buf), "\xe2\x82\xac\xc2\xa0"),
                        "\"\xe2\x82\xac\xc2\xa0\"");
    /* Cut, and never within an escape or past the end. */
    for (size_t size = 8; size <= sizeof(buf); size++) {
        const char *q = log_quote(buf, size, "\n\n\n\n\n\n\n\n\n");

        assert_true(strlen(q) < size);
        assert_int_equal((strlen(q) - 2) % 6, 0);
        assert_int_equal(q[strlen(q) - 1], '"');
    }
}

/* ---- mem */

static void mem_map_is_aligned_and_zeroed(void **state)
{
    static const size_t sizes[] = {1, 4096, ((size_t)2 << 20) - 1, (size_t)2 << 20,
                                   ((size_t)2 << 20) + 1, (size_t)5 << 20};
    (void)state;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *p = mem_map(sizes[i]);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % ((size_t)2 << 20), 0);
        assert_int_equal(p[0] | p[sizes[i] / 2] | p[sizes[i] - 1], 0);
        p[0] = p[sizes[i] - 1] = 1;
        mem_unmap(p, sizes[i]);
    }
    mem_unmap(NULL, 12345);
    assert_null(mem_map(0));
    assert_null(mem_map(SIZE_MAX));
    /* All of it is given back: this would need a thousand times what fits. */
    if (is_emulated())
        puts("note: 100 mappings instead of 100,000, for the emulator notes each of their pages");
    for (int i = 0; i < (is_emulated() ? 100 : 100000); i++) {
        void *p = mem_map((size_t)1 << 30);

        assert_non_null(p);
        mem_unmap(p, (size_t)1 << 30);
    }
}

static void mem_allocates_what_is_asked(void **state)
{
    float *table = mem_aligned(1000, sizeof(*table));
    char *text = mem_strdup("abc"), *bytes = mem_dup("a\0b", 3);
    void *p;

    (void)state;
    assert_non_null(table);
    assert_int_equal((uintptr_t)table % 64, 0);
    for (int i = 0; i < 1000; i++)
        assert_true(table[i] == 0);
    mem_free(table);
    for (int i = 0; i < 4; i++) { /* large ones are zeroed by the page, reused memory too */
        const size_t n = ((size_t)3 << 20) + 4097;
        unsigned char *big = mem_aligned(n, 1), sum = 0;

        for (size_t j = 0; j < n; j++)
            sum |= big[j];
        assert_int_equal(sum, 0);
        memset(big, 0xff, n);
        mem_free(big);
    }
    assert_string_equal(text, "abc");
    assert_memory_equal(bytes, "a\0b", 3);
    mem_free(text);
    mem_free(bytes);
    assert_null(mem_aligned(SIZE_MAX / 2, 3));
    mem_free(NULL);
    p = mem_alloc(0); /* no bytes, yet not NULL: NULL would mean failure */
    assert_non_null(p);
    p = mem_realloc(p, 0);
    assert_non_null(p);
    mem_free(p);
    p = mem_calloc(0, 8);
    assert_non_null(p);
    mem_free(p);
    p = mem_aligned(0, 8);
    assert_non_null(p);
    mem_free(p);
}

static void mem_fails_when_told(void **state)
{
    void *p[3], *mapped;

    (void)state;
    mem_fail_after(2);
    p[0] = mem_alloc(1);
    p[1] = mem_calloc(1, 1);
    assert_non_null(p[0]);
    assert_non_null(p[1]);
    assert_false(mem_has_failed());
    p[2] = mem_strdup("x");
    assert_null(p[2]);
    assert_true(mem_has_failed());
    /* ... and every one after it, by every function; realloc leaves the block. */
    assert_null(mem_realloc(p[0], 100));
    assert_null(mem_aligned(1, 1));
    assert_null(mem_map(1));
    assert_null(mem_dup("x", 1));
    mem_fail_after(-1);
    assert_false(mem_has_failed());
    mapped = mem_map(1);
    assert_non_null(mapped);
    mem_unmap(mapped, 1);
    mem_free(p[0]);
    mem_free(p[1]);
}

/* Run `allocate` inside a guard, in a child; its status and what it said. */
static int run_guarded(void (*allocate)(void), char *said, size_t size)
{
    const struct rlimit no_core = {0, 0};
    int fds[2], status;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL); /* cmocka's handler would catch it */
        dup2(fds[1], STDERR_FILENO);
        mem_guard_begin("a test of the guard");
        allocate();
        mem_guard_end();
        free(malloc(10)); /* allowed again */
        _exit(0);
    }
    close(fds[1]);
    n = read(fds[0], said, size - 1);
    said[n > 0 ? n : 0] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void *volatile sink; /* so that no allocation is optimised away */

static void by_alloc(void)
{
    sink = mem_alloc(10);
}
static void by_library(void)
{
    sink = strdup("a text that strdup allocates for");
}
static void by_calloc(void)
{
    sink = calloc(3, 3);
}
static void by_realloc(void)
{
    sink = mem_realloc(NULL, 100);
}
static void by_aligned(void)
{
    sink = mem_aligned(10, 10);
}
static void by_nothing(void)
{
    char text[64];

    snprintf(text, sizeof(text), "%d %s", 5, "five");
    log_debug("m", "a=%s", text);
}

static void mem_guard_aborts(void **state)
{
    void (*const ways[])(void) = {by_alloc, by_library, by_calloc, by_realloc, by_aligned};
    char said[400];

    (void)state;
#ifndef QUIRE_DEBUG
    print_message("skip: the allocation guard is in the debug build only\n");
    skip();
#endif
    if (HAS_SANITIZER) {
        print_message("skip: no allocation guard under a sanitizer\n");
        skip();
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const int status = run_guarded(ways[i], said, sizeof(said));

        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            fail_msg("way %zu: status %#x", i, (unsigned)status);
        assert_non_null(strstr(said, "'a test of the guard'"));
    }
    assert_int_equal(run_guarded(by_nothing, said, sizeof(said)), 0);
    assert_string_equal(said, "");
}

/* ---- the small ones */

static void the_clock_goes_forward(void **state)
{
    const uint64_t us = clock_us(), ms = clock_ms();

    (void)state;
    usleep(2000);
    assert_true(clock_us() - us >= 2000);
    assert_true(clock_ms() - ms >= 1);
    assert_true(clock_us() - us < 60000000);
    assert_true(strlen(quire_version()) > 0);
}

/* ---- file_stem */

/* Half a piece is never there, and nothing is behind what had no room. */
static void a_fixed_text_takes_whole_pieces(void **state)
{
    char array[8];
    struct fixed_text t;

    (void)state;
    fixed_text_init(&t, array, sizeof(array));
    assert_string_equal(array, "");
    assert_true(fixed_text_add(&t, "%s/", "ab"));
    assert_true(fixed_text_add(&t, "%04x", 0xfU));
    assert_string_equal(array, "ab/000f");
    assert_true(fixed_text_add(&t, "%s", ""));
    assert_false(fixed_text_add(&t, "x"));
    assert_false(fixed_text_add(&t, "%s", ""));
    assert_string_equal(array, "ab/000f");
    fixed_text_init(&t, array, 4);
    assert_true(fixed_text_add(&t, "a"));
    assert_false(fixed_text_add(&t, "bcd"));
    assert_false(fixed_text_add(&t, "e"));
    assert_string_equal(array, "a");
}

static void hex_digits_are_written(void **state)
{
    const unsigned char bytes[] = {0x00, 0x1f, 0xa0, 0xff};
    char out[9];

    (void)state;
    hex_write(out, bytes, sizeof(bytes));
    assert_string_equal(out, "001fa0ff");
    hex_write(out, bytes, 0);
    assert_string_equal(out, "");
}

static void stems_are_names_of_models(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"/", "/"},
        {"a", "a"},
        {"a.gguf", "a"},
        {".gguf", ".gguf"},
        {"a.gguf.gguf", "a.gguf"},
        {"a.GGUF", "a.GGUF"},
        {"/x.gguf/b.gguf", "b"},
        {"/x/some.model//", "some.model"},
        {"x/a-00002-of-00013.gguf", "a"},
        {"a-00002-of-00013", "a"},
        {"a-2-of-13.gguf", "a-2-of-13"},
        {"-00002-of-00013.gguf", "-00002-of-00013"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *stem;
        const size_t len = file_stem(cases[i][0], &stem);

        if (len != strlen(cases[i][1]) || memcmp(stem, cases[i][1], len) != 0)
            fail_msg("%s: %.*s", cases[i][0], (int)len, stem);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf_stops_at_its_maximum),
        cmocka_unit_test(buf_refuses_absurd_sizes),
        cmocka_unit_test(buf_prints_consumes_and_detaches),
        cmocka_unit_test(buf_borrows_bytes),
        cmocka_unit_test(buf_keeps_its_bytes_without_memory),
        cmocka_unit_test(err_has_a_name_and_a_sentence),
        cmocka_unit_test(list_keeps_its_order),
        cmocka_unit_test(a_list_moves_whole),
        cmocka_unit_test(hist_counts_into_its_bounds),
        cmocka_unit_test(hist_bounds_ascend),
        cmocka_unit_test(log_writes_plain_lines),
        cmocka_unit_test(log_respects_the_level),
        cmocka_unit_test(log_writes_json_that_parses),
        cmocka_unit_test(log_cuts_at_the_maximum),
        cmocka_unit_test(log_quotes),
        cmocka_unit_test(log_keeps_values_in_their_line),
        cmocka_unit_test(mem_map_is_aligned_and_zeroed),
        cmocka_unit_test(mem_allocates_what_is_asked),
        cmocka_unit_test(mem_fails_when_told),
        cmocka_unit_test(mem_guard_aborts),
        cmocka_unit_test(the_clock_goes_forward),
        cmocka_unit_test(a_fixed_text_takes_whole_pieces),
        cmocka_unit_test(hex_digits_are_written),
        cmocka_unit_test(stems_are_names_of_models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
