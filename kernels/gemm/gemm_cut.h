/* kernels/gemm/gemm_cut.h - cuts a product into tiles that stream the weights.
 *
 * A tile is a few rows by one panel at a time, over a chunk of columns. The chunk's activations are
 * repacked, so that all the broadcasts of a tile lie at fixed distances from one address, and stay
 * in the first-level cache while a run of panels passes over them; the run stays in the
 * second-level cache while every tile of rows passes over it. Between chunks the sums are stored in
 * `out`, so each element stays one chain and cutting changes no result.
 *
 * Thread: any.
 * Memory: 28 KiB of stack.
 */
#ifndef KERNELS_GEMM_GEMM_CUT_H
#define KERNELS_GEMM_GEMM_CUT_H

#include <stdalign.h>

#include "kernels/gemm/gemm_common.h"

#define CUT_X_BYTES (27 * 1024)  /* bytes of repacked activations: most of the first-level cache */
#define CUT_MAX_COLS 1024        /* columns of a chunk, if several tiles pass over it */
#define CUT_W_BYTES (512 * 1024) /* bytes of a run of panels: half of the second-level cache of a
                                  * CPU with VNNI */
#define CUT_AHEAD 4096           /* bytes to prefetch ahead: twice what memory delivers during one
                                  * access */

/* The ranges that the caller wants prefetched, at an even pace over all tiles of a product. */
struct cut_wanted {
    const struct kern_range *range; /* the current range; n more after it */
    size_t n;
    const uint8_t *p, *end; /* the next byte to prefetch in the current range, and the range's
                             * end */
    size_t due;             /* bytes that should have been prefetched */
    size_t pace;            /* bytes for each call of cut_fetch(); 0: nothing is left */
};

/* A tile prefetches these cache lines while it multiplies: a chunk's columns, panel by panel. */
struct cut_ahead {
    const uint8_t *p;
    const uint8_t *end; /* end of the panel's columns */
    size_t whole;       /* bytes of a panel's columns */
    size_t skip;        /* bytes from the end of a panel's columns to the next panel's */
    size_t due;         /* bytes that should have been prefetched */
    size_t pace;        /* bytes to prefetch for each cut_kind.group columns that are multiplied */
    struct cut_wanted *wanted;
};

/* One tile of rows against a run of panels, over one chunk of columns. */
struct cut_tile {
    float *out;
    size_t out_stride;
    const uint8_t *x; /* the rows' activations, repacked by the kind's pack() */
    const uint8_t *w; /* the first panel, at the chunk's first column */
    size_t panel_bytes;
    size_t n_panels;
    size_t cols;
    bool first; /* the sums start at zero, not at `out` */
    struct cut_ahead ahead;
};

struct cut_kind {
    enum kern_weight weight;
    size_t group;    /* columns between two calls of cut_fetch() */
    size_t max_tile; /* rows */
    size_t low_tile; /* tiles exist for 1 .. low_tile rows and for max_tile rows */
    size_t (*room)(size_t m); /* returns how many columns of m rows fit in CUT_X_BYTES, a multiple
                               * of 256 */
    void (*pack)(uint8_t *dst, enum kern_weight w, const struct gemm_rows *rows);
    void (*const *tile)(const struct cut_tile *t); /* [rows - 1] the function of a tile of so many
                                                    * rows, or NULL */
};

static inline void cut_wanted_range(struct cut_wanted *w)
{
    while (w->p >= w->end && w->n > 0) {
        w->p = w->range->at;
        w->end = w->p + w->range->bytes;
        w->range++;
        w->n--;
    }
    if (w->p >= w->end)
        w->pace = 0;
}

/* Spread the prefetches of all ranges over n_calls of cut_fetch(). */
static inline struct cut_wanted cut_wanted(const struct kern_prefetch *ranges, size_t n_calls)
{
    struct cut_wanted w = {0};
    size_t bytes = 0;

    if (ranges == NULL)
        return w;
    for (size_t i = 0; i < ranges->n; i++)
        bytes += ranges->ranges[i].bytes;
    w.range = ranges->ranges;
    w.n = ranges->n;
    w.pace = bytes / n_calls + 1;
    cut_wanted_range(&w);
    return w;
}

