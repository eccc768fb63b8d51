/* core/formats/hf/tokenizer_json.c - tokenizer.json as GGUF keys; see hf_impl.h.
 *
 * Pieces, added tokens and merges of a BPE tokenizer become tokens, types, scores and roles, with
 * names borrowed from the JSON tree. Merges of a SentencePiece tokenizer become scores: a piece's
 * score is the negative rank of the earliest merge that makes it, which merges in the same order.
 * Steps that core/tokenizer does not do are refused, since they would give other ids.
 */
#include "core/formats/hf/classes.h"
#include "core/formats/hf/hf_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

#define META "\xE2\x96\x81" /* U+2581, SentencePiece's way to write a space */

struct vocab {
    struct hf_folder *f;
    const cJSON *model;
    uint32_t n;
    struct gguf_str *names; /* [n + 1]; data NULL: no token has this id */
    int32_t *types;
    int32_t *sides; /* [n] how added tokens treat the text around them */
    bool has_sides;
    char (*pads)[16];  /* [n] [n] made-up names of ids without a token */
    float *scores;     /* SentencePiece only */
    uint32_t *by_name; /* [n] ids in the order of their names; SentencePiece only */
    struct gguf_str *merges;
    char **joined; /* [n_merges] texts of merges that the file has as pairs, else NULL */
    size_t n_merges;
    bool is_spm;
};

static int refuse_tokenizer(const struct vocab *v, const char *what)
{
    return hf_fail(v->f, ERR_FORMAT, HF_TOKENIZER, "%s", what);
}

static struct gguf_str str(const char *text)
{
    return (struct gguf_str){text, strlen(text)};
}

static bool is_tokenizer_word(struct gguf_str s, const char *text)
{
    return s.data != NULL && s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

/* ---- tokens ---- */

/* True: a name is a special token's by custom, whatever the file says: <|...|>, and a few
 * others. */
static bool looks_special(const char *name)
{
    static const char *const others[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    const size_t n = strlen(name);

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(name, others[i]) == 0)
            return true;
    if (n >= 4 && strncmp(name, "<|", 2) == 0 && strcmp(name + n - 2, "|>") == 0)
        return true;
    if (n >= 8 && strncmp(name, "<\xef\xbd\x9c", 4) == 0 &&
        strcmp(name + n - 4, "\xef\xbd\x9c>") == 0)
        return true;
    return strncmp(name, "<unused", 7) == 0;
}

static int put_token(struct vocab *v, const char *name, const cJSON *id, int32_t type)
{
    char shown[64];
    uint32_t i;

    hf_printable(shown, sizeof(shown), name);
    if (!cJSON_IsNumber(id) || !(id->valuedouble >= 0.0) || id->valuedouble >= v->n ||
        id->valuedouble != floor(id->valuedouble))
        return hf_fail(v->f, ERR_FORMAT, HF_TOKENIZER,
                       "the id of token '%s' is not a whole number below 'vocab_size', %u", shown,
                       v->n);
    i = (uint32_t)id->valuedouble;
    if (v->names[i].data != NULL && !is_tokenizer_word(v->names[i], name))
        return hf_fail(v->f, ERR_FORMAT, HF_TOKENIZER, "two tokens have the id %u, one is '%s'", i,
                       shown);
    v->names[i] = str(name);
    v->types[i] = type;
    return 0;
}

static int32_t type_of_piece(const struct vocab *v, const char *name)
{
    const bool is_byte = v->is_spm && strlen(name) == 6 && strncmp(name, "<0x", 3) == 0 &&
                         name[5] == '>' && strspn(name + 3, "0123456789ABCDEFabcdef") == 2;

    return is_byte ? BYTE : NORMAL;
}

static int read_pieces(struct vocab *v)
{
    const cJSON *pieces = hf_member(v->model, "vocab"), *p;
    int rc = cJSON_IsObject(pieces) ? 0 : refuse_tokenizer(v, "'vocab' is not an object");

    if (rc < 0)
        return rc;
    cJSON_ArrayForEach(p, pieces)
    {
        rc = put_token(v, p->string, p, type_of_piece(v, p->string));
        if (rc < 0)
            return rc;
    }
    return 0;
}

int32_t hf_token_sides(const struct hf_folder *f, const cJSON *added)
{
    static const char *const flags[] = {"lstrip", "rstrip", "single_word"};
    int32_t sides = 0;

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (cJSON_IsTrue(hf_member(added, flags[i])))
            sides |= 1 << i;
    if (f->n_general > 0 && cJSON_IsTrue(hf_member(added, "normalized")))
        sides |= 1 << 3; /* irrelevant if texts stay unchanged */
    return sides;
}

static int read_added(struct vocab *v)
{
    const cJSON *added = hf_member(v->f->tokenizer, "added_tokens"), *a;
    const char *unknown = hf_text(v->model, "unk_token");

    if (added != NULL && !cJSON_IsArray(added))
        return refuse_tokenizer(v, "'added_tokens' is not a list");
    cJSON_ArrayForEach(a, added)
    {
        const char *name = hf_text(a, "content");
        const bool special = cJSON_IsTrue(hf_member(a, "special"));
        int32_t type = USER_DEFINED;
        int rc;

        if (name == NULL)
            return refuse_tokenizer(v, "an element of 'added_tokens' has no 'content'");
        if (special || looks_special(name))
            type = CONTROL;
        if (v->is_spm && unknown != NULL && strcmp(name, unknown) == 0)
            type = UNKNOWN;
        rc = put_token(v, name, hf_member(a, "id"), type);
        if (rc < 0)
            return rc;
        v->sides[(uint32_t)hf_member(a, "id")->valuedouble] = hf_token_sides(v->f, a);
        v->has_sides |= hf_token_sides(v->f, a) != 0;
    }
    return 0;
}

/* Make names for ids that the model has and the tokenizer lacks. */
static void fill_gaps(struct vocab *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->names[i].data == NULL) {
            snprintf(v->pads[i], sizeof(v->pads[i]), "[PAD%u]", i);
            v->names[i] = str(v->pads[i]);
            v->types[i] = UNUSED;
        }
}

