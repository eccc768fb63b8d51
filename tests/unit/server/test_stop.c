/* tests/unit/server/test_stop.c - stop strings: the same result however the text is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "server/api/params/stop.h"
#include "tests/fixtures/random.h"

/* Feed `text` in pieces of `step` bytes; `out` gets what came out. Was a stop string found? */
static bool run(const struct stop_list *list, const char *text, size_t step, struct buf *out)
{
    const size_t n = strlen(text);
    struct stop s;
    bool found = false;

    stop_init(&s, list);
    buf_clear(out);
    for (size_t i = 0; i < n && !found; i += step)
        found = stop_feed(&s, text + i, n - i < step ? n - i : step, true, out);
    if (!found)
        stop_flush(&s, out);
    stop_release(&s);
    return found;
}

static void same_for_every_cut(void **state)
{
    static const struct {
        const char *text, *stop[3], *expected;
        bool found;
    } cases[] = {
        {"hello world", {"wor"}, "hello ", true},
        {"hello world", {"xyz"}, "hello world", false},
        {"hello world", {"world!"}, "hello world", false},
        {"aaab", {"aab"}, "a", true},
        {"ababac", {"abac"}, "ab", true},
        {"abc", {"abc"}, "", true},
        {"one two three", {"two three", "two"}, "one ", true},
        {"one two three", {"wo t", "two th"}, "one t", true}, /* complete first */
        {"xabcd", {"bcd", "abcd"}, "x", true},                /* together: the longer one */
        {"a\xe2\x82\xac"
         "b",
         {"\xe2\x82\xac"},
         "a",
         true},
        {"", {"a"}, "", false},
    };
    struct buf out;
    (void)state;

    buf_init(&out, 1000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct stop_list list = {0};

        while (list.n < 3 && cases[i].stop[list.n] != NULL) {
            list.text[list.n] = mem_strdup(cases[i].stop[list.n]);
            list.n++;
        }
        for (size_t step = 1; step <= 14; step++) {
            assert_int_equal(run(&list, cases[i].text, step, &out), cases[i].found);
            assert_int_equal(out.len, strlen(cases[i].expected));
            assert_memory_equal(out.data != NULL ? out.data : "", cases[i].expected, out.len);
        }
        stop_list_release(&list);
    }
    buf_release(&out);
}

/* Random text over three letters against the definition: the first end, then the first start. */
static void random_against_the_definition(void **state)
{
    uint64_t rng = 1;
    struct buf out;
    (void)state;

    buf_init(&out, 1000);
    for (int round = 0; round < 3000; round++) {
        char text[25] = "", stops[2][5] = {"", ""};
        struct stop_list list = {.n = 2};
        size_t best_end = SIZE_MAX, best_start = 0;

        for (size_t i = 0; i < 24; i++)
            text[i] = (char)('a' + random_below(&rng, 3));
        for (size_t k = 0; k < 2; k++) {
            for (size_t i = 0, n = 1 + random_below(&rng, 4); i < n; i++)
                stops[k][i] = (char)('a' + random_below(&rng, 3));
            list.text[k] = stops[k];
            const char *at = strstr(text, stops[k]);
            if (at == NULL)
                continue;
            const size_t start = (size_t)(at - text), end = start + strlen(stops[k]);
            if (end < best_end || (end == best_end && start < best_start)) {
                best_end = end;
                best_start = start;
            }
        }
        const bool found = run(&list, text, 1 + random_below(&rng, 6), &out);
        assert_int_equal(found, best_end != SIZE_MAX);
        assert_int_equal(out.len, found ? best_start : 24);
        if (out.len > 0)
            assert_memory_equal(out.data, text, out.len);
    }
    buf_release(&out);
}

static void holds_back_only_what_it_must(void **state)
{
    char *text[] = {"END"};
    const struct stop_list list = {.n = 1, .text = {text[0]}};
    struct stop s;
    struct buf out;
    (void)state;

    buf_init(&out, 1000);
    stop_init(&s, &list);
    assert_false(stop_feed(&s, "some E", 6, true, &out));
    assert_string_equal(out.data, "some ");
    assert_false(stop_feed(&s, "N", 1, true, &out));
    assert_string_equal(out.data, "some ");
    assert_false(stop_feed(&s, "E", 1, true, &out));
    assert_string_equal(out.data, "some EN");
    assert_false(stop_feed(&s, "ND", 2, false, &out)); /* not armed: nothing is looked for */
    assert_string_equal(out.data, "some ENEND");
    assert_true(stop_feed(&s, "xEND tail", 9, true, &out));
    assert_string_equal(out.data, "some ENENDx");
    stop_flush(&s, &out);
    assert_string_equal(out.data, "some ENENDx");
    stop_release(&s);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_for_every_cut),
        cmocka_unit_test(random_against_the_definition),
        cmocka_unit_test(holds_back_only_what_it_must),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
