/* core/tokenizer/special_tokens.h - find the tokens that are written out in a text, such as
 * <|im_end|>.
 *
 * A trie over the names of control and user-defined tokens, walked from each byte that can begin
 * one; the leftmost match wins, and of those the longest. The names' length is bounded, so the
 * cost is linear in the text.
 *
 * Thread: read-only once loaded.
 * Memory: owns its tables.
 */
#ifndef CORE_TOKENIZER_SPECIAL_TOKENS_H
#define CORE_TOKENIZER_SPECIAL_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPECIAL_MAX_NAME 256 /* bytes; the longest in use have 50 */

struct gguf;
struct normalizer;
struct spans;
struct vocab;

struct special {                /* zero is valid and finds nothing */
    struct special_edge *edges; /* open addressing by (node, byte) */
    uint32_t mask;
    int32_t *ends; /* [n_nodes] the token whose name ends here, or TOKEN_NONE */
    uint32_t n_nodes;
    bool begins[2][256]; /* [scope] whether a name can begin with this byte */
    const struct vocab *vocab;
    size_t n_names;
};

/* The tokens to look for: those that are found in normalized text (TOKEN_IN_NORMALIZED), by their
 * normalized names; or all others. `normalizer` is NULL where texts stay unchanged; then there are
 * none of the first kind. */
struct special_names {
    const struct normalizer *normalizer;
    bool in_normalized;
};

enum special_scope { /* the names that match: of user-defined tokens, and */
    SPECIAL_USER_DEFINED = 0, /* no others */
    SPECIAL_ALL = 1,          /* of control tokens and the unknown one */
};

struct special_match { /* zero before the first; includes spaces that the token takes */
    size_t at;
    size_t len;
    size_t name_end; /* where to look for the next one: a name may begin within taken spaces */
    size_t white_end; /* end of the spaces behind this name or one before */
    int32_t id;
};

/* `vocab` is borrowed as long as the result lives. */
int special_load(struct special *s, const struct vocab *v, const struct special_names *names,
                 const struct gguf *g, char *err, size_t err_len);
void special_release(struct special *s);

/* Find the first name at or after `at`; its match takes no spaces before `from`, the end of the
 * text already encoded (its name may begin before). Where `own` is not NULL, names of other than
 * user-defined tokens match only where one of those spans contains them whole. */
bool special_find(const struct special *s, const char *text, size_t n, size_t at, size_t from,
                  enum special_scope scope, const struct spans *own, struct special_match *match);

#endif
