/* tests/unit/tokenizer/test_safe_split.c - where texts are cut, and that the ids are those of the
 * uncut text.
 *
 * The uncut way is the same encoder with a tokenizer that has no safe splits. Real vocabularies lie
 * in $QUIRE_DATA (default ../shared/data); without them those tests are skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/safe_split.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/tokenizer_impl.h"
#include "tests/fixtures/files.h"
#include "tests/unit/tokenizer/toy_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define META "\xE2\x96\x81"
#define LONGEST 4096 /* bytes of a random text */
#define N_TOYS 24
#define N_TEXTS 16

/* ---- chance */

static uint32_t draw(uint64_t *rng, uint32_t below)
{
    *rng ^= *rng << 13;
    *rng ^= *rng >> 7;
    *rng ^= *rng << 17;
    return (uint32_t)(*rng >> 32) % below;
}

/* A character of any length, from scripts that vocabularies have and from those they have not. */
static size_t any_character(uint64_t *rng, char *out)
{
    static const uint32_t ranges[][2] = {
        {0x20, 0x5F},   {0x61, 26},     {0xC0, 0x60},    {0x300, 0x70},   {0x400, 0x60},
        {0x3040, 0xC0}, {0x4E00, 5000}, {0xAC00, 11000}, {0x1F300, 1000}, {0x10000, 0xFFFF},
    };
    const size_t i = draw(rng, sizeof(ranges) / sizeof(ranges[0]));
    const uint32_t c = ranges[i][0] + draw(rng, ranges[i][1]);
    const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};

    for (size_t k = n; k-- > 1;)
        out[k] = (char)(0x80 | (c >> 6 * (n - 1 - k) & 0x3F));
    out[0] = (char)(leads[n] | c >> 6 * (n - 1));
    return n;
}

static size_t any_piece(uint64_t *rng, const struct tokenizer *t, char *out)
{
    size_t n;
    const char *piece = tokenizer_piece(t, (int32_t)draw(rng, (uint32_t)t->vocab.n), &n);

    n = n < 64 ? n : 64;
    memcpy(out, piece, n);
    return n;
}

/* A few bytes more: pieces, characters, runs, bytes that are no text. */
static size_t add_something(uint64_t *rng, const struct tokenizer *t, char *out)
{
    const uint32_t kind = draw(rng, 16);
    size_t n = 1, len;

    if (kind < 9)
        return any_piece(rng, t, out);
    if (kind < 12)
        return any_character(rng, out);
    if (kind == 12) {
        out[0] = (char)draw(rng, 256);
        return 1;
    }
    if (kind == 13) {
        out[0] = "\n \t."[draw(rng, 4)];
        return 1;
    }
    len = kind == 14 ? any_character(rng, out) : any_piece(rng, t, out);
    for (n = len; n < draw(rng, 64); n += len)
        memcpy(out + n, out, len);
    return n;
}

static size_t any_text(uint64_t *rng, const struct tokenizer *t, char *out)
{
    const size_t n_wanted = 1 + draw(rng, LONGEST - 256);
    size_t n = 0;

    while (n < n_wanted)
        n += add_something(rng, t, out + n);
    return n;
}

/* ---- with safe splits and without */

static void encode_whole(const struct tokenizer *t, const char *text, size_t n,
                         struct token_list *out)
{
    struct tokenizer whole = *t;

    whole.safe_splits = NULL;
    assert_int_equal(tokenizer_encode(&whole, text, n, 0, SIZE_MAX, NULL, out), 0);
}

static void assert_same(const struct tokenizer *t, const char *text, size_t n, const char *what)
{
    struct token_list cut = {0}, whole = {0};

    assert_int_equal(tokenizer_encode(t, text, n, 0, SIZE_MAX, NULL, &cut), 0);
    encode_whole(t, text, n, &whole);
    for (size_t i = 0; i < cut.n && i < whole.n; i++)
        if (cut.ids[i] != whole.ids[i])
            fail_msg("%s: id %zu is %d, uncut %d", what, i, (int)cut.ids[i], (int)whole.ids[i]);
    assert_int_equal(cut.n, whole.n);
    token_list_release(&cut);
    token_list_release(&whole);
}

