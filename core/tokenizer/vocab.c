/* core/tokenizer/vocab.c - see vocab.h.
 *
 * All pieces are one block of bytes with an array of offsets, and a hash table from bytes to id of
 * twice the size or more; no piece has an allocation of its own, since vocabularies have some
 * 250,000. Pieces are decoded as they are read, so encoders compare raw bytes. Every count, type
 * and text of the file is checked here, because all later code indexes by it.
 */
#include "core/tokenizer/vocab.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/pretokenizer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define KEY_TOKENS "tokenizer.ggml.tokens"
#define KEY_TYPES "tokenizer.ggml.token_type"
#define KEY_SIDES "tokenizer.ggml.token_sides"
#define KEY_SCORES "tokenizer.ggml.scores"
#define MAX_TOKENS (1 << 24) /* sixty times the largest vocabulary in use */
#define META "\xE2\x96\x81"  /* U+2581, SentencePiece's way to write a space */

struct load { /* state of vocab_load()'s steps */
    struct vocab *v;
    const struct gguf *g;
    const char *pre; /* forced pretokenizer rules, or "" */
    const struct gguf_kv *tokens;
    const struct gguf_kv *types; /* or NULL */
    char *err;
    size_t err_len;
};

int text_fail(const struct gguf *g, int code, char *err, size_t err_len, const char *format, ...)
{
    va_list args;
    const int n = snprintf(err, err_len, "%s: ", gguf_name(g));

    if (n < 0 || (size_t)n >= err_len)
        return code;
    va_start(args, format);
    vsnprintf(err + n, err_len - (size_t)n, format, args);
    va_end(args);
    return code;
}

/* Return the byte of a GPT-2 letter, or -1. GPT-2 writes a byte as the Latin-1 character of that
 * number where this is visible, and the other bytes, in order, as the characters from U+0100 on. */
static int byte_of_letter(uint32_t c)
{
    if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255))
        return (int)c;
    if (c >= 256 && c < 256 + 33)
        return (int)(c - 256);
    if (c >= 256 + 33 && c < 256 + 33 + 34)
        return (int)(c - 256 - 33 + 127);
    return c == 256 + 67 ? 173 : -1;
}

int64_t letters_to_bytes(const char *text, size_t len, char *out)
{
    const uint8_t *s = (const uint8_t *)text;
    int64_t n = 0;

    for (size_t i = 0; i < len; i++) {
        uint32_t c = s[i];
        int byte;

        if (c >= 0x80) {
            if ((c & 0xE0) != 0xC0 || i + 1 >= len || (s[i + 1] & 0xC0) != 0x80)
                return -1;
            c = (c & 0x1F) << 6 | (s[++i] & 0x3F);
        }
        byte = byte_of_letter(c);
        if (byte < 0)
            return -1;
        out[n++] = (char)byte;
    }
    return n;
}

size_t unescape_spaces(const char *text, size_t n, char *out)
{
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        if (i + 3 <= n && memcmp(text + i, META, 3) == 0) {
            out[len++] = ' ';
            i += 2;
        } else {
            out[len++] = text[i];
        }
    }
    return len;
}

/* ---- look-up by bytes */

static uint32_t first_slot(const struct vocab *v, const char *bytes, size_t n)
{
    return (uint32_t)XXH3_64bits(bytes, n) & v->mask;
}

static uint32_t *vocab_slot(const struct vocab *v, const char *bytes, size_t n)
{
    for (uint32_t i = first_slot(v, bytes, n);; i = (i + 1) & v->mask) {
        size_t len;
        const char *piece;

        if (v->slots[i] == 0)
            return &v->slots[i];
        piece = vocab_piece(v, (int32_t)v->slots[i] - 1, &len);
        if (len == n && memcmp(piece, bytes, n) == 0)
            return &v->slots[i];
    }
}

