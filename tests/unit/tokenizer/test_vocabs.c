/* tests/unit/tokenizer/test_vocabs.c - the tokenizers on real vocabularies, id by id, and on the
 * demo's.
 *
 * The real ones lie in $QUIRE_DATA (default ../shared/data); without them those tests are skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/tokenizer_impl.h"
#include "tests/fixtures/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define SEPARATOR "\n__ggml_vocab_test__\n"

static const char *const vocab_names[] = {"llama-spm", "gpt-2", "llama-bpe", "qwen2"};

static struct tokenizer *open_tokenizer(const char *path)
{
    struct tokenizer *t;
    struct gguf *g;
    char err[256] = "";

    if (gguf_open(&g, path, err, sizeof(err)) != 0)
        fail_msg("%s", err);
    if (tokenizer_create(&t, g, err, sizeof(err)) != 0)
        fail_msg("%s", err);
    gguf_close(&g);
    return t;
}

static struct tokenizer *open_vocab(const char *name, char *path, size_t n)
{
    return open_tokenizer(data_file(path, n, "vocabs/ggml-vocab-%s.gguf", name));
}

/* The ids up to the end of the line or a tab; *end is where they stop. */
static void assert_ids_are(const struct token_list *list, const char *line, char **end,
                           const char *what)
{
    size_t n = 0;

    for (*end = (char *)line; **end != '\0' && **end != '\n' && **end != '\t'; n++) {
        char *after;
        const long id = strtol(*end, &after, 10);

        assert_ptr_not_equal(after, *end);
        if (n >= list->n || list->ids[n] != id)
            fail_msg("%s: id %zu is %ld, expected %ld", what, n,
                     n < list->n ? (long)list->ids[n] : -1L, id);
        *end = after + strspn(after, " ");
    }
    if (list->n != n)
        fail_msg("%s: %zu ids, expected %zu", what, list->n, n);
}

static void assert_decodes_to(const struct tokenizer *t, const struct token_list *list,
                              const char *text, size_t n)
{
    struct detok d;
    struct buf out;

    buf_init(&out, n + 1024);
    detok_init(&d, t, true);
    for (size_t i = 0; i < list->n; i++)
        assert_int_equal(detok_feed(&d, list->ids[i], &out), 0);
    assert_int_equal(detok_finish(&d, &out), 0);
    assert_int_equal(out.len, n);
    if (n > 0)
        assert_memory_equal(out.data, text, n);
    buf_release(&out);
}

static void check_lines(const struct tokenizer *t, const char *path)
{
    struct token_list list = {0};
    char file[600], what[64];
    size_t n, n_cases = 0;
    char *expected, *texts, *line;

    snprintf(file, sizeof(file), "%s.inp", path);
    texts = read_whole(file, &n);
    snprintf(file, sizeof(file), "%s.out", path);
    line = expected = read_whole(file, &n);
    for (char *text = texts, *stop; (stop = strstr(text, SEPARATOR)) != NULL;
         text = stop + strlen(SEPARATOR)) {
        list.n = 0;
        assert_int_equal(tokenizer_encode(t, text, (size_t)(stop - text), 0, 4096, NULL, &list), 0);
        snprintf(what, sizeof(what), "text %zu", n_cases++);
        line += strspn(line, " ");
        assert_ids_are(&list, line, &line, what);
        line += *line == '\n';
        assert_decodes_to(t, &list, text, (size_t)(stop - text));
    }
    assert_int_equal(*line, '\0');
    assert_true(n_cases > 40);
    free(texts);
    free(expected);
    token_list_release(&list);
}

static void gives_the_reference_ids(void **state)
{
    char path[512];

    (void)state;
    for (size_t i = 0; i < sizeof(vocab_names) / sizeof(vocab_names[0]); i++) {
        struct tokenizer *t = open_vocab(vocab_names[i], path, sizeof(path));

        print_message("%s\n", vocab_names[i]);
        check_lines(t, path);
        tokenizer_destroy(&t);
    }
}

/* Work is bounded whatever the text: a few looks for each byte, where a step that went over what is
 * left of the text each time would take thousands. Bytes that are no text do not come back. */
static void encode_big(const struct tokenizer *t, const char *unit)
{
    const bool is_text = (uint8_t)unit[0] < 0x80 || strlen(unit) > 1;
    uint64_t steps;

    const size_t len = strlen(unit), n = MIB / len * len;
    struct token_list list = {0};
    char *text = malloc(MIB);

    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = unit[i % len];
    assert_int_equal(
        encoder_run(t, text, n, TOKENIZER_PARSE_SPECIAL, n + 1, NULL, &list, &steps), 0);
    assert_true(list.n > 0);
    assert_true(steps > 0 && steps < 32 * n);
    if (is_text)
        assert_decodes_to(t, &list, text, n);
    token_list_release(&list);
    free(text);
}

static void a_mebibyte_of_anything_is_quick(void **state)
{
    static const char *const units[] = {
        "a",
        " ",
        "word ",
        "0123456789",
        "\n",
        " \n",
        "\t",
        "ab",
        "\xC3\xA9",
        "!",
        "<|",
        "  x",
        "'s",
        "\xF0\x9F\x98\x80",
        "tokenization",
        "<|im_start|",
        " \r",
        "x\xE2\x80\x83",
        "\xCC\x81",
        "\xE6\x97\xA5",
        "\xFF",
        "\xC3",
        "\x80",
    };
    char path[512];

    (void)state;
    for (size_t i = 0; i < sizeof(vocab_names) / sizeof(vocab_names[0]); i++) {
        struct tokenizer *t = open_vocab(vocab_names[i], path, sizeof(path));

        for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++)
            encode_big(t, units[u]);
        tokenizer_destroy(&t);
    }
}

