/* tests/unit/tokenizer/test_tokenizer.c - both tokenizer families on small vocabularies made
 * here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/spans.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/tokenizer_impl.h"
#include "tests/unit/tokenizer/toy_vocab.h"

#include <stdio.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* ---- SentencePiece */

static void spm_joins_by_score(void **state)
{
    struct toy v = spm_toy();
    struct tokenizer *t = toy_create(&v);

    (void)state;
    ENCODES(t, "hello", 0, FIRST + 9);
    /* "ll" scores above "lo", so "o" stays alone once "llo" is out of reach */
    v.scores[FIRST + 7] = v.scores[FIRST + 8] = v.scores[FIRST + 9] = -100;
    snprintf(v.text[FIRST + 7], sizeof(v.text[0]), "zz");
    tokenizer_destroy(&t);
    t = toy_create(&v);
    ENCODES(t, "hello", 0, FIRST, FIRST + 5, FIRST + 6, FIRST + 4);
    tokenizer_destroy(&t);
}

static void spm_falls_back_to_bytes(void **state)
{
    struct toy v = spm_toy();
    struct tokenizer *t = toy_create(&v);

    (void)state;
    ENCODES(t, "h\xC3\xA9", 0, FIRST, FIRST + 1, BYTE(0xC3), BYTE(0xA9));
    ENCODES(t, "\xFF\xC3", 0, FIRST, BYTE(0xFF), BYTE(0xC3));
    ENCODES(t, "<0x41>", 0, FIRST, BYTE('<'), BYTE('0'), BYTE('x'), BYTE('4'), BYTE('1'),
            BYTE('>'));
    encodes(t, "\0", 1, 0, (int32_t[]){FIRST, BYTE(0)}, 2);
    tokenizer_destroy(&t);
    v.types[BYTE('x')] = UNUSED; /* no token for the byte: the unknown one */
    t = toy_create(&v);
    ENCODES(t, "x", 0, FIRST, 0);
    tokenizer_destroy(&t);
}

static void spm_puts_one_space_in_front(void **state)
{
    struct toy v = spm_toy();
    struct tokenizer *t = toy_create(&v);
    struct token_list list = {0};

    (void)state;
    ENCODES(t, " o", 0, FIRST, FIRST, FIRST + 4);
    ENCODES(t, "\xE2\x96\x81o", 0, FIRST, FIRST, FIRST + 4); /* U+2581 is a space here */
    ENCODES(t, "o</s>o", TOKENIZER_PARSE_SPECIAL, FIRST, FIRST + 4, 2, FIRST, FIRST + 4);
    assert_int_equal(tokenizer_encode(t, "", 0, 0, 10, NULL, &list), 0);
    assert_int_equal(list.n, 0);
    tokenizer_destroy(&t);
    v.no_prefix = 1;
    t = toy_create(&v);
    ENCODES(t, "o", 0, FIRST + 4);
    tokenizer_destroy(&t);
}

static void adds_what_the_metadata_wants(void **state)
{
    struct toy v = spm_toy();
    struct tokenizer *t = toy_create(&v);

    (void)state;
    ENCODES(t, "hello", TOKENIZER_ADD_SPECIAL, 1, FIRST + 9);
    assert_true(tokenizer_adds_bos(t));
    tokenizer_destroy(&t);
    v.no_bos = 1;
    t = toy_create(&v);
    ENCODES(t, "hello", TOKENIZER_ADD_SPECIAL, FIRST + 9);
    tokenizer_destroy(&t);
}

/* ---- byte-level BPE */

static void bpe_joins_by_rank(void **state)
{
    const struct toy v = bpe_toy("gpt-2");
    struct tokenizer *t = toy_create(&v);

    (void)state;
    ENCODES(t, "hello w", 0, FIRST + 3, FIRST + 4);
    ENCODES(t, "hhell", 0, BYTE('h'), FIRST + 2);
    ENCODES(t, "lll", 0, FIRST + 1, BYTE('l'));
    ENCODES(t, "\xC3\xA9\xFF", 0, BYTE(0xC3), BYTE(0xA9), BYTE(0xFF));
    ENCODES(t, "he\xE2\x82he", 0, FIRST, BYTE(0xE2), BYTE(0x82), FIRST);
    tokenizer_destroy(&t);
}

