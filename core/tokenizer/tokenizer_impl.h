/* core/tokenizer/tokenizer_impl.h - structs that the files of the tokenizer share.
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
    struct normalizer *normalizer; /* NULL: texts stay unchanged */
    struct special special;        /* special tokens that are looked for in the text as written */
    struct special normal_special; /* special tokens that are looked for in the normalized text
                                    * between those */
    struct bpe *bpe;     /* BPE only */
    struct ugm *ugm;     /* unigram only */
    struct safe_splits *safe_splits; /* NULL: texts are not cut before they are encoded */
};

struct encoder {
    const struct tokenizer *t;
    struct token_list *out;
    size_t max;   /* most ids `out` may hold */
    size_t bytes; /* bytes of the whole text */
    struct merge merge;
    struct pretokenizer_run *run; /* BPE: cuts the text; created at the first word */
    struct word_cache *cache; /* words of this text whose ids are known, or NULL */
    struct ugm_node *nodes;   /* unigram: nodes of the best ways through a part of the text */
    size_t n_nodes;
    bool after_unknown; /* unigram: the last character was unknown; unknown ones in a row are one
                         * token */
    struct budget *budget; /* borrowed, or NULL */
    const struct spans *own; /* spans that may contain control tokens; NULL: all of the text */
    uint64_t steps;     /* work other than cutting and merging: see encoder_run() */
};

/* Like tokenizer_encode(), and set *steps to the work done: characters looked at while cutting,
 * pairs looked up while joining, pieces tried. Tests check by it that work is linear in the
 * text. */
int encoder_run(const struct tokenizer *t, const char *text, size_t n, unsigned flags, size_t max,
                struct budget *budget, struct token_list *out, uint64_t *steps);

/* Append one id; ERR_LIMIT, ERR_NOMEM. */
int encoder_push(struct encoder *e, int32_t id);

/* Append the ids of a word: from the cache if the word came up before, else by `encode`. They must
 * depend only on the word's bytes and e->after_unknown. */
typedef int (*encode_fn)(struct encoder *e, const char *word, size_t n);
int encoder_word(struct encoder *e, const char *word, size_t n, encode_fn encode);
/* Call encoder_word() for each part of a text between safe splits (safe_split.h). */
int encoder_parts(struct encoder *e, const char *text, size_t n, encode_fn encode);

/* SentencePiece (spm.c). `prefix`: the text begins after a special token, where the model may want
 * a space. A character without a piece becomes its bytes' tokens, else the unknown token; if the
 * model has neither, it is left out. */
int spm_encode(struct encoder *e, const char *text, size_t n, bool prefix);

/* WordPiece (wpm.c). A word that is not a sequence of pieces becomes the unknown token. */
int wpm_encode(struct encoder *e, const char *text, size_t n);

/* SentencePiece's unigram model (unigram.c): the pieces with the largest sum of scores. Text that
 * no piece covers becomes its bytes' tokens if the model has them, else one unknown token. */
int ugm_create(struct ugm **out, const struct vocab *v, const struct gguf *g, char *err,
               size_t err_len);
void ugm_destroy(struct ugm **ugm);
/* True: sums of scores are never rounded, whatever the text. */
bool ugm_sums_are_exact(const struct ugm *u);
int ugm_encode(struct encoder *e, const char *text, size_t n);

/* BPE (bpe.c). Bytes that are not UTF-8 are words of their own and are merged, too; a byte without
 * a token becomes the unknown token, or is left out if there is none. */
int bpe_create(struct bpe **out, const struct vocab *v, const struct gguf *g, char *err,
               size_t err_len);
void bpe_destroy(struct bpe **bpe);
/* True: a word that is a token is taken whole, whatever the merges are. Then a part of a word may
 * have other ids than a word with the same bytes. */
bool bpe_takes_whole_words(const struct bpe *b);
int bpe_encode(struct encoder *e, const char *text, size_t n);

#endif
