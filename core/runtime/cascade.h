/* core/runtime/cascade.h - which rows of a step have the first blocks of their tables in common.
 *
 * Sequences with a common prefix have the same blocks at the head of their block tables. Attention
 * of their rows over these blocks is done together, so that the keys and values are read once for
 * all of them (cascade attention). Only whole softmax segments that lie before a span's first row
 * are shared: all rows see all of them, and since segments are merged in ascending order whichever
 * thread computes them, no bit changes.
 *
 * Spans sorted by their tables have their common prefixes beside each other. A group is a run of
 * spans each of which shares the first segment with the next; within a group prefixes form a tree,
 * and a run is the part of a branch that the same spans share.
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

#define CASCADE_ROWS 16 /* most rows of a span that takes part: enough for decoding and drafts */

struct cascade_member {
    uint32_t span;
    uint32_t row0;   /* first of the span's rows in rows[] */
    uint32_t shared; /* segments that runs of the member's group cover */
};

struct cascade_run { /* segments seg0 .. seg1 - 1 of rows[row0] .. rows[row0 + n_row - 1] */
    uint32_t row0, n_row;
    uint32_t seg0, seg1;
    uint32_t span; /* a span that has these segments: its table leads to them */
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
    struct kern_attn_row *rows; /* rows of the members, in their order; .row is the batch's */
    /* private */
    uint32_t max_rows;
    uint32_t n_tables; /* number of block tables, from the first, that must agree */
    uint32_t n_runs, n_rows;
    uint32_t *common;  /* [max_rows + 1] segments that member i has in common with the one before */
    uint32_t *open;    /* [max_rows + 1] stack: first members of the open runs */
    uint32_t *depths;  /* [max_rows + 1] stack: segments where the open runs end */
};

/* n_tables: block tables of those groups of layers that see all tokens; they are the first tables
 * of a span. Returns 0, or ERR_NOMEM with everything released. */
int cascade_create(struct cascade *c, uint32_t max_rows, uint32_t n_tables);
void cascade_release(struct cascade *c);

/* Find the groups of this batch. */
void cascade_find(struct cascade *c, const struct batch *b);

#endif
