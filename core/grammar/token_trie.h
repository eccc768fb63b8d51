/* core/grammar/token_trie.h - a trie of the texts of all tokens.
 *
 * Nodes are in depth-first order: the subtree of node i is nodes i to nodes[i].end - 1, and
 * skipping it is one step. A node is one byte; the texts that end there have their ids in
 * ids[nodes[i].first .. + nodes[i].n - 1].
 *
 * A control token stands for no text, and yet a grammar may want it: there it is its name between
 * two bytes TOKEN_TRIE_MARK. No text in UTF-8 has that byte, so nothing but the token itself spells
 * it, and a text that has the name of one in it stays text.
 *
 * Thread: read-only once made.
 * Memory: about 14 bytes for each distinct prefix. The texts' bytes are borrowed, but for the names
 * of control tokens as a grammar has them.
 */
#ifndef CORE_GRAMMAR_TOKEN_TRIE_H
#define CORE_GRAMMAR_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_TRIE_MAX_BYTES 128 /* longer texts are left out */
#define TOKEN_TRIE_MARK 0xFF     /* around the name of a control token */

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
                           * `text`. NULL: there are none */
    char *names;          /* [n_names] of control tokens, as a grammar has them; their `text` is
                           * there, between the two bytes */
    size_t n_names;
};

struct trie_text {
    const char *bytes;
    uint32_t n;
    int32_t id;
    bool is_mark; /* no text: `bytes` is its name */
};

/* From texts in any order, which are sorted in place; left out are empty and too long ones, and
 * those with the byte TOKEN_TRIE_MARK, but for one that is a name between two of them. Ids are
 * below n_vocab, or below the largest one + 1 where that is more. */
int token_trie_create(struct token_trie **out, struct trie_text *texts, size_t n, uint32_t n_vocab);
/* From all tokens that are text; those that control, end a generation or are unused are marks. */
int token_trie_of(struct token_trie **out, const struct tokenizer *t);
void token_trie_destroy(struct token_trie **t);

/* The name of a control token as a grammar has it, of *n bytes; NULL: it has none. */
const char *token_trie_name(const struct token_trie *t, int32_t id, uint32_t *n);
/* The child of a node (UINT32_MAX: of the root) with that byte, or n_nodes. */
uint32_t token_trie_child(const struct token_trie *t, uint32_t node, uint8_t byte);
/* Bytes of the longest name of a control token that the text begins with, 0: it begins with none.
 * Those that end a generation are none, for a grammar ends before them. */
size_t token_trie_mark_at(const struct token_trie *t, const char *text);

#endif