static void bpe_takes_whole_words_for_llama3_only(void **state)
{
    struct toy v = bpe_toy("llama-bpe");
    const int32_t whole = toy_add(&v, "ohell", NORMAL, 0); /* no merge leads to it */
    struct tokenizer *t = toy_create(&v);

    (void)state;
    ENCODES(t, "ohell", 0, whole);
    tokenizer_destroy(&t);
    v.pre = "gpt-2";
    t = toy_create(&v);
    ENCODES(t, "ohell", 0, BYTE('o'), FIRST + 2);
    tokenizer_destroy(&t);
}

/* A merge that would join two digits, or a digit and its space, shows where the pattern cuts. */
static void patterns_cut_as_named(void **state)
{
    static const struct {
        const char *pre;
        size_t n_digits; /* ids of "1111" */
        size_t n_spaced; /* ids of "  1" */
    } cases[] = {{"gpt-2", 2, 3}, {"llama-bpe", 3, 3}, {"qwen2", 4, 3}, {"smollm", 4, 2}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct toy v = bpe_toy(cases[i].pre);
        struct token_list list = {0};
        struct tokenizer *t;

        toy_add(&v, "11", NORMAL, 0);
        toy_add(&v, "\xC4\xA0\xC4\xA0", NORMAL, 0);
        v.merges[v.n_merges++] = "1 1";
        v.merges[v.n_merges++] = "\xC4\xA0 \xC4\xA0";
        t = toy_create(&v);
        assert_int_equal(tokenizer_encode(t, "1111", 4, 0, 10, NULL, &list), 0);
        assert_int_equal(list.n, cases[i].n_digits);
        list.n = 0;
        assert_int_equal(tokenizer_encode(t, "  1", 3, 0, 10, NULL, &list), 0);
        assert_int_equal(list.n, cases[i].n_spaced);
        token_list_release(&list);
        tokenizer_destroy(&t);
    }
}

/* ---- special tokens */

static void control_tokens_need_the_flag(void **state)
{
    const struct toy v = bpe_toy("gpt-2");
    struct tokenizer *t = toy_create(&v);
    struct token_list list = {0};

    (void)state;
    ENCODES(t, "he<|im_end|>he", TOKENIZER_PARSE_SPECIAL, FIRST, 1, FIRST);
    assert_int_equal(tokenizer_encode(t, "<|im_end|>", 10, 0, 100, NULL, &list), 0);
    assert_int_equal(list.n, 10);
    token_list_release(&list);
    tokenizer_destroy(&t);
}

/* A name counts where it lies in a span from its first byte to its last. */
static void control_tokens_stay_within_spans(void **state)
{
    static const char text[] = "he<|im_end|>he<|im_end|><tag>";
    static const struct {
        size_t from, to;
        size_t n;
    } spans[] = {{0, 29, 5},  {2, 12, 14},  {0, 24, 5},  {3, 12, 23},
                 {2, 11, 23}, {12, 14, 23}, {14, 24, 14}};
    const struct toy v = bpe_toy("gpt-2");
    struct tokenizer *t = toy_create(&v);

    (void)state;
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        struct spans own = {0};
        struct token_list list = {0};

        assert_int_equal(spans_add(&own, spans[i].from, spans[i].to), 0);
        assert_int_equal(tokenizer_encode_own(t, text, strlen(text), &own, 100, NULL, &list), 0);
        assert_int_equal(list.n, spans[i].n);
        assert_int_equal(list.ids[list.n - 1], 2); /* user-defined: anywhere */
        token_list_release(&list);
        spans_release(&own);
    }
    tokenizer_destroy(&t);
}

