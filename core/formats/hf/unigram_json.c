/* core/formats/hf/unigram_json.c - tokenizer.json of the kind Unigram; see hf_impl.h.
 *
 * Texts are normalised as SentencePiece does (core/tokenizer/unigram.c): by the longest match of
 * the precompiled map, where the library tokenizers goes from grapheme to grapheme.
 */
#include "core/formats/hf/hf_impl.h"

#include "core/base/base64.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf_folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_CHARSMAP (16u << 20)

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5 };

struct pieces {
    struct hf_folder *f;
    const cJSON *model;
    uint32_t n, unknown;
    struct gguf_str *names; /* [n] data NULL: no token has this id */
    float *scores;
    int32_t *types, *sides;
    bool has_sides;
    char (*pads)[16]; /* made-up names of ids without a token */
    struct buf charsmap;
    bool merges_spaces, strips_right, cuts_white; /* flags of the steps read so far */
};

static int refuse_unigram(const struct pieces *p, const char *what)
{
    return hf_fail(p->f, ERR_UNSUPPORTED, HF_TOKENIZER, "%s", what);
}

static bool is_unigram_word(const cJSON *o, const char *name, const char *wanted)
{
    const char *found = hf_text(o, name);

    return found != NULL && strcmp(found, wanted) == 0;
}

/* ---- tokens ---- */

static int read_pieces(struct pieces *p)
{
    const cJSON *list = hf_member(p->model, "vocab"), *m;
    uint32_t i = 0;

    if (!cJSON_IsArray(list) || (uint32_t)cJSON_GetArraySize(list) > p->n)
        return hf_fail(p->f, ERR_FORMAT, HF_TOKENIZER,
                       "'vocab' is not a list of at most 'vocab_size', %u, elements", p->n);
    cJSON_ArrayForEach(m, list)
    {
        const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(m, 0));
        const cJSON *score = cJSON_GetArrayItem(m, 1);

        if (text == NULL || !cJSON_IsNumber(score) || !(fabs(score->valuedouble) < 1e30))
            return hf_fail(p->f, ERR_FORMAT, HF_TOKENIZER,
                           "element %u of 'vocab' is not a pair of a text and a number", i);
        p->names[i] = (struct gguf_str){text, strlen(text)};
        p->scores[i] = (float)score->valuedouble;
        p->types[i++] = NORMAL;
    }
    return 0;
}

static int read_added(struct pieces *p, const cJSON *added)
{
    const char *name = hf_text(added, "content");
    uint32_t id = p->n;
    const int rc = hf_u32(p->f, HF_TOKENIZER, added, "id", 0, p->n - 1, &id);

    if (rc < 0)
        return rc;
    if (name == NULL || id == p->n)
        return refuse_unigram(p, "an element of 'added_tokens' has no 'content' or no 'id'");
    if (p->names[id].data != NULL &&
        (p->names[id].len != strlen(name) || strcmp(p->names[id].data, name) != 0))
        return hf_fail(p->f, ERR_FORMAT, HF_TOKENIZER, "two tokens have the id %u", id);
    p->names[id] = (struct gguf_str){name, strlen(name)};
    p->types[id] = cJSON_IsTrue(hf_member(added, "special")) ? CONTROL : USER_DEFINED;
    p->sides[id] = hf_token_sides(p->f, added);
    p->has_sides |= p->sides[id] != 0;
    return 0;
}

static int read_tokens(struct pieces *p)
{
    const cJSON *m;
    int rc = read_pieces(p);

    p->unknown = p->n;
    if (rc == 0)
        rc = hf_u32(p->f, HF_TOKENIZER, p->model, "unk_id", 0, p->n - 1, &p->unknown);
    cJSON_ArrayForEach(m, hf_member(p->f->tokenizer, "added_tokens"))
    {
        if (rc == 0)
            rc = read_added(p, m);
    }
    if (rc < 0)
        return rc;
    if (p->unknown == p->n || p->names[p->unknown].data == NULL)
        return refuse_unigram(p, "'unk_id' is not the id of a token");
    p->types[p->unknown] = UNKNOWN;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->names[i].data == NULL) {
            snprintf(p->pads[i], sizeof(p->pads[i]), "[PAD%u]", i);
            p->names[i] = (struct gguf_str){p->pads[i], strlen(p->pads[i])};
            p->types[i] = UNUSED;
        }
    return 0;
}

/* ---- normalizer and pretokenizer ---- */

static int read_charsmap(struct pieces *p, const cJSON *step)
{
    const char *text = hf_text(step, "precompiled_charsmap");

    if (text == NULL || p->charsmap.len > 0 || base64_decode(&p->charsmap, text, strlen(text)) < 0)
        return hf_fail(p->f, ERR_FORMAT, HF_TOKENIZER, "'precompiled_charsmap' is not base64");
    return 0;
}

