/* scheduler/request/token_lookup.h - searches a text for the last tokens of the same or another
 * text.
 *
 * The positions of a list of tokens are in chains, by the pair of tokens that ends there. A look-up
 * follows the chain of a text's last pair, at most LOOKUP_CHAIN places back, and takes the place
 * with the longest match, of equal ones the latest.
 *
 * Source: Saxena, "Prompt Lookup Decoding", 2023; Yang et al., "Inference with Reference", 2023.
 *
 * Thread: one owner.
 * Memory: token_lookup_bytes() of the owner's, zeroed, aligned to 4. Of memory that the kernel
 *         hands out by pages only what is in use is ever touched.
 */
#ifndef SCHEDULER_REQUEST_TOKEN_LOOKUP_H
#define SCHEDULER_REQUEST_TOKEN_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOKUP_CHAIN 16    /* places looked at */
#define LOOKUP_MAX_MATCH 32 /* tokens compared before each */

struct token_lookup { /* zero: none */
    uint32_t *heads;  /* [n_heads] the latest position with a pair of this hash; 0: none */
    uint32_t *before; /* [max] the position before it in its chain */
    uint32_t n_heads; /* a power of two */
    uint32_t max;
    uint32_t n; /* positions 1 .. n - 1 are entered */
};

struct lookup_match {
    uint32_t next;    /* position of the token that followed */
    uint32_t n_match; /* equal tokens before it; 0: nothing was found */
};

/* Bytes for a list of at most `max` tokens. */
size_t token_lookup_bytes(uint32_t max);
/* Set up a look-up without positions; `memory` is borrowed until the last use. */
void token_lookup_init(struct token_lookup *l, void *memory, uint32_t max);
/* Enter the pairs of text[0 .. n) that are not entered yet. O(new ones). */
void token_lookup_extend(struct token_lookup *l, const int32_t *text, uint32_t n);
/* Forget all positions, because the text has changed. O(max). */
void token_lookup_clear(struct token_lookup *l);
/* Find the last tokens of tail[0 .. n_tail) in `text`, whose pairs are entered. A tail of fewer
 * than two tokens is never found. */
struct lookup_match token_lookup_find(const struct token_lookup *l, const int32_t *text,
                                      const int32_t *tail, uint32_t n_tail);

/* Count the equal tokens at the ends of text[0 .. next) and tail[0 .. n_tail). */
struct lookup_match token_lookup_match(const int32_t *text, uint32_t next, const int32_t *tail,
                                       uint32_t n_tail);

#endif
