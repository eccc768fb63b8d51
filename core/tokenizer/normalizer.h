/* core/tokenizer/normalizer.h - changes a text before it is cut and merged.
 *
 * A normalizer is a list of steps, like the "normalizer" of a tokenizer.json. Quire's own key
 * tokenizer.ggml.normalizer.steps holds three strings for each step: its name and two texts. Some
 * steps use the first text; "replace" and "replace_regex" use both. A GGUF file without that key
 * has the normalizer that its tokenizer.ggml.pre implies (pretokenizer_rules.inc).
 *
 * Each piece of text between two special tokens is normalized by itself, before it is cut. The name
 * of a special token that is looked for in normalized text (TOKEN_IN_NORMALIZED) is normalized,
 * too.
 *
 * Thread: read-only once loaded.
 * Memory: a table of 73 KiB for each step that is a normalization form.
 * Errors: loading gives a sentence naming the file and the key.
 */
#ifndef CORE_TOKENIZER_NORMALIZER_H
#define CORE_TOKENIZER_NORMALIZER_H

#include <stddef.h>

#define NORMALIZER_KEY "tokenizer.ggml.normalizer.steps"

struct buf;
struct budget;
struct gguf;
struct normalizer;
struct vocab;

struct normal_text { /* all zero: ready for normalizer_run() */
    const char *text; /* the caller's text, or the contents of one of the buffers */
    size_t n;
    struct buf *buffers; /* [2], or NULL */
};
void normal_text_release(struct normal_text *t);

/* Load the model's normalizer; *out is NULL if texts stay unchanged. */
int normalizer_load(struct normalizer **out, const struct vocab *v, const struct gguf *g, char *err,
                    size_t err_len);
void normalizer_destroy(struct normalizer **normalizer);

/* Normalize text[0..n). ERR_LIMIT: a step's result is longer than `max` bytes or some 16 times n,
 * or the budget (NULL: no limit) is used up; ERR_CANCELED, ERR_NOMEM. */
int normalizer_run(const struct normalizer *normalizer, const char *text, size_t n, size_t max,
                   struct budget *budget, struct normal_text *out);

/* Return how many times longer than its normalized form a text can be; 0: unbounded, since parts
 * may be dropped. */
size_t normalizer_shrinks(const struct normalizer *normalizer);

#endif
