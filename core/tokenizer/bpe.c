/* core/tokenizer/bpe.c - BPE: cuts a text into words and joins their bytes, or characters, by merge
 * rank.
 *
 * The merges become a hash table from a pair of token ids to the id and rank of their join, so
 * joining never looks at text. The pretokenizer cuts the text word by word; each word is looked up
 * in the word cache, and only an unknown one is merged (merge.h). Runs of bytes that are not UTF-8
 * bypass the patterns, which need valid text, and go to the same merges.
 */
#include "core/tokenizer/tokenizer_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/formats/gguf/gguf.h"
#include "core/tokenizer/pretokenizer.h"
#include "core/tokenizer/tokenizer.h"
#include "core/tokenizer/word_cache.h"

#include <string.h>
#include <unistr.h>

#define KEY_MERGES "tokenizer.ggml.merges"

struct pair_slot {
    int32_t left, right; /* the pair's tokens; left TOKEN_NONE: empty slot */
    uint32_t rank;
    int32_t joined;
};

struct bpe {
    struct pretokenizer *pretokenizer;
    struct pair_slot *slots; /* open addressing */
    uint32_t mask;
    bool whole_words; /* a word that is a token is taken whole, whatever the merges are */
};

/* ---- the merges */

static struct pair_slot *pair_slot_of(const struct bpe *b, int32_t left, int32_t right)
{
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t i = (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 40) & b->mask; /* golden ratio hash */

    while (b->slots[i].left != TOKEN_NONE &&
           (b->slots[i].left != left || b->slots[i].right != right))
        i = (i + 1) & b->mask;
    return &b->slots[i];
}

static uint32_t rank_pair(const void *model, const char *text, const struct symbol *left,
                          const struct symbol *right, int32_t *joined)
{
    const struct bpe *b = model;
    const struct pair_slot *slot;

    (void)text;
    if (left->id == TOKEN_NONE || right->id == TOKEN_NONE)
        return RANK_NONE;
    slot = pair_slot_of(b, left->id, right->id);
    *joined = slot->joined;
    return slot->left == TOKEN_NONE ? RANK_NONE : slot->rank;
}

static int64_t piece_bytes(const struct vocab *v, const char *text, size_t n, char *out)
{
    return v->raw ? (int64_t)unescape_spaces(text, n, out) : letters_to_bytes(text, n, out);
}

/* Add one element of the merges: two pieces in byte letters with a space between. `bytes` has room
 * for the element. */
static const char *add_merge(struct bpe *b, const struct vocab *v, struct gguf_str s, uint32_t rank,
                             char *bytes)
{
    const char *space = s.len > 1 ? memchr(s.data + 1, ' ', s.len - 1) : NULL;
    const char *right;
    struct pair_slot *slot;
    int32_t left_id, right_id, joined;
    int64_t n_left, n_right;

    if (space == NULL)
        return "has no space between its two parts";
    right = space + 1;
    n_left = piece_bytes(v, s.data, (size_t)(space - s.data), bytes);
    if (n_left < 0)
        return "has a character that does not represent a byte";
    n_right = piece_bytes(v, right, (size_t)(s.data + s.len - right), bytes + n_left);
    if (n_right < 0)
        return "has a character that does not represent a byte";
    left_id = vocab_find(v, bytes, (size_t)n_left);
    right_id = vocab_find(v, bytes + n_left, (size_t)n_right);
    joined = vocab_find(v, bytes, (size_t)(n_left + n_right));
    if (left_id == TOKEN_NONE || right_id == TOKEN_NONE || joined == TOKEN_NONE)
        return "has a part or a result that is not a token";
    slot = pair_slot_of(b, left_id, right_id);
    if (slot->left == TOKEN_NONE) /* a repeated pair keeps its first rank */
        *slot = (struct pair_slot){left_id, right_id, rank, joined};
    return NULL;
}

static size_t longest_element(const struct gguf_kv *kv)
{
    size_t longest = 0;

    for (uint64_t i = 0; i < kv->count; i++) {
        const size_t len = gguf_array_str(kv, i).len;

        longest = len > longest ? len : longest;
    }
    return longest;
}

