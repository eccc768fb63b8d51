/* tests/unit/tokenizer/toy_vocab.h - small vocabularies of all families, made into tokenizers.
 *
 * Thread: one.
 * Memory: toy_create()'s tokenizer is the test's to destroy.
 */
#ifndef TESTS_UNIT_TOKENIZER_TOY_VOCAB_H
#define TESTS_UNIT_TOKENIZER_TOY_VOCAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/formats/gguf/write.h"
#include "core/tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

#define MAX_TOKENS 340
#define TOY_MERGES 64
#define N_SPECIAL 4
#define BYTE(b) (N_SPECIAL + (b)) /* the token of a byte in both vocabularies */
#define FIRST (N_SPECIAL + 256)   /* the first piece behind them */

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4, UNUSED = 5, RAW_BYTE = 6 };

/* A vocabulary to be written as GGUF; tests change it before. NULL or 0 leaves a key out. */
struct toy {
    const char *model, *pre;
    char text[MAX_TOKENS][16];
    const char *longer; /* instead of the last token's text */
    int32_t types[MAX_TOKENS];
    float scores[MAX_TOKENS];
    size_t n, n_types, n_scores;
    const char *merges[TOY_MERGES];
    size_t n_merges;
    uint32_t eos;
    const char *odd_key; /* a key that gets a string, whatever it should be */
    uint32_t eot;
    uint32_t gap[3], old_gap[3]; /* prefix, suffix, middle by the keys of now and of before */
    int no_bos;
    int no_prefix;
};

static inline int32_t toy_add(struct toy *v, const char *text, int32_t type, float score)
{
    assert_true(v->n < MAX_TOKENS && strlen(text) < sizeof(v->text[0]));
    snprintf(v->text[v->n], sizeof(v->text[0]), "%.15s", text);
    v->types[v->n] = type;
    v->scores[v->n] = score;
    v->n_types = v->n_scores = v->n + 1;
    return (int32_t)v->n++;
}

static inline struct toy spm_toy(void)
{
    static const char *const pieces[] = {
        "\xE2\x96\x81", "h", "e", "l", "o", "he", "ll", "llo", "hello", "\xE2\x96\x81hello", "lo",
    };
    struct toy v = {.model = "llama", .eos = 2};

    toy_add(&v, "<unk>", UNKNOWN, 0);
    toy_add(&v, "<s>", CONTROL, 0);
    toy_add(&v, "</s>", CONTROL, 0);
    toy_add(&v, "<sep>", USER, 0);
    for (int b = 0; b < 256; b++) {
        char name[8];

        snprintf(name, sizeof(name), "<0x%02X>", b);
        toy_add(&v, name, RAW_BYTE, 0);
    }
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
        toy_add(&v, pieces[i], NORMAL, -(float)i);
    return v;
}

/* GPT-2's letter for a byte: itself where that is visible in Latin-1, else the next from U+0100. */
static const char *letter(int byte)
{
    static char text[3];
    int c = byte, hidden = 0;

    for (int b = 0; b <= byte; b++) {
        const int visible = (b > 32 && b < 127) || (b > 160 && b != 173);

        c = visible ? b : 256 + hidden++;
    }
    snprintf(text, sizeof(text), "%c%c", c < 128 ? c : 0xC0 | c >> 6,
             c < 128 ? 0 : 0x80 | (c & 63));
    return text;
}

static inline struct toy bpe_toy(const char *pre)
{
    static const char *const merges[] = {"h e", "l l", "he ll", "hell o", "\xC4\xA0 w"};
    struct toy v = {.model = "gpt2", .pre = pre};

    toy_add(&v, "<|endoftext|>", CONTROL, 0);
    toy_add(&v, "<|im_end|>", CONTROL, 0);
    toy_add(&v, "<tag>", USER, 0);
    toy_add(&v, "<tag>>", USER, 0);
    for (int b = 0; b < 256; b++)
        toy_add(&v, letter(b), NORMAL, 0);
    for (size_t i = 0; i < sizeof(merges) / sizeof(merges[0]); i++) {
        char joined[16];
        const char *space = strchr(merges[i], ' ');

        snprintf(joined, sizeof(joined), "%.*s%s", (int)(space - merges[i]), merges[i], space + 1);
        toy_add(&v, joined, NORMAL, 0);
        v.merges[v.n_merges++] = merges[i];
    }
    return v;
}

