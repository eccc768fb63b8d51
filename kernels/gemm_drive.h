/* kernels/gemm_drive.h - how a product is cut into tiles, for all vector bodies.
 *
 * Columns are cut in chunks such that a tile's activations, repacked, stay in the first-level
 * cache; panels in runs such that a chunk of them stays in the second-level cache while every
 * tile of rows passes over it. Between chunks the sums rest in `out`, so each element stays one
 * chain and no cut shows in the result.
 *
 * Thread: any.
 * Memory: 24 KiB of stack.
 */
#ifndef KERNELS_GEMM_DRIVE_H
#define KERNELS_GEMM_DRIVE_H

#include <stdalign.h>
#include <string.h>

#include "kernels/kern_internal.h"

#define GEMM_INLINE static inline __attribute__((always_inline))
#ifdef __SANITIZE_ADDRESS__ /* unrolled bodies with every access checked compile for minutes */
#define GEMM_UNROLL
#else
#define GEMM_UNROLL _Pragma("GCC unroll 32")
#endif

#define GEMM_X_BYTES (24 * 1024)  /* of repacked activations: most of the first-level cache */
#define GEMM_W_BYTES (256 * 1024) /* of panels: at most half of any second-level cache we meet */
#define GEMM_MIN_CHUNK 512        /* columns */

/* One tile of rows against a run of panels, over one chunk of columns. */
struct gemm_tile {
    float *out;
    size_t out_stride;
    const uint8_t *x; /* the rows' activations as the kind's pack_x laid them */
    const uint8_t *w; /* the first panel, at the chunk's first column */
    size_t panel_bytes;
    size_t n_panels;
    size_t cols;
    bool first;  /* the sums start at zero, not at `out` */
    bool stream; /* the first to read these panels: they come from memory */
};

struct gemm_rows {
    const uint8_t *x;
    size_t stride; /* bytes */
    size_t m;
    size_t k;
    size_t c0; /* the chunk */
    size_t cols;
};

struct gemm_kind {
    enum kern_weight weight;
    size_t max_tile;
    size_t x_bytes; /* repacked bytes of 32 columns of a row */
    void (*pack_x)(uint8_t *dst, const struct gemm_rows *rows);
    void (*const *tile)(const struct gemm_tile *t); /* by number of rows - 1 */
};

/* While one group of a panel is multiplied, ask for the same group of the panels that come next.
 * Later tiles find the panels in the cache; they ask for what they are reading, which is cheap. */
GEMM_INLINE uintptr_t gemm_ahead(const struct gemm_tile *t, const uint8_t *w, const size_t P)
{
    return (uintptr_t)w + (t->stream ? P * t->panel_bytes : 0);
}

GEMM_INLINE void gemm_fetch(uintptr_t ahead, size_t panel_bytes, size_t bytes, const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < P; i++)
        GEMM_UNROLL
    for (size_t j = 0; j < (bytes + 63) / 64; j++)
        __builtin_prefetch((const void *)(ahead + i * panel_bytes + 64 * j), 0, 2);
}

static inline size_t gemm_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Columns of a chunk. Every run of panels repacks all rows: with several tiles a chunk is short
 * enough for all panels to be one run, but not so short that the sums' rest in `out` costs. */
static inline size_t gemm_chunk(const struct gemm_kind *kind, size_t n_tile, size_t tallest,
                                size_t n_panels, size_t k)
{
    const size_t fits = GEMM_X_BYTES / (kind->x_bytes * tallest) * 32 / 256 * 256;
    const size_t narrow = n_panels * kern_panel_bytes(kind->weight, 256);
    const size_t one_run = GEMM_W_BYTES / narrow * 256;

    if (n_tile == 1 || one_run >= fits)
        return gemm_min(fits, k);
    return gemm_min(gemm_min(one_run > GEMM_MIN_CHUNK ? one_run : GEMM_MIN_CHUNK, fits), k);
}

static inline void gemm_drive(const struct gemm_kind *kind, float *out, size_t out_stride,
                              const void *x, size_t x_stride, size_t m, const void *panels,
                              size_t n_panels, size_t k)
{
    alignas(64) uint8_t packed[GEMM_X_BYTES];
    const size_t n_tile = (m + kind->max_tile - 1) / kind->max_tile;
    const size_t tallest = (m + n_tile - 1) / n_tile;
    const size_t chunk = gemm_chunk(kind, n_tile, tallest, n_panels, k);
    const size_t in_cache = GEMM_W_BYTES / kern_panel_bytes(kind->weight, chunk) + 1;
    const size_t run = n_tile == 1 ? n_panels : gemm_min((in_cache + 3) & ~(size_t)3, n_panels);
    struct gemm_tile t = {
        .out_stride = out_stride, .x = packed, .panel_bytes = kern_panel_bytes(kind->weight, k)};

    for (size_t p = 0; p < n_panels; p += run)
        for (size_t c0 = 0; c0 < k; c0 += chunk)
            for (size_t i = 0; i < n_tile; i++) {
                const size_t r0 = i * m / n_tile;
                const size_t rows = (i + 1) * m / n_tile - r0;
                const struct gemm_rows src = {.x = (const uint8_t *)x + r0 * x_stride,
                                              .stride = x_stride,
                                              .m = rows,
                                              .k = k,
                                              .c0 = c0,
                                              .cols = gemm_min(chunk, k - c0)};

                kind->pack_x(packed, &src);
                t.out = out + r0 * out_stride + 16 * p;
                t.w = (const uint8_t *)panels + p * t.panel_bytes +
                      kern_panel_bytes(kind->weight, c0);
                t.n_panels = gemm_min(run, n_panels - p);
                t.cols = src.cols;
                t.first = c0 == 0;
                t.stream = i == 0;
                kind->tile[rows - 1](&t);
            }
}