static int add_merges(struct bpe *b, const struct vocab *v, const struct gguf *g,
                      const struct gguf_kv *kv, char *err, size_t err_len)
{
    char *bytes = mem_alloc(longest_element(kv) + 1);
    int rc = 0;

    if (bytes == NULL)
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for " KEY_MERGES);
    for (uint64_t i = 0; rc == 0 && i < kv->count; i++) {
        const char *fault = add_merge(b, v, gguf_array_str(kv, i), (uint32_t)i, bytes);

        if (fault != NULL)
            rc = text_fail(g, ERR_FORMAT, err, err_len, KEY_MERGES ": element %llu %s",
                           (unsigned long long)i, fault);
    }
    mem_free(bytes);
    return rc;
}

static int load_merges(struct bpe *b, const struct vocab *v, const struct gguf *g, char *err,
                       size_t err_len)
{
    const struct gguf_kv *kv;
    uint64_t n_slots = 16;
    const int rc = gguf_get_array(g, KEY_MERGES, GGUF_STRING, &kv, err, err_len);

    if (rc == ERR_NOENT)
        return text_fail(g, ERR_FORMAT, err, err_len, KEY_MERGES " is missing");
    if (rc != 0)
        return rc;
    if (kv->count > 1 << 24)
        return text_fail(g, ERR_FORMAT, err, err_len, KEY_MERGES " has too many elements");
    while (n_slots * 2 < kv->count * 3)
        n_slots *= 2;
    b->mask = (uint32_t)(n_slots - 1);
    b->slots = mem_alloc(n_slots * sizeof(*b->slots));
    if (b->slots == NULL)
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for " KEY_MERGES);
    for (uint64_t i = 0; i < n_slots; i++)
        b->slots[i] = (struct pair_slot){.left = TOKEN_NONE};
    return add_merges(b, v, g, kv, err, err_len);
}

int bpe_create(struct bpe **out, const struct vocab *v, const struct gguf *g, char *err,
               size_t err_len)
{
    struct bpe *b = mem_calloc(1, sizeof(*b));
    int rc;

    *out = NULL;
    if (b == NULL)
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for " KEY_MERGES);
    rc = pretokenizer_create(&b->pretokenizer, v->rules);
    if (rc != 0)
        text_fail(g, rc, err, err_len, "tokenizer.ggml.pre: %s", err_text(rc));
    else
        rc = load_merges(b, v, g, err, err_len);
    if (rc != 0) {
        bpe_destroy(&b);
        return rc;
    }
    b->whole_words = (pretokenizer_traits(v->rules) & PRETOKENIZER_WHOLE_WORDS) != 0;
    *out = b;
    return 0;
}

void bpe_destroy(struct bpe **bpe)
{
    struct bpe *b = bpe != NULL ? *bpe : NULL;

    if (b == NULL)
        return;
    pretokenizer_destroy(&b->pretokenizer);
    mem_free(b->slots);
    mem_free(b);
    *bpe = NULL;
}

bool bpe_takes_whole_words(const struct bpe *b)
{
    return b->whole_words;
}

/* ---- encoding */

/* Split a word into the symbols that merging begins with: bytes, or characters if pieces are
 * UTF-8. */
static size_t split_word(struct encoder *e, const char *word, size_t n)
{
    const struct vocab *v = &e->t->vocab;
    size_t n_symbols = 0, len;

    for (size_t at = 0; at < n; at += len) {
        len = v->raw ? utf8_len((const uint8_t *)word + at, n - at) : 1;
        len = len > 0 ? len : 1;
        e->merge.symbols[n_symbols++] = (struct symbol){
            .at = (uint32_t)at,
            .len = (uint32_t)len,
            .id = v->raw ? vocab_find(v, word + at, len) : v->byte_id[(uint8_t)word[at]],
        };
    }
    return n_symbols;
}