int32_t vocab_find(const struct vocab *v, const char *bytes, size_t n)
{
    if (n > v->longest)
        return TOKEN_NONE;
    return (int32_t)*vocab_slot(v, bytes, n) - 1;
}

static bool same_name(const struct gguf_kv *tokens, int32_t a, int32_t b)
{
    const struct gguf_str x = gguf_array_str(tokens, (uint64_t)a);
    const struct gguf_str y = gguf_array_str(tokens, (uint64_t)b);

    return x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
}

/* Insert a piece. Two pieces with the same bytes may differ in the file ("\u2581" and " "): then
 * text is encoded as the normal one, else as the first. */
static int insert(const struct load *l, int32_t id)
{
    struct vocab *v = l->v;
    size_t n;
    const char *piece = vocab_piece(v, id, &n);
    uint32_t *slot = vocab_slot(v, piece, n);
    const int32_t old = (int32_t)*slot - 1;

    if (n == 0)
        return 0;
    if (old != TOKEN_NONE && same_name(l->tokens, old, id))
        return text_fail(l->g, ERR_FORMAT, l->err, l->err_len,
                         KEY_TOKENS ": tokens %d and %d are the same", (int)old, (int)id);
    if (old == TOKEN_NONE || (v->type[old] != TOKEN_NORMAL && v->type[id] == TOKEN_NORMAL))
        *slot = (uint32_t)id + 1;
    if (n > v->longest)
        v->longest = (uint32_t)n;
    return 0;
}

/* ---- reading the file */

static bool is_byte_name(struct gguf_str s, unsigned *byte)
{
    char digits[3] = {0};
    char *end;

    if (s.len != 6 || memcmp(s.data, "<0x", 3) != 0 || s.data[5] != '>')
        return false;
    memcpy(digits, s.data + 3, 2);
    *byte = (unsigned)strtoul(digits, &end, 16);
    return end == digits + 2 && digits[0] != '+' && digits[0] != '-' && digits[0] != ' ';
}

static int read_types(const struct load *l)
{
    struct vocab *v = l->v;

    for (int32_t id = 0; id < v->n; id++) {
        const struct gguf_str name = gguf_array_str(l->tokens, (uint64_t)id);
        unsigned byte;
        int64_t type = TOKEN_NORMAL;

        if (l->types != NULL)
            type = gguf_array_int(l->types, (uint64_t)id);
        else if (v->raw && is_byte_name(name, &byte))
            type = TOKEN_BYTE;
        if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
            return text_fail(l->g, ERR_FORMAT, l->err, l->err_len,
                             KEY_TYPES ": token %d has the unknown type %lld", (int)id,
                             (long long)type);
        if (type == TOKEN_BYTE && !is_byte_name(name, &byte))
            return text_fail(
                l->g, ERR_FORMAT, l->err, l->err_len,
                KEY_TOKENS ": token %d has the type byte, but is not written like <0x41>", (int)id);
        v->type[id] = (uint8_t)type;
    }
    return 0;
}

static int read_scores(const struct load *l)
{
    struct vocab *v = l->v;
    const struct gguf_kv *kv;
    const int rc = gguf_get_array(l->g, KEY_SCORES, GGUF_F32, &kv, l->err, l->err_len);

    if (rc == ERR_NOENT)
        return text_fail(l->g, ERR_FORMAT, l->err, l->err_len, KEY_SCORES " is missing");
    if (rc != 0)
        return rc;
    if (kv->count != (uint64_t)v->n)
        return text_fail(l->g, ERR_FORMAT, l->err, l->err_len,
                         KEY_SCORES " has %llu elements for %d tokens",
                         (unsigned long long)kv->count, (int)v->n);
    v->score = mem_calloc((size_t)v->n, sizeof(*v->score));
    if (v->score == NULL)
        return text_fail(l->g, ERR_NOMEM, l->err, l->err_len, "no memory for " KEY_SCORES);
    for (int32_t id = 0; id < v->n; id++) {
        v->score[id] = gguf_array_f32(kv, (uint64_t)id);
        if (isnan(v->score[id]))
            return text_fail(l->g, ERR_FORMAT, l->err, l->err_len,
                             KEY_SCORES ": the score of token %d is not a number", (int)id);
    }
    return 0;
}

