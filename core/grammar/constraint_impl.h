/* core/grammar/constraint_impl.h - shared by the files of a constraint.
 *
 * constraint_places.c lists the places of a grammar, constraint_probe.c computes for each the
 * tokens that fit whatever the rest of the stack is, constraint_mask.c merges these into masks,
 * constraint.c creates and frees. (XGrammar calls this the adaptive token mask cache, and the
 * tokens context-independent.)
 *
 * A place is a node and the top of the stack: either anything (the node is in a rule that was
 * called, or in the first rule), or the count of a loop over the body that the node is in. All
 * loops over one body share its places: whether a token fits depends on the iterations that are
 * left when it begins, and on how many more it begins.
 *
 * Thread, Memory: see constraint.h.
 */
#ifndef CORE_GRAMMAR_CONSTRAINT_IMPL_H
#define CORE_GRAMMAR_CONSTRAINT_IMPL_H

#include <stdatomic.h>

#include "core/base/budget.h"
#include "core/grammar/constraint.h"
#include "core/grammar/constraint_walk.h"
#include "core/grammar/grammar.h"
#include "core/grammar/token_trie.h"

#define PLACE_NO_LOOP UINT32_MAX
#define PLACE_LEVELS 17   /* each number of iterations left below this has a mask of its own */
#define PLACE_FEW 1024    /* up to so many tokens are kept only as a list */
#define PLACE_MANY 60000  /* a place with more tokens that leave its rule is not kept */
#define STATE_MAX_FRAMES 1024

/* The tokens that fit at a place. A token that begins `more` further iterations fits where as many
 * are left; ids are in ascending order of `more`. */
struct place {
    uint32_t n_ids, n_words;
    int32_t *ids;                      /* [n_ids]; NULL if `all` is enough */
    uint32_t upto[TOKEN_TRIE_MAX_BYTES + 1]; /* upto[n]: number of ids that begin at most n
                                              * iterations */
    uint32_t *all;                     /* [n_words] mask of all ids; NULL: there is only the list */
    uint32_t *levels;                  /* [PLACE_LEVELS][n_words] where a count matters, or NULL */
    /* The remaining bytes of tokens that leave the rule: the trie's ids are indices of out_*. */
    struct token_trie *rest;           /* or NULL */
    int32_t *out_ids;
    uint8_t *out_more;
};

struct place_key {
    uint32_t node, loop; /* the body's rule, or PLACE_NO_LOOP */
};

struct place_entry {
    struct place_key key;
    uint32_t place; /* index + 1 in constraint.places, 0 = not precomputed */
    bool is_used, is_target;
};

/* All places by key: open addressing. */
struct place_map {
    struct place_entry *slots;
    uint32_t n, cap;
};

struct constraint {
    _Atomic uint32_t n_refs;
    struct grammar *g;
    const struct token_trie *trie;
    struct byte_set bytes; /* bytes that are tokens of the vocabulary */
    uint16_t *needs;       /* [n_nodes] */
    struct place_map map;
    struct place *places;
    uint32_t n_places, cap_places;
    uint32_t deepest; /* stack entries that a token at a place needs at most */
    size_t bytes_used;
};

struct constraint_state {
    const struct constraint *c;
    uint32_t n_readings, n_frames;
    uint8_t last;           /* latest byte of the text, or 0 */
    struct byte_set spaced; /* bytes that had a space after them the last time */
    struct reading readings[CONSTRAINT_MAX_READINGS];
    struct frame frames[STATE_MAX_FRAMES];
};

struct constraint_scratch {
    struct walk *walk;
};

/* Like constraint_create(), with a threshold: places whose walk takes fewer than `worth_it` steps
 * are not precomputed. */
int constraint_make(struct constraint **out, struct grammar *g, const struct token_trie *trie,
                    uint32_t worth_it, struct budget *budget, char *err, size_t err_len);

/* Copies the state's readings and frames to the beginning of the walk's. */
void constraint_load(const struct constraint_state *s, struct walk *w);

/* Lists all places that a text can reach. ERR_NOMEM, ERR_LIMIT, ERR_CANCELED. */
int places_list(struct place_map *map, const struct grammar *g, struct budget *budget);
void places_release(struct place_map *map);
struct place_entry *places_find(const struct place_map *map, struct place_key key);

/* Computes the bytes that can follow the end of each rule [n_rules], and those that can follow the
 * last iteration of each repeated rule [n_rules]; a set may have too many bytes, never too few. */
int places_follow(const struct grammar *g, struct byte_set *behind_rule,
                  struct byte_set *behind_loop, struct budget *budget);

/* Computes the tokens that fit at each place from which a walk along all tokens takes `worth_it`
 * steps or more. ERR_NOMEM, ERR_LIMIT, ERR_CANCELED. */
int probe_places(struct constraint *c, uint32_t worth_it, struct budget *budget, char *err,
                 size_t err_len);
void place_release(struct place *p);

#endif
