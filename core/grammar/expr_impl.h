/* core/grammar/expr_impl.h - shared by the files of expressions.
 *
 * expr.c makes expressions, expr_derive.c cuts the alphabet into atoms and derives,
 * expr_automaton.c explores and writes the rules.
 *
 * Thread: one owner. Memory: see expr.h.
 */
#ifndef CORE_GRAMMAR_EXPR_IMPL_H
#define CORE_GRAMMAR_EXPR_IMPL_H

#include "core/grammar/expr.h"

#define EXPR_SLOTS (2 * EXPR_MAX_NODES)
#define EXPR_MAX_DERIVED (1u << 17) /* cached derivatives */
#define EXPR_MAX_ATOMS 256
#define EXPR_MAX_DEPTH 3000   /* nesting; a derivative recurses so deep */
#define EXPR_MAX_MEMBERS 1024 /* members of one "or" or "and" */

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
    uint32_t max;  /* REPEAT: at most so often; the minimum is b */
};

struct expr_range { /* characters that no class tells apart */
    uint32_t from, to;
    uint32_t atom;
};

struct expr_class_ranges {
    uint32_t from, n; /* pool[from .. from + n - 1] */
};

struct expr_derived {    /* the derivative of a node by an atom */
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
    /* filled in by expr_seal() */
    bool is_sealed;
    struct expr_range *ranges; /* ascending */
    uint32_t n_ranges, n_atoms;
    uint64_t atoms[EXPR_MAX_ATOMS][EXPR_MAX_CLASSES / 64]; /* the classes that contain the atom */
    struct expr_derived *derived;                          /* [2 * EXPR_MAX_DERIVED] */
    uint32_t n_derived;
};

bool expr_has_failed(const struct expr_set *e);
/* Returns the number of the node; an equal one that exists is reused. */
uint32_t expr_node(struct expr_set *e, struct expr_node node);
/* Cuts the alphabet into atoms: sets of characters that no class tells apart. False: an error. */
bool expr_seal(struct expr_set *e);
uint32_t expr_derive(struct expr_set *e, uint32_t n, uint32_t atom);
/* Returns the atom of a character; UINT32_MAX: it is not in the alphabet. */
uint32_t expr_atom_of(const struct expr_set *e, uint32_t character);

#endif
