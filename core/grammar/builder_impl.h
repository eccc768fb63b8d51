/* core/grammar/builder_impl.h - shared by the files that build a grammar.
 *
 * builder.c makes pieces, chars.c spells characters, finish.c checks the grammar and lays it out.
 *
 * Thread: one owner.
 * Memory: see builder.h.
 */
#ifndef CORE_GRAMMAR_BUILDER_IMPL_H
#define CORE_GRAMMAR_BUILDER_IMPL_H

#include "core/grammar/builder.h"

/* More than a grammar may have: finish.c drops JUMPs and nodes that no rule reaches. */
#define BUILD_MAX_NODES (4 * GRAMMAR_MAX_NODES)
#define BUILD_MAX_SETS 4096
#define BUILD_SET_SLOTS (2 * BUILD_MAX_SETS)
#define NOWHERE UINT32_MAX

struct built_rule {
    char *name;
    uint32_t start; /* NOWHERE until it is defined */
    bool is_free;   /* see struct grammar_rule */
};

struct grammar_builder {
    struct grammar_node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct byte_set sets[BUILD_MAX_SETS];
    uint32_t n_sets;
    uint32_t slots[BUILD_SET_SLOTS]; /* open addressing: index + 1 of a set, 0 = empty */
    struct built_rule *rules;
    uint32_t n_rules, cap_rules;
    struct grammar_repeat *repeats;
    uint32_t n_repeats, cap_repeats;
    struct budget *budget; /* borrowed, or NULL */
    int error;
    char sentence[200];
};

/* Makes a node and returns its index; 0 after an error. */
uint32_t builder_node(struct grammar_builder *b, enum grammar_kind kind, uint32_t arg,
                      uint32_t next, uint32_t other);
/* Returns the index of the set; equal sets share one. */
uint32_t builder_set(struct grammar_builder *b, const struct byte_set *set);
/* Returns the piece of all nodes made since index `from`. */
struct grammar_piece builder_piece(struct grammar_builder *b, uint32_t from, uint32_t start,
                                   uint32_t end);
/* Doubles the array if it has no room for one more element; ERR_LIMIT beyond `max`, where `what`
 * names the elements. */
int builder_grow(struct grammar_builder *b, void **array, uint32_t n, uint32_t *cap, size_t bytes,
                 uint32_t max, const char *what);

#endif
