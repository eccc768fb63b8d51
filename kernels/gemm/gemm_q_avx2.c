/* kernels/gemm/gemm_q_avx2.c - products with quantised weights without VNNI.
 *
 * vpmaddubsw adds two products of unsigned by signed bytes in 16 bits, vpmaddwd with ones the two
 * halves of a lane in 32. Codes of up to 5 bits are summed over a group of 32 in 16 bits, codes of
 * 6 bits over a half of 16, because the sums start at minus what the codes' offset adds
 * (gemm_q_avx2_rows.inc); with 8 bits not even two products fit. So 8-bit weights are widened to 16
 * bits, once for all rows of the tile, and are multiplied by activations that were widened when
 * repacked. A panel's 16 lanes are two registers.
 *
 * Rows are repacked in blocks that stay in the second-level cache, in chunks of columns such that
 * the part of one tile stays in the first. Few rows take a panel as it is; from ready_from() rows
 * on its columns are unpacked once for all tiles of the block. Either way each tile prefetches its
 * share of the panel that comes next. Between chunks the sums are stored in `out`.
 */
#include <immintrin.h>
#include <stdalign.h>
#include <string.h>

#include "kernels/gemm/codebook.h"
#include "kernels/gemm/gemm_common.h"
#include "kernels/gemm/gemm_q_avx2_codes.inc"
#include "kernels/gemm/gemm_q_avx2_rows.inc"
#include "kernels/gemm/gemm_q_avx2_dot.inc"

#define READY_FROM 17        /* least rows for which unpacking a panel pays off, ... */
#define READY_FROM_DEAR 9    /* ... and the same for types that take long to unpack */
#define READY_BYTES 18944    /* bytes of a ready panel: with a tile's rows, the first-level cache */
#define BLOCK_ROWS 96        /* rows in X_BYTES: half of the second-level cache of common CPUs */
#define X_BYTES (120 * 1024) /* 96 rows in the longest chunk: 32 groups of 40 bytes */
#define PACKED_ROWS 4        /* most rows of a tile that unpacks as it multiplies; a ready panel's
                              * tile has MOST_ROWS */
#define PACKED_X (24 * 1024) /* bytes of the repacked rows of a tile of PACKED_ROWS */

_Static_assert((READY_FROM - 1) / PACKED_ROWS * PACKED_X <= X_BYTES, "a block of few rows fits");

/* One tile of rows against one panel or more, over one chunk of columns. */
struct tile {
    float *out;
    const float *next_out; /* `out` of the next tile */
    size_t out_stride;
    const uint8_t *x;
    const uint8_t *w;     /* the first panel at the chunk's first column */
    const uint8_t *ready; /* the same columns unpacked, or NULL */
    size_t panel_bytes;
    size_t cols;
    bool first;    /* the sums start at zero, not at `out` */
    size_t share;   /* this tile prefetches group number `share` of the next panel, ... */
    size_t n_share; /* ... and every n_share-th after it */
};

GEMM_INLINE float *sum_at(const struct tile *t, size_t i, const size_t P)
{
    return t->out + i / 2 / P * t->out_stride + 16 * (i / 2 % P) + 8 * (i % 2);
}

GEMM_INLINE void load_sums(__m256 *s, const struct tile *t, const size_t T, const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++)
        s[i] = t->first ? _mm256_setzero_ps() : _mm256_loadu_ps(sum_at(t, i, P));
}

GEMM_INLINE void store_sums(const __m256 *s, const struct tile *t, const size_t T, const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++)
        _mm256_storeu_ps(sum_at(t, i, P), s[i]);
}

/* Prefetch the next tile's sums. They are one cache line in each row, which no hardware prefetcher
 * predicts. */
GEMM_INLINE void fetch_sums(const struct tile *t, const size_t T)
{
    GEMM_UNROLL
    for (size_t r = 0; r < T; r++)
        __builtin_prefetch(t->next_out + r * t->out_stride, 1, 3);
}

