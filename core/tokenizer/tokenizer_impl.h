/* core/tokenizer/tokenizer_impl.h - what the files of the tokenizer share.
 *
 * Thread: struct tokenizer is read-only after creation; struct encoder lives within one call of
 *         tokenizer_encode().
 * Memory: the encoder's scratch is released by that call.
 */
#ifndef CORE_TOKENIZER_TOKENIZER_IMPL_H
#define CORE_TOKENIZER_TOKENIZER_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/merge.h"
#include "core/tokenizer/special_tokens.h"
#include "core/tokenizer/vocab.h"

struct bpe;
struct gguf;
struct normalizer;
struct pretokenizer_run;
struct safe_splits;
struct ugm;
struct ugm_node;
struct word_cache;
struct token_list;

struct tokenizer {
    struct vocab vocab;
    struct normalizer *normalizer; /* or NULL: texts stay as they are */
    struct special special;        /* looked for in the text as it comes, */
    struct special normal_special; /* and between those, in what the normalizer makes of it */
    struct bpe *bpe;     /* BPE only */
    struct ugm *ugm;     /* unigram only */
    struct safe_splits *safe_splits; /* or NULL: what is to be encoded stays whole */
};

struct encoder {
    const struct tokenizer *t;
    struct token_list *out;
    size_t max;   /* most ids `out` may hold */
    size_t bytes; /* of the whole text */
    struct merge merge;
    struct pretokenizer_run *run; /* BPE: cuts the text, from the first word on */
    struct word_cache *cache; /* words of this text whose ids are known, or NULL */
    struct ugm_node *nodes;   /* unigram: the ways through a part of the text */
    size_t n_nodes;
    bool after_unknown; /* unigram: the last character had no piece; one token for all such */
    struct budget *budget; /* borrowed, or NULL */
    const struct spans *own; /* where control tokens may stand; NULL: anywhere */
    uint64_t steps;     /* work done beside cutting and merging: see encoder_run() */
};

/* tokenizer_encode(), and in *steps the work: characters looked at by what cuts, pairs looked up by
 * what joins, pieces tried. Tests see by it that work grows with the text and no faster. */
int encoder_run(const struct tokenizer *t, const char *text, size_t n, unsigned flags, size_t max,
                struct budget *budget, struct token_list *out, uint64_t *steps);

/* Append one id; ERR_LIMIT, ERR_NOMEM. */
int encoder_push(struct encoder *e, int32_t id);

/* Append what `encode` makes of the word, from the cache if it came up before. The ids of a word
 * must depend on nothing but its bytes, and on what stood before only by e->after_unknown. */
typedef int (*encode_fn)(struct encoder *e, const char *word, size_t n);
int encoder_word(struct encoder *e, const char *word, size_t n, encode_fn encode);
/* The same with each part of a text between safe splits (safe_split.h). */
int encoder_parts(struct encoder *e, const char *text, size_t n, encode_fn encode);

/* SentencePiece (spm.c). `prefix`: the text begins behind a special token, where the model may
 * want a space. A character without a piece becomes its bytes' tokens, else the unknown token,
 * and is left out where the model has neither. */
int spm_encode(struct encoder *e, const char *text, size_t n, bool prefix);

/* WordPiece (wpm.c). A word that cannot be put together from pieces becomes the unknown token. */
int wpm_encode(struct encoder *e, const char *text, size_t n);

/* SentencePiece's unigram model (unigram.c): the pieces whose scores add up to most. What no piece
 * covers becomes the bytes' tokens where the model has them, else one unknown token. */
int ugm_create(struct ugm **out, const struct vocab *v, const struct gguf *g, char *err,
               size_t err_len);
void ugm_destroy(struct ugm **ugm);
/* Are the scores such that sums of them are never rounded, whatever the text? */
bool ugm_sums_are_exact(const struct ugm *u);
int ugm_encode(struct encoder *e, const char *text, size_t n);

/* BPE (bpe.c). Bytes that are no UTF-8 are words of their own and go by the same merges; a byte
 * without a token becomes the unknown token, or is left out. */
int bpe_create(struct bpe **out, const struct vocab *v, const struct gguf *g, char *err,
               size_t err_len);
void bpe_destroy(struct bpe **bpe);
/* Is a word that is a token taken as it is, whatever the merges say? Then a part of one and the
 * word of the same bytes may differ. */
bool bpe_takes_whole_words(const struct bpe *b);
int bpe_encode(struct encoder *e, const char *text, size_t n);

#endif