/* Read a step that SentencePiece does, too. */
static int read_step(struct pieces *p, const cJSON *step)
{
    const bool is_replace = is_unigram_word(step, "type", "Replace");
    const char *type = hf_text(step, "type");
    char shown[64];

    if (is_unigram_word(step, "type", "Precompiled"))
        return read_charsmap(p, step);
    if (is_unigram_word(step, "type", "WhitespaceSplit")) {
        p->merges_spaces = p->strips_right = p->cuts_white = true;
        return 0;
    }
    if (is_unigram_word(step, "type", "Strip")) {
        p->strips_right |= cJSON_IsTrue(hf_member(step, "strip_right"));
        return 0;
    }
    if (is_replace && is_unigram_word(hf_member(step, "pattern"), "Regex", " {2,}") &&
        (is_unigram_word(step, "content", " ") ||
         is_unigram_word(step, "content", "\xE2\x96\x81"))) {
        p->merges_spaces = true;
        return 0;
    }
    if (is_unigram_word(step, "type", "Metaspace") &&
        !cJSON_IsFalse(hf_member(step, "add_prefix_space")) &&
        (hf_member(step, "prepend_scheme") == NULL ||
         is_unigram_word(step, "prepend_scheme", "always")))
        return 0;
    return hf_fail(p->f, ERR_UNSUPPORTED, HF_TOKENIZER,
                   "the step '%s' of its 'normalizer' or 'pre_tokenizer' is not supported for "
                   "Unigram, or not at its place (Precompiled, Strip, Replace of several "
                   "spaces, WhitespaceSplit and Metaspace are, and before these NFC, NFD, NFKC, "
                   "NFKD, Lowercase, StripAccents and Replace of a text)",
                   type != NULL ? hf_printable(shown, sizeof(shown), type) : "");
}

static int read_pre_tokenizer(struct pieces *p)
{
    const cJSON *o = hf_member(p->f->tokenizer, "pre_tokenizer"), *m;
    const cJSON *steps = hf_member(o, "pretokenizers");
    int rc = 0;

    if (o == NULL || !is_unigram_word(o, "type", "Sequence"))
        return o != NULL ? read_step(p, o) : 0;
    cJSON_ArrayForEach(m, steps)
    {
        if (rc == 0)
            rc = read_step(p, m);
    }
    return rc;
}

static int read_rules(struct pieces *p)
{
    const struct hf_folder *f = p->f;
    int rc = 0;

    for (uint32_t i = f->n_general; rc == 0 && i < f->n_steps; i++)
        rc = read_step(p, f->steps[i]);
    if (rc == 0)
        rc = read_pre_tokenizer(p);
    if (rc == 0 && (hf_member(p->f->tokenizer, "pre_tokenizer") == NULL || !p->merges_spaces ||
                    !p->strips_right))
        rc = refuse_unigram(
            p, "its 'normalizer' and 'pre_tokenizer' keep spaces that SentencePiece does "
               "not, which is not supported");
    /* the map turns all white space into spaces; without a map it would be cut here only */
    if (rc == 0 && p->cuts_white && p->charsmap.len == 0)
        rc = refuse_unigram(p,
                            "'WhitespaceSplit' without a 'precompiled_charsmap' is not supported");
    if (rc == 0 && cJSON_IsTrue(hf_member(p->model, "byte_fallback")))
        rc = refuse_unigram(p, "'byte_fallback' is true, which is not supported for Unigram");
    return rc;
}

/* ---- keys ---- */

static void add_keys(struct pieces *p)
{
    struct gguf_writer *w = p->f->w;
    const struct gguf_kv map = {.key = {"tokenizer.ggml.precompiled_charsmap", 35},
                                .type = GGUF_ARRAY,
                                .elem = GGUF_U8,
                                .count = p->charsmap.len,
                                .data = (const uint8_t *)p->charsmap.data};

    gguf_writer_str(w, "tokenizer.ggml.model", "t5");
    gguf_writer_str_array(w, "tokenizer.ggml.tokens", p->names, p->n);
    gguf_writer_f32_array(w, "tokenizer.ggml.scores", p->scores, p->n);
    gguf_writer_i32_array(w, "tokenizer.ggml.token_type", p->types, p->n);
    if (p->has_sides)
        gguf_writer_i32_array(w, "tokenizer.ggml.token_sides", p->sides, p->n);
    gguf_writer_u32(w, "tokenizer.ggml.unknown_token_id", p->unknown);
    gguf_writer_bool(w, "tokenizer.ggml.add_space_prefix", true);
    gguf_writer_bool(w, "tokenizer.ggml.remove_extra_whitespaces", true);
    if (p->charsmap.len > 0)
        gguf_writer_kv(w, &map);
}

int hf_unigram_add(struct hf_folder *f)
{
    struct pieces p = {.f = f, .model = hf_member(f->tokenizer, "model"), .n = f->n_vocab};
    int rc = 0;

    buf_init(&p.charsmap, MAX_CHARSMAP);
    p.names = mem_calloc(p.n, sizeof(*p.names));
    p.scores = mem_calloc(p.n, sizeof(*p.scores));
    p.types = mem_calloc(p.n, sizeof(*p.types));
    p.sides = mem_calloc(p.n, sizeof(*p.sides));
    p.pads = mem_calloc(p.n, sizeof(*p.pads));
    if (p.names == NULL || p.scores == NULL || p.types == NULL || p.sides == NULL || p.pads == NULL)
        rc = hf_fail(f, ERR_NOMEM, HF_TOKENIZER, "out of memory");
    if (rc == 0)
        rc = read_tokens(&p);
    if (rc == 0)
        rc = read_rules(&p);
    if (rc == 0)
        rc = hf_ends_add(f, p.names, p.n);
    if (rc == 0)
        add_keys(&p);
    buf_release(&p.charsmap);
    mem_free(p.names);
    mem_free(p.scores);
    mem_free(p.types);
    mem_free(p.sides);
    mem_free(p.pads);
    return rc;
}
