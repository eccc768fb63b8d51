/* core/tokenizer/charsmap.h - SentencePiece's compiled normalization table.
 *
 * tokenizer.ggml.precompiled_charsmap holds a double-array trie of byte sequences; each has the
 * offset of its replacement among NUL-terminated texts. A text is rewritten from left to right, the
 * longest sequence that matches first.
 *
 * Thread: read-only once loaded.
 * Memory: a copy of the table.
 * Errors: loading refuses a table whose parts do not fit in it. Its entries are checked when they
 *         are used: one that leads out of the table rewrites nothing.
 */
#ifndef CORE_TOKENIZER_CHARSMAP_H
#define CORE_TOKENIZER_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

struct gguf;

struct charsmap { /* zero is valid and rewrites nothing */
    uint32_t *units;
    uint32_t n_units;
    char *texts; /* ends with a NUL */
    size_t n_texts;
};

int charsmap_load(struct charsmap *m, const struct gguf *g, char *err, size_t err_len);
void charsmap_release(struct charsmap *m);

/* The bytes at text[0..n) that are replaced, 0 if none are; *out, NUL-terminated and borrowed, is
 * their replacement. *steps grows by the bytes looked at. */
size_t charsmap_match(const struct charsmap *m, const char *text, size_t n, const char **out,
                      uint64_t *steps);

#endif