static void user_defined_tokens_are_always_found(void **state)
{
    const struct toy v = bpe_toy("gpt-2");
    struct tokenizer *t = toy_create(&v);

    (void)state;
    ENCODES(t, "he<tag>he", 0, FIRST, 2, FIRST);
    ENCODES(t, "<tag>>", 0, 3); /* the longest wins */
    ENCODES(t, "<ta<tag>", 0, BYTE('<'), BYTE('t'), BYTE('a'), 2);
    ENCODES(t, "<tag", 0, BYTE('<'), BYTE('t'), BYTE('a'), BYTE('g'));
    tokenizer_destroy(&t);
}

static void names_and_keys_end_a_generation(void **state)
{
    struct toy v = bpe_toy("gpt-2");
    struct tokenizer *t;
    const int32_t *eog;
    size_t n;

    (void)state;
    v.eot = 2;
    t = toy_create(&v);
    eog = tokenizer_eog(t, &n);
    assert_int_equal(n, 3); /* EOS, the name <|im_end|>, the EOT key */
    for (size_t i = 0; i < n; i++)
        assert_int_equal(eog[i], i);
    assert_true(tokenizer_is_control(t, 2));
    assert_int_equal(tokenizer_bos(t), TOKEN_NONE);
    tokenizer_destroy(&t);
}

static void assert_gap(const struct toy *v, int32_t prefix, int32_t suffix, int32_t middle)
{
    struct tokenizer *t = toy_create(v);
    const struct infill_tokens *gap = tokenizer_infill(t);

    assert_int_equal(gap->prefix, prefix);
    assert_int_equal(gap->suffix, suffix);
    assert_int_equal(gap->middle, middle);
    tokenizer_destroy(&t);
}

static void keys_and_names_mark_a_gap(void **state)
{
    static const char *const names[] = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"};
    struct toy v = bpe_toy("gpt-2");
    int32_t ids[3];

    (void)state;
    assert_gap(&v, TOKEN_NONE, TOKEN_NONE, TOKEN_NONE);
    for (int i = 0; i < 3; i++)
        ids[i] = toy_add(&v, names[i], USER, 0);
    assert_gap(&v, ids[0], ids[1], ids[2]);
    for (uint32_t i = 0; i < 3; i++)
        v.old_gap[i] = BYTE('a') + i;
    assert_gap(&v, BYTE('a'), BYTE('b'), BYTE('c'));
    for (uint32_t i = 0; i < 3; i++)
        v.gap[i] = BYTE('x') + i;
    assert_gap(&v, BYTE('x'), BYTE('y'), BYTE('z'));
}

static void plain_text_marks_no_gap(void **state)
{
    struct toy v = bpe_toy("gpt-2");

    (void)state;
    toy_add(&v, "<PRE>", NORMAL, 0);
    assert_gap(&v, TOKEN_NONE, TOKEN_NONE, TOKEN_NONE);
}

/* What separates files is no part of one. */
static void padding_and_files_end_a_generation(void **state)
{
    struct toy v = bpe_toy("gpt-2");
    const int32_t file = toy_add(&v, "<|file_sep|>", CONTROL, 0);
    const int32_t repository = toy_add(&v, "<|repo_name|>", CONTROL, 0);
    const int32_t pad = toy_add(&v, "<|fim_pad|>", CONTROL, 0);
    struct tokenizer *t = toy_create(&v);
    const int32_t *eog;
    size_t n;

    (void)state;
    assert_int_equal(tokenizer_infill(t)->file, file);
    assert_true(tokenizer_is_control(t, file));
    assert_int_equal(tokenizer_infill(t)->repository, repository);
    assert_int_equal(tokenizer_infill(t)->pad, pad);
    eog = tokenizer_eog(t, &n);
    assert_int_equal(n, 5);
    assert_int_equal(eog[2], file);
    assert_int_equal(eog[3], repository);
    assert_int_equal(eog[4], pad);
    tokenizer_destroy(&t);
}

