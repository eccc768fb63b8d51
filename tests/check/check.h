/* tests/check/check.h - what the kernel checks share.
 *
 * Each line of kernels.inc is checked on each ISA: the scalar body against a formula in double,
 * by tolerance; the others against scalar, bit for bit (two NaNs are equal). Products and attention
 * meet all levels with the same inputs, for which scalar is asked once, for that takes most of the
 * time; others are called once for each level. Inputs and outputs end at an unreadable page, so
 * that a byte read or written past the end faults; outputs are surrounded by a pattern that must
 * survive.
 *
 * Thread: one.
 * Memory: check_alloc() lives until check_free_all(), called after every kernel.
 */
#ifndef TESTS_CHECK_CHECK_H
#define TESTS_CHECK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

#define CHECK_COUNT(array) (sizeof(array) / sizeof *(array))

#define CHECK_MOST_LEVELS 5

struct check {
    const struct kern_table *ref;  /* scalar */
    const struct kern_table *test; /* the ISA under test: check_level() sets both */
    enum kern_isa isa;
    struct kern_table tables[CHECK_MOST_LEVELS];
    enum kern_isa levels[CHECK_MOST_LEVELS];
    unsigned n_levels;
    uint64_t rng;
    unsigned n_fail; /* of this kernel; only the first few are printed */
    unsigned every;  /* of the cases that take long, one in so many */
    unsigned n_case; /* of them so far */
};

/* Zeroed bytes that end (up to `align`) at an unreadable page. */
void *check_alloc(size_t bytes, size_t align);
/* Memory as from check_alloc(), with room before it that holds a known pattern. */
void *check_out(size_t bytes, size_t align);
/* Refill an output (and its surroundings) with the pattern. */
void check_refill(void *out, size_t bytes);
/* Is the pattern before the output whole? (Behind it is the page's end.) */
bool check_guard(const void *out);
/* Is a byte range still the pattern? */
bool check_untouched(const void *p, size_t bytes);
void check_free_all(void);

uint32_t check_rand(struct check *c);
uint32_t check_below(struct check *c, uint32_t n);
float check_uniform(struct check *c, float lo, float hi);
float check_normal(struct check *c); /* roughly: a sum of uniforms, variance 1 */
void check_fill(struct check *c, float *x, size_t n, float scale);

/* Go to level i of those that the kernel is checked at; false when there are not so many. */
bool check_level(struct check *c, unsigned i);

/* Is a case that takes long one of those that are checked? All are, unless --every says so. */
bool check_is_due(struct check *c);

/* Count a failure unless `ok`; prints the kernel, the ISA and the message. */
bool check_that(struct check *c, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The first index at which the arrays differ, or n. */
size_t check_diff(const float *a, const float *b, size_t n);

/* Independent of kernels/: IEEE half as a double. */
double check_half(uint16_t h);

/* Sizes around every vector width. */
extern const size_t check_sizes[];
extern const size_t check_n_sizes;

/* One per line of kernels.inc. */
void check_gemm(struct check *c, enum kern_weight w);
#define KERN_GEMM(weight, name)
#define KERN_OP(member, result, params) void check_##member(struct check *c);
#include "kernels/kernels.inc"

/* Rows of several sequences over what they share; a part of each check_attn_*(). */
void check_attn_cascade(struct check *c, enum kern_kv kv);

/* Functions outside the table; scalar only. */
void check_pack(struct check *c, enum kern_weight w);
void check_exp(struct check *c);
void check_log(struct check *c);
void check_isa(struct check *c);

#endif
