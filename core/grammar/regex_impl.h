/* core/grammar/regex_impl.h - what the files of regular expressions share.
 *
 * regex_parse.c reads the notation into a tree, regex_class.c knows the classes that have names;
 * regex.c writes the tree as pieces, or, where a piece cannot say it (look-around, words, anchors
 * inside), has regex_expr.c make an expression of it (expr.h).
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
    REGEX_SEQUENCE = 0, /* first and those behind it; none is the empty text */
    REGEX_CHOICE,       /* of first and those behind it */
    REGEX_CHAR,         /* min is the character */
    REGEX_CLASS,        /* ranges[min .. min + max - 1] */
    REGEX_REPEAT,       /* of first */
    REGEX_LOOK,         /* first; min: enum regex_look */
    REGEX_BEGIN,
    REGEX_END,
    REGEX_WORD_EDGE, /* min: 1 = must be none */
};

enum regex_look {
    LOOK_NOT = 1u << 0,
    LOOK_BEHIND = 1u << 1,
};

struct regex_node {
    uint8_t kind;
    uint32_t first, next; /* a member, and what stands behind this one; or REGEX_NOTHING */
    uint32_t min, max;
};

struct regex {
    struct reader r;
    struct regex_node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct char_range *ranges;
    uint32_t n_ranges, cap_ranges;
    struct regex_node *root; /* of a tree that is whole */
    bool needs_expr;         /* no piece can say it */
};

/* The tree of the text; errors are the builder's. Released in any case. */
void regex_parse(struct regex *re, struct grammar_builder *b, const char *text, size_t n,
                 unsigned flags);
void regex_release(struct regex *re);
/* The class of a CHAR or CLASS. */
void regex_class_of(const struct regex *re, const struct regex_node *n, struct char_class *c);

/* ---- regex_expr.c ---- */

/* The texts that match: as a whole, or, with REGEX_SEARCH, with the rest around. */
uint32_t regex_expr(struct regex *re, struct expr_set *e);

/* ---- regex_class.c ---- */

/* The class behind \d, \D and so on. `wide`: it stands in a negated class, so that whatever may
 * belong to it has to be in it. False: the letter names no class. */
bool regex_add_letter(struct char_class *c, char letter, bool wide);
/* The class behind \p or \P, with the reader at the brace. */
void regex_add_property(struct reader *r, struct char_class *c, bool negated, bool wide);
/* What \b takes for a word. */
void regex_word_class(struct char_class *c);
/* What a dot is. */
void regex_dot(struct char_class *c);

#endif
