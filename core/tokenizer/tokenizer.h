/* core/tokenizer/tokenizer.h - converts text to token ids and back, by a GGUF file's metadata.
 *
 * Four families, by tokenizer.ggml.model: SentencePiece with scores and byte fallback ("llama"),
 * BPE with merges and a pattern that cuts words ("gpt2", with the names of pretokenizer_rules.inc,
 * and "gemma4"), WordPiece ("bert") and SentencePiece's unigram model ("t5"). The last two
 * normalise a text first, and so does any family if the file has a normalizer (normalizer.h): the
 * ids of such a text do not decode to the same text. Encoding costs O(n log n) in the bytes of the
 * text, whatever they are; texts are first cut where no token can lie across (safe_split.h).
 *
 * Thread: a tokenizer is read-only after creation and may be used by any number of threads; a
 *         struct detok belongs to one thread.
 * Memory: the tokenizer copies what it needs, so the gguf may be closed. Encoding allocates scratch
 *         in proportion to the text.
 * Errors: creation gives a sentence naming the file and the key; encoding gives numbers.
 */
#ifndef CORE_TOKENIZER_TOKENIZER_H
#define CORE_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/token.h"

struct budget;
struct gguf;
struct spans;
struct tokenizer;

enum tokenizer_flags {
    TOKENIZER_ADD_SPECIAL = 1u << 0,   /* add BOS (and EOS) if the model's metadata says so */
    TOKENIZER_PARSE_SPECIAL = 1u << 1, /* control tokens written in the text become their ids */
};

struct token_list { /* all zero: an empty list */
    int32_t *ids;
    size_t n;
    size_t cap;
};
void token_list_release(struct token_list *list);
/* Append one id to a list of at most `max`. ERR_LIMIT, ERR_NOMEM. */
int token_list_add(struct token_list *list, int32_t id, size_t max);

int tokenizer_create(struct tokenizer **out, const struct gguf *g, char *err, size_t err_len);
/* Create a tokenizer with the pretokenizer rules called `pre`, whatever the file says; "": the
 * file's. ERR_UNSUPPORTED: the name is unknown. */
int tokenizer_create_as(struct tokenizer **out, const struct gguf *g, const char *pre, char *err,
                        size_t err_len);
void tokenizer_destroy(struct tokenizer **t);

/* Append the ids of text[0..n) to `out`. The text may be any bytes: bytes that are not UTF-8 become
 * byte tokens. ERR_LIMIT: the list would have more than `max` ids, or the budget (NULL: no limit)
 * is used up; ERR_CANCELED, ERR_NOMEM. After an error `out` is unchanged, and holds no memory if it
 * was empty. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                     size_t max, struct budget *budget, struct token_list *out);

/* Encode a text in which only the bytes of `own` may name control tokens; here every token that
 * ends a generation counts as one. A name that does not lie within one span is plain text. No BOS
 * or EOS is added. */
int tokenizer_encode_own(const struct tokenizer *t, const char *text, size_t n,
                         const struct spans *own, size_t max, struct budget *budget,
                         struct token_list *out);

/* Return the family: "llama", "gpt2", "bert" or "t5". */
const char *tokenizer_model(const struct tokenizer *t);

int32_t tokenizer_n_vocab(const struct tokenizer *t);
int32_t tokenizer_bos(const struct tokenizer *t); /* or TOKEN_NONE */
int32_t tokenizer_eos(const struct tokenizer *t); /* or TOKEN_NONE */
int32_t tokenizer_separator(const struct tokenizer *t); /* [SEP], or TOKEN_NONE */
int32_t tokenizer_mask(const struct tokenizer *t);      /* [MASK], or TOKEN_NONE */
bool tokenizer_adds_bos(const struct tokenizer *t);
/* Return the number of ids that TOKENIZER_ADD_SPECIAL adds after a text. */
uint32_t tokenizer_n_behind(const struct tokenizer *t);
/* Return the token that separates two texts of a pair, in addition to the first one's end tokens;
 * or TOKEN_NONE. */
int32_t tokenizer_pair_separator(const struct tokenizer *t);

/* Return the n ids that end a generation (EOS, EOT and the like), ascending. */
const int32_t *tokenizer_eog(const struct tokenizer *t, size_t *n);

const struct infill_tokens *tokenizer_infill(const struct tokenizer *t);

/* True: the token is a control token, which is never part of visible text. */
bool tokenizer_is_control(const struct tokenizer *t, int32_t id);

/* True: the token can be part of visible text: it is not a control token, not unused, and does not
 * end a generation. */
bool tokenizer_is_text(const struct tokenizer *t, int32_t id);

/* Return the n bytes that a token stands for (a space for U+2581, raw bytes for byte-level pieces;
 * a control token's name, "<s>"). Borrowed; may be any bytes; not NUL-terminated. `id` must be in
 * range. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *n);

/* Return the Jinja source of chat template number i, in the order of names, and set *name
 * ("default" if the file has none); NULL after the last. Both are NUL-terminated. */
const char *tokenizer_chat_template(const struct tokenizer *t, size_t i, const char **name);

/* A text that the model wants before an input of some kind, whose name its trainers chose. */
struct text_prompt {
    char *name, *text;
};

/* Return the model's prompts, *n of them; with 0, NULL. */
const struct text_prompt *tokenizer_prompts(const struct tokenizer *t, size_t *n);

/* Return the model's rerank template, NUL-terminated, with {query} and {document}; or NULL. */
const char *tokenizer_rerank_template(const struct tokenizer *t);

/* Incremental decoding. Feed ids in order; each call appends to `out` the bytes that are certain:
 * complete UTF-8 sequences only, with U+FFFD for bytes that cannot become valid UTF-8. Control
 * tokens add nothing unless `show_control`. */
struct detok {
    const struct tokenizer *t;
    bool show_control;
    bool strip_space; /* the next visible piece loses one leading space (SPM, start of text) */
    uint8_t tail[4];  /* the bytes of an unfinished UTF-8 sequence */
    uint8_t n_tail;
};
struct buf;

/* at_start: true: the output begins a text, so the prefix space that SPM added is dropped; false:
 * it continues a prompt. */
void detok_init(struct detok *d, const struct tokenizer *t, bool at_start);
int detok_feed(struct detok *d, int32_t id, struct buf *out);
/* End the text: an unfinished sequence becomes U+FFFD. */
int detok_finish(struct detok *d, struct buf *out);

#endif