static size_t count_safe_splits(const struct tokenizer *t, const char *text, size_t n)
{
    size_t count = 0;

    for (size_t at = safe_splits_next(t->safe_splits, text, n, 0); at < n; count++)
        at = safe_splits_next(t->safe_splits, text, n, at);
    return count;
}

/* Of many texts, some must have safe splits: else nothing would be compared. */
static void compare_texts(const struct tokenizer *t, uint64_t *rng, const char *what)
{
    static char text[LONGEST];
    size_t n_safe_splits = 0;

    assert_non_null(t->safe_splits);
    for (int i = 0; i < N_TEXTS; i++) {
        const size_t n = any_text(rng, t, text);

        assert_same(t, text, n, what);
        n_safe_splits += count_safe_splits(t, text, n);
    }
    assert_true(n_safe_splits > N_TEXTS);
}

/* ---- vocabularies by chance */

static const char *const alphabet[] = {META, "a", "b", "c", ".", "\xC3\xA9", "\xC3\xA8",
                                       "\xE6\x97\xA5", "\xE6\x9C\xAC", "\xE6\x9C\xA5"};
#define N_ALPHABET (sizeof(alphabet) / sizeof(alphabet[0]))

static bool is_there(const struct toy *v, const char *text)
{
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->text[i], text) == 0)
            return true;
    return false;
}

/* Pieces of one to four characters, most characters among them; equal scores are frequent. */
static struct toy any_pieces(uint64_t *rng, const char *model, bool with_bytes)
{
    struct toy v = spm_toy();

    v.model = model;
    v.n = FIRST;
    for (int b = 0; !with_bytes && b < 256; b++)
        v.types[BYTE(b)] = UNUSED;
    for (size_t i = 0; i < N_ALPHABET; i++)
        if (draw(rng, 8) > 0)
            toy_add(&v, alphabet[i], NORMAL, -(float)draw(rng, 6));
    for (int i = 0; i < 40; i++) {
        char text[16] = "";

        for (uint32_t k = 2 + draw(rng, 3), n = 0; k > 0; k--, n = (uint32_t)strlen(text))
            snprintf(text + n, sizeof(text) - n, "%s", alphabet[draw(rng, N_ALPHABET)]);
        if (!is_there(&v, text))
            toy_add(&v, text, draw(rng, 16) == 0 ? USER : NORMAL, -0.5f * (float)draw(rng, 12));
    }
    return v;
}

/* Join tokens from `first` on, whole ones or of single bytes, whatever they are. */
static void add_merges(struct toy *v, uint64_t *rng, const size_t *firsts, size_t n_firsts)
{
    static char merges[TOY_MERGES][40];
    const size_t n_before = v->n;

    for (v->n_merges = 0; v->n_merges < TOY_MERGES - 1;) {
        const uint32_t n_new = (uint32_t)(v->n - n_before), n = (uint32_t)n_firsts + n_new;
        const uint32_t a = draw(rng, n), b = draw(rng, n);
        const char *left = v->text[a < n_firsts ? firsts[a] : n_before + a - n_firsts];
        const char *right = v->text[b < n_firsts ? firsts[b] : n_before + b - n_firsts];
        char joined[32];

        if (strlen(left) + strlen(right) > 12)
            continue;
        snprintf(joined, sizeof(joined), "%s%s", left, right);
        snprintf(merges[v->n_merges], sizeof(merges[0]), "%s %s", left, right);
        v->merges[v->n_merges] = merges[v->n_merges];
        v->n_merges++;
        if (!is_there(v, joined))
            toy_add(v, joined, NORMAL, 0);
    }
}

