/* core/runtime/cascade.h - which rows of a step have the first blocks of their tables in common.
 *
 * Sequences with a common prefix have the same blocks at the head of their block tables. Attention
 * of their rows over these is done together, so that the keys and values are read once for all of
 * them (cascade attention). Only whole softmax segments that lie before a span's first row are
 * shared: all rows see all of them, and since segments are merged in ascending order whoever
 * computes them, no bit changes.
 *
 * Sequences sorted by their tables have their common prefixes beside each other. A group is a run
 * of them of which each has the first segment in common with the next; within it prefixes form a
 * tree, and a run is the part of a tree's branch that the same sequences share.
 *
 * Thread: cascade_find() by the engine thread; read-only during the step.
 * Memory: taken in cascade_create().
 * Time: O(n log n) comparisons of tables and moves of O(n^2) words, n being the spans that decode.
 */
#ifndef CORE_RUNTIME_CASCADE_H
#define CORE_RUNTIME_CASCADE_H

#include <stdbool.h>
#include <stdint.h>

struct batch;
struct kern_attn_row; /* kernels/kernels.h */

#define CASCADE_ROWS 16 /* most rows of a span that takes part: what decoding and drafts have */

struct cascade_member {
    uint32_t span;
    uint32_t row0;   /* its rows are rows[row0] and those after it, as many as the span has */
    uint32_t shared; /* segments that runs of its group cover */
};

struct cascade_run { /* segments seg0 .. seg1 - 1 of rows[row0] .. rows[row0 + n_row - 1] */
    uint32_t row0, n_row;
    uint32_t seg0, seg1;
    uint32_t span; /* one of those that have them: its table leads there */
};

struct cascade_group {
    uint32_t member0, n_members; /* two at least */
    uint32_t run0, n_runs;
    uint32_t row0, n_rows;
};

struct cascade {
    struct cascade_member *members; /* sorted by their tables */
    struct cascade_run *runs;
    struct cascade_group *groups;
    uint32_t n_groups;
    struct kern_attn_row *rows; /* of the members, in their order; .row is the batch's */
    /* private */
    uint32_t max_rows;
    uint32_t n_tables; /* a span's first so many tables must agree */
    uint32_t n_runs, n_rows;
    uint32_t *common;  /* [max_rows + 1] segments that member i has in common with the one before */
    uint32_t *open;    /* [max_rows + 1] members where the runs begin that are not closed yet */
    uint32_t *depths;  /* [max_rows + 1] the segments where these end */
};

/* n_tables: block tables of groups of layers that see all tokens; they come first in a span's.
 * 0 or ERR_NOMEM with everything released. */
int cascade_create(struct cascade *c, uint32_t max_rows, uint32_t n_tables);
void cascade_release(struct cascade *c);

/* The groups of this batch. */
void cascade_find(struct cascade *c, const struct batch *b);

#endif
