/* core/grammar/expr_impl.h - what the files of expressions share.
 *
 * expr.c makes expressions, expr_derive.c tells characters apart and derives, expr_automaton.c
 * explores and writes the rules.
 *
 * Thread: one owner. Memory: see expr.h.
 */
#ifndef CORE_GRAMMAR_EXPR_IMPL_H
#define CORE_GRAMMAR_EXPR_IMPL_H

#include "core/grammar/expr.h"

#define EXPR_SLOTS (2 * EXPR_MAX_NODES)
#define EXPR_MAX_DERIVED (1u << 17) /* derivatives that are kept */
#define EXPR_MAX_ATOMS 256
#define EXPR_MAX_DEPTH 3000   /* of expressions within each other, as far as a derivative goes */
#define EXPR_MAX_MEMBERS 1024 /* of one "or" or "and" */

enum expr_kind {
    KIND_NONE,
    KIND_EMPTY,
    KIND_CLASS,
    KIND_THEN,
    KIND_OR,
    KIND_AND,
    KIND_NOT,
    KIND_REPEAT,
    KIND_LATER
};

struct expr_node {
    uint8_t kind;   /* enum expr_kind */
    bool has_empty; /* the empty text is one of its texts */
    uint16_t depth;
    uint32_t a, b; /* OR and AND: a member, and the others, whose numbers are higher */
    uint32_t max;  /* REPEAT: b times at least */
};

struct expr_range { /* characters that no class tells apart */
    uint32_t from, to;
    uint32_t atom;
};

struct expr_class_ranges {
    uint32_t from, n; /* in `pool` */
};

struct expr_derived {    /* a derivative */
    uint32_t node, atom; /* node 0: an empty slot */
    uint32_t is;
};

struct expr_set {
    struct grammar_builder *b;
    struct expr_node *nodes;
    uint32_t n_nodes, cap_nodes;
    uint32_t *slots; /* [EXPR_SLOTS] open addressing: index + 1 of a node */
    struct char_range *pool;
    uint32_t n_pool;
    struct expr_class_ranges classes[EXPR_MAX_CLASSES];
    uint32_t n_classes;
    /* once it is sealed */
    bool is_sealed;
    struct expr_range *ranges; /* ascending */
    uint32_t n_ranges, n_atoms;
    uint64_t atoms[EXPR_MAX_ATOMS][EXPR_MAX_CLASSES / 64]; /* the classes that have it */
    struct expr_derived *derived;                          /* [2 * EXPR_MAX_DERIVED] */
    uint32_t n_derived;
};

bool expr_has_failed(const struct expr_set *e);
/* The node, made unless it exists. */
uint32_t expr_node(struct expr_set *e, struct expr_node node);
/* Tells the characters apart; false: an error. */
bool expr_seal(struct expr_set *e);
uint32_t expr_derive(struct expr_set *e, uint32_t n, uint32_t atom);
/* UINT32_MAX: not of the alphabet. */
uint32_t expr_atom_of(const struct expr_set *e, uint32_t character);

#endif