/* Multiply T rows by P panels, or by one ready panel. */
GEMM_INLINE void run(const enum kern_weight w, const struct tile *t, const bool ready,
                     const size_t T, const size_t P)
{
    const struct shape q = shape_of(w);
    const uint8_t *packed = t->w;
    const uint8_t *unpacked = t->ready;
    struct group v = {.ready = ready, .panel_bytes = t->panel_bytes, .x = t->x};
    size_t until = t->share;
    __m256 s[ACC];

    load_sums(s, t, T, P);
    fetch_sums(t, T);
    for (size_t c = 0; c < t->cols; c += 32 * q.groups, packed += q.bytes) {
        const uintptr_t next = (uintptr_t)packed + P * t->panel_bytes;

        if (t->share == 0)
            gemm_fetch(next, t->panel_bytes, q.codes, P);
        for (v.g = 0; v.g < q.groups; v.g++, v.x += row_bytes(w) * T) {
            if (until-- == 0) {
                gemm_fetch(next + q.codes + q.step * v.g, t->panel_bytes, q.step, P);
                until = t->n_share - 1;
            }
            v.codes = ready ? unpacked : packed + q.codes + q.step * v.g;
            v.head = ready ? unpacked + ready_codes(w) : packed;
            v.f = v.x + row_codes(w) * T;
            add_group(w, s, &v, T, P);
            unpacked += ready ? ready_bytes(w) : 0;
        }
    }
    store_sums(s, t, T, P);
}

/* Return the least number of rows for which a panel is unpacked once. Expensive types are those
 * whose codes are in several places or are looked up in a table. */
GEMM_INLINE size_t ready_from(const enum kern_weight w)
{
    switch (w) {
    case KERN_Q8_0:
    case KERN_Q4_0:
    case KERN_Q4_1:
    case KERN_Q4_K:
    case KERN_TQ2_0:
    case KERN_Q2_0:
    case KERN_Q1_0:
    case KERN_IQ1_S:
        return READY_FROM;
    default:
        return READY_FROM_DEAR;
    }
}

/* The functions and sizes of a weight type. */
struct kind {
    enum kern_weight weight;
    size_t ready_from;  /* rows */
    size_t x_bytes;     /* bytes of a repacked row's group */
    size_t ready_bytes; /* bytes of an unpacked group */
    void (*pack_x)(uint8_t *dst, const struct gemm_rows *rows);
    void (*make_ready)(uint8_t *dst, const uint8_t *panel, size_t cols);
    void (*packed[PACKED_ROWS])(const struct tile *t); /* tiles that unpack as they multiply, by
                                                        * number of rows - 1 */
    void (*pair)(const struct tile *t);                /* one row, two panels */
    void (*ready[MOST_ROWS])(const struct tile *t);    /* 4 rows or more */
};

/* The block of rows that is repacked, and the product that it is part of. */
struct job {
    const struct kind *kind;
    struct gemm_rows rows; /* all rows, and the chunk of columns */
    size_t r0;             /* first row of the block */
    size_t n_row;
    size_t n_tile;
    uint8_t *x;
    uint8_t *ready; /* NULL: few rows */
};

static size_t tile_start(const struct job *b, size_t i)
{
    return i * b->n_row / b->n_tile;
}

static uint8_t *tile_x(const struct job *b, size_t i)
{
    return b->x + tile_start(b, i) * (b->rows.cols / 32) * b->kind->x_bytes;
}

static void pack_block(const struct job *b)
{
    struct gemm_rows rows = b->rows;

    for (size_t i = 0; i < b->n_tile; i++) {
        rows.x = b->rows.x + (b->r0 + tile_start(b, i)) * rows.stride;
        rows.m = tile_start(b, i + 1) - tile_start(b, i);
        b->kind->pack_x(tile_x(b, i), &rows);
    }
}

