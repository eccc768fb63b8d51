/* core/tokenizer/thousands.h - cuts numbers into groups of three digits, counted from the right.
 *
 * As a pattern this is \d{1,3}(?=(\d{3})*\b) or the like, and matching it looks at the rest of the
 * number for each group; counting the digits of a number once does the same in linear time.
 *
 * Thread: one owner.
 * Memory: none.
 */
#ifndef CORE_TOKENIZER_THOUSANDS_H
#define CORE_TOKENIZER_THOUSANDS_H

#include <stddef.h>
#include <stdint.h>

enum thousands_kind {
    THOUSANDS_ALL = 1, /* any run of \p{N} */
    THOUSANDS_ALONE,   /* runs of \d that no letter follows */
    THOUSANDS_BETWEEN, /* does not match digits: cuts the text wherever 3, 6, ... digits follow */
};

struct thousands {      /* the caller zeroes all but `steps` when the text, or its end, changes */
    size_t first, last; /* the counted run of digits, [first, last) */
    size_t left;        /* digits of the run that are not cut yet */
    uint64_t steps;     /* characters looked at */
};

/* Return the end of the group that begins at `from`, or SPLIT_NONE, like split_pattern_match().
 * Calls go from left to right, each from the end of a group. */
size_t thousands_match(struct thousands *t, enum thousands_kind kind, const char *text, size_t n,
                       size_t from);

#endif
