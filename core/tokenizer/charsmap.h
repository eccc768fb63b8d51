/* core/tokenizer/charsmap.h - SentencePiece's compiled normalization table.
 *
 * tokenizer.ggml.precompiled_charsmap holds a double-array trie of byte sequences, and for each
 * sequence the offset of its NUL-terminated replacement. A text is rewritten from left to right; at
 * each place the longest sequence that matches is replaced.
 *
 * Thread: read-only once loaded.
 * Memory: a copy of the table.
 * Errors: loading refuses a table whose parts do not fit into it. Entries are checked when they are
 *         used: one that points outside the table replaces nothing.
 */
#ifndef CORE_TOKENIZER_CHARSMAP_H
#define CORE_TOKENIZER_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

struct gguf;

struct charsmap { /* all zero: replaces nothing */
    uint32_t *units;
    uint32_t n_units;
    char *texts; /* the replacements; the last byte is NUL */
    size_t n_texts;
};

int charsmap_load(struct charsmap *m, const struct gguf *g, char *err, size_t err_len);
void charsmap_release(struct charsmap *m);

/* Return how many bytes at the start of text[0..n) are replaced, or 0; *out, NUL-terminated and
 * borrowed, is their replacement. *steps grows by the bytes looked at. */
size_t charsmap_match(const struct charsmap *m, const char *text, size_t n, const char **out,
                      uint64_t *steps);

#endif
