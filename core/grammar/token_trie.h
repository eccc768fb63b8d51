/* core/grammar/token_trie.h - a trie of the texts of all tokens.
 *
 * Nodes are in depth-first order: the subtree of node i is nodes i to nodes[i].end - 1, and
 * skipping it is one step. A node is one byte; the texts that end there have their ids in
 * ids[nodes[i].first .. + nodes[i].n - 1].
 *
 * Thread: read-only once made.
 * Memory: about 14 bytes for each distinct prefix. The texts' bytes are borrowed.
 */
#ifndef CORE_GRAMMAR_TOKEN_TRIE_H
#define CORE_GRAMMAR_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_TRIE_MAX_BYTES 128 /* longer texts are left out */

struct tokenizer;

struct trie_node {
    uint32_t end;   /* the first node behind the subtree */
    uint32_t first; /* where its ids begin; those of the subtree follow */
    uint16_t n;     /* how many texts end here */
    uint8_t byte;
    uint8_t depth; /* 1 for the first byte */
};

struct token_trie {
    uint32_t n_nodes, n_ids, n_vocab;
    struct trie_node *nodes;
    int32_t *ids;
    uint64_t has_byte[4]; /* bit b: a text is the byte b alone */
    const char **text;    /* [n_vocab] the bytes behind an id, borrowed; NULL when it is left out */
    uint8_t *len;         /* [n_vocab] */
    uint32_t *marks;      /* [n_vocab / 32 + 1] bits of ids that are no text; they have a name in
                           * `text`, and no node. NULL: there are none */
};

struct trie_text {
    const char *bytes;
    uint32_t n;
    int32_t id;
    bool is_mark; /* no text: `bytes` is its name */
};

/* From texts in any order, which are sorted in place; empty and too long ones are left out. Ids
 * are below n_vocab, or below the largest one + 1 where that is more. */
int token_trie_create(struct token_trie **out, struct trie_text *texts, size_t n,
                      uint32_t n_vocab);
/* From all tokens that are text; those that control, end a generation or are unused are marks. */
int token_trie_of(struct token_trie **out, const struct tokenizer *t);
void token_trie_destroy(struct token_trie **t);

#endif
