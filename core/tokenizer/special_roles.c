/* core/tokenizer/special_roles.c - finds the tokens that begin and end texts, and their flags.
 *
 * Three layers, each overriding the one before: defaults of the model kind, the ids that older
 * files leave out and SentencePiece and WordPiece fix, and the file's keys. An id outside the
 * vocabulary is logged and ignored, since many published files have one. Files without token types
 * get them from the roles.
 */
#include "core/tokenizer/vocab.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/pretokenizer.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define N_ENDS 6

static bool gguf_is_text(struct gguf_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

bool vocab_has_id(const struct vocab *v, const struct gguf *g, const char *key, int64_t id)
{
    char file[256];

    if (id >= 0 && id < v->n)
        return true;
    log_warn("tokenizer", "event=special-token-ignored key=%s id=%" PRId64 " tokens=%d file=%s",
             key, id, (int)v->n, log_quote(file, sizeof(file), gguf_name(g)));
    return false;
}

int vocab_read_id(const struct vocab *v, const struct gguf *g, const char *key, int32_t *id,
                  char *err, size_t err_len)
{
    int64_t value;
    const int rc = gguf_get_int(g, key, &value, err, err_len);

    if (rc == 0 && vocab_has_id(v, g, key, value))
        *id = (int32_t)value;
    return rc == ERR_NOENT ? 0 : rc;
}

static int read_role_flag(const struct gguf *g, const char *key, bool *flag, char *err,
                          size_t err_len)
{
    const int rc = gguf_get_bool(g, key, flag, err, err_len);

    return rc == ERR_NOENT ? 0 : rc;
}

/* Set the flags' defaults. BERT's texts are between [CLS] and [SEP], and its words begin with a
 * space that is not in the text. Of the unigram models only XLM-RoBERTa has a separator, between
 * two texts. */
static void set_flags(struct vocab *v)
{
    v->add_bos =
        v->model == VOCAB_SPM || v->model == VOCAB_WPM ||
        (v->model == VOCAB_BPE && (pretokenizer_traits(v->rules) & PRETOKENIZER_ADD_BOS) != 0);
    v->add_eos = v->model == VOCAB_UGM;
    v->add_separator =
        v->model == VOCAB_WPM || v->model == VOCAB_UGM ||
        (v->model == VOCAB_BPE && (pretokenizer_traits(v->rules) & PRETOKENIZER_ADD_SEP) != 0);
    v->add_space_prefix = v->model != VOCAB_BPE;
    v->lower_case = true;
}

/* True: the model is a Phi-3, by its name: its special tokens take the spaces after them. */
static bool is_phi3(const struct gguf *g)
{
    struct gguf_str name;
    const int rc = gguf_get_str(g, "general.name", &name, NULL, 0);

    for (size_t i = 0; rc == 0 && i + 4 <= name.len; i++)
        if (strncasecmp(name.data + i, "phi3", 4) == 0 ||
            (i + 5 <= name.len && strncasecmp(name.data + i, "phi-3", 5) == 0))
            return true;
    return false;
}

/* Read how texts are normalized for WordPiece and unigram models (wpm.c, unigram.c). */
static int read_normaliser(struct vocab *v, const struct gguf *g, char *err, size_t err_len)
{
    int rc = read_role_flag(g, "tokenizer.ggml.remove_extra_whitespaces", &v->merge_spaces, err,
                            err_len);

    if (rc == 0)
        rc = read_role_flag(g, "tokenizer.ggml.normalizer.lowercase", &v->lower_case, err, err_len);
    v->without_accents = v->lower_case;
    if (rc == 0)
        rc = read_role_flag(g, "tokenizer.ggml.normalizer.strip_accents", &v->without_accents, err,
                            err_len);
    return rc;
}

/* True: a pair of texts has a separator after the first one's end token. False if [SEP] itself ends
 * both texts, as in BERT and ModernBERT. */
static bool separates_pairs(const struct vocab *v, const struct gguf *g)
{
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");

    return v->add_separator && v->separator != TOKEN_NONE && v->model != VOCAB_WPM &&
           !(v->separator == v->eos &&
             gguf_is_text(gguf_array_str(tokens, (uint64_t)v->separator), "[SEP]"));
}

static int read_flags(struct vocab *v, const struct gguf *g, char *err, size_t err_len)
{
    int rc;

    set_flags(v);
    v->rstrip = v->model == VOCAB_SPM && is_phi3(g);
    rc = read_role_flag(g, "tokenizer.ggml.add_bos_token", &v->add_bos, err, err_len);
    if (rc == 0)
        rc = read_role_flag(g, "tokenizer.ggml.add_eos_token", &v->add_eos, err, err_len);
    if (rc == 0)
        rc = read_role_flag(g, "tokenizer.ggml.add_sep_token", &v->add_separator, err, err_len);
    if (rc == 0)
        rc = read_role_flag(g, "tokenizer.ggml.add_space_prefix", &v->add_space_prefix, err,
                            err_len);
    if (rc == 0)
        rc = read_role_flag(g, "tokenizer.ggml.space_prefix_first", &v->prefix_first, err, err_len);
    if (rc == 0)
        rc = read_role_flag(g, "tokenizer.ggml.space_prefix_once", &v->prefix_once, err, err_len);
    if (rc == 0)
        rc = read_normaliser(v, g, err, err_len);
    v->add_bos = v->add_bos && v->bos != TOKEN_NONE;
    v->add_eos = v->add_eos && v->eos != TOKEN_NONE;
    v->separates_pairs = separates_pairs(v, g);
    v->add_separator = v->add_separator && v->separator != TOKEN_NONE && v->model == VOCAB_WPM;
    v->add_space_prefix = v->add_space_prefix && v->model != VOCAB_BPE;
    return rc;
}

/* In a file without types, make the tokens that have a role control tokens. */
static void guess_types(struct vocab *v)
{
    if (v->bos != TOKEN_NONE)
        v->type[v->bos] = TOKEN_CONTROL;
    if (v->eos != TOKEN_NONE)
        v->type[v->eos] = TOKEN_CONTROL;
    if (v->unknown != TOKEN_NONE && v->unknown != v->bos && v->unknown != v->eos)
        v->type[v->unknown] = TOKEN_UNKNOWN;
}

static int32_t id_if_named(const struct vocab *v, const struct gguf *g, int32_t id,
                           const char *name)
{
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");

    if (id >= v->n || !gguf_is_text(gguf_array_str(tokens, (uint64_t)id), name))
        return TOKEN_NONE;
    return id;
}

static int32_t first_unknown(const struct vocab *v)
{
    for (int32_t id = 0; id < v->n; id++)
        if (v->type[id] == TOKEN_UNKNOWN)
            return id;
    return TOKEN_NONE;
}

/* Set the ids that SentencePiece and WordPiece give the roles by default. */
static void guess_roles(struct vocab *v, const struct gguf *g, int32_t *eos)
{
    if (v->model == VOCAB_SPM) {
        v->unknown = id_if_named(v, g, 0, "<unk>");
        v->bos = id_if_named(v, g, 1, "<s>");
        *eos = id_if_named(v, g, 2, "</s>");
    } else if (v->model == VOCAB_UGM) {
        *eos = id_if_named(v, g, 1, "</s>");
        v->unknown = id_if_named(v, g, 2, "<unk>");
    } else if (v->model == VOCAB_WPM) {
        v->unknown = id_if_named(v, g, 100, "[UNK]");
        v->bos = id_if_named(v, g, 101, "[CLS]");
        v->separator = id_if_named(v, g, 102, "[SEP]");
    }
    if (v->unknown == TOKEN_NONE && v->model != VOCAB_BPE)
        v->unknown = first_unknown(v);
}

/* Read the ids of single roles; BERT has a key of its own for the first token. */
static int read_roles(struct vocab *v, const struct gguf *g, char *err, size_t err_len)
{
    const struct {
        const char *key;
        int32_t *id;
    } keys[] = {
        {"tokenizer.ggml.cls_token_id", v->model == VOCAB_WPM ? &v->bos : NULL},
        {"tokenizer.ggml.bos_token_id", &v->bos},
        {"tokenizer.ggml.unknown_token_id", &v->unknown},
        {"tokenizer.ggml.seperator_token_id", &v->separator}, /* the key is misspelt in files */
        {"tokenizer.ggml.separator_token_id", &v->separator},
        {"tokenizer.ggml.mask_token_id", &v->gap},
    };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].id != NULL)
            rc = vocab_read_id(v, g, keys[i].key, keys[i].id, err, err_len);
    return rc;
}

