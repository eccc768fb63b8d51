/* core/grammar/constraint_sets.h - numbered sets of readings, and a table of the steps between
 * them: a lazily built DFA.
 *
 * After most bytes of most texts the same few sets of readings come up. Each gets a number, on a
 * stack of which only the top is known, and the step from a set by a byte is stored once it was
 * computed. So a walk along the whole vocabulary is a table lookup per byte.
 *
 * Thread: one owner.
 * Memory: fixed; when it is full the table is cleared and all numbers become invalid.
 */
#ifndef CORE_GRAMMAR_CONSTRAINT_SETS_H
#define CORE_GRAMMAR_CONSTRAINT_SETS_H

#include "core/grammar/constraint_impl.h"

#define SETS_DEAD 0 /* the empty set */

struct numbered {     /* a set of readings, and facts about it */
    uint32_t from, n; /* the set's readings are pool[from .. from + n - 1] */
    uint32_t row;     /* index + 1 of its row of steps, 0 = none yet */
    uint8_t more;     /* the fewest iterations that a reading has begun */
    uint8_t n_exits, exits[WALK_MAX_EXITS]; /* iterations begun by readings that leave the rule */
    bool is_vague;    /* more exits than fit */
    struct byte_set first;
};

struct sets;

int sets_create(struct sets **out, const struct constraint *c);
void sets_destroy(struct sets **s);
void sets_clear(struct sets *s);

/* Returns the number of the set of one reading: the place, on an empty stack. */
uint16_t sets_start(struct sets *s, struct place_key key);
/* Returns the set that the byte leads to; SETS_DEAD also if the table has become full. */
uint16_t sets_step(struct sets *s, uint16_t set, uint8_t byte);

const struct numbered *sets_at(const struct sets *s, uint16_t set);
bool sets_are_full(const struct sets *s);
const uint64_t *sets_n_steps(const struct sets *s); /* steps spent on filling the table */
const struct walk *sets_walk(const struct sets *s);

#endif
