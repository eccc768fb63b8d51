/* core/text/private.h - what the files of the tokenizer share.
 *
 * Thread: struct tokenizer is read-only after creation; struct encoder lives within one call of
 *         tokenizer_encode().
 * Memory: the encoder's scratch is released by that call.
 */
#ifndef CORE_TEXT_PRIVATE_H
#define CORE_TEXT_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/text/merge.h"
#include "core/text/special.h"
#include "core/text/vocab.h"

struct bpe;
struct gguf;
struct presplit_run;
struct ugm;
struct word_cache;
struct token_list;

struct tokenizer {
    struct vocab vocab;
    struct special special;
    struct bpe *bpe;      /* BPE only */
    struct ugm *ugm;      /* unigram only */
    bool words_are_apart; /* SPM: no piece reaches from a word into the next space */
};

struct encoder {
    const struct tokenizer *t;
    struct token_list *out;
    size_t max;   /* most ids `out` may hold */
    size_t bytes; /* of the whole text */
    struct merge merge;
    struct presplit_run *run; /* BPE: cuts the text, from the first word on */
    struct word_cache *cache; /* BPE: words of this text whose ids are known, or NULL */
    uint64_t steps;           /* work done beside cutting and merging: see encoder_run() */
};

/* tokenizer_encode(), and in *steps the work: characters looked at by what cuts, pairs looked up by
 * what joins, pieces tried. Tests see by it that work grows with the text and no faster. */
int encoder_run(const struct tokenizer *t, const char *text, size_t n, unsigned flags, size_t max,
                struct token_list *out, uint64_t *steps);

/* Append one id; ERR_LIMIT, ERR_NOMEM. */
int encoder_push(struct encoder *e, int32_t id);

/* SentencePiece (spm.c). `prefix`: the text begins behind a special token, where the model may
 * want a space. A character without a piece becomes its bytes' tokens, else the unknown token,
 * and is left out where the model has neither. */
bool spm_words_are_apart(const struct vocab *v);
int spm_encode(struct encoder *e, const char *text, size_t n, bool prefix);

/* WordPiece (wpm.c). A word that cannot be put together from pieces becomes the unknown token. */
int wpm_encode(struct encoder *e, const char *text, size_t n);

/* SentencePiece's unigram model (ugm.c): the pieces whose scores add up to most. What no piece
 * covers becomes the bytes' tokens where the model has them, else one unknown token. */
int ugm_create(struct ugm **out, const struct vocab *v, const struct gguf *g, char *err,
               size_t err_len);
void ugm_destroy(struct ugm **ugm);
int ugm_encode(struct encoder *e, const char *text, size_t n);

/* BPE (bpe.c). Bytes that are no UTF-8 are words of their own and go by the same merges; a byte
 * without a token becomes the unknown token, or is left out. */
int bpe_create(struct bpe **out, const struct vocab *v, const struct gguf *g, char *err,
               size_t err_len);
void bpe_destroy(struct bpe **bpe);
int bpe_encode(struct encoder *e, const char *text, size_t n);

#endif