int vocab_load_roles(struct vocab *v, const struct gguf *g, char *err, size_t err_len)
{
    int32_t ends[N_ENDS] = {TOKEN_NONE, TOKEN_NONE, TOKEN_NONE}; /* EOS, EOT, EOM, infill's */
    int rc;

    guess_roles(v, g, &ends[0]);
    rc = read_roles(v, g, err, err_len);
    if (rc == 0)
        rc = vocab_read_id(v, g, "tokenizer.ggml.eos_token_id", &ends[0], err, err_len);
    if (rc == 0)
        rc = vocab_read_id(v, g, "tokenizer.ggml.eot_token_id", &ends[1], err, err_len);
    if (rc == 0)
        rc = vocab_read_id(v, g, "tokenizer.ggml.eom_token_id", &ends[2], err, err_len);
    v->eos = ends[0];
    if (rc == 0)
        rc = read_flags(v, g, err, err_len);
    if (rc == 0)
        rc = vocab_load_templates(v, g, err, err_len);
    if (rc == 0)
        rc = vocab_load_prompts(v, g, err, err_len);
    if (rc != 0)
        return rc;
    if (gguf_find(g, "tokenizer.ggml.token_type") == NULL)
        guess_types(v);
    rc = vocab_load_infill(v, g, err, err_len);
    if (rc != 0)
        return rc;
    ends[3] = v->infill.pad; /* infill tokens are never part of the text that fills a gap */
    ends[4] = v->infill.repository;
    ends[5] = v->infill.file;
    return vocab_load_ends(v, g, ends, N_ENDS, err, err_len);
}
