/* kernels/gemm_vnni.h - how a product of quantised rows is cut into tiles, for the VNNI bodies.
 *
 * A tile is up to GEMM_ROWS rows by one panel at a time, over a chunk of columns. The chunk's
 * activations are repacked, so that all the broadcasts of a tile lie at fixed distances from one
 * address, and stay in the first-level cache while a run of panels passes over them; the run stays
 * in the second-level cache while every tile of rows passes over it. Between chunks the sums rest
 * in `out`, so each element stays one chain and no cut shows in the result.
 *
 * Thread: any.
 * Memory: 28 KiB of stack.
 */
#ifndef KERNELS_GEMM_VNNI_H
#define KERNELS_GEMM_VNNI_H

#include <stdalign.h>
#include <string.h>

#include "kernels/gemm_drive.h"

#define VNNI_X_BYTES (27 * 1024)  /* of repacked activations: most of the first-level cache */
#define VNNI_MAX_COLS 1024        /* of a chunk, where several tiles pass over it */
#define VNNI_W_BYTES (256 * 1024) /* of a run of panels: half of the least second-level cache */
#define VNNI_AHEAD 4096           /* bytes: twice what memory sends while it answers a request */

/* What a group's integer sums still need. */
enum vnni_finish {
    VNNI_SCALE,   /* a scale */
    VNNI_MINIMUM, /* a scale and a minimum */
    VNNI_HALVES,  /* a scale for either half */
    VNNI_MINIMA,  /* a scale, and a minimum for either half */
};

struct vnni_type {
    enum vnni_finish finish;
    int32_t offset;      /* of the codes */
    size_t block_groups; /* groups of 32 that share a block: 1 or 8 */
    size_t block_bytes;
    size_t codes;      /* where the codes start in a block */
    size_t code_bytes; /* of a group */
};

static const struct vnni_type VNNI_TYPE[KERN_N_WEIGHT] = {
    [KERN_Q8_0] = {VNNI_SCALE, 128, 1, KERN_Q8_0_GROUP, 32, 512},
    [KERN_Q4_0] = {VNNI_SCALE, 8, 1, KERN_Q4_0_GROUP, 32, 256},
    [KERN_Q5_0] = {VNNI_SCALE, 16, 1, KERN_Q5_0_GROUP, 32, 320},
    [KERN_Q4_1] = {VNNI_MINIMUM, 0, 1, KERN_Q4_1_GROUP, KERN_Q4_1_CODES, 256},
    [KERN_Q5_1] = {VNNI_MINIMUM, 0, 1, KERN_Q5_1_GROUP, KERN_Q4_1_CODES, 320},
    [KERN_Q4_K] = {VNNI_MINIMUM, 0, 8, KERN_Q4_K_GROUP, KERN_Q4_K_CODES, KERN_Q4_K_SUB},
    [KERN_Q5_K] = {VNNI_MINIMUM, 0, 8, KERN_Q5_K_GROUP, KERN_Q4_K_CODES, KERN_Q5_K_SUB},
    [KERN_Q6_K] = {VNNI_HALVES, 32, 8, KERN_Q6_K_GROUP, KERN_Q6_K_CODES, KERN_Q6_K_SUB},
    [KERN_Q3_K] = {VNNI_HALVES, 4, 8, KERN_Q3_K_GROUP, KERN_Q6_K_CODES, KERN_Q3_K_SUB},
    [KERN_Q2_K] = {VNNI_MINIMA, 0, 8, KERN_Q2_K_GROUP, KERN_Q2_K_CODES, KERN_Q2_K_SUB},
};

/* What is asked for while something else is multiplied: lines of one panel's columns after the
 * other's. */
struct vnni_ahead {
    const uint8_t *p;
    const uint8_t *end; /* of the panel's columns */
    size_t whole;       /* bytes of a panel's columns */
    size_t skip;        /* from their end to the next panel's */
    size_t due;         /* bytes that should have been asked for */
    size_t pace;        /* bytes for each group that is multiplied */
};

