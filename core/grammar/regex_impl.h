/* core/grammar/regex_impl.h - shared by the files of regular expressions.
 *
 * regex_parse.c reads the notation into a tree, regex_class.c has the classes with names; regex.c
 * writes the tree as pieces, or, where a piece cannot express it (look-around, words, anchors
 * inside), lets regex_expr.c make an expression of it (expr.h).
 *
 * Thread: one owner.
 * Memory: in proportion to the text and the ranges of its classes.
 */
#ifndef CORE_GRAMMAR_REGEX_IMPL_H
#define CORE_GRAMMAR_REGEX_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/grammar/char_class.h"
#include "core/grammar/expr.h"
#include "core/grammar/reader.h"
#include "core/grammar/regex.h"

#define REGEX_NOTHING UINT32_MAX
#define REGEX_MAX_NODES (1u << 19)

enum regex_kind {
    REGEX_SEQUENCE = 0, /* `first` and its successors, in a row; NOTHING: the empty text */
    REGEX_CHOICE,       /* one of `first` and its successors */
    REGEX_CHAR,         /* min is the character */
    REGEX_CLASS,        /* ranges[min .. min + max - 1] */
    REGEX_REPEAT,       /* `first`, min to max times */
    REGEX_LOOK,         /* look-around for `first`; min: enum regex_look */
    REGEX_BEGIN,
    REGEX_END,
    REGEX_WORD_EDGE, /* min: 1 = \B */
};

enum regex_look {
    LOOK_NOT = 1u << 0,
    LOOK_BEHIND = 1u << 1,
};

struct regex_node {
    uint8_t kind;
    uint32_t first, next; /* number of the node's first member and of its successor; or
                           * REGEX_NOTHING */
    uint32_t min, max;
};

struct regex {
    struct reader r;
    struct regex_node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct char_range *ranges;
    uint32_t n_ranges, cap_ranges;
    struct regex_node *root; /* set when the whole text was read */
    bool needs_expr;         /* pieces cannot express the tree: regex_expr.c must */
};

/* Parses the text into a tree; errors are the builder's. The caller releases it even then. */
void regex_parse(struct regex *re, struct grammar_builder *b, const char *text, size_t n,
                 unsigned flags);
void regex_release(struct regex *re);
/* Fills an empty class with the characters of a CHAR or CLASS. */
void regex_class_of(const struct regex *re, const struct regex_node *n, struct char_class *c);

/* ---- regex_expr.c ---- */

/* Returns the texts that match as a whole or, with REGEX_SEARCH, that contain a match. */
uint32_t regex_expr(struct regex *re, struct expr_set *e);

/* ---- regex_class.c ---- */

/* Adds the class of \d, \D and so on. `wide`: it stands in a negated class, so all characters that
 * may belong to it are added. False: the letter names no class. */
bool regex_add_letter(struct char_class *c, char letter, bool wide);
/* Adds the class of \p or \P; the reader stands at the brace. */
void regex_add_property(struct reader *r, struct char_class *c, bool negated, bool wide);
/* Adds the characters that \b takes for a word's, sorted. */
void regex_word_class(struct char_class *c);
/* Fills an empty class with the characters that a dot matches. */
void regex_dot(struct char_class *c);

#endif