/* ---- merges ---- */

/* Read a merge, "a b" or ["a", "b"], as "a b". */
static int read_merge(struct vocab *v, const cJSON *m)
{
    const char *text = cJSON_GetStringValue(m);
    const char *a = cJSON_GetStringValue(cJSON_GetArrayItem(m, 0));
    const char *b = cJSON_GetStringValue(cJSON_GetArrayItem(m, 1));
    char *joined;
    size_t len;

    if (text == NULL && (!cJSON_IsArray(m) || a == NULL || b == NULL || cJSON_GetArraySize(m) != 2))
        return refuse_tokenizer(v, "an element of 'merges' is neither a text nor a pair of texts");
    if (text == NULL) {
        len = strlen(a) + strlen(b) + 2;
        joined = mem_alloc(len);
        if (joined == NULL)
            return hf_fail(v->f, ERR_NOMEM, HF_TOKENIZER, "out of memory");
        snprintf(joined, len, "%s %s", a, b);
        v->joined[v->n_merges] = joined;
        text = joined;
    }
    if (text[0] == '\0' || strchr(text + 1, ' ') == NULL)
        return refuse_tokenizer(
            v, "an element of 'merges' is not two pieces with a space between them");
    v->merges[v->n_merges++] = str(text);
    return 0;
}

