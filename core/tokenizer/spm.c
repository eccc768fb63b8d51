/* core/tokenizer/spm.c - SentencePiece: joins characters into the pieces of the best score.
 *
 * The merge loop (merge.h) starts with characters, and a join is allowed if the joined bytes are a
 * piece; its rank is the piece's score, reversed. The text is copied once with the added space and
 * with spaces for U+2581, then cut at safe splits, so that the loop runs on short parts.
 */
#include "core/tokenizer/tokenizer_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/tokenizer/tokenizer.h"

#include <string.h>

/* Return the rank of a score: the float's bits, changed so that they compare like the number, then
 * inverted so that the highest score has the lowest rank. Only a NaN gives RANK_NONE. */
static uint32_t rank_of_score(float score)
{
    uint32_t bits;

    memcpy(&bits, &score, sizeof(bits));
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return ~bits;
}

static uint32_t rank_pair(const void *model, const char *text, const struct symbol *left,
                          const struct symbol *right, int32_t *joined)
{
    const struct vocab *v = model;

    *joined = vocab_find(v, text + left->at, (size_t)left->len + right->len);
    return *joined == TOKEN_NONE ? RANK_NONE : rank_of_score(v->score[*joined]);
}

static size_t split_characters(struct encoder *e, const char *text, size_t n)
{
    size_t n_symbols = 0;

    for (size_t at = 0; at < n;) {
        size_t len = utf8_len((const uint8_t *)text + at, n - at);

        if (len == 0) /* not UTF-8: a symbol of one byte */
            len = 1;
        e->merge.symbols[n_symbols++] = (struct symbol){
            .at = (uint32_t)at,
            .len = (uint32_t)len,
            .id = vocab_find(&e->t->vocab, text + at, len),
        };
        at += len;
    }
    return n_symbols;
}

static int push_bytes(struct encoder *e, const char *bytes, size_t n)
{
    const struct vocab *v = &e->t->vocab;
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        if (v->byte_id[(uint8_t)bytes[i]] == TOKEN_NONE)
            return v->unknown == TOKEN_NONE ? 0 : encoder_push(e, v->unknown);
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = encoder_push(e, v->byte_id[(uint8_t)bytes[i]]);
    return rc;
}

static int encode_part(struct encoder *e, const char *text, size_t n)
{
    int rc = merge_reserve(&e->merge, n);
    const struct symbol *symbols = e->merge.symbols;

    if (rc != 0)
        return rc;
    merge_run(&e->merge, split_characters(e, text, n), text, rank_pair, &e->t->vocab);
    for (uint32_t i = 0; rc == 0 && i != SYMBOL_NONE; i = symbols[i].next) {
        if (symbols[i].id != TOKEN_NONE)
            rc = encoder_push(e, symbols[i].id);
        else
            rc = push_bytes(e, text + symbols[i].at, symbols[i].len);
    }
    return rc;
}

int spm_encode(struct encoder *e, const char *text, size_t n, bool prefix)
{
    char *copy = mem_alloc(n + 1);
    size_t len = 0;
    int rc;

    if (copy == NULL)
        return ERR_NOMEM;
    if (prefix && e->t->vocab.add_space_prefix)
        copy[len++] = ' ';
    n = unescape_spaces(text, n, copy + len);
    if (len > 0 && n > 0 && e->t->vocab.prefix_once && copy[1] == ' ')
        memmove(copy, copy + 1, n); /* the text begins with a space already */
    else
        n += len;
    rc = encoder_parts(e, copy, n, encode_part);
    mem_free(copy);
    return rc;
}