/* Run all tiles of the block over the panels of `t`. */
static void run_tiles(const struct job *b, struct tile t, size_t n_panels)
{
    float *const out = t.out;

    if (b->ready)
        b->kind->make_ready(b->ready, t.w, t.cols);
    t.n_share = b->n_tile;
    for (size_t i = 0; i < b->n_tile; i++) {
        const size_t rows = tile_start(b, i + 1) - tile_start(b, i);

        t.x = tile_x(b, i);
        t.out = out + tile_start(b, i) * t.out_stride;
        t.next_out = i + 1 < b->n_tile ? t.out + rows * t.out_stride : out + 16 * n_panels;
        t.share = i;
        if (b->ready)
            b->kind->ready[rows - 1](&t);
        else if (n_panels == 2)
            b->kind->pair(&t);
        else
            b->kind->packed[rows - 1](&t);
    }
}

/* Multiply one chunk of the block by all panels. A single row takes two panels at once: with one,
 * the sums would wait for each other. */
static void run_block(const struct job *b, float *out, size_t out_stride, const uint8_t *panels,
                      size_t n_panels)
{
    const size_t panel_bytes = kern_panel_bytes(b->kind->weight, b->rows.k);
    const size_t at_once = b->n_row == 1 ? 2 : 1;
    struct tile t = {.out_stride = out_stride,
                     .ready = b->ready,
                     .panel_bytes = panel_bytes,
                     .cols = b->rows.cols,
                     .first = b->rows.c0 == 0};

    pack_block(b);
    for (size_t p = 0; p < n_panels;) {
        const size_t n = n_panels - p < at_once ? 1 : at_once;

        t.w = panels + p * panel_bytes + kern_panel_bytes(b->kind->weight, b->rows.c0);
        t.out = out + b->r0 * out_stride + 16 * p;
        run_tiles(b, t, n);
        p += n;
    }
}