/* Byte-level pieces, of which many end within a character. */
static struct toy any_byte_merges(uint64_t *rng)
{
    static const uint8_t bytes[] = {' ', 'a', 'b', '.', 0xC3, 0xA9, 0xE6, 0x97, 0xA5, 0x9C};
    struct toy v = bpe_toy("superbpe");
    size_t firsts[sizeof(bytes)];

    v.n = FIRST;
    for (size_t i = 0; i < sizeof(bytes); i++)
        firsts[i] = BYTE(bytes[i]);
    add_merges(&v, rng, firsts, sizeof(bytes));
    return v;
}

/* Pieces of characters. */
static struct toy any_character_merges(uint64_t *rng)
{
    struct toy v = spm_toy();
    size_t firsts[N_ALPHABET];

    v.model = "gemma4";
    v.n = FIRST;
    v.n_scores = 0;
    for (size_t i = 0; i < N_ALPHABET; i++)
        firsts[i] = (size_t)toy_add(&v, alphabet[i], NORMAL, 0);
    toy_add(&v, "\n", NORMAL, 0);
    if (draw(rng, 2) == 0)
        toy_add(&v, "\n\n", NORMAL, 0);
    add_merges(&v, rng, firsts, N_ALPHABET);
    return v;
}

static const char *const kinds[] = {"spm", "spm without bytes", "t5", "t5 without bytes",
                                    "byte merges", "character merges"};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static struct tokenizer *any_tokenizer(uint64_t *rng, size_t kind)
{
    const struct toy v = kind < 4    ? any_pieces(rng, kind < 2 ? "llama" : "t5", kind % 2 == 0)
                         : kind == 4 ? any_byte_merges(rng)
                                     : any_character_merges(rng);

    return toy_create(&v);
}

static void cutting_changes_no_id(void **state)
{
    uint64_t rng = 20260101;

    (void)state;
    for (size_t i = 0; i < N_KINDS * N_TOYS; i++) {
        struct tokenizer *t = any_tokenizer(&rng, i % N_KINDS);

        compare_texts(t, &rng, kinds[i % N_KINDS]);
        tokenizer_destroy(&t);
    }
}

/* Whether all of it is one part or each character is one. */
static void work_is_linear(void **state)
{
    static const char *const units[] = {"a", " ", "ab", "abc. ", "\n", "\xCC\x81", "\x80",
                                        "\xFF", "\xE6", "\xE6\x97\xA5", "\xE6\x97\xA5\xE6\x9C"
                                        "\xAC"};
    static char text[256 * 1024];
    uint64_t rng = 20260103, steps, all_steps = 0;
    struct token_list list = {0};

    (void)state;
    for (size_t kind = 0; kind < N_KINDS; kind++) {
        struct tokenizer *t = any_tokenizer(&rng, kind);

        for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
            const size_t len = strlen(units[u]), n = sizeof(text) / len * len;

            for (size_t i = 0; i < n; i++)
                text[i] = units[u][i % len];
            list.n = 0;
            assert_int_equal(encoder_run(t, text, n, 0, SIZE_MAX, NULL, &list, &steps), 0);
            assert_true(steps < 16 * n);
            all_steps += steps;
        }
        tokenizer_destroy(&t);
    }
    assert_true(all_steps > sizeof(text)); /* a unit may be a token of its own: no steps */
    token_list_release(&list);
}

/* ---- where safe splits are */

static void assert_safe_splits(const struct tokenizer *t, const char *text, const size_t *at)
{
    const size_t n = strlen(text);
    size_t from = 0;

    for (size_t i = 0; i == 0 || at[i - 1] != n; i++) {
        from = safe_splits_next(t->safe_splits, text, n, from);
        assert_int_equal(from, at[i]);
    }
}
#define SAFE_SPLITS(t, text, ...) \
    assert_safe_splits(t, text, (const size_t[]){__VA_ARGS__, strlen(text)})