GEMM_INLINE void cut_fetch_wanted(struct cut_wanted *w)
{
    size_t due = w->due + w->pace;

    for (; due >= 64; due -= 64) {
        __builtin_prefetch(w->p, 0, 2);
        w->p += 64;
        if (w->p >= w->end)
            cut_wanted_range(w);
    }
    w->due = due;
}

/* Prefetch what is due after another group was multiplied. Tiles of one or two rows use a panel's
 * bytes as fast as they arrive, so they prefetch into the first-level cache. */
GEMM_INLINE void cut_fetch(struct cut_ahead *a, const size_t T)
{
    size_t due = a->due + a->pace;

    if (a->wanted->pace > 0)
        cut_fetch_wanted(a->wanted);
    for (; due >= 64; due -= 64) {
        if (T <= 2) /* the cache level must be a constant */
            __builtin_prefetch(a->p, 0, 3);
        else
            __builtin_prefetch(a->p, 0, 2);
        a->p += 64;
        if (a->p >= a->end) {
            a->p += a->skip;
            a->end += a->whole + a->skip;
        }
    }
    a->due = due;
}

/* A lone tile prefetches what it will read itself CUT_AHEAD bytes later. Of n tiles over the same
 * run of panels, tile i prefetches its share of the next run, so that memory is busy all the time
 * and not only while the first tile runs. */
static inline struct cut_ahead cut_ahead(const struct cut_kind *kind, const struct cut_tile *t,
                                         size_t i, size_t n, const uint8_t *next,
                                         struct cut_wanted *wanted)
{
    const size_t cols_bytes = kern_panel_bytes(kind->weight, t->cols);
    struct cut_ahead a = {
        .whole = cols_bytes,
        .skip = t->panel_bytes - cols_bytes,
        .pace = kern_panel_bytes(kind->weight, 256) * kind->group / 256 / n + 1,
        .wanted = wanted,
    };

    if (n == 1) {
        a.p = t->w;
        a.end = t->w + cols_bytes;
        a.due = CUT_AHEAD;
    } else {
        const size_t from = i * t->n_panels * cols_bytes / n;
        const uint8_t *panel = next + from / cols_bytes * t->panel_bytes;

        a.p = panel + from % cols_bytes;
        a.end = panel + cols_bytes;
    }
    return a;
}

/* Says how m rows are cut into tiles: `tall` tiles of max_tile rows, if not every height exists,
 * and n tiles of about the same height. */
struct cut_heights {
    size_t tall;
    size_t n;
    size_t max; /* rows of the tallest */
};

static inline struct cut_heights cut_heights(const struct cut_kind *kind, size_t m)
{
    const size_t tall = kind->low_tile < kind->max_tile ? m / kind->max_tile : 0;
    const size_t rest = m - tall * kind->max_tile;
    const size_t n = (rest + kind->low_tile - 1) / kind->low_tile;

    return (struct cut_heights){tall, n, tall > 0 ? kind->max_tile : (rest + n - 1) / n};
}

/* All tiles of rows over one run of panels and one chunk of columns. */
struct cut_pass {
    const struct cut_kind *kind;
    struct gemm_rows x; /* all rows */
    struct cut_heights heights;
    struct cut_tile t;
    const uint8_t *next; /* the first panel of the pass that follows, at its first column */
    struct cut_wanted *wanted; /* ranges that the caller wants prefetched */
};

/* Return the first row of tile i. */
static inline size_t cut_first_row(const struct cut_pass *pass, size_t i)
{
    const struct cut_heights *h = &pass->heights;
    const size_t tall = h->tall * pass->kind->max_tile;

    if (i <= h->tall)
        return i * pass->kind->max_tile;
    return tall + (i - h->tall) * (pass->x.m - tall) / h->n;
}

static inline void cut_pass(const struct cut_pass *pass)
{
    alignas(64) uint8_t packed[CUT_X_BYTES];
    const size_t n = pass->heights.tall + pass->heights.n;

    for (size_t i = 0; i < n; i++) {
        const size_t r0 = cut_first_row(pass, i);
        struct gemm_rows rows = pass->x;
        struct cut_tile t = pass->t;

        rows.x += r0 * rows.stride;
        rows.m = cut_first_row(pass, i + 1) - r0;
        pass->kind->pack(packed, pass->kind->weight, &rows);
        t.x = packed;
        t.out += r0 * t.out_stride;
        t.ahead = cut_ahead(pass->kind, &t, i, n, pass->next, pass->wanted);
        pass->kind->tile[rows.m - 1](&t);
    }
}