static int32_t only_id(const struct tokenizer *t, const char *text)
{
    struct token_list list = {0};
    int32_t id = TOKEN_NONE;

    assert_int_equal(tokenizer_encode(t, text, strlen(text), TOKENIZER_PARSE_SPECIAL, 64, NULL,
                                      &list),
                     0);
    if (list.n == 1)
        id = list.ids[0];
    token_list_release(&list);
    return id;
}

static void assert_ends(const struct tokenizer *t, int32_t id)
{
    size_t n;
    const int32_t *eog = tokenizer_eog(t, &n);

    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || eog[i] > eog[i - 1]);
        if (eog[i] == id)
            return;
    }
    fail_msg("token %" PRId32 " does not end a generation", id);
}

static void knows_the_roles_of_llama3_and_qwen2(void **state)
{
    char path[512];
    struct tokenizer *t = open_vocab("llama-bpe", path, sizeof(path));

    (void)state;
    assert_int_equal(tokenizer_bos(t), 128000);
    assert_true(tokenizer_adds_bos(t));
    assert_int_equal(only_id(t, "<|eot_id|>"), 128009);
    assert_ends(t, 128009);
    assert_ends(t, 128001);
    assert_true(tokenizer_is_control(t, 128006));
    tokenizer_destroy(&t);
    t = open_vocab("qwen2", path, sizeof(path));
    assert_false(tokenizer_adds_bos(t));
    assert_int_equal(only_id(t, "<|im_start|>"), 151644);
    assert_ends(t, 151645);
    assert_ends(t, 151643);
    tokenizer_destroy(&t);
    t = open_vocab("llama-spm", path, sizeof(path));
    assert_true(tokenizer_adds_bos(t));
    assert_int_equal(tokenizer_bos(t), 1);
    assert_int_equal(tokenizer_eos(t), 2);
    assert_ends(t, 2);
    tokenizer_destroy(&t);
}

static void round_trips_a_novel(void **state)
{
    struct token_list list = {0};
    char path[512];
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof(vocab_names) / sizeof(vocab_names[0]); i++) {
        struct tokenizer *t = open_vocab(vocab_names[i], path, sizeof(path));
        char *text;

        text = read_whole(data_file(path, sizeof(path), "text/tinyshakespeare.txt"), &n);
        list.n = 0;
        assert_int_equal(tokenizer_encode(t, text, n, 0, n, NULL, &list), 0);
        assert_true(list.n < n / 2);
        assert_decodes_to(t, &list, text, n);
        free(text);
        tokenizer_destroy(&t);
    }
    token_list_release(&list);
}

/* ---- the demo model, whose vocabulary and fixture its trainer wrote */

/* Undo the fixture's \n, \r, \t and \\, in place; the length. */
static size_t unescape(char *text)
{
    size_t n = 0;

    for (const char *p = text; *p != '\0'; p++) {
        static const char letters[] = "nrt\\", meant[] = "\n\r\t\\";
        const char *letter = *p == '\\' ? strchr(letters, p[1]) : NULL;

        text[n++] = letter != NULL ? meant[letter - letters] : *p;
        p += letter != NULL;
    }
    return n;
}

static void demo_agrees_with_its_trainer(void **state)
{
    struct tokenizer *t = open_tokenizer("config/demo/quire-demo.gguf");
    struct token_list list = {0};
    size_t n, n_cases = 0;
    char *lines = read_whole("tests/fixtures/demo_tokens.txt", &n);
    char *rest = lines;

    (void)state;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0'; n_cases++) {
        char *tab = strchr(line, '\t');
        char *end;

        assert_non_null(tab);
        n = unescape(tab + 1);
        list.n = 0;
        assert_int_equal(tokenizer_encode(t, tab + 1, n, 0, 4096, NULL, &list), 0);
        assert_ids_are(&list, line, &end, line);
        assert_decodes_to(t, &list, tab + 1, n);
    }
    assert_true(n_cases > 10);
    free(lines);
    token_list_release(&list);
    tokenizer_destroy(&t);
}

static void demo_has_its_chat_tokens(void **state)
{
    struct tokenizer *t = open_tokenizer("config/demo/quire-demo.gguf");
    const char *name;

    (void)state;
    assert_true(tokenizer_adds_bos(t));
    assert_int_equal(only_id(t, "<|begin|>"), tokenizer_bos(t));
    assert_int_equal(only_id(t, "<|endoftext|>"), tokenizer_eos(t));
    assert_ends(t, tokenizer_eos(t));
    assert_ends(t, only_id(t, "<|end|>"));
    assert_true(tokenizer_is_control(t, only_id(t, "<|user|>")));
    assert_true(tokenizer_is_control(t, only_id(t, "<|assistant|>")));
    assert_non_null(strstr(tokenizer_chat_template(t, 0, &name), "bos_token"));
    tokenizer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_reference_ids),
        cmocka_unit_test(a_mebibyte_of_anything_is_quick),
        cmocka_unit_test(knows_the_roles_of_llama3_and_qwen2),
        cmocka_unit_test(round_trips_a_novel),
        cmocka_unit_test(demo_agrees_with_its_trainer),
        cmocka_unit_test(demo_has_its_chat_tokens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
