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
struct token_list;

struct tokenizer {
    struct vocab vocab;
    struct special special;
    struct bpe *bpe;      /* byte-level BPE only */
    bool words_are_apart; /* SPM: no piece reaches from a word into the next space */
};

struct encoder {
    const struct tokenizer *t;
    struct token_list *out;
    size_t max; /* most ids `out` may hold */
    struct merge merge;
};

/* Append one id; ERR_LIMIT, ERR_NOMEM. */
int encoder_push(struct encoder *e, int32_t id);

/* SentencePiece (spm.c). `prefix`: the text begins behind a special token, where the model may
 * want a space. A character without a piece becomes its bytes' tokens, else the unknown token,
 * and is left out where the model has neither. */
bool spm_words_are_apart(const struct vocab *v);
int spm_encode(struct encoder *e, const char *text, size_t n, bool prefix);

/* Byte-level BPE (bpe.c). Bytes that are no UTF-8 are words of their own and go by the same
 * merges; a byte without a token becomes the unknown token, or is left out. */
int bpe_create(struct bpe **out, const struct vocab *v, const struct gguf *g, char *err,
               size_t err_len);
void bpe_destroy(struct bpe **bpe);
int bpe_encode(struct encoder *e, const char *text, size_t n);

#endif