static int add_unescaped(struct buf *out, struct gguf_str s)
{
    const char *end = s.data + s.len;

    for (const char *p = s.data; p < end;) {
        const char *meta = memmem(p, (size_t)(end - p), META, 3);
        const char *stop = meta != NULL ? meta : end;

        buf_add(out, p, (size_t)(stop - p));
        if (meta != NULL)
            buf_add_char(out, ' ');
        p = meta != NULL ? meta + 3 : end;
    }
    return out->err;
}

/* Append a byte-level piece's bytes. A normal piece with a character that is not a byte letter can
 * never match text and is marked unused. */
static int add_letters(struct buf *out, struct gguf_str s, uint8_t *type)
{
    int64_t n;

    if (buf_reserve(out, s.len + 1) != 0)
        return out->err;
    n = letters_to_bytes(s.data, s.len, out->data + out->len);
    if (n < 0) {
        *type = TOKEN_UNUSED;
        return buf_add(out, s.data, s.len);
    }
    out->len += (size_t)n;
    out->data[out->len] = '\0';
    return 0;
}

/* Append the bytes of token `id`. The unknown token has none: it gets U+FFFD. */
static int add_vocab_piece(const struct load *l, int32_t id, struct buf *out)
{
    struct vocab *v = l->v;
    const struct gguf_str name = gguf_array_str(l->tokens, (uint64_t)id);
    unsigned byte;

    switch ((enum token_type)v->type[id]) {
    case TOKEN_BYTE:
        is_byte_name(name, &byte);
        v->byte_id[byte] = id;
        return buf_add_char(out, (char)byte);
    case TOKEN_UNKNOWN:
        return buf_add(out, "\xEF\xBF\xBD", 3);
    case TOKEN_CONTROL:
        return buf_add(out, name.data, name.len);
    case TOKEN_USER_DEFINED:
    case TOKEN_UNUSED:
    case TOKEN_NORMAL:
        break;
    }
    if (v->raw)
        return add_unescaped(out, name);
    if (v->type[id] == TOKEN_NORMAL)
        return add_letters(out, name, &v->type[id]);
    return buf_add(out, name.data, name.len);
}

static int read_pieces(const struct load *l)
{
    struct vocab *v = l->v;
    struct buf out;
    int rc = 0;

    buf_init(&out, UINT32_MAX - 8);
    rc = buf_reserve(&out, 1);
    for (int32_t id = 0; rc == 0 && id < v->n; id++) {
        v->at[id] = (uint32_t)out.len;
        rc = add_vocab_piece(l, id, &out);
    }
    if (rc != 0) {
        buf_release(&out);
        return text_fail(l->g, rc, l->err, l->err_len, KEY_TOKENS ": %s", err_text(rc));
    }
    v->at[v->n] = (uint32_t)out.len;
    v->bytes = buf_detach(&out, NULL);
    return 0;
}

static int index_pieces(const struct load *l)
{
    struct vocab *v = l->v;
    uint32_t n_slots = 16;

    while (n_slots < (uint32_t)v->n * 2)
        n_slots *= 2;
    v->mask = n_slots - 1;
    v->slots = mem_calloc(n_slots, sizeof(*v->slots));
    if (v->slots == NULL)
        return text_fail(l->g, ERR_NOMEM, l->err, l->err_len, "no memory for " KEY_TOKENS);
    for (int32_t id = 0; id < v->n; id++) {
        const bool found_by_text = v->type[id] == TOKEN_NORMAL || v->type[id] == TOKEN_USER_DEFINED;
        const int rc = found_by_text ? insert(l, id) : 0;

        if (rc != 0)
            return rc;
    }
    for (int b = 0; !v->raw && b < 256; b++)
        v->byte_id[b] = vocab_find(v, &(char){(char)b}, 1);
    return 0;
}

