/* tests/unit/tokenizer/test_normalizer.c - normalization forms beside libunistring's own, of whole
 * texts; what no form changes; long runs; memory that fails.
 *
 * Steps and their results are in tests/e2e/test_hf_tokenizers.py, 10,000 texts beside the library
 * `tokenizers` in tests/real/normalizers.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/budget.h"
#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/unicode.h"
#include "core/tokenizer/normal_form.h"
#include "tests/fixtures/failing_memory.h"
#include "tests/fixtures/random.h"
#include "tests/unit/tokenizer/toy_vocab.h"

#include <stdlib.h>
#include <string.h>
#include <uninorm.h>

#define N_KINDS 4
#define N_TEXTS 4000

static struct normal_form *form_of(int kind)
{
    struct normal_form *f;

    assert_int_equal(normal_form_create(&f, (enum normal_form_kind)kind), 0);
    return f;
}

static uninorm_t library_form(int kind)
{
    return kind == NORMAL_FORM_C    ? UNINORM_NFC
           : kind == NORMAL_FORM_D  ? UNINORM_NFD
           : kind == NORMAL_FORM_KC ? UNINORM_NFKC
                                    : UNINORM_NFKD;
}

/* Most are of the ranges where characters are joined and change places. */
static uint32_t any_character(uint64_t *rng)
{
    static const uint32_t ranges[][2] = {
        {0x20, 0x5F},    {0xC0, 0x180},   {0x300, 0x75},   {0x300, 0x75},   {0x340, 0x20},
        {0x391, 0x40},   {0x591, 0x30},   {0x64B, 0x15},   {0x900, 0x500},  {0xE38, 20},
        {0xF71, 0x20},   {0x1025, 16},    {0x1100, 0x100}, {0x1161, 0x60},  {0x1B05, 0x40},
        {0x1DC0, 0x30},  {0x1E00, 0x200}, {0x2000, 0x400}, {0x3041, 0x60},  {0xA640, 0x60},
        {0xAC00, 11172}, {0xF900, 0x700}, {0x11080, 0x60}, {0x11130, 0x40}, {0x114B0, 20},
        {0x1D15E, 0x60}, {0x1D400, 900},  {0x2F800, 500},  {0x1F100, 0x80}, {0x80, 0x1FF80},
    };
    const uint32_t *range = ranges[random_below(rng, sizeof(ranges) / sizeof(ranges[0]))];
    const uint32_t c = range[0] + random_below(rng, range[1]);

    return (c >= 0xD800 && c < 0xE000) || normal_form_is_newer(c) ? 'x' : c;
}

static void any_text(uint64_t *rng, struct buf *text)
{
    buf_clear(text);
    for (uint32_t n = 1 + random_below(rng, 40); n > 0; n--)
        unicode_put(text, any_character(rng));
}

/* Runs around what changes give what the whole text gives, and only they change. */
static void runs_give_what_the_whole_gives(void **state)
{
    struct buf text, found;
    uint64_t rng = 1;

    (void)state;
    buf_init(&text, 4096);
    buf_init(&found, 1 << 20);
    for (int kind = 0; kind < N_KINDS; kind++) {
        struct normal_form *f = form_of(kind);

        for (int i = 0; i < N_TEXTS; i++) {
            size_t n = 0, same;
            uint8_t *expected;

            any_text(&rng, &text);
            expected = u8_normalize(library_form(kind), (const uint8_t *)text.data, text.len, NULL,
                                    &n);
            same = normal_form_check(f, text.data, text.len);
            assert_true(same <= n);
            if (same == text.len)
                assert_int_equal(n, text.len);
            buf_clear(&found);
            assert_int_equal(normal_form_add(f, text.data, text.len, NULL, &found), 0);
            assert_int_equal(found.len, n);
            assert_memory_equal(found.data, expected, n);
            assert_int_equal(normal_form_check(f, found.data, 0), 0);
            free(expected);
        }
        normal_form_destroy(&f);
    }
    buf_release(&text);
    buf_release(&found);
}

static void becomes(int kind, const char *text, size_t n, const char *expected)
{
    struct normal_form *f = form_of(kind);
    struct buf found;

    buf_init(&found, 4096);
    assert_int_equal(normal_form_add(f, text, n, NULL, &found), 0);
    buf_add(&found, "", 1);
    assert_string_equal(found.data, expected);
    buf_release(&found);
    normal_form_destroy(&f);
}

#define BECOMES(kind, text, expected) becomes(kind, text, strlen(text), expected)

/* Characters that came after Unicode 9.0 stay, whatever libunistring knows of them, and nothing is
 * joined to them or moved across them; nor to bytes that are no UTF-8. */
