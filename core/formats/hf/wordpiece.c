/* core/formats/hf/wordpiece.c - tokenizer.json of the kind WordPiece; see hf_impl.h.
 *
 * The file writes "word" for a piece that begins a word and "##piece" for one inside; GGUF files
 * write U+2581 before the first and nothing before the second. Names of special tokens stay as they
 * are.
 */
#include "core/formats/hf/hf_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/write.h"
#include "core/formats/hf_folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define INNER "##"
#define META "\xE2\x96\x81"
#define LONGEST_WORD 100.0 /* characters; longer ones are unknown */
#define PAD_ROOM 16        /* bytes of "[PAD123]" */

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5 };

struct pieces {
    struct hf_folder *f;
    const cJSON *model;
    uint32_t n;
    const char **theirs; /* [n], NULL: no token has this id */
    struct gguf_str *names;
    int32_t *types;
    char *text; /* memory of the names */
};

static int refuse_wordpiece(const struct hf_folder *f, const char *what)
{
    return hf_fail(f, ERR_UNSUPPORTED, HF_TOKENIZER, "%s", what);
}

static bool has_type(const cJSON *o, const char *type)
{
    const char *found = hf_text(o, "type");

    return found != NULL && strcmp(found, type) == 0;
}

/* ---- tokens ---- */

static int put_piece(struct pieces *p, const char *name, const cJSON *id, int32_t type)
{
    const double at = cJSON_IsNumber(id) ? id->valuedouble : -1.0;
    char shown[64];
    uint32_t i;

    hf_printable(shown, sizeof(shown), name);
    if (!(at >= 0.0 && at < p->n) || at != floor(at))
        return hf_fail(p->f, ERR_FORMAT, HF_TOKENIZER,
                       "the id of token '%s' is not a whole number below 'vocab_size', %u", shown,
                       p->n);
    i = (uint32_t)at;
    if (p->theirs[i] != NULL && strcmp(p->theirs[i], name) != 0)
        return hf_fail(p->f, ERR_FORMAT, HF_TOKENIZER, "two tokens have the id %u, one is '%s'", i,
                       shown);
    p->theirs[i] = name;
    p->types[i] = type;
    return 0;
}

static int put_added(struct pieces *p, const cJSON *added)
{
    static const char *const flags[] = {"lstrip", "rstrip", "single_word"};
    const char *name = hf_text(added, "content"), *unknown = hf_text(p->model, "unk_token");
    int32_t type = cJSON_IsTrue(hf_member(added, "special")) ? CONTROL : USER_DEFINED;
    char shown[64];

    if (name == NULL)
        return refuse_wordpiece(p->f, "an element of 'added_tokens' has no 'content'");
    /* lstrip of [MASK] changes nothing: all spaces are dropped anyway */
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (cJSON_IsTrue(hf_member(added, flags[i])) && strcmp(name, "[MASK]") != 0)
            return hf_fail(p->f, ERR_UNSUPPORTED, HF_TOKENIZER,
                           "the added token '%s' has '%s': true, which is not supported",
                           hf_printable(shown, sizeof(shown), name), flags[i]);
    if (unknown != NULL && strcmp(name, unknown) == 0)
        type = UNKNOWN;
    return put_piece(p, name, hf_member(added, "id"), type);
}