/* The values of tokenizer.ggml.model; `rules` applies if the file has no tokenizer.ggml.pre. */
static const struct {
    const char *name;
    enum vocab_model model;
    const char *rules;
} models[] = {
    {"llama", VOCAB_SPM, NULL},       {"gpt2", VOCAB_BPE, NULL}, {"bert", VOCAB_WPM, NULL},
    {"gemma4", VOCAB_BPE, "gemma4"}, {"t5", VOCAB_UGM, NULL},
};

#define HOW_TO_FORCE                                                                               \
    "; if you know the model's pre-tokenizer, set tokenizer_pre = NAME in the configuration or "   \
    "--tokenizer-pre NAME, for instance gpt-2, llama-bpe, qwen2 or gpt-4o"

/* Choose the rules that cut the text: the forced ones, else the file's. */
static int read_rules(struct load *l, const char *rules)
{
    struct gguf_str pre = {rules, rules != NULL ? strlen(rules) : 0};
    int rc = 0;

    if (l->pre[0] != '\0')
        pre = (struct gguf_str){l->pre, strlen(l->pre)};
    else if (rules == NULL)
        rc = gguf_get_str(l->g, "tokenizer.ggml.pre", &pre, l->err, l->err_len);
    if (rc == ERR_NOENT)
        return text_fail(l->g, ERR_UNSUPPORTED, l->err, l->err_len,
                         "tokenizer.ggml.pre is missing" HOW_TO_FORCE);
    if (rc != 0)
        return rc;
    l->v->rules = pretokenizer_find(pre.data, pre.len);
    if (l->v->rules < 0)
        return text_fail(l->g, ERR_UNSUPPORTED, l->err, l->err_len,
                         "%s is \"%.*s\", which is not supported" HOW_TO_FORCE,
                         l->pre[0] != '\0' ? "tokenizer_pre" : "tokenizer.ggml.pre",
                         (int)(pre.len < 40 ? pre.len : 40), pre.data);
    l->v->raw = (pretokenizer_traits(l->v->rules) & PRETOKENIZER_RAW) != 0;
    return 0;
}

static int read_model(struct load *l)
{
    struct gguf_str model;
    const int rc = gguf_get_str(l->g, "tokenizer.ggml.model", &model, l->err, l->err_len);

    if (rc == ERR_NOENT)
        return text_fail(l->g, ERR_FORMAT, l->err, l->err_len, "tokenizer.ggml.model is missing");
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        if (strlen(models[i].name) != model.len ||
            memcmp(models[i].name, model.data, model.len) != 0)
            continue;
        l->v->model = models[i].model;
        l->v->raw = models[i].model != VOCAB_BPE;
        return models[i].model == VOCAB_BPE ? read_rules(l, models[i].rules) : 0;
    }
    return text_fail(
        l->g, ERR_UNSUPPORTED, l->err, l->err_len,
        "tokenizer.ggml.model is \"%.*s\", but only llama, gpt2, gemma4, bert and t5 are supported",
        (int)(model.len < 40 ? model.len : 40), model.data);
}

static int find_arrays(struct load *l)
{
    int rc = gguf_get_array(l->g, KEY_TOKENS, GGUF_STRING, &l->tokens, l->err, l->err_len);

    if (rc == ERR_NOENT)
        return text_fail(l->g, ERR_FORMAT, l->err, l->err_len, KEY_TOKENS " is missing");
    if (rc != 0)
        return rc;
    if (l->tokens->count == 0 || l->tokens->count > MAX_TOKENS)
        return text_fail(l->g, ERR_FORMAT, l->err, l->err_len,
                         KEY_TOKENS " has %llu tokens, but only 1 to %d are supported",
                         (unsigned long long)l->tokens->count, MAX_TOKENS);
    l->v->n = (int32_t)l->tokens->count;
    rc = gguf_get_array(l->g, KEY_TYPES, GGUF_I32, &l->types, l->err, l->err_len);
    if (rc != 0 && rc != ERR_NOENT)
        return rc;
    if (l->types != NULL && l->types->count != l->tokens->count)
        return text_fail(l->g, ERR_FORMAT, l->err, l->err_len,
                         KEY_TYPES " has %llu elements for %d tokens",
                         (unsigned long long)l->types->count, (int)l->v->n);
    return 0;
}

