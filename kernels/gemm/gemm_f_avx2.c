/* kernels/gemm/gemm_f_avx2.c - products with float weights; gemm_scalar.c defines them.
 *
 * AVX2 does not use gemm_f_body.inc: with ymm registers one panel is two accumulators, and a single
 * row would wait for the latency of each FMA. So a tile of few rows takes several panels at once.
 *
 * Columns are cut in chunks such that a tile's activations, repacked, stay in the first-level
 * cache; panels in runs such that a chunk of them stays in the second-level cache while every tile
 * of rows passes over it. Between chunks the sums are stored in `out`.
 */
#include "kernels/simd/v16_avx2.inc"

#include <stdalign.h>

#include "kernels/gemm/gemm_common.h"

#define F_ACC 6              /* v16: 12 registers */
#define F_ROWS 6             /* rows of the tallest tile */
#define X_BYTES (24 * 1024)  /* bytes of repacked activations: most of the first-level cache */
#define W_BYTES (256 * 1024) /* bytes of a run of panels: at most half of a second-level cache */
#define MIN_CHUNK 512        /* columns */

/* One tile of rows against a run of panels, over one chunk of columns. */
struct tile {
    float *out;
    size_t out_stride;
    const float *x;   /* the rows' activations as pack_floats() laid them */
    const uint8_t *w; /* the first panel, at the chunk's first column */
    size_t panel_bytes;
    size_t n_panels;
    size_t cols;
    bool first;  /* the sums start at zero, not at `out` */
    bool stream; /* the first tile to read these panels, which come from memory */
};

/* The function of a tile, looked up by number of rows - 1. */
typedef void (*tile_fn)(const struct tile *t);

/* Transpose four columns of two rows, or of four, to [column][row] with m rows. */
GEMM_INLINE void deal_2(float *dst, size_t m, const float *x, size_t stride)
{
    const __m128 a = _mm_loadu_ps(x);
    const __m128 b = _mm_loadu_ps(x + stride);
    const __m128 ab = _mm_unpacklo_ps(a, b);
    const __m128 cd = _mm_unpackhi_ps(a, b);

    _mm_storel_pi((__m64 *)(void *)dst, ab);
    _mm_storeh_pi((__m64 *)(void *)(dst + m), ab);
    _mm_storel_pi((__m64 *)(void *)(dst + 2 * m), cd);
    _mm_storeh_pi((__m64 *)(void *)(dst + 3 * m), cd);
}

GEMM_INLINE void deal_4(float *dst, size_t m, const float *x, size_t stride)
{
    __m128 a = _mm_loadu_ps(x);
    __m128 b = _mm_loadu_ps(x + stride);
    __m128 c = _mm_loadu_ps(x + 2 * stride);
    __m128 d = _mm_loadu_ps(x + 3 * stride);

    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(dst, a);
    _mm_storeu_ps(dst + m, b);
    _mm_storeu_ps(dst + 2 * m, c);
    _mm_storeu_ps(dst + 3 * m, d);
}

/* Repack rows' floats as [column][row], so that a column's broadcasts are neighbours. Every run of
 * panels does this anew: copying single floats would take a tenth of a prompt's products. */
static void pack_floats(float *packed, const struct gemm_rows *rows)
{
    const size_t stride = rows->stride / sizeof(float);
    const size_t whole = rows->cols / 4 * 4;
    const size_t m = rows->m;

    for (size_t t = 0; t < m;) {
        const float *x = (const float *)(const void *)(rows->x + t * rows->stride) + rows->c0;
        const size_t n = m - t >= 4 ? 4 : m - t >= 2 ? 2 : 1;

        for (size_t j = 0; n > 1 && j < whole; j += 4)
            if (n == 4)
                deal_4(packed + j * m + t, m, x + j, stride);
            else
                deal_2(packed + j * m + t, m, x + j, stride);
        for (size_t i = 0; i < n; i++)
            for (size_t j = n > 1 ? whole : 0; j < rows->cols; j++)
                packed[j * m + t + i] = x[i * stride + j];
        t += n;
    }
}

GEMM_INLINE v16 load_weights(enum kern_weight w, const uint8_t *p)
{
    if (w == KERN_F32)
        return v16_load((const float *)(const void *)p);
    if (w == KERN_F16)
        return v16_load_f16((const uint16_t *)(const void *)p);
    return v16_load_bf16((const uint16_t *)(const void *)p);
}

/* While a column of a panel is multiplied, prefetch the same column of the panels that come next.
 * Later tiles find the panels in the cache; they prefetch what they are reading, which is cheap. */
GEMM_INLINE uintptr_t ahead(const struct tile *t, const uint8_t *w, const size_t P)
{
    return (uintptr_t)w + (t->stream ? P * t->panel_bytes : 0);
}

