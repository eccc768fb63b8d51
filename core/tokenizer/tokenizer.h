/* core/tokenizer/tokenizer.h - text to token ids and back, as a GGUF file's metadata says.
 *
 * Four families, by tokenizer.ggml.model: SentencePiece with scores and byte fallback ("llama"),
 * BPE with merges and a pattern that cuts words ("gpt2", with the names of pretokenizer_rules.inc,
 * and "gemma4"), WordPiece ("bert") and SentencePiece's unigram model ("t5"). The last two
 * normalise a text first, and so do all where the file or its family has a normalizer
 * (normalizer.h): such a text does not come back as it was. Encoding costs O(n log n) in the
 * bytes of the text, whatever they are; texts are cut first where no token can lie across
 * (safe_split.h).
 *
 * Thread: a tokenizer is read-only after creation and may be used by any number of threads; a
 *         struct detok belongs to one.
 * Memory: the tokenizer copies what it needs, so the gguf may be closed. Encoding allocates
 *         scratch in proportion to the text.
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
    TOKENIZER_ADD_SPECIAL = 1u << 0,   /* BOS (and EOS) where the model's metadata wants them */
    TOKENIZER_PARSE_SPECIAL = 1u << 1, /* control tokens written in the text become their ids */
};

struct token_list { /* zero is a valid empty list */
    int32_t *ids;
    size_t n;
    size_t cap;
};
void token_list_release(struct token_list *list);
/* Append one id: at most `max` may stand in the list. ERR_LIMIT, ERR_NOMEM. */
int token_list_add(struct token_list *list, int32_t id, size_t max);

int tokenizer_create(struct tokenizer **out, const struct gguf *g, char *err, size_t err_len);
/* The same with the pretokenizer rules of that name, whatever the file says; "": as the file says.
 * ERR_UNSUPPORTED where the name is not known, or the file's and none is given. */
int tokenizer_create_as(struct tokenizer **out, const struct gguf *g, const char *pre, char *err,
                        size_t err_len);
void tokenizer_destroy(struct tokenizer **t);

/* Append the ids of text[0..n) to `out`. The text may be any bytes: what is not UTF-8 becomes
 * byte tokens. At most `max` ids may stand in the list afterwards: ERR_LIMIT when there are
 * more, or when the budget (NULL: no limit) is used up, ERR_CANCELED, ERR_NOMEM; then `out` is as
 * it was, and holds no memory if it was empty. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                     size_t max, struct budget *budget, struct token_list *out);

/* The same for a text of which only some bytes may name control tokens (all that end a generation
 * are): a name that does not lie in one of the spans as a whole is plain text. Nothing is added. */
int tokenizer_encode_own(const struct tokenizer *t, const char *text, size_t n,
                         const struct spans *own, size_t max, struct budget *budget,
                         struct token_list *out);

/* The family: "llama", "gpt2", "bert" or "t5". */
const char *tokenizer_model(const struct tokenizer *t);

int32_t tokenizer_n_vocab(const struct tokenizer *t);
int32_t tokenizer_bos(const struct tokenizer *t); /* or TOKEN_NONE */
int32_t tokenizer_eos(const struct tokenizer *t); /* or TOKEN_NONE */
bool tokenizer_adds_bos(const struct tokenizer *t);
/* How many ids TOKENIZER_ADD_SPECIAL puts behind a text. */
uint32_t tokenizer_n_behind(const struct tokenizer *t);
/* What stands between two texts that are read together, beside the ends of the first; or
 * TOKEN_NONE. */
int32_t tokenizer_pair_separator(const struct tokenizer *t);

/* Ids that end a generation (EOS, EOT and their like), ascending. */
const int32_t *tokenizer_eog(const struct tokenizer *t, size_t *n);

const struct infill_tokens *tokenizer_infill(const struct tokenizer *t);

/* Is it a control token (never part of visible text)? */
bool tokenizer_is_control(const struct tokenizer *t, int32_t id);

/* Is it part of visible text: no control token, none that ends a generation, none without a use? */
bool tokenizer_is_text(const struct tokenizer *t, int32_t id);

/* The bytes a token stands for (a space for U+2581, raw bytes for byte-level pieces; control
 * tokens: their name, "<s>"). Borrowed; may be any bytes; not NUL-terminated. id in range. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *n);

/* The model's chat templates, in the order of their names; the one that has none is "default". The
 * name of number i, and its text (Jinja source), or NULL behind the last; NUL-terminated. */
const char *tokenizer_chat_template(const struct tokenizer *t, size_t i, const char **name);

/* The text in which the model reads {query} and {document}, or NULL; NUL-terminated. */
const char *tokenizer_rerank_template(const struct tokenizer *t);

/* Incremental decoding. Feed ids in order; each call appends to `out` the bytes that are
 * certain: complete UTF-8 sequences only, with U+FFFD for bytes that can become nothing valid.
 * Control tokens add nothing unless `show_control`. */
struct detok {
    const struct tokenizer *t;
    bool show_control;
    bool strip_space; /* the next visible piece loses one leading space (SPM, start of text) */
    uint8_t tail[4];  /* the bytes of an unfinished sequence */
    uint8_t n_tail;
};
struct buf;

/* `at_start`: does the output begin a text (then SPM's added prefix space is dropped), or does
 * it continue a prompt? */
void detok_init(struct detok *d, const struct tokenizer *t, bool at_start);
int detok_feed(struct detok *d, int32_t id, struct buf *out);
/* The end: an unfinished sequence becomes U+FFFD. */
int detok_finish(struct detok *d, struct buf *out);

#endif
