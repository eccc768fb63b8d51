/* core/tokenizer/wpm.c - WordPiece: cuts words at spaces and punctuation, then takes the longest
 * pieces.
 *
 * BERT's normalisation comes first: control characters are dropped, every kind of space counts as
 * one, Han characters are words of their own; for an uncased model letters become lower case
 * without accents. A piece that begins a word begins with a space in the vocabulary.
 */
#include "core/tokenizer/tokenizer_impl.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/unicode.h"
#include "core/tokenizer/tokenizer.h"

#include <unictype.h>
#include <uninorm.h>

#define MAX_WORD 100 /* in characters; BERT makes longer words unknown, so no word costs much */
#define MAX_DECOMPOSED UC_DECOMPOSITION_MAX_LENGTH
#define REPLACEMENT 0xFFFD

struct words {
    struct encoder *e;
    struct buf word; /* begins with a space */
    size_t n_characters;
    struct buf one, small; /* buffers for changing a character's case */
};

/* ---- words to pieces */

static int push_word(struct encoder *e, const char *word, size_t n)
{
    const struct vocab *v = &e->t->vocab;
    const size_t before = e->out->n;
    int rc = 0;

    for (size_t at = 0; rc == 0 && at < n;) {
        size_t len = n - at < v->longest ? n - at : v->longest;
        int32_t id = TOKEN_NONE;

        for (; len > 0; len--) {
            e->steps++;
            id = vocab_find(v, word + at, len);
            if (id != TOKEN_NONE)
                break;
        }
        if (id == TOKEN_NONE) {
            e->out->n = before;
            return v->unknown == TOKEN_NONE ? 0 : encoder_push(e, v->unknown);
        }
        rc = encoder_push(e, id);
        at += len;
    }
    return rc;
}

static int end_word(struct words *w)
{
    const struct vocab *v = &w->e->t->vocab;
    int rc = w->word.err;

    if (rc == 0 && w->n_characters > MAX_WORD && v->unknown != TOKEN_NONE)
        rc = encoder_push(w->e, v->unknown);
    else if (rc == 0 && w->n_characters > 0 && w->n_characters <= MAX_WORD)
        rc = push_word(w->e, w->word.data, w->word.len);
    buf_clear(&w->word);
    w->n_characters = 0;
    return rc;
}

/* ---- characters to words */

static bool is_char_of(uint32_t c, uint32_t categories)
{
    return uc_is_general_category_withtable(c, categories);
}

static bool is_accent(uint32_t c)
{
    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
               (c >= 123 && c <= 126);
    return is_char_of(c, UC_CATEGORY_MASK_P);
}

/* True: the character is in the blocks that BERT's own tokenizer counts as ideographs. */
static bool is_ideograph(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B820 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static bool is_dropped(uint32_t c)
{
    return c == 0 || c == REPLACEMENT || is_char_of(c, UC_CATEGORY_MASK_C);
}

static void add_character(struct words *w, uint32_t c)
{
    if (w->n_characters == 0)
        buf_add_char(&w->word, ' ');
    if (w->n_characters < MAX_WORD) /* longer words are unknown */
        unicode_put(&w->word, c);
    w->n_characters++;
}

static int take_character(struct words *w, uint32_t c)
{
    int rc = 0;

    if (!is_accent(c) && !is_ideograph(c)) {
        add_character(w, c);
        return w->word.err;
    }
    rc = end_word(w);
    if (rc == 0) {
        add_character(w, c);
        rc = end_word(w);
    }
    return rc;
}

/* Take a character in lower case, which may be several characters. */
static int take_small(struct words *w, uint32_t c)
{
    size_t len;
    int rc;

    if (c < 0x80)
        return take_character(w, c >= 'A' && c <= 'Z' ? c + 32 : c);
    buf_clear(&w->one);
    buf_clear(&w->small);
    rc = unicode_put(&w->one, c);
    if (rc == 0)
        rc = unicode_change_case(w->one.data, w->one.len, UNICODE_LOWER, &w->small);
    for (size_t at = 0; rc == 0 && at < w->small.len; at += len)
        rc = take_character(w, unicode_at(w->small.data + at, w->small.len - at, &len));
    return rc;
}

static int take_plain(struct words *w, uint32_t c)
{
    const struct vocab *v = &w->e->t->vocab;

    if (v->without_accents && is_char_of(c, UC_CATEGORY_MASK_Mn))
        return 0;
    return v->lower_case ? take_small(w, c) : take_character(w, c);
}

/* Take a character decomposed into letter and accents, recursively. */
static int take_decomposed(struct words *w, uint32_t c)
{
    ucs4_t parts[MAX_DECOMPOSED];
    const int n = c < 0x80 ? -1 : uc_canonical_decomposition(c, parts);
    int rc = 0;

    if (n < 0)
        return take_plain(w, c);
    for (int i = 0; rc == 0 && i < n; i++) {
        /* a part may have parts again; it ends because canonical mappings are a tree */
        rc = parts[i] == c ? take_plain(w, c) : take_decomposed(w, parts[i]);
    }
    return rc;
}

static int take_any(struct words *w, uint32_t c)
{
    if (c == '\t' || c == '\n' || c == '\r' || is_char_of(c, UC_CATEGORY_MASK_Z))
        return end_word(w);
    if (is_dropped(c))
        return 0;
    return w->e->t->vocab.without_accents ? take_decomposed(w, c) : take_plain(w, c);
}

int wpm_encode(struct encoder *e, const char *text, size_t n)
{
    struct words w = {.e = e};
    size_t len;
    int rc = 0;

    buf_init(&w.word, 4 * MAX_WORD + 8);
    buf_init(&w.one, 8);
    buf_init(&w.small, 64);
    for (size_t at = 0; rc == 0 && at < n; at += len) {
        e->steps++;
        rc = take_any(&w, unicode_at(text + at, n - at, &len));
    }
    if (rc == 0)
        rc = end_word(&w);
    buf_release(&w.word);
    buf_release(&w.one);
    buf_release(&w.small);
    return rc;
}