/* Where an answer is several messages, the end of one is not the end. */
static void a_message_of_harmony_does_not_end_it(void **state)
{
    struct toy v = bpe_toy("gpt-2");
    const int32_t end = toy_add(&v, "<|end|>", CONTROL, 0);
    const int32_t last = toy_add(&v, "<|return|>", CONTROL, 0);
    struct tokenizer *t = toy_create(&v);
    const int32_t *eog;
    int32_t call;
    size_t n;

    (void)state;
    eog = tokenizer_eog(t, &n);
    assert_true(eog[n - 2] == end && eog[n - 1] == last); /* this is not harmony yet */
    tokenizer_destroy(&t);
    call = toy_add(&v, "<|call|>", CONTROL, 0);
    v.eot = (uint32_t)end; /* files name it all the same */
    t = toy_create(&v);
    eog = tokenizer_eog(t, &n);
    assert_true(eog[n - 2] == last && eog[n - 1] == call);
    for (size_t i = 0; i < n; i++)
        assert_int_not_equal(eog[i], end);
    tokenizer_destroy(&t);
}

/* ---- limits and failures */

static void refuses_more_ids_than_the_limit(void **state)
{
    const struct toy v = bpe_toy("gpt-2");
    struct tokenizer *t = toy_create(&v);
    struct token_list list = {0};

    (void)state;
    assert_int_equal(tokenizer_encode(t, "hello", 5, 0, 10, NULL, &list), 0);
    assert_int_equal(list.n, 1);
    assert_int_equal(tokenizer_encode(t, "xyz", 3, 0, 3, NULL, &list), ERR_LIMIT);
    assert_int_equal(list.n, 1);
    assert_int_equal(tokenizer_encode(t, "xyz", 3, 0, 4, NULL, &list), 0);
    assert_int_equal(list.n, 4);
    token_list_release(&list);
    assert_int_equal(tokenizer_encode(t, "xyz", 3, 0, 2, NULL, &list), ERR_LIMIT);
    assert_null(list.ids); /* nothing to release */
    tokenizer_destroy(&t);
}

static void failing_allocations(const struct toy *v)
{
    size_t bytes;
    uint8_t *data = toy_write(v, &bytes);
    struct token_list list = {0};
    struct tokenizer *t = NULL;
    struct gguf *g;
    char err[256];
    int64_t n = 0, n_failed = 0;

    assert_int_equal(gguf_open_memory(&g, "toy", data, bytes, err, sizeof(err)), 0);
    for (int failed = 1; failed; n++) {
        mem_fail_after(n);
        const int rc = tokenizer_create(&t, g, err, sizeof(err));
        failed = mem_has_failed();
        mem_fail_after(-1);
        assert_true(rc == 0 || (rc == ERR_NOMEM && t == NULL));
        n_failed += rc != 0;
        if (failed)
            tokenizer_destroy(&t);
    }
    assert_true(n_failed > 5);
    n_failed = 0;
    n = 0;
    for (int failed = 1; failed; n++) {
        mem_fail_after(n);
        list.n = 0;
        const int rc =
            tokenizer_encode(t, "hello hello", 11, TOKENIZER_ADD_SPECIAL, 99, NULL, &list);
        failed = mem_has_failed();
        mem_fail_after(-1);
        assert_true(rc == 0 ? list.n > 1 : rc == ERR_NOMEM && list.n == 0);
        n_failed += rc != 0;
        token_list_release(&list);
    }
    assert_true(n_failed > 1);
    tokenizer_destroy(&t);
    gguf_close(&g);
    mem_free(data);
}

/* The same tokens for another kind of model: what differs is what is done with them. */
static struct toy other_toy(const char *model, bool with_bytes)
{
    struct toy v = spm_toy();

    v.model = model;
    for (int b = 0; !with_bytes && b < 256; b++)
        v.types[BYTE(b)] = UNUSED;
    return v;
}

