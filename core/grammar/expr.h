/* core/grammar/expr.h - sets of texts as expressions with "and" and "not", and their automaton.
 *
 * A grammar has no intersection and no complement. A set of texts that needs one (look-around, a
 * pattern beside a length, keys that match one pattern and not another) is written as an expression
 * here: equal expressions are one node, and the derivatives of an expression by its characters, of
 * which there are finitely many, are the states of a deterministic automaton (Brzozowski). Each
 * state becomes a rule that ends with the call of the next, so nothing goes on the stack.
 *
 * Thread: one owner.
 * Memory: bounded by EXPR_MAX_NODES, EXPR_MAX_STATES and EXPR_MAX_RANGES; the builder is borrowed.
 * Errors: the builder's (ERR_LIMIT: too large, or no steps left; ERR_INVAL: no text matches). After
 * an error every expression is EXPR_NONE.
 */
#ifndef CORE_GRAMMAR_EXPR_H
#define CORE_GRAMMAR_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/grammar/builder.h"
#include "core/grammar/char_class.h"

#define EXPR_MAX_NODES (1u << 16)
#define EXPR_MAX_STATES 8192
#define EXPR_MAX_CLASSES 128  /* different classes */
#define EXPR_MAX_RANGES 16384 /* ranges of all classes together */

struct expr_set;

enum expr_constant {
    EXPR_NONE = 0, /* no text */
    EXPR_EMPTY,    /* the empty text */
    EXPR_ALL,      /* any text */
};

/* Creates a set of expressions whose texts consist of characters of `alphabet`. */
int expr_create(struct expr_set **out, struct grammar_builder *b,
                const struct char_class *alphabet);
void expr_destroy(struct expr_set **e);

/* Makes the expression of one character of the class, which must be sorted. */
uint32_t expr_class(struct expr_set *e, const struct char_class *c);
uint32_t expr_any(struct expr_set *e); /* one character */
uint32_t expr_text(struct expr_set *e, const char *text);
uint32_t expr_then(struct expr_set *e, uint32_t a, uint32_t b);
uint32_t expr_or(struct expr_set *e, uint32_t a, uint32_t b);
uint32_t expr_and(struct expr_set *e, uint32_t a, uint32_t b);
uint32_t expr_not(struct expr_set *e, uint32_t a);
uint32_t expr_repeat(struct expr_set *e, uint32_t a, uint32_t min, uint32_t max);
/* Makes a placeholder that expr_say() fills in later; its expression may contain it, after at least
 * one character. */
uint32_t expr_later(struct expr_set *e, bool has_empty_text);
void expr_say(struct expr_set *e, uint32_t later, uint32_t a);

bool expr_has_empty(const struct expr_set *e, uint32_t a); /* true: the empty text matches */

/* The functions below seal the set: afterwards expr_class() makes no new class. */
bool expr_matches(struct expr_set *e, uint32_t a, const char *text);
/* True: no text matches. Explores the automaton as expr_piece() does. */
bool expr_is_none(struct expr_set *e, uint32_t a);
/* Writes the expression as a piece; is_json: characters are spelled as in a JSON string. */
struct grammar_piece expr_piece(struct expr_set *e, uint32_t a, bool is_json);
/* Like expr_piece(), but an expression that no text matches is not an error: returns false. Also
 * returns false for any error of the builder. */
bool expr_piece_or_none(struct expr_set *e, uint32_t a, bool is_json, struct grammar_piece *out);

#endif