static void safe_splits_are_where_no_piece_lies_across(void **state)
{
    struct toy v = spm_toy();
    struct tokenizer *t;

    (void)state;
    toy_add(&v, "\xE6\x97\xA5\xE6\x9C\xAC", NORMAL, 0);
    t = toy_create(&v);
    SAFE_SPLITS(t, "hello hello", 5);
    SAFE_SPLITS(t, "ooh  he", 1, 2, 3, 4);
    SAFE_SPLITS(t, "\xE6\x9C\xAC\xE6\x97\xA5\xE6\x9C\xAC", 3);
    SAFE_SPLITS(t, "\xE6\x9C\xA5\xE6\x9C\xAC",
                3);                        /* the same two bytes meet, but not the characters */
    SAFE_SPLITS(t, "\xE6\x97\xA5\xE6", 4); /* no character: left as it is */
    SAFE_SPLITS(t, "\x80\x80h\xE6\x97", 2, 3);
    tokenizer_destroy(&t);
}

/* A piece may begin and end within characters: then it lies across all that have those bytes. */
static void pieces_that_are_no_text_count_by_their_bytes(void **state)
{
    struct toy v = bpe_toy("superbpe");
    struct tokenizer *t;
    char text[8];

    (void)state;
    snprintf(text, sizeof(text), "%s", letter(0xA5));
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", letter(0xE6));
    toy_add(&v, text, NORMAL, 0);
    t = toy_create(&v);
    SAFE_SPLITS(t, "\xE6\x9C\xA5\xE6\x9C\xAC", 6);
    SAFE_SPLITS(t, "\xE6\x9C\xAC\xE6\x9C\xA5\xE6\x9C\xAC", 3);
    tokenizer_destroy(&t);
}

/* Sums that are rounded may turn out otherwise in a part, and whole words are no parts. */
static void some_tokenizers_have_no_safe_splits(void **state)
{
    struct toy v = spm_toy();
    struct tokenizer *t;

    (void)state;
    v.model = "t5";
    v.scores[FIRST + 1] = -0.1f;
    t = toy_create(&v);
    assert_null(t->safe_splits);
    tokenizer_destroy(&t);
    v.scores[FIRST + 1] = -40;
    t = toy_create(&v);
    assert_null(t->safe_splits);
    tokenizer_destroy(&t);
    v = bpe_toy("llama-bpe");
    t = toy_create(&v);
    assert_null(t->safe_splits);
    tokenizer_destroy(&t);
}

/* ---- real vocabularies */

static struct tokenizer *open_real(const char *path, const char *pre)
{
    struct tokenizer *t;
    struct gguf *g;
    char err[256] = "";

    if (gguf_open(&g, path, err, sizeof(err)) != 0 ||
        tokenizer_create_as(&t, g, pre, err, sizeof(err)) != 0)
        fail_msg("%s", err);
    gguf_close(&g);
    return t;
}

static void a_novel_is_the_same(const struct tokenizer *t, const char *what)
{
    char path[512];
    size_t n;
    char *text = read_whole(data_file(path, sizeof(path), "text/tinyshakespeare.txt"), &n);

    assert_true(n > 200000);
    assert_same(t, text, 200000, what);
    free(text);
}

static void real_vocabularies_are_cut_exactly(void **state)
{
    static const char *const names[][2] = {
        {"llama-spm", ""}, {"qwen2", ""}, {"gpt-2", ""}, {"gpt-2", "superbpe"}};
    uint64_t rng = 20260102;
    char path[512];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct tokenizer *t;

        data_file(path, sizeof(path), "vocabs/ggml-vocab-%s.gguf", names[i][0]);
        t = open_real(path, names[i][1]);
        for (int k = 0; k < 12; k++)
            compare_texts(t, &rng, names[i][0]);
        a_novel_is_the_same(t, names[i][0]);
        tokenizer_destroy(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safe_splits_are_where_no_piece_lies_across),
        cmocka_unit_test(pieces_that_are_no_text_count_by_their_bytes),
        cmocka_unit_test(some_tokenizers_have_no_safe_splits),
        cmocka_unit_test(cutting_changes_no_id),
        cmocka_unit_test(work_is_linear),
        cmocka_unit_test(real_vocabularies_are_cut_exactly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