static inline void cut_drive(const struct cut_kind *kind, float *out, size_t out_stride,
                             const void *x, size_t x_stride, size_t m, const void *panels,
                             size_t n_panels, size_t k, const struct kern_prefetch *next)
{
    const struct cut_heights heights = cut_heights(kind, m);
    const size_t n_tile = heights.tall + heights.n;
    const size_t fits = kind->room(heights.max);
    const size_t cols = gemm_min(n_tile > 1 ? gemm_min(fits, CUT_MAX_COLS) : fits, k);
    const size_t in_cache = CUT_W_BYTES / kern_panel_bytes(kind->weight, cols) + 1;
    const size_t run = n_tile == 1 ? n_panels : gemm_min(in_cache, n_panels);
    const size_t panel_bytes = kern_panel_bytes(kind->weight, k);
    struct cut_wanted wanted = cut_wanted(next, n_panels * n_tile * (k / kind->group + 1));
    struct cut_pass pass = {.kind = kind,
                            .wanted = &wanted,
                            .x = {.x = x, .stride = x_stride, .m = m, .k = k},
                            .heights = heights,
                            .t = {.out_stride = out_stride, .panel_bytes = panel_bytes}};

    for (size_t p = 0; p < n_panels; p += run)
        for (size_t c0 = 0; c0 < k; c0 += cols) {
            const uint8_t *first = (const uint8_t *)panels + p * panel_bytes;

            pass.x.c0 = c0;
            pass.x.cols = gemm_min(cols, k - c0);
            pass.t.out = out + 16 * p;
            pass.t.w = first + kern_panel_bytes(kind->weight, c0);
            pass.t.n_panels = gemm_min(run, n_panels - p);
            pass.t.cols = pass.x.cols;
            pass.t.first = c0 == 0;
            pass.next = c0 + cols < k ? first + kern_panel_bytes(kind->weight, c0 + cols)
                                      : first + run * panel_bytes;
            cut_pass(&pass);
        }
}

/* Define a kind's tiles up to a height, each by `run` with the weight type and the number of rows
 * as constants, and list their names for its table. */
#define CUT_TILE(run, type, name, T)                                                               \
    static void name##_##T(const struct cut_tile *t)                                               \
    {                                                                                              \
        run(type, t, T);                                                                           \
    }
#define CUT_TILES_6(run, type, name)                                                               \
    CUT_TILE(run, type, name, 1) CUT_TILE(run, type, name, 2)                                      \
    CUT_TILE(run, type, name, 3) CUT_TILE(run, type, name, 4)                                      \
    CUT_TILE(run, type, name, 5) CUT_TILE(run, type, name, 6)
#define CUT_TILES_8(run, type, name)                                                               \
    CUT_TILES_6(run, type, name)                                                                   \
    CUT_TILE(run, type, name, 7) CUT_TILE(run, type, name, 8)
#define CUT_TILES_12(run, type, name)                                                              \
    CUT_TILES_8(run, type, name)                                                                   \
    CUT_TILE(run, type, name, 9) CUT_TILE(run, type, name, 10)                                     \
    CUT_TILE(run, type, name, 11) CUT_TILE(run, type, name, 12)
#define CUT_TILES_16(run, type, name)                                                              \
    CUT_TILES_12(run, type, name)                                                                  \
    CUT_TILE(run, type, name, 13) CUT_TILE(run, type, name, 14)                                    \
    CUT_TILE(run, type, name, 15) CUT_TILE(run, type, name, 16)
#define CUT_TILES_8_16(run, type, name)                                                            \
    CUT_TILES_8(run, type, name) CUT_TILE(run, type, name, 16)
#define CUT_NAMES_6(name) name##_1, name##_2, name##_3, name##_4, name##_5, name##_6
#define CUT_NAMES_8(name) CUT_NAMES_6(name), name##_7, name##_8
#define CUT_NAMES_12(name) CUT_NAMES_8(name), name##_9, name##_10, name##_11, name##_12
#define CUT_NAMES_16(name) CUT_NAMES_12(name), name##_13, name##_14, name##_15, name##_16
#define CUT_NAMES_8_16(name)                                                                       \
    CUT_NAMES_8(name), NULL, NULL, NULL, NULL, NULL, NULL, NULL, name##_16

#endif
