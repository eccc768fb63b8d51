/* core/runtime/cascade.h - finds the rows of a step whose block tables begin with the same blocks.
 *
 * Sequences with a common prefix have the same blocks at the head of their block tables. Their rows
 * attend to these blocks together, so that the keys and values are read once for all of them
 * (cascade attention). Only whole softmax segments before a span's first row are shared: every row
 * sees all of them, and segments are merged in ascending order whichever thread computes them, so
 * no bit changes.
 *
 * Spans are sorted by their tables, so spans with a common prefix are neighbours. A group is a row
 * of neighbours that all share the first segment; within a group the prefixes form a tree, and a
 * run is the part of a branch that the same spans share.
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

#define CASCADE_ROWS 16 /* spans with more rows are not grouped; decoding with drafts needs fewer */

struct cascade_member {
    uint32_t span;
    uint32_t row0;   /* first of the span's rows in rows[] */
    uint32_t shared; /* number of the member's first segments that runs of its group cover */
};

struct cascade_run { /* segments seg0 .. seg1 - 1 of rows[row0] .. rows[row0 + n_row - 1] */
    uint32_t row0, n_row;
    uint32_t seg0, seg1;
    uint32_t span; /* one of the spans that share these segments; the kernel reads its block
                    * table */
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
    struct kern_attn_row *rows; /* rows of the members, in the members' order; .row is an index into
                                 * the batch's rows */
    /* private */
    uint32_t max_rows;
    uint32_t n_tables; /* number of a span's first block tables that must be equal */
    uint32_t n_runs, n_rows;
    uint32_t *common;  /* [max_rows + 1] segments that member i has in common with the one before */
    uint32_t *open;    /* [max_rows + 1] stack: the first member of each open run */
    uint32_t *depths;  /* [max_rows + 1] stack: the segment where each open run ends */
};

/* n_tables: number of layer groups without a window; their block tables are a span's first. Returns
 * 0, or ERR_NOMEM with everything released. */
int cascade_create(struct cascade *c, uint32_t max_rows, uint32_t n_tables);
void cascade_release(struct cascade *c);

/* Fill members, runs, groups and rows for this batch. */
void cascade_find(struct cascade *c, const struct batch *b);

#endif
