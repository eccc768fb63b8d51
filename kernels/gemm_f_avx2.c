/* kernels/gemm_f_avx2.c - products with float weights; gemm_scalar.c defines them.
 *
 * Not gemm_f_body.inc: with ymm one panel is two accumulators, and a single row would wait for
 * the latency of each FMA. So few rows take several panels at once.
 */
#include "kernels/v16_avx2.inc"

#include "kernels/gemm_drive.h"

#define F_ACC 6 /* v16: 12 registers */

/* Four columns of two rows, or of four, dealt to [column][row] where rows are m. */
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

/* Rows' floats dealt to [column][row], so that a column's broadcasts are neighbours. Every run of
 * panels does this anew: one float at a time it is a tenth of a prompt's products. */
static void pack_floats(uint8_t *dst, const struct gemm_rows *rows)
{
    const size_t stride = rows->stride / sizeof(float);
    const size_t whole = rows->cols / 4 * 4;
    const size_t m = rows->m;
    float *packed = (float *)(void *)dst;

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

/* T rows, P panels from panel p on. */
GEMM_INLINE void float_run(enum kern_weight weight, const struct gemm_tile *t, size_t p,
                           const size_t T, const size_t P)
{
    const size_t bytes = weight == KERN_F32 ? 64 : 32;
    const uint8_t *w = t->w + p * t->panel_bytes;
    const float *x = (const float *)(const void *)t->x;
    float *out = t->out + 16 * p;

    for (size_t j0 = 0; j0 < t->cols; j0 += 256) {
        const size_t n = gemm_min(256, t->cols - j0);
        v16 acc[F_ACC];

        GEMM_UNROLL
        for (size_t i = 0; i < T * P; i++)
            acc[i] = v16_zero();
        for (size_t j = 0; j < n; j++, x += T, w += bytes) {
            v16 col[4];

            gemm_fetch(gemm_ahead(t, w, P), t->panel_bytes, bytes, P);
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

#define FLOAT_KIND(weight, name)                                                                   \
    GEMM_INLINE void name##_run(const struct gemm_tile *t, size_t p, const size_t T,               \
                                const size_t P)                                                    \
    {                                                                                              \
        float_run(weight, t, p, T, P);                                                             \
    }                                                                                              \
    GEMM_TILES_6(name, F_ACC)                                                                      \
    void kern_gemm_##name##_avx2 KERN_GEMM_PARAMS                                                  \
    {                                                                                              \
        static void (*const tile[])(const struct gemm_tile *t) = {GEMM_NAMES_6(name)};             \
        static const struct gemm_kind kind = {weight, sizeof tile / sizeof *tile, 128,             \
                                              pack_floats, tile};                                  \
                                                                                                   \
        gemm_drive(&kind, out, out_stride, x, x_stride, m, panels, n_panels, k);                   \
    }

FLOAT_KIND(KERN_F32, f32)
FLOAT_KIND(KERN_F16, f16)
FLOAT_KIND(KERN_BF16, bf16)