static int read_tokens(struct pieces *p)
{
    const cJSON *vocab = hf_member(p->model, "vocab"), *t;
    const cJSON *added = hf_member(p->f->tokenizer, "added_tokens");
    int rc = 0;

    if (added != NULL && !cJSON_IsArray(added))
        return hf_fail(p->f, ERR_FORMAT, HF_TOKENIZER, "'added_tokens' is not a list");
    if (!cJSON_IsObject(vocab))
        return hf_fail(p->f, ERR_FORMAT, HF_TOKENIZER, "'vocab' is not an object");
    cJSON_ArrayForEach(t, vocab)
    {
        rc = put_piece(p, t->string, t, NORMAL);
        if (rc < 0)
            return rc;
    }
    cJSON_ArrayForEach(t, added)
    {
        rc = put_added(p, t);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Write the names as GGUF files have them, one after the other in `text`. */
static int write_names(struct pieces *p)
{
    size_t room = 1, at = 0;

    for (uint32_t i = 0; i < p->n; i++)
        room += p->theirs[i] != NULL ? strlen(p->theirs[i]) + sizeof(META) : PAD_ROOM;
    p->text = mem_alloc(room);
    if (p->text == NULL)
        return hf_fail(p->f, ERR_NOMEM, HF_TOKENIZER, "out of memory");
    for (uint32_t i = 0; i < p->n; i++) {
        const char *name = p->theirs[i];
        const bool is_inner = name != NULL && p->types[i] == NORMAL &&
                              strncmp(name, INNER, 2) == 0 && name[2] != '\0';
        int len;

        if (name == NULL) {
            p->types[i] = UNUSED;
            len = snprintf(p->text + at, room - at, "[PAD%u]", i);
        } else {
            len = snprintf(p->text + at, room - at, "%s%s",
                           p->types[i] == NORMAL && !is_inner ? META : "",
                           is_inner ? name + 2 : name);
        }
        p->names[i] = (struct gguf_str){p->text + at, (size_t)len};
        at += (size_t)len + 1;
    }
    return 0;
}

/* ---- normalizer and pretokenizer ---- */

/* Check a flag that must be true, which is also its default. */
static int check_flag(const struct hf_folder *f, const cJSON *o, const char *name)
{
    bool v = true;
    const int rc = hf_bool(f, HF_TOKENIZER, o, name, &v);

    return rc < 0 || v ? rc
                       : hf_fail(f, ERR_UNSUPPORTED, HF_TOKENIZER,
                                 "'%s' is false, but only true is supported", name);
}

static int add_normalizer(struct hf_folder *f)
{
    const cJSON *o = hf_member(f->tokenizer, "normalizer");
    const char *type = hf_text(o, "type");
    bool lower = true, accents;
    char shown[64];
    int rc;

    if (!has_type(o, "BertNormalizer"))
        return hf_fail(f, ERR_UNSUPPORTED, HF_TOKENIZER,
                       "the 'normalizer' of WordPiece is '%s', but only BertNormalizer is "
                       "supported",
                       type != NULL ? hf_printable(shown, sizeof(shown), type) : "");
    rc = check_flag(f, o, "clean_text");
    if (rc == 0)
        rc = check_flag(f, o, "handle_chinese_chars");
    if (rc == 0)
        rc = hf_bool(f, HF_TOKENIZER, o, "lowercase", &lower);
    accents = lower;
    if (rc == 0)
        rc = hf_bool(f, HF_TOKENIZER, o, "strip_accents", &accents);
    if (rc < 0)
        return rc;
    gguf_writer_bool(f->w, "tokenizer.ggml.normalizer.lowercase", lower);
    gguf_writer_bool(f->w, "tokenizer.ggml.normalizer.strip_accents", accents);
    return 0;
}

static int check_rules(const struct pieces *p)
{
    const char *inner = hf_text(p->model, "continuing_subword_prefix");
    const cJSON *longest = hf_member(p->model, "max_input_chars_per_word");

    if (!has_type(p->model, "WordPiece"))
        return refuse_wordpiece(p->f, "the tokenizer of BertModel is not of the kind WordPiece");
    if (inner != NULL && strcmp(inner, INNER) != 0)
        return refuse_wordpiece(p->f, "'continuing_subword_prefix' is not '##'");
    if (longest != NULL && (!cJSON_IsNumber(longest) || longest->valuedouble != LONGEST_WORD))
        return refuse_wordpiece(p->f, "'max_input_chars_per_word' is not 100");
    if (!has_type(hf_member(p->f->tokenizer, "pre_tokenizer"), "BertPreTokenizer"))
        return refuse_wordpiece(p->f, "the 'pre_tokenizer' of WordPiece is not BertPreTokenizer");
    return 0;
}

/* ---- roles ---- */

static int add_role(struct pieces *p, const char *name, const char *role, const char *key)
{
    char shown[64];

    for (uint32_t i = 0; i < p->n && name != NULL; i++)
        if (p->theirs[i] != NULL && strcmp(p->theirs[i], name) == 0) {
            gguf_writer_u32(p->f->w, key, i);
            return 0;
        }
    return hf_fail(p->f, ERR_FORMAT, HF_TOKENIZER, "%s '%s' is not a token", role,
                   name != NULL ? hf_printable(shown, sizeof(shown), name) : "");
}

static const char *special_of(const cJSON *step)
{
    return hf_text(hf_member(step, "SpecialToken"), "id");
}

/* Add the special tokens before and after a text. */
static int add_template(struct pieces *p)
{
    const cJSON *o = hf_member(p->f->tokenizer, "post_processor");
    const cJSON *single = hf_member(o, "single");
    const char *first, *last;
    int rc;

    if (has_type(o, "BertProcessing")) {
        first = cJSON_GetStringValue(cJSON_GetArrayItem(hf_member(o, "cls"), 0));
        last = cJSON_GetStringValue(cJSON_GetArrayItem(hf_member(o, "sep"), 0));
    } else if (has_type(o, "TemplateProcessing") && cJSON_GetArraySize(single) == 3 &&
               hf_member(cJSON_GetArrayItem(single, 1), "Sequence") != NULL) {
        first = special_of(cJSON_GetArrayItem(single, 0));
        last = special_of(cJSON_GetArrayItem(single, 2));
    } else {
        return refuse_wordpiece(
            p->f, "the 'post_processor' does not put a text between two special tokens");
    }
    rc = add_role(p, first, "the first of 'post_processor',", "tokenizer.ggml.cls_token_id");
    if (rc == 0)
        rc =
            add_role(p, last, "the last of 'post_processor',", "tokenizer.ggml.seperator_token_id");
    return rc;
}

/* ---- the whole file ---- */

static int add_all_pieces(struct pieces *p)
{
    struct gguf_writer *w = p->f->w;
    int rc = check_rules(p);

    if (rc == 0)
        rc = read_tokens(p);
    if (rc == 0)
        rc = write_names(p);
    if (rc == 0)
        rc = add_normalizer(p->f);
    if (rc == 0)
        rc = add_template(p);
    if (rc == 0)
        rc = add_role(p, hf_text(p->model, "unk_token"), "'unk_token'",
                      "tokenizer.ggml.unknown_token_id");
    if (rc < 0)
        return rc;
    gguf_writer_str(w, "tokenizer.ggml.model", "bert");
    gguf_writer_str_array(w, "tokenizer.ggml.tokens", p->names, p->n);
    gguf_writer_i32_array(w, "tokenizer.ggml.token_type", p->types, p->n);
    return 0;
}

int hf_wordpiece_add(struct hf_folder *f)
{
    struct pieces p = {.f = f, .model = hf_member(f->tokenizer, "model"), .n = f->n_vocab};
    int rc;

    p.theirs = mem_calloc(p.n, sizeof(*p.theirs));
    p.names = mem_calloc(p.n, sizeof(*p.names));
    p.types = mem_calloc(p.n, sizeof(*p.types));
    rc = p.theirs != NULL && p.names != NULL && p.types != NULL
             ? add_all_pieces(&p)
             : hf_fail(f, ERR_NOMEM, HF_TOKENIZER, "out of memory");
    mem_free(p.theirs);
    mem_free(p.names);
    mem_free(p.types);
    mem_free(p.text);
    return rc;
}
