/* core/grammar/token_trie.h - a trie of the texts of all tokens.
 *
 * Nodes are in depth-first order: the subtree of node i is nodes i to nodes[i].end - 1, and
 * skipping it is one step. A node is one byte; the texts that end there have their ids in
 * ids[nodes[i].first .. + nodes[i].n - 1].
 *
 * A control token stands for no text, but a grammar may ask for it: the grammar spells it as its
 * name between two bytes TOKEN_TRIE_MARK. UTF-8 never has that byte, so only the token itself can
 * spell it, and a text that contains the name of a control token stays text.
 *
 * Thread: read-only once made.
 * Memory: about 14 bytes for each distinct prefix. The texts' bytes are borrowed, except the names
 * of control tokens as a grammar spells them.
 */
#ifndef CORE_GRAMMAR_TOKEN_TRIE_H
#define CORE_GRAMMAR_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_TRIE_MAX_BYTES 128 /* longer texts are left out */
#define TOKEN_TRIE_MARK 0xFF     /* stands around the name of a control token */

struct tokenizer;

struct trie_node {
    uint32_t end;   /* the first node after the subtree */
    uint32_t first; /* index in ids[] of the node's first id; the subtree's ids follow it */
    uint16_t n;     /* number of texts that end at this node */
    uint8_t byte;
    uint8_t depth; /* number of bytes from the root: 1 for the first byte */
};

struct token_trie {
    uint32_t n_nodes, n_ids, n_vocab;
    struct trie_node *nodes;
    int32_t *ids;
    uint64_t has_byte[4]; /* bit b: the single byte b is a text */
    const char **text;    /* [n_vocab] the bytes of a token, borrowed; NULL when it is left out */
    uint8_t *len;         /* [n_vocab] */
    uint32_t *marks;      /* [n_vocab / 32 + 1] bits of tokens that are not text; their `text` is a
                           * name. NULL: there are none */
    char *names;          /* [n_names] names of control tokens as a grammar spells them; their
                           * `text` points between the two marks */
    size_t n_names;
};

struct trie_text {
    const char *bytes;
    uint32_t n;
    int32_t id;
    bool is_mark; /* the token is not text: `bytes` is its name */
};

/* Makes a trie of texts in any order, which it sorts in place. It leaves out empty and too long
 * texts, and those with the byte TOKEN_TRIE_MARK, unless they are a name between two of them. Ids
 * are below n_vocab, or below the largest one + 1 where that is more. */
int token_trie_create(struct token_trie **out, struct trie_text *texts, size_t n, uint32_t n_vocab);
/* Makes a trie of all tokens that are text; control, end-of-generation and unused tokens become
 * marks. */
int token_trie_of(struct token_trie **out, const struct tokenizer *t);
void token_trie_destroy(struct token_trie **t);

/* Returns the name of a control token as a grammar spells it, of *n bytes; NULL: it has none. */
const char *token_trie_name(const struct token_trie *t, int32_t id, uint32_t *n);
/* Returns the child of a node (UINT32_MAX: the root) with that byte, or n_nodes. */
uint32_t token_trie_child(const struct token_trie *t, uint32_t node, uint8_t byte);
/* Returns the length of the longest name of a control token that the text begins with; 0: there is
 * none. Names of end-of-generation tokens do not count, because a grammar ends before them. */
size_t token_trie_mark_at(const struct token_trie *t, const char *text);

#endif
