/* tests/unit/tokenizer/test_pretokenizer.c - cutting text into words: against PCRE2, and in linear
 * time.
 *
 * The patterns here are written out again, as PCRE2 takes them. The novels lie in $QUIRE_DATA
 * (default ../shared/data); without them random text has to do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/tokenizer/pretokenizer.h"
#include "core/tokenizer/split_pattern.h"
#include "tests/fixtures/failing_memory.h"
#include "tests/fixtures/files.h"
#include "tests/fixtures/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define MIB ((size_t)1 << 20)
#define N_TEXTS 3000

/* PCRE2's own \s has U+180E too, which is no space since Unicode 6.3. */
#define WS                                                                                         \
    "\\t-\\r "                                                                                     \
    "\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define BLANKS "[" WS "]*[\\r\\n]+|[" WS "]+(?![^" WS "])|[" WS "]+"
#define OTHERS " ?[^" WS "\\p{L}\\p{N}]+"
#define CUT_OFF "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define NEW(digits) CUT_OFF "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "|" OTHERS "[\\r\\n]*|" BLANKS
#define BIG "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

static const struct {
    const char *name, *pattern;
} families[] = {
    {"gpt-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" OTHERS "|[" WS "]+(?![^" WS "])|[" WS
              "]+"},
    {"llama-bpe", NEW("\\p{N}{1,3}")},
    {"qwen2", NEW("\\p{N}")},
    {"gpt-4o", "[^\\r\\n\\p{L}\\p{N}]?" BIG "*" SMALL "+" CUT_OFF "?|[^\\r\\n\\p{L}\\p{N}]?" BIG
               "+" SMALL "*" CUT_OFF "?|\\p{N}{1,3}|" OTHERS "[\\r\\n/]*|" BLANKS},
};

struct pair { /* the same rules twice */
    pcre2_code *code;
    pcre2_match_data *match;
    struct pretokenizer *p;
    struct pretokenizer_run *run;
};

static struct pair open_pair(size_t i)
{
    struct pair pair = {0};
    PCRE2_SIZE at;
    int code;

    pair.code = pcre2_compile((PCRE2_SPTR)families[i].pattern, PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &at, NULL);
    assert_non_null(pair.code);
    pcre2_jit_compile(pair.code, PCRE2_JIT_COMPLETE);
    pair.match = pcre2_match_data_create(1, NULL);
    assert_non_null(pair.match);
    assert_int_equal(
        pretokenizer_create(&pair.p, pretokenizer_find(families[i].name, strlen(families[i].name))),
        0);
    assert_int_equal(pretokenizer_run_create(&pair.run, pair.p), 0);
    return pair;
}

static void close_pair(struct pair *pair)
{
    pcre2_match_data_free(pair->match);
    pcre2_code_free(pair->code);
    pretokenizer_run_destroy(&pair->run);
    pretokenizer_destroy(&pair->p);
}

static void assert_same_cuts(const struct pair *pair, const char *text, size_t n)
{
    pretokenizer_begin(pair->run, text, n);
    for (size_t at = 0; at < n;) {
        const int rc = pcre2_match(pair->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK,
                                   pair->match, NULL);
        const size_t end = pretokenizer_next(pair->run);

        assert_int_equal(rc, 1);
        if (end != pcre2_get_ovector_pointer(pair->match)[1])
            fail_msg("cut at %zu, PCRE2 cuts at %zu: %.40s", end,
                     pcre2_get_ovector_pointer(pair->match)[1], text + at);
        at = end;
    }
}

static uint64_t rng;

static uint32_t below(uint32_t n)
{
    return random_below(&rng, n);
}

/* Characters that Unicode has had for long, so that both sides know them: by blocks, most often
 * those that the patterns name. */
static uint32_t random_character(void)
{
    static const uint32_t named[] = {' ', ' ', '\n', '\r', '\t', '\'', 's', 'T', 'l', 'V', '1',
                                     '/', '.', 0x85, 0xA0, 0x301, 0x3000, 0x17F, 0x1C5, 0x2B0};
    static const struct {
        uint32_t from, n;
    } blocks[] = {{0, 128},     {0xA0, 96},     {0x100, 0x150}, {0x300, 0x70},  {0x391, 0x39},
                  {0x410, 64},  {0x5D0, 27},    {0x905, 0x35},  {0x2000, 0x30}, {0x2160, 0x20},
                  {0x3041, 80}, {0x4E00, 1000}, {0xAC00, 900},  {0x1F600, 64},  {0x10400, 80}};
    const uint32_t i = below(sizeof(blocks) / sizeof(blocks[0]));

    if (below(3) > 0)
        return named[below(sizeof(named) / sizeof(named[0]))];
    return blocks[i].from + below(blocks[i].n);
}