/* One tile of rows against a run of panels, over one chunk of columns. */
struct vnni_tile {
    float *out;
    size_t out_stride;
    const uint8_t *x; /* vnni_pack() */
    const uint8_t *w; /* the first panel, at the chunk's first column */
    size_t panel_bytes;
    size_t n_panels;
    size_t groups;
    bool first; /* the sums start at zero, not at `out` */
    struct vnni_ahead ahead;
};

/* Groups that a packed tile of T rows has room for, of 32 codes and three numbers each. */
#define VNNI_ROOM(T) (VNNI_X_BYTES / (44 * (T)) / 8 * 8)

/* A tile of T rows: codes [group][T][32], then three arrays [T][VNNI_ROOM(T)] of what a group's
 * finish takes: scales; where the integer sums start, or scale * sum; that of the other half. */
GEMM_INLINE size_t vnni_extra(const size_t T, const size_t i)
{
    return VNNI_ROOM(T) * T * (32 + 4 * i);
}

struct vnni_rows {
    const uint8_t *x;
    size_t stride; /* bytes */
    size_t m;
    size_t k;
    size_t g0; /* the chunk, in groups of 32 */
    size_t groups;
};

static inline void vnni_pack_numbers(uint8_t *dst, const struct vnni_type *type,
                                     const struct kern_qrow *row, const struct vnni_rows *rows,
                                     size_t t)
{
    const size_t room = VNNI_ROOM(rows->m);
    const size_t n = rows->groups;
    const float *restrict scale = row->scale + rows->g0;
    const int32_t *restrict sum = row->sum + 2 * rows->g0;
    void *first = dst + vnni_extra(rows->m, 1) + 4 * room * t;
    void *second = dst + vnni_extra(rows->m, 2) + 4 * room * t;
    int32_t *restrict int0 = first;
    int32_t *restrict int1 = second;
    float *restrict float0 = first;
    float *restrict float1 = second;

    memcpy(dst + vnni_extra(rows->m, 0) + 4 * room * t, scale, 4 * n);
    switch (type->finish) {
    case VNNI_SCALE:
        for (size_t g = 0; g < n; g++)
            int0[g] = -type->offset * (sum[2 * g] + sum[2 * g + 1]);
        break;
    case VNNI_MINIMUM:
        for (size_t g = 0; g < n; g++)
            float0[g] = scale[g] * (float)(sum[2 * g] + sum[2 * g + 1]);
        break;
    case VNNI_HALVES:
        for (size_t g = 0; g < n; g++) {
            int0[g] = -type->offset * sum[2 * g];
            int1[g] = -type->offset * sum[2 * g + 1];
        }
        break;
    case VNNI_MINIMA:
        for (size_t g = 0; g < n; g++) {
            float0[g] = scale[g] * (float)sum[2 * g];
            float1[g] = scale[g] * (float)sum[2 * g + 1];
        }
        break;
    }
}

static inline void vnni_pack(uint8_t *dst, const struct vnni_type *type,
                             const struct vnni_rows *rows)
{
    const size_t m = rows->m;

    for (size_t t = 0; t < m; t++) {
        const struct kern_qrow row = kern_qrow(rows->x + t * rows->stride, rows->k);
        const int8_t *code = row.code + 32 * rows->g0;

        for (size_t g = 0; g < rows->groups; g++)
            memcpy(dst + 32 * (g * m + t), code + 32 * g, 32);
        vnni_pack_numbers(dst, type, &row, rows, t);
    }
}

struct vnni_kind {
    enum kern_weight weight;
    size_t max_tile;
    void (*const *tile)(const struct vnni_tile *t); /* by number of rows - 1 */
};

/* A lone tile asks for what it will read itself a little later. Of several, which pass over the
 * same panels, each asks for its share of those that come next, so that memory is busy all the
 * time and not only while the first tile runs. */