/* Multiply T rows by P panels from panel p on. */
GEMM_INLINE void float_run(enum kern_weight weight, const struct tile *t, size_t p,
                           const size_t T, const size_t P)
{
    const size_t bytes = weight == KERN_F32 ? 64 : 32;
    const uint8_t *w = t->w + p * t->panel_bytes;
    const float *x = t->x;
    float *out = t->out + 16 * p;

    for (size_t j0 = 0; j0 < t->cols; j0 += 256) {
        const size_t n = gemm_min(256, t->cols - j0);
        v16 acc[F_ACC];

        GEMM_UNROLL
        for (size_t i = 0; i < T * P; i++)
            acc[i] = v16_zero();
        for (size_t j = 0; j < n; j++, x += T, w += bytes) {
            v16 col[4];

            gemm_fetch(ahead(t, w, P), t->panel_bytes, bytes, P);
            GEMM_UNROLL
            for (size_t i = 0; i < P; i++)
                col[i] = load_weights(weight, w + i * t->panel_bytes);
            GEMM_UNROLL
            for (size_t r = 0; r < T; r++) {
                const v16 xr = v16_set1(x[r]);

                GEMM_UNROLL
                for (size_t i = 0; i < P; i++)
                    acc[r * P + i] = v16_fma(xr, col[i], acc[r * P + i]);
            }
        }
        GEMM_UNROLL
        for (size_t i = 0; i < T * P; i++) {
            float *o = out + i / P * t->out_stride + 16 * (i % P);
            const v16 s = t->first && j0 == 0 ? v16_zero() : v16_load(o);

            v16_store(o, v16_add(s, acc[i]));
        }
    }
}

/* Return the columns of a chunk. Every run of panels repacks all rows: with several tiles a chunk
 * is short enough for all panels to be one run, but not so short that storing the sums in `out`
 * becomes expensive. */
static size_t chunk_cols(enum kern_weight w, size_t n_tile, size_t tallest, size_t n_panels,
                         size_t k)
{
    const size_t fits = X_BYTES / (128 * tallest) * 32 / 256 * 256;
    const size_t one_run = W_BYTES / (n_panels * kern_panel_bytes(w, 256)) * 256;

    if (n_tile == 1 || one_run >= fits)
        return gemm_min(fits, k);
    return gemm_min(gemm_min(one_run > MIN_CHUNK ? one_run : MIN_CHUNK, fits), k);
}

/* Run all tiles of rows over one run of panels and one chunk of columns. */
static void run_tiles(const tile_fn tiles[F_ROWS], struct tile t, struct gemm_rows rows,
                      size_t n_tile)
{
    alignas(64) float packed[X_BYTES / sizeof(float)];
    const struct gemm_rows all = rows;
    float *const out = t.out;

    t.x = packed;
    for (size_t i = 0; i < n_tile; i++) {
        const size_t r0 = i * all.m / n_tile;

        rows.x = all.x + r0 * all.stride;
        rows.m = (i + 1) * all.m / n_tile - r0;
        pack_floats(packed, &rows);
        t.out = out + r0 * t.out_stride;
        t.stream = i == 0;
        tiles[rows.m - 1](&t);
    }
}

static void drive(enum kern_weight w, const tile_fn tiles[F_ROWS], float *out, size_t out_stride,
                  struct gemm_rows rows, const uint8_t *panels, size_t n_panels)
{
    const size_t n_tile = (rows.m + F_ROWS - 1) / F_ROWS;
    const size_t tallest = (rows.m + n_tile - 1) / n_tile;
    const size_t chunk = chunk_cols(w, n_tile, tallest, n_panels, rows.k);
    const size_t in_cache = W_BYTES / kern_panel_bytes(w, chunk) + 1;
    const size_t run = n_tile == 1 ? n_panels : gemm_min((in_cache + 3) & ~(size_t)3, n_panels);
    struct tile t = {.out_stride = out_stride, .panel_bytes = kern_panel_bytes(w, rows.k)};

    for (size_t p = 0; p < n_panels; p += run)
        for (rows.c0 = 0; rows.c0 < rows.k; rows.c0 += chunk) {
            rows.cols = gemm_min(chunk, rows.k - rows.c0);
            t.out = out + 16 * p;
            t.w = panels + p * t.panel_bytes + kern_panel_bytes(w, rows.c0);
            t.n_panels = gemm_min(run, n_panels - p);
            t.cols = rows.cols;
            t.first = rows.c0 == 0;
            run_tiles(tiles, t, rows, n_tile);
        }
}

/* A tile of T rows takes P panels at once while it can, then single ones. */
#define FLOAT_TILE(weight, name, T, P)                                                             \
    static void name##_##T(const struct tile *t)                                                   \
    {                                                                                              \
        size_t p = 0;                                                                              \
                                                                                                   \
        for (; p + (P) <= t->n_panels; p += (P))                                                   \
            float_run(weight, t, p, T, P);                                                         \
        for (; (P) > 1 && p < t->n_panels; p++)                                                    \
            float_run(weight, t, p, T, 1);                                                         \
    }

#define FLOAT_KIND(weight, name)                                                                   \
    FLOAT_TILE(weight, name, 1, 4)                                                                 \
    FLOAT_TILE(weight, name, 2, 3)                                                                 \
    FLOAT_TILE(weight, name, 3, 2)                                                                 \
    FLOAT_TILE(weight, name, 4, 1)                                                                 \
    FLOAT_TILE(weight, name, 5, 1)                                                                 \
    FLOAT_TILE(weight, name, 6, 1)                                                                 \
    void kern_gemm_##name##_avx2 KERN_GEMM_PARAMS                                                  \
    {                                                                                              \
        static const tile_fn tiles[] = {name##_1, name##_2, name##_3, name##_4, name##_5,          \
                                        name##_6};                                                 \
        const struct gemm_rows rows = {.x = x, .stride = x_stride, .m = m, .k = k};                \
                                                                                                   \
        (void)next;                                                                                \
        drive(weight, tiles, out, out_stride, rows, panels, n_panels);                             \
    }

FLOAT_KIND(KERN_F32, f32)
FLOAT_KIND(KERN_F16, f16)
FLOAT_KIND(KERN_BF16, bf16)
