/* core/grammar/char_class.h - a set of characters as ranges of code points.
 *
 * Thread: one owner.
 * Memory: a fixed number of ranges; a range beyond it sets `is_full`, and the caller refuses the
 * class.
 */
#ifndef CORE_GRAMMAR_CHAR_CLASS_H
#define CORE_GRAMMAR_CHAR_CLASS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/grammar/builder.h"

#define CHAR_CLASS_MAX 2048 /* \p{L} without unassigned characters has 1,300 */
#define CHAR_LAST 0x10FFFFu

struct char_class { /* all zero: the empty class */
    struct char_range at[CHAR_CLASS_MAX];
    uint32_t n;
    bool is_full;
};

/* Empties the class; a new one that is not zeroed must begin with this. */
void char_class_clear(struct char_class *c);
void char_class_add(struct char_class *c, uint32_t from, uint32_t to);
void char_class_merge(struct char_class *c, const struct char_class *more);
/* Sorts the ranges and joins those that touch. */
void char_class_sort(struct char_class *c);
/* Replaces the set by all other characters, sorted. */
void char_class_negate(struct char_class *c);
void char_class_remove(struct char_class *c, uint32_t from, uint32_t to);
bool char_class_has(const struct char_class *c, uint32_t character);

#endif