static int read_sides(struct load *l)
{
    const struct gguf_kv *sides;
    struct vocab *v = l->v;
    int rc = gguf_get_array(l->g, KEY_SIDES, GGUF_I32, &sides, l->err, l->err_len);

    if (rc != 0)
        return rc == ERR_NOENT ? 0 : rc;
    if (sides->count != l->tokens->count)
        return text_fail(l->g, ERR_FORMAT, l->err, l->err_len,
                         KEY_SIDES " has %llu elements for %d tokens",
                         (unsigned long long)sides->count, (int)v->n);
    v->sides = mem_calloc((size_t)v->n, sizeof(*v->sides));
    if (v->sides == NULL)
        return text_fail(l->g, ERR_NOMEM, l->err, l->err_len, "no memory for " KEY_SIDES);
    for (int32_t id = 0; id < v->n; id++) {
        const int64_t side = gguf_array_int(sides, (uint64_t)id);

        if (side < 0 || side >= 2 * TOKEN_IN_NORMALIZED)
            return text_fail(l->g, ERR_FORMAT, l->err, l->err_len,
                             KEY_SIDES " has %lld for token %d, but only 0 to 15 are supported",
                             (long long)side, (int)id);
        v->sides[id] = (uint8_t)side;
    }
    return 0;
}

static int load_all(struct load *l)
{
    struct vocab *v = l->v;
    int rc = read_model(l);

    if (rc == 0)
        rc = find_arrays(l);
    if (rc != 0)
        return rc;
    v->at = mem_calloc((size_t)v->n + 1, sizeof(*v->at));
    v->type = mem_calloc((size_t)v->n, sizeof(*v->type));
    if (v->at == NULL || v->type == NULL)
        return text_fail(l->g, ERR_NOMEM, l->err, l->err_len, "no memory for " KEY_TOKENS);
    rc = read_types(l);
    if (rc == 0)
        rc = read_sides(l);
    if (rc == 0)
        rc = vocab_load_roles(v, l->g, l->err, l->err_len);
    if (rc == 0 && (v->model == VOCAB_SPM || v->model == VOCAB_UGM))
        rc = read_scores(l);
    if (rc == 0)
        rc = read_pieces(l);
    if (rc == 0)
        rc = index_pieces(l);
    return rc;
}

int vocab_load(struct vocab *v, const struct gguf *g, const char *pre, char *err, size_t err_len)
{
    struct load l = {
        .v = v, .g = g, .pre = pre != NULL ? pre : "", .err = err, .err_len = err_len};
    int rc;

    *v = (struct vocab){.bos = TOKEN_NONE,
                        .eos = TOKEN_NONE,
                        .unknown = TOKEN_NONE,
                        .separator = TOKEN_NONE,
                        .gap = TOKEN_NONE};
    for (int b = 0; b < 256; b++)
        v->byte_id[b] = TOKEN_NONE;
    rc = load_all(&l);
    if (rc != 0)
        vocab_release(v);
    return rc;
}

void vocab_release(struct vocab *v)
{
    mem_free(v->bytes);
    mem_free(v->at);
    mem_free(v->type);
    mem_free(v->sides);
    mem_free(v->score);
    mem_free(v->slots);
    mem_free(v->eog);
    vocab_release_templates(v);
    vocab_release_prompts(v);
    *v = (struct vocab){0};
}