/* Push the byte tokens of a symbol that is not a token, else the unknown token. */
static int push_unknown(struct encoder *e, const char *bytes, size_t n)
{
    const struct vocab *v = &e->t->vocab;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        const int32_t byte = v->byte_id[(uint8_t)bytes[i]];
        const int32_t id = byte != TOKEN_NONE ? byte : v->unknown;

        if (id != TOKEN_NONE)
            rc = encoder_push(e, id);
    }
    return rc;
}

static int merge_word(struct encoder *e, const char *word, size_t n)
{
    const struct symbol *symbols;
    int rc = merge_reserve(&e->merge, n);

    if (rc != 0)
        return rc;
    symbols = e->merge.symbols;
    merge_run(&e->merge, split_word(e, word, n), word, rank_pair, e->t->bpe);
    for (uint32_t i = 0; rc == 0 && i != SYMBOL_NONE; i = symbols[i].next) {
        if (symbols[i].id != TOKEN_NONE)
            rc = encoder_push(e, symbols[i].id);
        else
            rc = push_unknown(e, word + symbols[i].at, symbols[i].len);
    }
    return rc;
}

/* Encode a word. Models whose pieces are UTF-8 have runs of line ends as tokens that no merge
 * makes: take them whole. */
static int encode_word(struct encoder *e, const char *word, size_t n)
{
    const struct tokenizer *t = e->t;
    const bool whole = t->bpe->whole_words || (t->vocab.raw && word[0] == '\n');
    const int32_t found = whole ? vocab_find(&t->vocab, word, n) : TOKEN_NONE;
    /* a TOKEN_ALONE token did not match as a special token, so no word may become it */
    const bool is_alone = found != TOKEN_NONE && t->vocab.sides != NULL &&
                          (t->vocab.sides[found] & TOKEN_ALONE) != 0;
    const int32_t id = is_alone ? TOKEN_NONE : found;

    return id != TOKEN_NONE ? encoder_push(e, id) : merge_word(e, word, n);
}

/* Encode a piece of the pretokenizer. Patterns that cut into words leave nothing for safe splits,
 * except in the longest words. In a model whose pieces are UTF-8 a piece is a line, not a word, and
 * its runs of line ends are one part, or one each. */
static int encode_cut(struct encoder *e, const char *word, size_t n)
{
    if (e->t->vocab.raw || n > WORD_CACHE_BYTES)
        return encoder_parts(e, word, n, encode_word);
    return encoder_word(e, word, n, encode_word);
}

/* Return the length of the run of well-formed (*valid true) or ill-formed bytes at the text's
 * start. */
static size_t uniform_run(const char *text, size_t n, bool *valid)
{
    const uint8_t *s = (const uint8_t *)text;
    const uint8_t *broken = u8_check(s, n);
    size_t i = broken != NULL ? (size_t)(broken - s) : n;

    *valid = i > 0;
    if (!*valid)
        for (i = 1; i < n && utf8_len(s + i, n - i) == 0;)
            i++;
    return i;
}

static int encode_valid(struct encoder *e, const char *text, size_t n)
{
    int rc = 0;

    pretokenizer_begin(e->run, text, n);
    for (size_t from = 0; rc == 0 && from < n;) {
        const size_t end = pretokenizer_next(e->run);

        rc = encode_cut(e, text + from, end - from);
        from = end;
    }
    return rc;
}

static int encode_bytes(struct encoder *e, const char *text, size_t n)
{
    int rc = 0;

    for (size_t at = 0; rc == 0 && at < n;) {
        bool valid;
        const size_t len = uniform_run(text + at, n - at, &valid);

        rc = valid ? encode_valid(e, text + at, len) : encode_word(e, text + at, len);
        at += len;
    }
    return rc;
}

int bpe_encode(struct encoder *e, const char *text, size_t n)
{
    char *copy;
    int rc = 0;

    if (e->run == NULL)
        rc = pretokenizer_run_create(&e->run, e->t->bpe->pretokenizer);
    if (rc != 0)
        return rc;
    if (!e->t->vocab.raw)
        return encode_bytes(e, text, n);
    copy = mem_alloc(n + 1);
    if (copy == NULL)
        return ERR_NOMEM;
    rc = encode_bytes(e, copy, unescape_spaces(text, n, copy));
    mem_free(copy);
    return rc;
}
