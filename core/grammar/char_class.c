/* core/grammar/char_class.c - a set of characters as an array of ranges.
 *
 * char_class_add() only appends; char_class_sort() joins ranges. The complement consists of the
 * gaps between sorted ranges, and removal is built on it: A without B is not(not(A) or B). A class
 * is an array of 16 KiB on the caller's stack, so it is cleared by its count and never zeroed.
 */
#include "core/grammar/char_class.h"

#include <stdlib.h>
#include <string.h>

void char_class_clear(struct char_class *c)
{
    c->n = 0;
    c->is_full = false;
}

void char_class_add(struct char_class *c, uint32_t from, uint32_t to)
{
    if (c->n == CHAR_CLASS_MAX)
        c->is_full = true;
    else
        c->at[c->n++] = (struct char_range){from, to};
}

void char_class_merge(struct char_class *c, const struct char_class *more)
{
    for (uint32_t i = 0; i < more->n; i++)
        char_class_add(c, more->at[i].from, more->at[i].to);
    c->is_full = c->is_full || more->is_full;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct char_range *x = a, *y = b;

    return (x->from > y->from) - (x->from < y->from);
}

void char_class_sort(struct char_class *c)
{
    uint32_t n = 0;

    qsort(c->at, c->n, sizeof(c->at[0]), compare_ranges);
    for (uint32_t i = 0; i < c->n; i++) {
        if (n > 0 && c->at[i].from <= c->at[n - 1].to + 1) {
            if (c->at[i].to > c->at[n - 1].to)
                c->at[n - 1].to = c->at[i].to;
        } else {
            c->at[n++] = c->at[i];
        }
    }
    c->n = n;
}

void char_class_negate(struct char_class *c)
{
    struct char_class all;
    uint32_t from = 0;

    char_class_clear(&all);
    all.is_full = c->is_full;
    char_class_sort(c);
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->at[i].from > from)
            char_class_add(&all, from, c->at[i].from - 1);
        from = c->at[i].to + 1;
    }
    if (from <= CHAR_LAST)
        char_class_add(&all, from, CHAR_LAST);
    memcpy(c->at, all.at, all.n * sizeof(all.at[0]));
    c->n = all.n;
    c->is_full = all.is_full;
}

void char_class_remove(struct char_class *c, uint32_t from, uint32_t to)
{
    char_class_negate(c);
    char_class_add(c, from, to);
    char_class_negate(c);
}

bool char_class_has(const struct char_class *c, uint32_t character)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->at[i].from <= character && character <= c->at[i].to)
            return true;
    return false;
}
