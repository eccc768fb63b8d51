/* core/runtime/split_kv.h - cuts the attention of a step into work items for the threads.
 *
 * An item is a tile of query rows of one span, for each KV head, over a run of softmax segments,
 * usually all of them. When few sequences with long contexts would leave threads idle, an item of
 * more than a thread's share of the step is cut between segments (flash decoding, split KV). The
 * pieces leave softmax states in `parts`: the piece that begins at segment 0 one state for all its
 * segments, the others one state for each segment. One thread merges them in ascending order
 * afterwards. So a split never changes a result (kernels.h, kern_attn.part).
 *
 * Decoding sequences with the same first blocks in their tables (cascade.h) share the items of
 * these blocks: rows of several spans over the same segments. The segments that only one sequence
 * sees are an item of that sequence, and its states are merged in the same way. Where many query
 * heads share a KV head (more than GROUP_HEADS), no items are shared: their time is arithmetic, not
 * memory, so that sharing would save nothing.
 *
 * Thread: split_kv_make() by the engine thread; the cut is read-only during the step.
 * Memory: taken in split_kv_create(); `parts` is mapped, so pages cost RAM when first used.
 */
#ifndef CORE_RUNTIME_SPLIT_KV_H
#define CORE_RUNTIME_SPLIT_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/runtime/cascade.h"

struct batch;

/* Most rows of an item. Times any number of heads they fill tiles of 16, 12 and 6 queries well, and
 * their queries and sums fit into the second-level cache together with a segment's keys and
 * values. */
#define ATTN_ROWS 24

struct attn_item {
    uint32_t span, from, n;  /* rows from .. from + n - 1 of the span */
    uint32_t seg0, seg1;     /* segments seg0 .. seg1 - 1 are attended to */
    float *part;             /* [n_kv_head][part_rows][heads of one KV head] softmax states; the
                              * item's begin at row part_row. NULL: the item is not split */
    uint32_t part_row, part_rows;
    size_t part_stride;      /* floats from one query to the next */
    uint32_t n_merged;       /* the first n_merged segments, all of one item, leave one state */
    const struct kern_attn_row *rows; /* NULL, or [n] rows of several spans that all see the
                                       * segments as `span` does; `from` is unused then */
};

/* A row of the batch whose segments were split; its n_state states must be merged. */
struct attn_split {
    uint32_t row, n_state;
    const float *part;       /* the states of its item's queries */
    uint32_t i_row, n_row;   /* the row is number i_row of the item's n_row rows */
    size_t part_stride;
};

struct split_kv_options {
    uint32_t max_rows, threads;
    uint32_t n_ctx;           /* longest sequence */
    uint32_t n_head, n_kv_head, value_dim;
    uint32_t window;          /* tokens that a row sees; 0: all before it. Windows are not split */
    bool is_chunked;          /* windows begin at multiples of their size; no item crosses such a
                               * border */
    bool is_encoder;          /* each row of a span sees the whole span */
    uint32_t n_tables;        /* as in cascade.h; 0: do not look for shared prefixes */
};

struct split_kv {
    struct attn_item *items;
    uint32_t n_items;
    struct attn_split *splits;
    uint32_t n_splits;
    uint32_t n_grouped_rows; /* rows that share items with those of other spans */
    /* private */
    struct split_kv_options options;
    struct cascade cascade;
    uint8_t *is_grouped;        /* [max_rows] by span: true: the items of a group cover it */
    float *parts;
    size_t n_parts, parts_used; /* floats */
};

/* 0 or ERR_NOMEM with everything released. */
int split_kv_create(struct split_kv *c, const struct split_kv_options *options);
void split_kv_release(struct split_kv *c);

/* Fill items and splits for this batch. */
void split_kv_make(struct split_kv *c, const struct batch *b);

#endif