static void survives_every_failing_allocation(void **state)
{
    const struct toy spm = spm_toy();
    const struct toy bpe = bpe_toy("qwen2");
    const struct toy wpm = other_toy("bert", false);
    const struct toy ugm = other_toy("t5", true);

    (void)state;
    failing_allocations(&spm);
    failing_allocations(&bpe);
    failing_allocations(&wpm);
    failing_allocations(&ugm);
}

/* A mebibyte of one thing costs a few looks a byte, whatever the thing and the model. */
static void work_is_linear(void **state)
{
    static const char *const units[] = {"a", "h", " ", "hello", "\xCC\x81", "\xFF", "\n",
                                        "\xE6\x97\xA5", "\xE2\x96\x81", "\xED\x95\x9C", "!"};
    const struct toy toys[] = {spm_toy(), other_toy("bert", false), other_toy("t5", false),
                               other_toy("t5", true)};
    char *text = mem_alloc(MIB);

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < 4; i++) {
        struct tokenizer *t = toy_create(&toys[i]);
        struct token_list list = {0};

        for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
            const size_t len = strlen(units[u]), n = MIB / len * len;
            uint64_t steps;

            for (size_t k = 0; k < n; k++)
                text[k] = units[u][k % len];
            list.n = 0;
            assert_int_equal(encoder_run(t, text, n, 0, SIZE_MAX, NULL, &list, &steps), 0);
            assert_true(steps > 0);
            assert_true(steps < 16 * n);
        }
        token_list_release(&list);
        tokenizer_destroy(&t);
    }
    mem_free(text);
}

/* What cannot fit is refused before much is done for it, and no piece is so long that looking for
 * it from everywhere would take forever. */
static void unigram_work_is_bounded(void **state)
{
    static char piece[301];
    struct toy v = other_toy("t5", false);
    struct token_list list = {0};
    char *text = mem_alloc(MIB);
    struct tokenizer *t;
    uint64_t steps;

    (void)state;
    assert_non_null(text);
    memset(text, 'h', MIB);
    memset(piece, 'h', 300);
    v.longer = piece;
    t = toy_create(&v);
    assert_int_equal(encoder_run(t, text, MIB, 0, 8, NULL, &list, &steps), ERR_LIMIT);
    assert_true(steps < 64 * 1024);
    assert_int_equal(list.n, 0);
    assert_int_equal(encoder_run(t, text, 600, 0, 1000, NULL, &list, &steps), 0);
    assert_int_equal(list.n, 601); /* the space in front is one */
    assert_true(steps < 16 * 600);
    token_list_release(&list);
    tokenizer_destroy(&t);
    mem_free(text);
}

static void word_piece_and_unigram_differ(void **state)
{
    const struct toy wpm = other_toy("bert", false), ugm = other_toy("t5", false);
    struct tokenizer *t = toy_create(&wpm);

    (void)state;
    assert_string_equal(tokenizer_model(t), "bert");
    ENCODES(t, "HELLO", 0, FIRST + 9); /* one word with its space, in small letters */
    ENCODES(t, " hello\thello ", 0, FIRST + 9, FIRST + 9);
    ENCODES(t, "hellohe", 0, FIRST + 9, FIRST + 5);
    ENCODES(t, "hellox", 0, 0); /* one character without a piece, and the word is unknown */
    tokenizer_destroy(&t);
    t = toy_create(&ugm);
    assert_string_equal(tokenizer_model(t), "t5");
    ENCODES(t, "hello", 0, FIRST + 0, FIRST + 8); /* -0 - 8 is more than -9 for both in one */
    ENCODES(t, "hellox", 0, FIRST + 0, FIRST + 8, 0);
    ENCODES(t, "hxyzh", 0, FIRST + 0, FIRST + 1, 0, FIRST + 1); /* unknowns in a row are one */
    tokenizer_destroy(&t);
}

