/* core/tokenizer/special_tokens.h - finds special tokens that are written out in a text, such as
 * <|im_end|>.
 *
 * A trie over the names of control and user-defined tokens, walked from each byte that can begin
 * one; the leftmost match wins, and of several there the longest. The names' length is bounded, so
 * the cost is linear in the text.
 *
 * Thread: read-only once loaded.
 * Memory: owns its tables.
 */
#ifndef CORE_TOKENIZER_SPECIAL_TOKENS_H
#define CORE_TOKENIZER_SPECIAL_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPECIAL_MAX_NAME 256 /* in bytes; the longest in use have 50 */

struct gguf;
struct normalizer;
struct spans;
struct vocab;

struct special {                /* all zero: finds nothing */
    struct special_edge *edges; /* open addressing by (node, byte) */
    uint32_t mask;
    int32_t *ends; /* [n_nodes] the token whose name ends here, or TOKEN_NONE */
    uint32_t n_nodes;
    bool begins[2][256]; /* [scope]: true: a name can begin with this byte */
    const struct vocab *vocab;
    size_t n_names;
};

/* Which tokens to look for: those found in normalized text (TOKEN_IN_NORMALIZED), by their
 * normalized names; or all others. `normalizer` is NULL if texts stay unchanged; then no token is
 * of the first kind. */
struct special_names {
    const struct normalizer *normalizer;
    bool in_normalized;
};

enum special_scope { /* which names match */
    SPECIAL_USER_DEFINED = 0, /* only those of user-defined tokens */
    SPECIAL_ALL = 1,          /* also those of control tokens and of the unknown token */
};

struct special_match { /* all zero before the first search; includes spaces that the token takes */
    size_t at;
    size_t len;
    size_t name_end; /* where the next search begins: a name may begin within taken spaces */
    size_t white_end; /* end of the spaces after this name or an earlier one */
    int32_t id;
};

/* Load the names of the tokens in `names`. `vocab` must live as long as `s`. */
int special_load(struct special *s, const struct vocab *v, const struct special_names *names,
                 const struct gguf *g, char *err, size_t err_len);
void special_release(struct special *s);

/* Find the first name at or after `at`; its match takes no spaces before `from`, the end of the
 * text already encoded (its name may begin before). If `own` is not NULL, names of tokens that are
 * not user-defined match only if they lie within one of its spans. */
bool special_find(const struct special *s, const char *text, size_t n, size_t at, size_t from,
                  enum special_scope scope, const struct spans *own, struct special_match *match);

#endif