/* A tile of T rows takes P panels at once while it can, then single ones. */
#define GEMM_TILE(name, T, P)                                                                      \
    static void name##_##T(const struct gemm_tile *t)                                              \
    {                                                                                              \
        size_t p = 0;                                                                              \
                                                                                                   \
        for (; p + (P) <= t->n_panels; p += (P))                                                   \
            name##_run(t, p, T, P);                                                                \
        for (; (P) > 1 && p < t->n_panels; p++)                                                    \
            name##_run(t, p, T, 1);                                                                \
    }

/* The accumulators that a tile of T rows spreads over panels: as many panels as `acc` allows. */
#define GEMM_PANELS(T, acc) ((acc) >= 4 * (T) ? 4 : (acc) >= (T) ? (acc) / (T) : 1)

#define GEMM_TILES_4(name, acc)                                                                    \
    GEMM_TILE(name, 1, GEMM_PANELS(1, acc))                                                        \
    GEMM_TILE(name, 2, GEMM_PANELS(2, acc))                                                        \
    GEMM_TILE(name, 3, GEMM_PANELS(3, acc))                                                        \
    GEMM_TILE(name, 4, GEMM_PANELS(4, acc))
#define GEMM_TILES_6(name, acc)                                                                    \
    GEMM_TILES_4(name, acc)                                                                        \
    GEMM_TILE(name, 5, GEMM_PANELS(5, acc))                                                        \
    GEMM_TILE(name, 6, GEMM_PANELS(6, acc))
#define GEMM_TILES_8(name, acc)                                                                    \
    GEMM_TILES_6(name, acc)                                                                        \
    GEMM_TILE(name, 7, GEMM_PANELS(7, acc))                                                        \
    GEMM_TILE(name, 8, GEMM_PANELS(8, acc))
#define GEMM_TILES_12(name, acc)                                                                   \
    GEMM_TILES_8(name, acc)                                                                        \
    GEMM_TILE(name, 9, 1)                                                                          \
    GEMM_TILE(name, 10, 1)                                                                         \
    GEMM_TILE(name, 11, 1)                                                                         \
    GEMM_TILE(name, 12, 1)

/* The entries of a kind's tile table. */
#define GEMM_NAMES_4(name) name##_1, name##_2, name##_3, name##_4
#define GEMM_NAMES_6(name) GEMM_NAMES_4(name), name##_5, name##_6
#define GEMM_NAMES_8(name) GEMM_NAMES_6(name), name##_7, name##_8
#define GEMM_NAMES_12(name) GEMM_NAMES_8(name), name##_9, name##_10, name##_11, name##_12

/* Quantised rows, repacked: per group of 32 the codes [m][32], the scales float [m], and what
 * takes the offset out of the products, int32 [m] (twice, for halves of 16, where `halves`). */
GEMM_INLINE void gemm_pack_codes(uint8_t *dst, const struct gemm_rows *rows, int32_t offset,
                                 bool halves)
{
    const size_t m = rows->m;

    for (size_t t = 0; t < m; t++) {
        const struct kern_qrow row = kern_qrow(rows->x + t * rows->stride, rows->k);
        uint8_t *group = dst;

        for (size_t g = rows->c0 / 32; g < (rows->c0 + rows->cols) / 32; g++) {
            float *scale = (float *)(void *)(group + 32 * m);
            int32_t *bias = (int32_t *)(void *)(group + 36 * m);

            memcpy(group + 32 * t, row.code + 32 * g, 32);
            scale[t] = row.scale[g];
            if (halves) {
                bias[t] = -offset * row.sum[2 * g];
                bias[m + t] = -offset * row.sum[2 * g + 1];
            } else {
                bias[t] = -offset * (row.sum[2 * g] + row.sum[2 * g + 1]);
            }
            group += (halves ? 44 : 40) * m;
        }
    }
}

/* The same for weights with a minimum: in place of the offset, scale * sum as float [m]. */
GEMM_INLINE void gemm_pack_codes_sum(uint8_t *dst, const struct gemm_rows *rows)
{
    const size_t m = rows->m;

    for (size_t t = 0; t < m; t++) {
        const struct kern_qrow row = kern_qrow(rows->x + t * rows->stride, rows->k);
        uint8_t *group = dst;

        for (size_t g = rows->c0 / 32; g < (rows->c0 + rows->cols) / 32; g++, group += 40 * m) {
            float *scale = (float *)(void *)(group + 32 * m);

            memcpy(group + 32 * t, row.code + 32 * g, 32);
            scale[t] = row.scale[g];
            scale[m + t] = row.scale[g] * (float)(row.sum[2 * g] + row.sum[2 * g + 1]);
        }
    }
}

#endif