/* Each fault is one change to a good vocabulary; the sentence must name the key. */
static void break_model(struct toy *v)
{
    v->model = "wordpiece";
}
static void drop_model(struct toy *v)
{
    v->model = NULL;
}
static void break_pre(struct toy *v)
{
    v->pre = "superb-bpe";
}
static void drop_pre(struct toy *v)
{
    v->pre = NULL;
}
static void drop_tokens(struct toy *v)
{
    v->n = 0;
}
static void cut_types(struct toy *v)
{
    v->n_types--;
}
static void odd_type(struct toy *v)
{
    v->types[FIRST] = 9;
}
static void negative_type(struct toy *v)
{
    v->types[FIRST] = -1;
}
static void cut_scores(struct toy *v)
{
    v->n_scores--;
}
static void drop_scores(struct toy *v)
{
    v->n_scores = 0;
}
static void nan_score(struct toy *v)
{
    v->scores[FIRST] = __builtin_nanf("");
}
static void big_eos(struct toy *v)
{
    v->eos = (uint32_t)v->n;
}
static void big_gap(struct toy *v)
{
    v->gap[1] = (uint32_t)v->n;
}
static void huge_eot(struct toy *v)
{
    v->eot = UINT32_MAX;
}
static void odd_bos(struct toy *v)
{
    v->odd_key = "tokenizer.ggml.bos_token_id";
}
static void odd_flag(struct toy *v)
{
    v->odd_key = "tokenizer.ggml.add_eos_token";
}
static void twin_token(struct toy *v)
{
    memcpy(v->text[FIRST + 1], v->text[FIRST], 16);
}
static void twin_special(struct toy *v)
{
    memcpy(v->text[1], v->text[0], 16);
}
static void bad_byte(struct toy *v)
{
    memcpy(v->text[BYTE(3)], "<0xZZ>", 7);
}
static void no_merges(struct toy *v)
{
    v->n_merges = 0;
}
static void unspaced_merge(struct toy *v)
{
    v->merges[1] = "ll";
}
static void leading_space(struct toy *v)
{
    v->merges[1] = " l";
}
static void empty_merge(struct toy *v)
{
    v->merges[1] = "";
}
static void unknown_merge(struct toy *v)
{
    v->merges[1] = "q q";
}
static void odd_letters(struct toy *v)
{
    v->merges[1] = "l \xE2\x82\xAC";
}
static void split_letter(struct toy *v)
{
    v->merges[1] = "l \xC4";
}
static void long_special(struct toy *v)
{
    static char name[400];

    memset(name, 'x', sizeof(name) - 1);
    v->longer = name;
    v->types[v->n - 1] = CONTROL;
}

