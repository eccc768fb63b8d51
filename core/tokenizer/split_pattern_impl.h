/* core/tokenizer/split_pattern_impl.h - a compiled split pattern, for its compiler and its matcher.
 *
 * Every set of characters has a number, and the sets that contain a character are a word of bits:
 * looked up by character for ASCII, and by general category for all others. A set that differs
 * within a category (ranges, scripts) is evaluated each time.
 *
 * Thread: read-only once compiled.
 * Memory: part of the pattern.
 */
#ifndef CORE_TOKENIZER_SPLIT_PATTERN_IMPL_H
#define CORE_TOKENIZER_SPLIT_PATTERN_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/split_pattern.h"

#define SPLIT_MAX_SETS 32
#define SPLIT_MAX_STEPS 96
#define SPLIT_MAX_RANGES 256
#define SPLIT_MAX_ENDINGS 16
#define SPLIT_N_CATEGORIES 32
/* U+0085 is a space and, by category, a control character: it gets a category of its own. */
#define SPLIT_NEXT_LINE 30

enum split_step_kind {
    SPLIT_END = 0,   /* end of the alternative: it matches */
    SPLIT_SET,       /* min to max characters of the set */
    SPLIT_ENDINGS,   /* one of the endings; optional if min is 0 */
    SPLIT_NO_LETTER, /* (?!\S): the end, or a space */
    SPLIT_AT_END,    /* $ */
};

struct split_step {
    enum split_step_kind kind;
    uint32_t min, max;
    uint32_t set;          /* bit of the set */
    uint32_t first, count; /* endings of the step */
};

struct split_range {
    uint32_t from, to;
};

struct split_set {
    uint32_t categories; /* bit i: the set contains category i */
    uint32_t first, n;   /* ranges of the set */
    bool negated;
    bool with_han, without_han;
};

struct split_ending {
    char text[4]; /* the ending, in lower case */
    uint32_t len;
};

struct split_pattern {
    uint32_t ascii[128];                      /* the sets of each ASCII character, as bits */
    uint32_t by_category[SPLIT_N_CATEGORIES]; /* the sets of other characters, except those in
                                               * `asked` */
    uint32_t asked;                           /* sets that are evaluated for each character, as
                                               * bits */
    uint32_t starts[128];                     /* alternatives that can begin with this character, as
                                               * bits */
    uint32_t all;                             /* all alternatives */
    uint32_t space;                           /* the bit of \s */
    struct split_step steps[SPLIT_MAX_STEPS];
    uint32_t choices[SPLIT_MAX_CHOICES]; /* the first step of each alternative */
    struct split_set sets[SPLIT_MAX_SETS];
    struct split_range ranges[SPLIT_MAX_RANGES];
    struct split_ending endings[SPLIT_MAX_ENDINGS];
    uint32_t n_steps, n_choices, n_sets, n_ranges, n_endings;
};

/* Return the number of a character's category, below SPLIT_N_CATEGORIES. */
uint32_t split_category(uint32_t character);
bool split_set_has(const struct split_pattern *p, const struct split_set *set, uint32_t character);

#endif