static void newer_ones_and_odd_bytes_stay(void **state)
{
    (void)state;
    BECOMES(NORMAL_FORM_KC, "\u32FF\uFF21", "\u32FFA"); /* of 2019 */
    BECOMES(NORMAL_FORM_C, "\U00011935\U00011930", "\U00011935\U00011930");
    BECOMES(NORMAL_FORM_D, "\U00011938e", "\U00011938e");
    BECOMES(NORMAL_FORM_C, "a\u0898\u0301", "a\u0898\u0301");
    BECOMES(NORMAL_FORM_C, "a\u0315\u0301", "\u00E1\u0315");
    BECOMES(NORMAL_FORM_C, "e\xFF\u0301e\u0301", "e\xFF\u0301\u00E9");
    BECOMES(NORMAL_FORM_C, "\xCC\x81\xCCx", "\xCC\x81\xCCx");
    BECOMES(NORMAL_FORM_C, "\u1112\u1161\u11AB\u1100\u116E\u11A8", "\uD55C\uAD6D");
    BECOMES(NORMAL_FORM_D, "\u212B\u1E9B\u0323", "A\u030A\u017F\u0323\u0307");
    BECOMES(NORMAL_FORM_KD, "\uFDFA", "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647 "
                                      "\u0639\u0644\u064A\u0647 \u0648\u0633\u0644\u0645");
    BECOMES(NORMAL_FORM_KC, "", "");
    becomes(NORMAL_FORM_C, "e\0\u0301", 4, "e");
}

/* The marks of a megabyte: each 64 KiB of them are ordered alone, so that a text cannot ask for
 * more memory than that, and none is lost. */
static void long_runs_are_taken_in_pieces(void **state)
{
    const size_t n = 1 << 19;
    struct normal_form *f = form_of(NORMAL_FORM_C);
    struct buf text, found;

    (void)state;
    buf_init(&text, 4 << 20);
    buf_init(&found, 4 << 20);
    for (size_t i = 0; i < n; i++)
        buf_add_str(&text, i % 2 == 0 ? "\u0316" : "\u0334");
    assert_int_equal(normal_form_add(f, text.data, text.len, NULL, &found), 0);
    assert_int_equal(found.len, text.len);
    assert_memory_equal(found.data, "\u0334\u0334", 4);
    assert_memory_equal(found.data + (1 << 15), "\u0316\u0316", 4);
    assert_memory_equal(found.data + (1 << 16), "\u0334\u0334", 4);
    buf_release(&text);
    buf_release(&found);
    normal_form_destroy(&f);
}

/* A text that is hopelessly long is refused by what it becomes at the least, not by its bytes. */
static void limits_are_of_what_the_text_becomes(void **state)
{
    const struct toy toy = bpe_toy("qwen2");
    struct tokenizer *t = toy_create(&toy);
    struct token_list list = {0};

    (void)state;
    ENCODES(t, "e\u0301", 0, BYTE(0xC3), BYTE(0xA9));
    assert_int_equal(tokenizer_encode(t, "\u212A\u212A", 6, 0, 2, NULL, &list), 0);
    assert_int_equal(list.n, 2);
    token_list_release(&list);
    assert_int_equal(tokenizer_encode(t, "\u212A\u212A\u212A", 9, 0, 2, NULL, &list), ERR_LIMIT);
    tokenizer_destroy(&t);
}

/* A step costs at least what its length does, and a client that leaves is seen within a text. */
static void budgets_end_it(void **state)
{
    const struct toy toy = bpe_toy("qwen2");
    struct tokenizer *t = toy_create(&toy);
    struct budget budget = {.steps_left = 20000};
    struct token_list list = {0};
    struct buf text;

    (void)state;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < 50000; i++)
        buf_add_str(&text, "xe\u0301y ");
    assert_int_equal(tokenizer_encode(t, text.data, text.len, 0, SIZE_MAX, &budget, &list),
                     ERR_LIMIT);
    assert_int_equal(budget.err, ERR_LIMIT);
    buf_release(&text);
    tokenizer_destroy(&t);
}

static void failing_memory_is_reported(void **state)
{
    const struct toy toy = bpe_toy("qwen2");
    struct tokenizer *t = toy_create(&toy);
    int64_t n = 0;

    (void)state;
    while (each_failure(&n)) {
        struct token_list list = {0};
        const int rc = tokenizer_encode(t, "xe\u0301 <tag>e\u0301", 13, 0, 100, NULL, &list);

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        token_list_release(&list);
    }
    assert_true(n > 3);
    tokenizer_destroy(&t);
}

static void failing_memory_makes_no_tokenizer(void **state)
{
    const struct toy toy = bpe_toy("qwen2");
    struct tokenizer *t;
    struct gguf *g;
    size_t bytes;
    uint8_t *data = toy_write(&toy, &bytes);
    char err[256];
    int64_t n = 0;

    (void)state;
    assert_int_equal(gguf_open_memory(&g, "toy", data, bytes, err, sizeof(err)), 0);
    while (each_failure(&n)) {
        const int rc = tokenizer_create(&t, g, err, sizeof(err));

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        tokenizer_destroy(&t);
    }
    assert_true(n > 5);
    gguf_close(&g);
    mem_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_give_what_the_whole_gives),
        cmocka_unit_test(newer_ones_and_odd_bytes_stay),
        cmocka_unit_test(long_runs_are_taken_in_pieces),
        cmocka_unit_test(limits_are_of_what_the_text_becomes),
        cmocka_unit_test(budgets_end_it),
        cmocka_unit_test(failing_memory_is_reported),
        cmocka_unit_test(failing_memory_makes_no_tokenizer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