static size_t put(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

static void cuts_random_text_as_pcre2_does(void **state)
{
    char text[400];

    (void)state;
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        struct pair pair = open_pair(i);

        for (int k = 0; k < N_TEXTS; k++) {
            size_t n = 0;

            for (uint32_t c = 1 + below(90); c > 0; c--)
                n += put(text + n, random_character());
            assert_same_cuts(&pair, text, n);
        }
        close_pair(&pair);
    }
}

static void cuts_novels_as_pcre2_does(void **state)
{
    char path[512], *text;
    size_t n;

    (void)state;
    text = read_whole(data_file(path, sizeof(path), "text/pd_english_novels.txt"), &n);
    n = n < 8 * MIB ? n : 8 * MIB;
    while (n > 0 && ((uint8_t)text[n - 1] & 0x80) != 0) /* no half of a character */
        n--;
    assert_true(n > 7 * MIB);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        struct pair pair = open_pair(i);

        assert_same_cuts(&pair, text, n);
        close_pair(&pair);
    }
    free(text);
}

/* By all rules that there are: a mebibyte of one thing costs some looks a byte, and no more. */
/* Letters of Unicode 15.0 to 16.0 are letters, and digits digits, whatever libunistring knows. */
static void newer_characters_are_known(void **state)
{
    static const char text[] = "\U00031350\U00031351 \U00011F50\U00011F51\u1C89\U00010D50";
    static const size_t ends[] = {8, 9, 13, 17, 24};
    struct pretokenizer_run *run;
    struct pretokenizer *p;

    (void)state;
    assert_int_equal(pretokenizer_create(&p, pretokenizer_find("qwen2", 5)), 0);
    assert_int_equal(pretokenizer_run_create(&run, p), 0);
    pretokenizer_begin(run, text, sizeof(text) - 1);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        assert_int_equal(pretokenizer_next(run), ends[i]);
    pretokenizer_run_destroy(&run);
    pretokenizer_destroy(&p);
}

static void work_is_linear_by_all_rules(void **state)
{
    static const char *const units[] = {"a", " ", "\xCC\x81", "\n", "1", "' ", "\xE6\x97\xA5"};
    char *text = malloc(MIB);

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; pretokenizer_name(i) != NULL; i++) {
        struct pretokenizer *p;
        struct pretokenizer_run *run;

        assert_int_equal(pretokenizer_create(&p, (int)i), 0);
        if (i > 0 && pretokenizer_same_rules((int)i - 1, (int)i)) {
            pretokenizer_destroy(&p);
            continue;
        }
        assert_int_equal(pretokenizer_run_create(&run, p), 0);
        for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
            const size_t len = strlen(units[u]), n = MIB / len * len;
            const uint64_t before = pretokenizer_steps(run);
            size_t at = 0;

            for (size_t k = 0; k < n; k++)
                text[k] = units[u][k % len];
            for (pretokenizer_begin(run, text, n); at < n;)
                at = pretokenizer_next(run);
            assert_int_equal(at, n);
            assert_true(pretokenizer_steps(run) - before > 0);
            if (pretokenizer_steps(run) - before > 48 * n)
                fail_msg("%s: %zu looks at %zu bytes of '%s'", pretokenizer_name(i),
                         (size_t)(pretokenizer_steps(run) - before), n, units[u]);
        }
        pretokenizer_run_destroy(&run);
        pretokenizer_destroy(&p);
    }
    free(text);
}

static void refuses_what_is_not_in_the_notation(void **state)
{
    static const char *const faults[] = {"(a|b)", "[a", "\\p{Xy}", "\\p{", "a{2", "a{,3}", "[z-a]",
                                         "(?i:", "(?i:'s", "\\x{110000}", "a)|[", "\\x41"};
    struct split_pattern *p;

    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (split_pattern_create(&p, faults[i]) == 0)
            fail_msg("took %s", faults[i]);
        assert_null(p);
    }
}

static void survives_every_failing_allocation(void **state)
{
    struct pretokenizer *p;

    int64_t n = 0;

    (void)state;
    while (each_failure(&n)) {
        const int rc = pretokenizer_create(&p, pretokenizer_find("deepseek-llm", 12));

        assert_int_equal(rc, mem_has_failed() ? ERR_NOMEM : 0);
        assert_true((p == NULL) == (rc < 0));
    }
    pretokenizer_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_random_text_as_pcre2_does),
        cmocka_unit_test(cuts_novels_as_pcre2_does),
        cmocka_unit_test(work_is_linear_by_all_rules),
        cmocka_unit_test(newer_characters_are_known),
        cmocka_unit_test(refuses_what_is_not_in_the_notation),
        cmocka_unit_test(survives_every_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
