/* core/text/bpe.c - byte-level BPE: cut into words, then join bytes by merge rank. */
#include "core/text/private.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/gguf/gguf.h"
#include "core/text/presplit.h"
#include "core/text/tokenizer.h"
#include "core/text/utf8.h"

#include <string.h>

#define KEY_MERGES "tokenizer.ggml.merges"

struct pair_slot {
    int32_t left, right; /* tokens; left TOKEN_NONE = empty */
    uint32_t rank;
    int32_t joined;
};

struct bpe {
    struct presplit *presplit;
    struct pair_slot *slots; /* open addressing */
    uint32_t mask;
    bool whole_words; /* a word that is a token is taken as it is, whatever the merges say */
};

/* ---- the merges */

static struct pair_slot *slot_of(const struct bpe *b, int32_t left, int32_t right)
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
    slot = slot_of(b, left->id, right->id);
    *joined = slot->joined;
    return slot->left == TOKEN_NONE ? RANK_NONE : slot->rank;
}

/* One element of the merges: two pieces in letters with a space between. `bytes` has room for
 * the element. */
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
    n_left = letters_to_bytes(s.data, (size_t)(space - s.data), bytes);
    if (n_left < 0)
        return "has a character that stands for no byte";
    n_right = letters_to_bytes(right, (size_t)(s.data + s.len - right), bytes + n_left);
    if (n_right < 0)
        return "has a character that stands for no byte";
    left_id = vocab_find(v, bytes, (size_t)n_left);
    right_id = vocab_find(v, bytes + n_left, (size_t)n_right);
    joined = vocab_find(v, bytes, (size_t)(n_left + n_right));
    if (left_id == TOKEN_NONE || right_id == TOKEN_NONE || joined == TOKEN_NONE)
        return "joins or gives a piece that is not among the tokens";
    slot = slot_of(b, left_id, right_id);
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
    struct gguf_str pre;
    int rc;

    *out = NULL;
    if (b == NULL)
        return text_fail(g, ERR_NOMEM, err, err_len, "no memory for " KEY_MERGES);
    rc = presplit_create(&b->presplit, g, err, err_len);
    if (rc == 0)
        rc = load_merges(b, v, g, err, err_len);
    if (rc == 0)
        rc = gguf_get_str(g, "tokenizer.ggml.pre", &pre, err, err_len);
    if (rc != 0) {
        bpe_destroy(&b);
        return rc;
    }
    b->whole_words = pre.len == 9 && memcmp(pre.data, "llama-bpe", 9) == 0;
    *out = b;
    return 0;
}

void bpe_destroy(struct bpe **bpe)
{
    struct bpe *b = bpe != NULL ? *bpe : NULL;

    if (b == NULL)
        return;
    presplit_destroy(&b->presplit);
    mem_free(b->slots);
    mem_free(b);
    *bpe = NULL;
}

/* ---- encoding */

static int encode_word(struct encoder *e, const char *word, size_t n)
{
    const struct vocab *v = &e->t->vocab;
    const int32_t whole = e->t->bpe->whole_words ? vocab_find(v, word, n) : TOKEN_NONE;
    int rc = 0;

    if (whole != TOKEN_NONE)
        return encoder_push(e, whole);
    rc = merge_reserve(&e->merge, n);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        e->merge.symbols[i] =
            (struct symbol){.at = (uint32_t)i, .len = 1, .id = v->byte_id[(uint8_t)word[i]]};
    merge_run(&e->merge, n, word, rank_pair, e->t->bpe);
    for (uint32_t i = 0; rc == 0 && i != SYMBOL_NONE; i = e->merge.symbols[i].next) {
        int32_t id = e->merge.symbols[i].id;

        if (id == TOKEN_NONE)
            id = v->unknown;
        if (id != TOKEN_NONE)
            rc = encoder_push(e, id);
    }
    return rc;
}

/* How far text is well-formed (*valid), or ill-formed, from its start. */
static size_t uniform_run(const char *text, size_t n, bool *valid)
{
    const uint8_t *s = (const uint8_t *)text;
    size_t i = utf8_len(s, n);

    *valid = i > 0;
    if (!*valid) {
        for (i = 1; i < n && utf8_len(s + i, n - i) == 0;)
            i++;
        return i;
    }
    while (i < n) {
        const size_t len = s[i] < 0x80 ? 1 : utf8_len(s + i, n - i);

        if (len == 0)
            break;
        i += len;
    }
    return i;
}

static int encode_valid(struct encoder *e, struct presplit_run *run, const char *text, size_t n)
{
    int rc = 0;

    for (size_t from = 0; rc == 0 && from < n;) {
        size_t end;

        rc = presplit_next(run, text, n, from, &end);
        if (rc == 0) {
            rc = encode_word(e, text + from, end - from);
            from = end;
        }
    }
    return rc;
}

int bpe_encode(struct encoder *e, const char *text, size_t n)
{
    struct presplit_run *run;
    int rc = presplit_run_create(&run, e->t->bpe->presplit);

    for (size_t at = 0; rc == 0 && at < n;) {
        bool valid;
        const size_t len = uniform_run(text + at, n - at, &valid);

        rc = valid ? encode_valid(e, run, text + at, len) : encode_word(e, text + at, len);
        at += len;
    }
    presplit_run_destroy(&run);
    return rc;
}
