/* tests/check/rows.h - what the checks of recurrent kernels share: matrices at the end of their
 * memory, with room between their rows.
 *
 * Thread: one.
 * Memory: as check_alloc()'s.
 */
#ifndef TESTS_CHECK_ROWS_H
#define TESTS_CHECK_ROWS_H

#include "tests/check/check.h"

struct rows {
    float *p;
    size_t stride;
    size_t n; /* numbers in all */
};

/* Make rows in memory for outputs (is_out), or for inputs. */
struct rows rows_of(struct check *c, size_t n_row, size_t width, bool is_out);
/* Inputs, normally distributed. */
struct rows rows_filled(struct check *c, size_t n_row, size_t width, float scale);
/* An output with the same numbers. */
struct rows rows_copy(const struct rows *r);
/* Fill rows with numbers from 0 to most, or from -most to -0.01. */
void rows_positive(struct check *c, const struct rows *r, float most);
void rows_negative(struct check *c, const struct rows *r, float most);
/* A state in panels: normally distributed but for the columns that fill up the last one, which are
 * 0 (and stay so); and where it has a number. */
struct rows rows_state(struct check *c, size_t n_row, size_t n_column, float scale);
size_t rows_place(size_t row, size_t column, size_t n_row);
/* The outputs must be equal and the guard whole. */
void rows_same(struct check *c, const struct rows *got, const struct rows *want, const char *what);

/* A number beside its formula; scale: of what it is a sum of. */
void rows_near(struct check *c, float got, double want, double scale, const char *what);

/* A kernel that takes rows in order and keeps a state, and a call of it, whose results go where
 * `out`, `out_stride` and `state` point to. */
struct scan {
    void *call;
    float **out, **state;
    size_t *out_stride;
    size_t n_row, width;    /* of out; the state has as many columns */
    size_t n_state;         /* rows of the state */
    float fill;             /* its numbers are about so large */
    void (*run)(const struct kern_table *k, const void *call);
    void (*cut)(struct check *c, const void *call); /* in two halves */
    void (*formula)(struct check *c, const void *call, const struct rows *before);
};
/* The scalar body beside the formula, the tested one beside that, and both halves. */
void rows_scan(struct check *c, const struct scan *s);

/* Numbers as models have them, or around the widths of vectors. */
uint32_t rows_width(struct check *c, uint32_t most);
uint32_t rows_count(struct check *c);

#endif
