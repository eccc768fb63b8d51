/* core/grammar/char_class.h - a set of characters as ranges of code points.
 *
 * Thread: one owner.
 * Memory: a fixed number of ranges; what is more sets `is_full`, for the caller to refuse.
 */
#ifndef CORE_GRAMMAR_CHAR_CLASS_H
#define CORE_GRAMMAR_CHAR_CLASS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/grammar/builder.h"

#define CHAR_CLASS_MAX 2048 /* \p{L} without what is unassigned has 1,300 */
#define CHAR_LAST 0x10FFFFu

struct char_class { /* zero is the empty class */
    struct char_range at[CHAR_CLASS_MAX];
    uint32_t n;
    bool is_full;
};

/* What a new one must begin with, unless it is zero. */
void char_class_clear(struct char_class *c);
void char_class_add(struct char_class *c, uint32_t from, uint32_t to);
void char_class_merge(struct char_class *c, const struct char_class *more);
/* Ascending, with no two ranges that touch. */
void char_class_sort(struct char_class *c);
/* All other characters. */
void char_class_negate(struct char_class *c);
void char_class_remove(struct char_class *c, uint32_t from, uint32_t to);
bool char_class_has(const struct char_class *c, uint32_t character);

#endif