static void refuses_hostile_vocabularies(void **state)
{
    static const struct {
        int bpe;
        void (*change)(struct toy *v);
        const char *says;
    } faults[] = {
        {0, break_model, "tokenizer.ggml.model is \"wordpiece\""},
        {0, drop_model, "tokenizer.ggml.model is missing"},
        {1, break_pre, "tokenizer.ggml.pre is \"superb-bpe\""},
        {1, drop_pre, "tokenizer.ggml.pre is missing"},
        {0, drop_tokens, "tokenizer.ggml.tokens is missing"},
        {0, cut_types, "tokenizer.ggml.token_type has"},
        {0, odd_type, "tokenizer.ggml.token_type: token 260"},
        {0, negative_type, "tokenizer.ggml.token_type: token 260"},
        {0, cut_scores, "tokenizer.ggml.scores has"},
        {0, drop_scores, "tokenizer.ggml.scores is missing"},
        {0, nan_score, "tokenizer.ggml.scores: the score of token 260"},
        {1, odd_bos, "tokenizer.ggml.bos_token_id"},
        {1, odd_flag, "tokenizer.ggml.add_eos_token"},
        {0, twin_token, "tokenizer.ggml.tokens: tokens 260 and 261"},
        {1, twin_token, "tokenizer.ggml.tokens: tokens 260 and 261"},
        {1, twin_special, "tokenizer.ggml.tokens: special tokens 0 and 1"},
        {0, bad_byte, "tokenizer.ggml.tokens: token 7 has the type byte"},
        {1, no_merges, "tokenizer.ggml.merges is missing"},
        {1, unspaced_merge, "tokenizer.ggml.merges: element 1 has no space"},
        {1, leading_space, "tokenizer.ggml.merges: element 1 has no space"},
        {1, empty_merge, "tokenizer.ggml.merges: element 1 has no space"},
        {1, unknown_merge, "tokenizer.ggml.merges: element 1 has a part"},
        {1, odd_letters, "tokenizer.ggml.merges: element 1 has a character"},
        {1, split_letter, "tokenizer.ggml.merges: element 1 has a character"},
        {1, long_special, "tokenizer.ggml.tokens: the special token"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct toy v = faults[i].bpe ? bpe_toy("gpt-2") : spm_toy();
        struct tokenizer *t = (void *)&v;
        char err[256] = "";

        faults[i].change(&v);
        assert_true(toy_try(&v, &t, err, sizeof(err)) < 0);
        assert_null(t);
        if (strstr(err, faults[i].says) == NULL || strstr(err, "toy") == NULL)
            fail_msg("\"%s\" does not say \"%s\"", err, faults[i].says);
    }
}

/* An id that is no token's is not used; the family's default is, where its name is right. */
static void ignores_ids_of_no_token(void **state)
{
    static void (*const changes[])(struct toy *v) = {big_eos, big_gap, huge_eot};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(changes) / sizeof(changes[0]); i++) {
        const bool is_bpe = i % 2 == 1;
        struct toy v = is_bpe ? bpe_toy("gpt-2") : spm_toy();
        struct tokenizer *t;
        const int32_t *ends;
        size_t n;

        changes[i / 2](&v);
        t = toy_create(&v);
        if (changes[i / 2] == big_eos)
            assert_int_equal(tokenizer_eos(t), is_bpe ? TOKEN_NONE : 2);
        ends = tokenizer_eog(t, &n);
        for (size_t k = 0; k < n; k++)
            assert_in_range(ends[k], 0, tokenizer_n_vocab(t) - 1);
        assert_int_equal(tokenizer_infill(t)->suffix, TOKEN_NONE);
        tokenizer_destroy(&t);
    }
}

static void works_without_types(void **state)
{
    struct toy v = spm_toy();
    struct tokenizer *t;

    (void)state;
    v.n_types = 0;
    t = toy_create(&v);
    ENCODES(t, "hello\n</s>", TOKENIZER_PARSE_SPECIAL, FIRST + 9, BYTE('\n'), 2);
    assert_true(tokenizer_is_control(t, 1));
    tokenizer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spm_joins_by_score),
        cmocka_unit_test(spm_falls_back_to_bytes),
        cmocka_unit_test(spm_puts_one_space_in_front),
        cmocka_unit_test(adds_what_the_metadata_wants),
        cmocka_unit_test(bpe_joins_by_rank),
        cmocka_unit_test(bpe_takes_whole_words_for_llama3_only),
        cmocka_unit_test(patterns_cut_as_named),
        cmocka_unit_test(control_tokens_need_the_flag),
        cmocka_unit_test(control_tokens_stay_within_spans),
        cmocka_unit_test(user_defined_tokens_are_always_found),
        cmocka_unit_test(names_and_keys_end_a_generation),
        cmocka_unit_test(keys_and_names_mark_a_gap),
        cmocka_unit_test(plain_text_marks_no_gap),
        cmocka_unit_test(padding_and_files_end_a_generation),
        cmocka_unit_test(a_message_of_harmony_does_not_end_it),
        cmocka_unit_test(refuses_more_ids_than_the_limit),
        cmocka_unit_test(survives_every_failing_allocation),
        cmocka_unit_test(work_is_linear),
        cmocka_unit_test(unigram_work_is_bounded),
        cmocka_unit_test(word_piece_and_unigram_differ),
        cmocka_unit_test(refuses_hostile_vocabularies),
        cmocka_unit_test(works_without_types),
        cmocka_unit_test(ignores_ids_of_no_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