/* Run a product of any number of rows. Takes 139 KiB of stack. */
static void drive(const struct kind *kind, float *out, size_t out_stride, struct gemm_rows rows,
                  const uint8_t *panels, size_t n_panels)
{
    alignas(64) uint8_t x[X_BYTES];
    alignas(64) uint8_t ready[READY_BYTES];
    const bool few = rows.m < kind->ready_from;
    const size_t height = few ? PACKED_ROWS : MOST_ROWS;
    const size_t n_block = (rows.m + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const size_t groups = few ? PACKED_X / (kind->x_bytes * gemm_min(rows.m, PACKED_ROWS))
                              : gemm_min(READY_BYTES / kind->ready_bytes,
                                         X_BYTES / BLOCK_ROWS / kind->x_bytes);
    const size_t chunk = groups / 8 * 256;
    struct job b = {.kind = kind, .x = x, .ready = few ? NULL : ready};

    for (rows.c0 = 0; rows.c0 < rows.k; rows.c0 += chunk) {
        rows.cols = gemm_min(chunk, rows.k - rows.c0);
        for (size_t i = 0; i < n_block; i++) {
            b.rows = rows;
            b.r0 = i * rows.m / n_block;
            b.n_row = (i + 1) * rows.m / n_block - b.r0;
            b.n_tile = (b.n_row + height - 1) / height;
            run_block(&b, out, out_stride, panels, n_panels);
        }
    }
}

#define TILE(name, type, form, is_ready, T, P)                                                     \
    static void name##_##form##_##T(const struct tile *t)                                          \
    {                                                                                              \
        run(type, t, is_ready, T, P);                                                              \
    }

#define QUANTISED_KIND(type, name)                                                                 \
    TILE(name, type, packed, false, 1, 1)                                                          \
    TILE(name, type, packed, false, 2, 1)                                                          \
    TILE(name, type, packed, false, 3, 1)                                                          \
    TILE(name, type, packed, false, 4, 1)                                                          \
    TILE(name, type, pair, false, 1, 2)                                                            \
    TILE(name, type, ready, true, 4, 1)                                                            \
    TILE(name, type, ready, true, 5, 1)                                                            \
    TILE(name, type, ready, true, 6, 1)                                                            \
    static void name##_pack(uint8_t *dst, const struct gemm_rows *rows)                            \
    {                                                                                              \
        pack_rows(type, dst, rows);                                                                \
    }                                                                                              \
    static void name##_ready(uint8_t *dst, const uint8_t *panel, size_t cols)                      \
    {                                                                                              \
        ready_panel(type, dst, panel, cols);                                                       \
    }                                                                                              \
    void kern_gemm_##name##_avx2 KERN_GEMM_PARAMS                                                  \
    {                                                                                              \
        const struct kind kind = {                                                                 \
            .weight = type,                                                                        \
            .ready_from = ready_from(type),                                                        \
            .x_bytes = row_bytes(type),                                                            \
            .ready_bytes = ready_bytes(type),                                                      \
            .pack_x = name##_pack,                                                                 \
            .make_ready = name##_ready,                                                            \
            .packed = {name##_packed_1, name##_packed_2, name##_packed_3, name##_packed_4},        \
            .pair = name##_pair_1,                                                                 \
            .ready = {NULL, NULL, NULL, name##_ready_4, name##_ready_5, name##_ready_6},           \
        };                                                                                         \
        const struct gemm_rows rows = {.x = x, .stride = x_stride, .m = m, .k = k};                \
                                                                                                   \
        (void)next;                                                                                \
        drive(&kind, out, out_stride, rows, panels, n_panels);                                     \
    }

QUANTISED_KIND(KERN_Q8_0, q8_0)
QUANTISED_KIND(KERN_Q4_0, q4_0)
QUANTISED_KIND(KERN_Q4_K, q4_k)
QUANTISED_KIND(KERN_Q6_K, q6_k)
QUANTISED_KIND(KERN_Q4_1, q4_1)
QUANTISED_KIND(KERN_Q5_0, q5_0)
QUANTISED_KIND(KERN_Q5_1, q5_1)
QUANTISED_KIND(KERN_Q5_K, q5_k)
QUANTISED_KIND(KERN_Q3_K, q3_k)
QUANTISED_KIND(KERN_Q2_K, q2_k)
QUANTISED_KIND(KERN_IQ4_NL, iq4_nl)
QUANTISED_KIND(KERN_IQ4_XS, iq4_xs)
QUANTISED_KIND(KERN_MXFP4, mxfp4)
QUANTISED_KIND(KERN_TQ2_0, tq2_0)
QUANTISED_KIND(KERN_IQ3_S, iq3_s)
QUANTISED_KIND(KERN_IQ3_XXS, iq3_xxs)
QUANTISED_KIND(KERN_IQ2_XS, iq2_xs)
QUANTISED_KIND(KERN_IQ2_XXS, iq2_xxs)
QUANTISED_KIND(KERN_IQ1_S, iq1_s)
QUANTISED_KIND(KERN_IQ1_M, iq1_m)
QUANTISED_KIND(KERN_Q2_0, q2_0)
QUANTISED_KIND(KERN_Q1_0, q1_0)
QUANTISED_KIND(KERN_NVFP4, nvfp4)
QUANTISED_KIND(KERN_IQ4_K, iq4_k)
QUANTISED_KIND(KERN_IQ3_K, iq3_k)
QUANTISED_KIND(KERN_IQ2_K, iq2_k)
QUANTISED_KIND(KERN_IQ6_K, iq6_k)
QUANTISED_KIND(KERN_IQ5_K, iq5_k)
QUANTISED_KIND(KERN_IQ5_KS, iq5_ks)
QUANTISED_KIND(KERN_IQ4_KS, iq4_ks)

/* Types with other files but the same panels. */
GEMM_SAME(kern_gemm_tq1_0_avx2, kern_gemm_tq2_0_avx2)
GEMM_SAME(kern_gemm_iq2_s_avx2, kern_gemm_iq2_xs_avx2)