static inline struct vnni_ahead vnni_ahead(const struct vnni_tile *t, size_t cols_bytes, size_t i,
                                           size_t n, const uint8_t *next)
{
    struct vnni_ahead a = {
        .whole = cols_bytes,
        .skip = t->panel_bytes - cols_bytes,
        .pace = cols_bytes / t->groups / n + 1,
    };

    if (n == 1) {
        a.p = t->w;
        a.end = t->w + cols_bytes;
        a.due = VNNI_AHEAD;
    } else {
        const size_t from = i * t->n_panels * cols_bytes / n;
        const uint8_t *panel = next + from / cols_bytes * t->panel_bytes;

        a.p = panel + from % cols_bytes;
        a.end = panel + cols_bytes;
    }
    return a;
}

/* All tiles of rows over one run of panels and one chunk of columns. */
struct vnni_pass {
    const struct vnni_kind *kind;
    struct vnni_rows x; /* all rows */
    size_t n_tile;
    struct vnni_tile t;
    const uint8_t *next; /* the first panel of the pass that follows, at its first column */
};

static inline void vnni_pass(const struct vnni_pass *pass)
{
    alignas(64) uint8_t packed[VNNI_X_BYTES];
    const struct vnni_type *type = &VNNI_TYPE[pass->kind->weight];
    const size_t cols_bytes = kern_panel_bytes(pass->kind->weight, 32 * pass->x.groups);
    const size_t n = pass->n_tile;

    for (size_t i = 0; i < n; i++) {
        const size_t r0 = i * pass->x.m / n;
        struct vnni_rows rows = pass->x;
        struct vnni_tile t = pass->t;

        rows.x += r0 * rows.stride;
        rows.m = (i + 1) * pass->x.m / n - r0;
        vnni_pack(packed, type, &rows);
        t.x = packed;
        t.out += r0 * t.out_stride;
        t.ahead = vnni_ahead(&t, cols_bytes, i, n, pass->next);
        pass->kind->tile[rows.m - 1](&t);
    }
}

static inline void vnni_drive(const struct vnni_kind *kind, float *out, size_t out_stride,
                              const void *x, size_t x_stride, size_t m, const void *panels,
                              size_t n_panels, size_t k)
{
    const size_t n_tile = (m + kind->max_tile - 1) / kind->max_tile;
    const size_t fits = 32 * VNNI_ROOM((m + n_tile - 1) / n_tile);
    const size_t cols = gemm_min(n_tile > 1 ? gemm_min(fits, VNNI_MAX_COLS) : fits, k);
    const size_t in_cache = VNNI_W_BYTES / kern_panel_bytes(kind->weight, cols) + 1;
    const size_t run = n_tile == 1 ? n_panels : gemm_min(in_cache, n_panels);
    const size_t panel_bytes = kern_panel_bytes(kind->weight, k);
    struct vnni_pass pass = {.kind = kind,
                             .x = {.x = x, .stride = x_stride, .m = m, .k = k},
                             .n_tile = n_tile,
                             .t = {.out_stride = out_stride, .panel_bytes = panel_bytes}};

    for (size_t p = 0; p < n_panels; p += run)
        for (size_t c0 = 0; c0 < k; c0 += cols) {
            const uint8_t *first = (const uint8_t *)panels + p * panel_bytes;

            pass.x.g0 = c0 / 32;
            pass.x.groups = gemm_min(cols, k - c0) / 32;
            pass.t.out = out + 16 * p;
            pass.t.w = first + kern_panel_bytes(kind->weight, c0);
            pass.t.n_panels = gemm_min(run, n_panels - p);
            pass.t.groups = pass.x.groups;
            pass.t.first = c0 == 0;
            pass.next = c0 + cols < k ? first + kern_panel_bytes(kind->weight, c0 + cols)
                                      : first + run * panel_bytes;
            vnni_pass(&pass);
        }
}

#endif