static inline void write_arrays(struct gguf_writer *w, const struct toy *v)
{
    struct gguf_str tokens[MAX_TOKENS], merges[TOY_MERGES];

    for (size_t i = 0; i < v->n; i++)
        tokens[i] = (struct gguf_str){v->text[i], strlen(v->text[i])};
    if (v->longer != NULL)
        tokens[v->n - 1] = (struct gguf_str){v->longer, strlen(v->longer)};
    for (size_t i = 0; i < v->n_merges; i++)
        merges[i] = (struct gguf_str){v->merges[i], strlen(v->merges[i])};
    gguf_writer_str_array(w, "tokenizer.ggml.tokens", tokens, v->n);
    if (v->n_types > 0)
        gguf_writer_i32_array(w, "tokenizer.ggml.token_type", v->types, v->n_types);
    if (v->n_scores > 0)
        gguf_writer_f32_array(w, "tokenizer.ggml.scores", v->scores, v->n_scores);
    if (v->n_merges > 0)
        gguf_writer_str_array(w, "tokenizer.ggml.merges", merges, v->n_merges);
}

static inline void write_gap(struct gguf_writer *w, const struct toy *v)
{
    static const char *const keys[] = {"tokenizer.ggml.fim_pre_token_id",
                                       "tokenizer.ggml.fim_suf_token_id",
                                       "tokenizer.ggml.fim_mid_token_id"};
    static const char *const old_keys[] = {"tokenizer.ggml.prefix_token_id",
                                           "tokenizer.ggml.suffix_token_id",
                                           "tokenizer.ggml.middle_token_id"};

    for (int i = 0; i < 3; i++) {
        if (v->gap[i] != 0)
            gguf_writer_u32(w, keys[i], v->gap[i]);
        if (v->old_gap[i] != 0)
            gguf_writer_u32(w, old_keys[i], v->old_gap[i]);
    }
}

static inline uint8_t *toy_write(const struct toy *v, size_t *bytes)
{
    struct gguf_writer *w;
    uint8_t *data;

    assert_int_equal(gguf_writer_create(&w), 0);
    if (v->model != NULL)
        gguf_writer_str(w, "tokenizer.ggml.model", v->model);
    if (v->pre != NULL)
        gguf_writer_str(w, "tokenizer.ggml.pre", v->pre);
    if (v->n > 0)
        write_arrays(w, v);
    gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", v->eos);
    if (v->eot != 0)
        gguf_writer_u32(w, "tokenizer.ggml.eot_token_id", v->eot);
    write_gap(w, v);
    if (v->no_bos)
        gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", false);
    if (v->no_prefix)
        gguf_writer_bool(w, "tokenizer.ggml.add_space_prefix", false);
    if (v->odd_key != NULL)
        gguf_writer_str(w, v->odd_key, "odd");
    assert_int_equal(gguf_writer_finish(w, &data, bytes), 0);
    gguf_writer_destroy(&w);
    return data;
}

static inline int toy_try(const struct toy *v, struct tokenizer **t, char *err, size_t err_len)
{
    size_t bytes;
    uint8_t *data = toy_write(v, &bytes);
    struct gguf *g;
    int rc;

    assert_int_equal(gguf_open_memory(&g, "toy", data, bytes, err, err_len), 0);
    rc = tokenizer_create(t, g, err, err_len);
    gguf_close(&g);
    mem_free(data);
    return rc;
}

static inline struct tokenizer *toy_create(const struct toy *v)
{
    struct tokenizer *t;
    char err[256] = "";

    if (toy_try(v, &t, err, sizeof(err)) != 0)
        fail_msg("%s", err);
    return t;
}

#define N_IDS(...) (sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))
#define ENCODES(t, text, flags, ...)                                                               \
    encodes(t, text, strlen(text), flags, (int32_t[]){__VA_ARGS__}, N_IDS(__VA_ARGS__))

static inline void encodes(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                    const int32_t *ids, size_t n_ids)
{
    struct token_list list = {0};

    assert_int_equal(tokenizer_encode(t, text, n, flags, 1000, NULL, &list), 0);
    for (size_t i = 0; i < list.n && i < n_ids; i++) {
        if (list.ids[i] != ids[i])
            fail_msg("\"%s\": id %zu is %d, expected %d", text, i, (int)list.ids[i], (int)ids[i]);
    }
    assert_int_equal(list.n, n_ids);
    token_list_release(&list);
}

#endif
