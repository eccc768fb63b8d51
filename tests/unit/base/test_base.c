/* tests/unit/base/test_base.c - core/base: err, list, hist, clock, fixed_text, hex, file_stem. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/file_stem.h"
#include "core/base/fixed_text.h"
#include "core/base/hex.h"
#include "core/base/hist.h"
#include "core/base/list.h"
#include "core/base/version.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

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
        cmocka_unit_test(err_has_a_name_and_a_sentence),
        cmocka_unit_test(list_keeps_its_order),
        cmocka_unit_test(a_list_moves_whole),
        cmocka_unit_test(hist_counts_into_its_bounds),
        cmocka_unit_test(hist_bounds_ascend),
        cmocka_unit_test(the_clock_goes_forward),
        cmocka_unit_test(a_fixed_text_takes_whole_pieces),
        cmocka_unit_test(hex_digits_are_written),
        cmocka_unit_test(stems_are_names_of_models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
