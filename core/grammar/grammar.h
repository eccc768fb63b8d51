/* core/grammar/grammar.h - the texts that a constraint allows, as a pushdown automaton over bytes.
 *
 * A grammar is a list of nodes. A rule is entered at its first node and left at an END; in between,
 * nodes take a byte of a set, branch, call a rule, or repeat one a counted number of times, so that
 * x{0,10000} is as small as x{0,3}. Characters are spelled as UTF-8, so any text that matches is
 * well formed. Three properties hold for each grammar that exists:
 *   - no rule can come back to itself without taking a byte (left recursion is refused), so
 *     finitely many nodes are reached without a byte;
 *   - every rule is defined, and the first one matches some text that is not empty;
 *   - a counted repetition whose body may be empty has a minimum of 0.
 *
 * Thread: read-only once made, so threads share it through the constraint that owns it.
 * Memory: bounded by GRAMMAR_MAX_NODES.
 */
#ifndef CORE_GRAMMAR_GRAMMAR_H
#define CORE_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAMMAR_MAX_NODES (1u << 17)
#define GRAMMAR_MAX_RULES (1u << 14)
#define GRAMMAR_MAX_REPEAT 100000u /* largest count that may be written down */
#define GRAMMAR_NO_LIMIT UINT32_MAX
/* Limits of the walk that follows a text through a grammar (constraint.h). */
#define CONSTRAINT_MAX_DEPTH 256    /* frames of a stack */
#define CONSTRAINT_MAX_READINGS 256 /* readings of the text so far */

enum grammar_kind {
    GRAMMAR_BYTE = 0, /* a byte of byte_sets[arg], then next */
    GRAMMAR_SPLIT,    /* next or other */
    GRAMMAR_CALL,     /* the rule that begins at other, then next */
    GRAMMAR_REPEAT,   /* the loop at other, with a count of 0 on the stack */
    GRAMMAR_LOOP,     /* the count on the stack: once more from other, or pop it and next */
    GRAMMAR_END,      /* the rule ends: pop the stack */
    GRAMMAR_JUMP,     /* next; only while a grammar is being built */
};

enum grammar_flags {
    GRAMMAR_IS_TAIL = 1u << 0, /* a CALL that ends its rule: it pushes nothing */
};

struct grammar_node {
    uint8_t kind;  /* enum grammar_kind */
    uint8_t flags; /* enum grammar_flags */
    uint16_t rule; /* the rule that the node belongs to */
    uint32_t arg;  /* BYTE: index of the set; CALL: the rule; LOOP: index of the repetition */
    uint32_t next, other;
};

struct byte_set {
    uint64_t bits[4];
};

struct grammar_repeat {
    uint32_t min, max; /* max may be GRAMMAR_NO_LIMIT */
    uint32_t body;     /* the rule that is repeated */
};

struct grammar_rule {
    uint32_t start;        /* its first node */
    struct byte_set first; /* bytes that a text of the rule can begin with */
    bool is_nullable;      /* true: the empty text matches */
    bool is_free;          /* text before any trigger of a lazy grammar (lazy.h) */
    uint32_t probe; /* for a rule that is repeated, a LOOP of it without limits that no node leads
                     * to and that leads to no other rule; else GRAMMAR_NO_LIMIT */
};

struct grammar {
    uint32_t n_nodes, n_sets, n_rules, n_repeats;
    uint32_t first_probe; /* nodes from here on are the probes */
    struct grammar_node *nodes;
    struct byte_set *sets;
    struct grammar_rule *rules; /* a text begins with the first rule */
    struct grammar_repeat *repeats;
};

void grammar_destroy(struct grammar **g);

static inline bool byte_set_has(const struct byte_set *s, uint8_t byte)
{
    return s->bits[byte >> 6] >> (byte & 63) & 1;
}

static inline void byte_set_add(struct byte_set *s, uint8_t byte)
{
    s->bits[byte >> 6] |= (uint64_t)1 << (byte & 63);
}

static inline void byte_set_remove(struct byte_set *s, uint8_t byte)
{
    s->bits[byte >> 6] &= ~((uint64_t)1 << (byte & 63));
}

static inline void byte_set_merge(struct byte_set *to, const struct byte_set *from)
{
    for (int i = 0; i < 4; i++)
        to->bits[i] |= from->bits[i];
}

/* Adds to *first the bytes that can come next from a node within its rule, and sets *nullable if
 * the rule may end there. `seen` is n_nodes zeros, and zeros again afterwards; `todo` has n_nodes
 * entries. Returns how many nodes were visited. */
uint32_t grammar_first(const struct grammar *g, uint32_t node, struct byte_set *first,
                       bool *nullable, uint8_t *seen, uint32_t *todo);

/* Computes for each node how many more stack entries its rule needs to reach its end, if it spells
 * with `bytes` alone; GRAMMAR_HOPELESS: it cannot end. 0 or ERR_NOMEM. */
#define GRAMMAR_HOPELESS UINT16_MAX
int grammar_needs(const struct grammar *g, const struct byte_set *bytes, uint16_t *needs);

#endif