static int read_merges(struct vocab *v)
{
    const cJSON *list = hf_member(v->model, "merges"), *m;
    const size_t n = cJSON_IsArray(list) ? (size_t)cJSON_GetArraySize(list) : 0;

    if (!cJSON_IsArray(list))
        return refuse_tokenizer(v, "'merges' is not a list");
    v->merges = mem_calloc(n + 1, sizeof(*v->merges));
    v->joined = mem_calloc(n + 1, sizeof(*v->joined));
    if (v->merges == NULL || v->joined == NULL)
        return hf_fail(v->f, ERR_NOMEM, HF_TOKENIZER, "out of memory");
    cJSON_ArrayForEach(m, list)
    {
        const int rc = read_merge(v, m);

        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- scores ---- */

static int compare_merges(const void *a, const void *b, void *names)
{
    const struct gguf_str *x = (const struct gguf_str *)names + *(const uint32_t *)a;
    const struct gguf_str *y = (const struct gguf_str *)names + *(const uint32_t *)b;
    const size_t n = x->len < y->len ? x->len : y->len;
    const int order = memcmp(x->data, y->data, n);

    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

/* Return the token that merge m makes, or NULL. */
static const uint32_t *made_by(struct vocab *v, struct gguf_str m)
{
    const char *space = memchr(m.data + 1, ' ', m.len - 1);
    const size_t first = (size_t)(space - m.data);
    char piece[512];
    uint32_t from = 0, to = v->n;

    if (m.len > sizeof(piece))
        return NULL;
    memcpy(piece, m.data, first);
    memcpy(piece + first, space + 1, m.len - first - 1);
    v->names[v->n] = (struct gguf_str){piece, m.len - 1}; /* scratch name after the last one */
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;
        const int order = compare_merges(&v->by_name[middle], &v->n, v->names);

        if (order == 0)
            return &v->by_name[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

/* Make the scores. SentencePiece merges the pair whose token scores highest: the earliest merge. */
static int make_scores(struct vocab *v)
{
    v->scores = mem_calloc(v->n, sizeof(*v->scores));
    v->by_name = mem_calloc(v->n, sizeof(*v->by_name));
    if (v->scores == NULL || v->by_name == NULL)
        return hf_fail(v->f, ERR_NOMEM, HF_TOKENIZER, "out of memory");
    for (uint32_t i = 0; i < v->n; i++)
        v->by_name[i] = i;
    qsort_r(v->by_name, v->n, sizeof(*v->by_name), compare_merges, v->names);
    for (size_t i = v->n_merges; i-- > 0;) {
        const uint32_t *id = made_by(v, v->merges[i]);

        if (id != NULL)
            v->scores[*id] = -1.0f - (float)i;
    }
    return 0;
}

/* ---- keys ---- */

#define TOKENIZER_HOW_TO_FORCE                                                                     \
    "; if you know which rules fit, say so: tokenizer_pre = NAME in the configuration or "         \
    "--tokenizer-pre NAME, for instance gpt-2, llama-bpe, qwen2 or gpt-4o"

static int add_bpe(struct vocab *v)
{
    struct hf_folder *f = v->f;
    const bool whole = cJSON_IsTrue(hf_member(v->model, "ignore_merges"));
    const char *pre = hf_pretokenizer_name(hf_member(f->tokenizer, "pre_tokenizer"), whole);

    if (f->forced_pre[0] != '\0')
        pre = f->forced_pre;
    if (pre == NULL)
        return hf_fail(f, ERR_UNSUPPORTED, HF_TOKENIZER,
                       "its 'pre_tokenizer' is not supported" TOKENIZER_HOW_TO_FORCE);
    gguf_writer_str(f->w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_str(f->w, "tokenizer.ggml.pre", pre);
    gguf_writer_str_array(f->w, "tokenizer.ggml.merges", v->merges, v->n_merges);
    return 0;
}

/* True: a space is put before a text, by a normaliser that prepends one or by Metaspace. */
static bool adds_space(const struct hf_folder *f)
{
    const cJSON *pre = hf_member(f->tokenizer, "pre_tokenizer");
    const char *type = hf_text(pre, "type"), *scheme = hf_text(pre, "prepend_scheme");

    if (type != NULL && strcmp(type, "Metaspace") == 0)
        return scheme != NULL ? strcmp(scheme, "never") != 0
                              : !cJSON_IsFalse(hf_member(pre, "add_prefix_space"));
    for (uint32_t i = f->n_general; i < f->n_steps; i++) {
        type = hf_text(f->steps[i], "type");
        if (type != NULL && strcmp(type, "Prepend") == 0)
            return true;
    }
    return false;
}

static bool member_is_text(const cJSON *o, const char *name, const char *wanted)
{
    const char *found = hf_text(o, name);

    return found != NULL && strcmp(found, wanted) == 0;
}

/* True: the pretokenizer is Metaspace; or Gemma's, which cuts at spaces, of which the normalizer
 * leaves none. */
static bool is_space_cut(const struct hf_folder *f, const cJSON *pre)
{
    bool no_spaces = false;

    for (uint32_t i = f->n_general; i < f->n_steps; i++)
        no_spaces |= member_is_text(f->steps[i], "type", "Replace");
    return member_is_text(pre, "type", "Metaspace") ||
           (member_is_text(pre, "type", "Split") &&
            member_is_text(hf_member(pre, "pattern"), "String", " ") && no_spaces);
}

/* Check that all steps before the merges are SentencePiece's own, after the general ones. */
static int check_sentencepiece(const struct hf_folder *f)
{
    const cJSON *pre = hf_member(f->tokenizer, "pre_tokenizer");

    for (uint32_t i = f->n_general; i < f->n_steps; i++)
        if (!hf_is_space_step(f->steps[i]))
            return hf_normalizer_refuse(f, f->steps[i]);
    if (pre != NULL && !is_space_cut(f, pre))
        return hf_fail(f, ERR_UNSUPPORTED, HF_TOKENIZER,
                       "it falls back on bytes, but its 'pre_tokenizer' is not SentencePiece's");
    return 0;
}

/* Metaspace cuts before each space unless told not to: that changes nothing as long as no piece has
 * a space except at its start. */
static int check_split(const struct vocab *v, const cJSON *pre)
{
    if (!member_is_text(pre, "type", "Metaspace") || cJSON_IsFalse(hf_member(pre, "split")))
        return 0;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->types[i] == NORMAL && v->names[i].len > 0 &&
            memmem(v->names[i].data + 1, v->names[i].len - 1, META, strlen(META)) != NULL)
            return hf_fail(v->f, ERR_UNSUPPORTED, HF_TOKENIZER,
                           "its 'pre_tokenizer' cuts before each space, but token %u has one "
                           "within: that is not supported",
                           i);
    return 0;
}

static int add_spm(struct vocab *v)
{
    const cJSON *pre = hf_member(v->f->tokenizer, "pre_tokenizer");
    int rc = make_scores(v);

    if (rc < 0)
        return rc;
    rc = check_sentencepiece(v->f);
    if (rc == 0)
        rc = check_split(v, pre);
    if (rc < 0)
        return rc;
    gguf_writer_str(v->f->w, "tokenizer.ggml.model", "llama");
    gguf_writer_f32_array(v->f->w, "tokenizer.ggml.scores", v->scores, v->n);
    gguf_writer_bool(v->f->w, "tokenizer.ggml.add_space_prefix", adds_space(v->f));
    if (member_is_text(pre, "type", "Metaspace")) {
        gguf_writer_bool(v->f->w, "tokenizer.ggml.space_prefix_once", true);
        gguf_writer_bool(v->f->w, "tokenizer.ggml.space_prefix_first",
                         member_is_text(pre, "prepend_scheme", "first"));
    }
    return 0;
}

/* ---- roles ---- */

/* Return the text of a token in tokenizer_config.json: a text, or an object with it. */
static const char *role_text(const struct hf_folder *f, const char *role)
{
    const cJSON *m = hf_member(f->tokenizer_config, role);

    return cJSON_IsObject(m) ? hf_text(m, "content") : cJSON_GetStringValue(m);
}

static void add_role(struct vocab *v, const char *role, const char *key)
{
    const char *text = role_text(v->f, role);
    const cJSON *id;
    char name[32];

    for (uint32_t i = 0; i < v->n && text != NULL; i++)
        if (is_tokenizer_word(v->names[i], text)) {
            gguf_writer_u32(v->f->w, key, i);
            return;
        }
    snprintf(name, sizeof(name), "%s_id", role);
    id = hf_member(v->f->config, name);
    if (cJSON_IsArray(id))
        id = cJSON_GetArrayItem(id, 0);
    if (cJSON_IsNumber(id) && id->valuedouble >= 0.0 && id->valuedouble < v->n)
        gguf_writer_u32(v->f->w, key, (uint32_t)id->valuedouble);
}

/* True: the template put around a text begins with a special token. */
static bool template_begins(const cJSON *processor)
{
    const cJSON *single = hf_member(processor, "single"), *step;

    if (hf_member(cJSON_GetArrayItem(single, 0), "SpecialToken") != NULL)
        return true;
    cJSON_ArrayForEach(step, hf_member(processor, "processors"))
    {
        if (hf_member(cJSON_GetArrayItem(hf_member(step, "single"), 0), "SpecialToken") != NULL)
            return true;
    }
    return false;
}

static int add_roles(struct vocab *v)
{
    struct hf_folder *f = v->f;
    bool adds_bos = template_begins(hf_member(f->tokenizer, "post_processor")), adds_eos = false;
    int rc = hf_bool(f, HF_TOKENIZER_CONFIG, f->tokenizer_config, "add_bos_token", &adds_bos);

    if (rc == 0)
        rc = hf_bool(f, HF_TOKENIZER_CONFIG, f->tokenizer_config, "add_eos_token", &adds_eos);
    if (rc < 0)
        return rc;
    add_role(v, "bos_token", "tokenizer.ggml.bos_token_id");
    add_role(v, "eos_token", "tokenizer.ggml.eos_token_id");
    add_role(v, "unk_token", "tokenizer.ggml.unknown_token_id");
    gguf_writer_bool(f->w, "tokenizer.ggml.add_bos_token", adds_bos);
    gguf_writer_bool(f->w, "tokenizer.ggml.add_eos_token", adds_eos);
    return 0;
}

/* ---- the whole file ---- */

static int open_vocab(struct vocab *v)
{
    const char *type = hf_text(v->model, "type");
    const size_t room = (size_t)v->n + 1;
    char shown[32];

    if (v->model == NULL || (type != NULL && strcmp(type, "BPE") != 0))
        return hf_fail(v->f, ERR_UNSUPPORTED, HF_TOKENIZER,
                       "the tokenizer is of the kind '%s', but only BPE is supported",
                       type != NULL ? hf_printable(shown, sizeof(shown), type) : "");
    v->is_spm = cJSON_IsTrue(hf_member(v->model, "byte_fallback"));
    v->names = mem_calloc(room, sizeof(*v->names));
    v->types = mem_calloc(room, sizeof(*v->types));
    v->sides = mem_calloc(room, sizeof(*v->sides));
    v->pads = mem_calloc(room, sizeof(*v->pads));
    if (v->names == NULL || v->types == NULL || v->sides == NULL || v->pads == NULL)
        return hf_fail(v->f, ERR_NOMEM, HF_TOKENIZER, "out of memory");
    return 0;
}

static void close_vocab(struct vocab *v)
{
    for (size_t i = 0; v->joined != NULL && i <= v->n_merges; i++) /* also a merge that was
                                                                    * refused */
        mem_free(v->joined[i]);
    mem_free(v->names);
    mem_free(v->types);
    mem_free(v->sides);
    mem_free(v->pads);
    mem_free(v->scores);
    mem_free(v->by_name);
    mem_free(v->merges);
    mem_free(v->joined);
}

static int add_vocab(struct hf_folder *f)
{
    struct vocab v = {.f = f, .model = hf_member(f->tokenizer, "model"), .n = f->n_vocab};
    int rc = open_vocab(&v);

    if (rc == 0)
        rc = read_pieces(&v);
    if (rc == 0)
        rc = read_added(&v);
    if (rc == 0)
        rc = read_merges(&v);
    if (rc == 0) {
        fill_gaps(&v);
        gguf_writer_str_array(f->w, "tokenizer.ggml.tokens", v.names, v.n);
        gguf_writer_i32_array(f->w, "tokenizer.ggml.token_type", v.types, v.n);
        if (v.has_sides)
            gguf_writer_i32_array(f->w, "tokenizer.ggml.token_sides", v.sides, v.n);
        rc = v.is_spm ? add_spm(&v) : add_bpe(&v);
    }
    if (rc == 0)
        rc = (f->class->flags & HF_ENCODER) != 0 ? hf_ends_add(f, v.names, v.n) : add_roles(&v);
    close_vocab(&v);
    return rc;
}

int hf_tokenizer_add(struct hf_folder *f)
{
    const char *type = hf_text(hf_member(f->tokenizer, "model"), "type");
    const bool is_encoder = (f->class->flags & HF_ENCODER) != 0;
    const bool is_wordpiece = is_encoder && (type == NULL || (strcmp(type, "BPE") != 0 &&
                                                             strcmp(type, "Unigram") != 0));
    int rc = is_wordpiece ? 0 : hf_normalizer_add(f);

    if (rc < 0)
        return rc;
    if (is_encoder && type != NULL && strcmp(type, "Unigram") == 0)
        rc = hf_unigram_add(f);
    else
        rc = is_wordpiece ? hf_wordpiece_add(f) : add_vocab(f);
    return rc == 0 ? hf_template_add(f) : rc;
}
