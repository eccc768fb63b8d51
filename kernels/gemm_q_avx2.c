/* kernels/gemm_q_avx2.c - products with quantised weights without VNNI.
 *
 * vpmaddubsw adds two products of unsigned by signed bytes in 16 bits, and saturates: codes below
 * 16 may fill a whole group of 8 quads (8 * 2 * 15 * 127 = 30480), codes below 64 two quads
 * (2 * 2 * 63 * 127 = 32004), codes below 256 not even one. So 8-bit weights are widened to 16
 * bits, once for all rows of the tile, and meet activations that were widened when repacked.
 * A panel's 16 lanes are two registers: accumulators are [row][panel][half].
 */
#include <immintrin.h>

#include "kernels/gemm_drive.h"

#define HEIGHT 4 /* rows: 8 accumulators, and as many registers for everything else */
#define ACC (2 * HEIGHT)
#define WIDE_PANELS 2 /* rows x panels while that is all a tile needs */

GEMM_INLINE __m256i load_256(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

GEMM_INLINE __m256i all_lanes(const uint8_t *p)
{
    int32_t quad;

    memcpy(&quad, p, sizeof quad);
    return _mm256_set1_epi32(quad);
}

GEMM_INLINE __m256 all_lanes_f(const uint8_t *p)
{
    float f;

    memcpy(&f, p, sizeof f);
    return _mm256_set1_ps(f);
}

/* Eight lanes of halves, or of bytes, as floats or int32. */
GEMM_INLINE __m256 load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

GEMM_INLINE __m256 load_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

GEMM_INLINE __m256 load_i8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

/* The compiler may reorder integer sums, and does: all products first, spilled, then a tree of
 * additions. So each sum passes through here on its way. */
GEMM_INLINE __m256i in_order(__m256i sum)
{
    __asm__("" : "+x"(sum));
    return sum;
}

GEMM_INLINE float *sum_at(const struct gemm_tile *t, float *out, size_t i, const size_t P)
{
    return out + i / 2 / P * t->out_stride + 16 * (i / 2 % P) + 8 * (i % 2);
}

GEMM_INLINE void load_sums(__m256 *s, const struct gemm_tile *t, float *out, const size_t T,
                           const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++)
        s[i] = t->first ? _mm256_setzero_ps() : _mm256_loadu_ps(sum_at(t, out, i, P));
}

GEMM_INLINE void store_sums(const __m256 *s, const struct gemm_tile *t, float *out, const size_t T,
                            const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++)
        _mm256_storeu_ps(sum_at(t, out, i, P), s[i]);
}

GEMM_INLINE void start_at(__m256i *acc, const uint8_t *bias, const size_t T, const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++)
        acc[i] = all_lanes(bias + 4 * (i / 2 / P));
}

/* s = fma(n, d * scale, s); d is [panel][half]. */
GEMM_INLINE void add_scaled(__m256 *s, const __m256i *n, const __m256 *d, const uint8_t *scale,
                            const size_t T, const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++) {
        const __m256 f = _mm256_mul_ps(d[i % (2 * P)], all_lanes_f(scale + 4 * (i / 2 / P)));

        s[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(n[i]), f, s[i]);
    }
}

/* Quad j of widened codes: even ones and odd ones of each lane, against pairs of int16. */
GEMM_INLINE void dot_wide(__m256i *acc, const uint8_t *w, size_t panel_bytes, const uint8_t *x,
                          size_t j, const size_t T, const size_t P)
{
    __m256i even[4];
    __m256i odd[4];

    GEMM_UNROLL
    for (size_t i = 0; i < 2 * P; i++) {
        const __m256i code = load_256(w + i / 2 * panel_bytes + 64 * j + 32 * (i % 2));

        even[i] = _mm256_and_si256(code, _mm256_set1_epi16(255));
        odd[i] = _mm256_srli_epi16(code, 8);
    }
    GEMM_UNROLL
    for (size_t r = 0; r < T; r++) {
        const __m256i x0 = all_lanes(x + 64 * r + 8 * j);
        const __m256i x1 = all_lanes(x + 64 * r + 8 * j + 4);

        GEMM_UNROLL
        for (size_t i = 0; i < 2 * P; i++) {
            __m256i *a = &acc[2 * P * r + i];

            *a = in_order(_mm256_add_epi32(*a, _mm256_madd_epi16(even[i], x0)));
            *a = in_order(_mm256_add_epi32(*a, _mm256_madd_epi16(odd[i], x1)));
        }
    }
}

GEMM_INLINE void q8_0_run(const struct gemm_tile *t, size_t p, const size_t T, const size_t P)
{
    const uint8_t *w = t->w + p * t->panel_bytes;
    const uint8_t *x = t->x;
    float *out = t->out + 16 * p;
    __m256 s[ACC];

    load_sums(s, t, out, T, P);
    for (size_t g = 0; g < t->cols / 32; g++, x += 72 * T, w += KERN_Q8_0_GROUP) {
        gemm_fetch(gemm_ahead(t, w, P), t->panel_bytes, KERN_Q8_0_GROUP, P);
        __m256i acc[ACC];
        __m256 d[4];

        start_at(acc, x + 68 * T, T, P);
        GEMM_UNROLL
        for (size_t j = 0; j < 8; j++)
            dot_wide(acc, w + 32, t->panel_bytes, x, j, T, P);
        GEMM_UNROLL
        for (size_t i = 0; i < 2 * P; i++)
            d[i] = load_f16(w + i / 2 * t->panel_bytes + 16 * (i % 2));
        add_scaled(s, acc, d, x + 64 * T, T, P);
    }
    store_sums(s, t, out, T, P);
}

/* A group of nibbles: acc becomes the 32-bit sums. */
GEMM_INLINE void dot_nibbles(__m256i *acc, const uint8_t *w, size_t panel_bytes, const uint8_t *x,
                             const size_t T, const size_t P)
{
    const __m256i low = _mm256_set1_epi8(15);

    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++)
        acc[i] = _mm256_setzero_si256();
    GEMM_UNROLL
    for (size_t j = 0; j < 4; j++) {
        __m256i lo[4];
        __m256i hi[4];

        GEMM_UNROLL
        for (size_t i = 0; i < 2 * P; i++) {
            const __m256i both = load_256(w + i / 2 * panel_bytes + 64 * j + 32 * (i % 2));

            lo[i] = _mm256_and_si256(both, low);
            hi[i] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
        }
        GEMM_UNROLL
        for (size_t r = 0; r < T; r++) {
            const __m256i x0 = all_lanes(x + 32 * r + 4 * j);
            const __m256i x1 = all_lanes(x + 32 * r + 4 * j + 16);

            GEMM_UNROLL
            for (size_t i = 0; i < 2 * P; i++) {
                __m256i *a = &acc[2 * P * r + i];

                *a = in_order(_mm256_add_epi16(*a, _mm256_maddubs_epi16(lo[i], x0)));
                *a = in_order(_mm256_add_epi16(*a, _mm256_maddubs_epi16(hi[i], x1)));
            }
        }
    }
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++)
        acc[i] = _mm256_madd_epi16(acc[i], _mm256_set1_epi16(1));
}

GEMM_INLINE void q4_0_run(const struct gemm_tile *t, size_t p, const size_t T, const size_t P)
{
    const uint8_t *w = t->w + p * t->panel_bytes;
    const uint8_t *x = t->x;
    float *out = t->out + 16 * p;
    __m256 s[ACC];

    load_sums(s, t, out, T, P);
    for (size_t g = 0; g < t->cols / 32; g++, x += 40 * T, w += KERN_Q4_0_GROUP) {
        gemm_fetch(gemm_ahead(t, w, P), t->panel_bytes, KERN_Q4_0_GROUP, P);
        __m256i acc[ACC];
        __m256 d[4];

        dot_nibbles(acc, w + 32, t->panel_bytes, x, T, P);
        GEMM_UNROLL
        for (size_t i = 0; i < 2 * T * P; i++)
            acc[i] = _mm256_add_epi32(acc[i], all_lanes(x + 36 * T + 4 * (i / 2 / P)));
        GEMM_UNROLL
        for (size_t i = 0; i < 2 * P; i++)
            d[i] = load_f16(w + i / 2 * t->panel_bytes + 16 * (i % 2));
        add_scaled(s, acc, d, x + 32 * T, T, P);
    }
    store_sums(s, t, out, T, P);
}

/* Group g of 8 of a super-block at w. */
GEMM_INLINE void q4_k_group(__m256 *s, const uint8_t *w, size_t g, size_t panel_bytes,
                            const uint8_t *x, const size_t T, const size_t P)
{
    const __m256 minus = _mm256_set1_ps(-0.0f);
    __m256i acc[ACC];
    __m256 d[4];
    __m256 mn[4];

    dot_nibbles(acc, w + KERN_Q4_K_CODES + 256 * g, panel_bytes, x, T, P);
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * P; i++) {
        const uint8_t *wi = w + i / 2 * panel_bytes;
        const size_t h = i % 2;

        d[i] = _mm256_mul_ps(load_f16(wi + 16 * h), load_u8(wi + KERN_Q4_K_SC + 16 * g + 8 * h));
        mn[i] = _mm256_xor_ps(minus, _mm256_mul_ps(load_f16(wi + KERN_Q4_K_DMIN + 16 * h),
                                                   load_u8(wi + KERN_Q4_K_MN + 16 * g + 8 * h)));
    }
    add_scaled(s, acc, d, x + 32 * T, T, P);
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++)
        s[i] = _mm256_fmadd_ps(mn[i % (2 * P)], all_lanes_f(x + 36 * T + 4 * (i / 2 / P)), s[i]);
}

GEMM_INLINE void q4_k_run(const struct gemm_tile *t, size_t p, const size_t T, const size_t P)
{
    const uint8_t *w = t->w + p * t->panel_bytes;
    const uint8_t *x = t->x;
    float *out = t->out + 16 * p;
    __m256 s[ACC];

    load_sums(s, t, out, T, P);
    for (size_t b = 0; b < t->cols / 256; b++, w += KERN_Q4_K_GROUP) {
        const uintptr_t ahead = gemm_ahead(t, w, P);

        gemm_fetch(ahead, t->panel_bytes, KERN_Q4_K_CODES, P);
        for (size_t g = 0; g < 8; g++, x += 40 * T) {
            gemm_fetch(ahead + KERN_Q4_K_CODES + 256 * g, t->panel_bytes, 256, P);
            q4_k_group(s, w, g, t->panel_bytes, x, T, P);
        }
    }
    store_sums(s, t, out, T, P);
}

/* Codes of quad 4h + j, lanes 8i .. 8i + 7, of a group at w. */
GEMM_INLINE __m256i q6_codes(const uint8_t *w, const size_t h, const size_t j, const size_t i)
{
    const __m256i both = load_256(w + 64 * j + 32 * i);
    const __m256i bits = load_256(w + KERN_Q6_K_HIGH + 64 * h + 32 * i);
    const __m256i nib = h ? _mm256_srli_epi16(both, 4) : both;
    const __m256i top = j < 2 ? _mm256_slli_epi16(bits, (int)(4 - 2 * j))
                              : _mm256_srli_epi16(bits, (int)(2 * j - 4));

    return _mm256_or_si256(_mm256_and_si256(nib, _mm256_set1_epi8(15)),
                           _mm256_and_si256(top, _mm256_set1_epi8(48)));
}

/* n += quads 4h + j and 4h + j + 1, for lanes 8i .. 8i + 7 of one panel and T rows. */
GEMM_INLINE void dot_q6_quads(__m256i *n, size_t step, const uint8_t *w, const uint8_t *x,
                              const size_t h, const size_t j, const size_t i, const size_t T)
{
    const __m256i c0 = q6_codes(w, h, j, i);
    const __m256i c1 = q6_codes(w, h, j + 1, i);

    GEMM_UNROLL
    for (size_t r = 0; r < T; r++) {
        const uint8_t *xr = x + 32 * r + 16 * h + 4 * j;
        const __m256i two = _mm256_add_epi16(_mm256_maddubs_epi16(c0, all_lanes(xr)),
                                             _mm256_maddubs_epi16(c1, all_lanes(xr + 4)));

        n[step * r] =
            in_order(_mm256_add_epi32(n[step * r], _mm256_madd_epi16(two, _mm256_set1_epi16(1))));
    }
}

/* The sums of half h of a group, for lanes 8i .. 8i + 7 of one panel and T rows. */
GEMM_INLINE void dot_q6_half(__m256i *n, size_t step, const uint8_t *w, const uint8_t *x,
                             const size_t h, const size_t i, const size_t T)
{
    GEMM_UNROLL
    for (size_t r = 0; r < T; r++)
        n[step * r] = all_lanes(x + 36 * T + 4 * T * h + 4 * r);
    dot_q6_quads(n, step, w, x, h, 0, i, T);
    dot_q6_quads(n, step, w, x, h, 2, i, T);
}

GEMM_INLINE void q6_k_group(__m256 *s, const uint8_t *w, size_t g, size_t panel_bytes,
                            const uint8_t *x, const size_t T, const size_t P)
{
    __m256i a[ACC];
    __m256i b[ACC];

    GEMM_UNROLL
    for (size_t i = 0; i < 2 * P; i++) {
        const uint8_t *wi = w + i / 2 * panel_bytes;
        const uint8_t *codes = wi + KERN_Q6_K_CODES + KERN_Q6_K_SUB * g;
        const uint8_t *sc = wi + KERN_Q6_K_SC + 32 * g + 8 * (i % 2);
        const __m256 d = load_f16(wi + 16 * (i % 2));
        const __m256 d0 = _mm256_mul_ps(d, load_i8(sc));
        const __m256 d1 = _mm256_mul_ps(d, load_i8(sc + 16));

        dot_q6_half(a + i, 2 * P, codes, x, 0, i % 2, T);
        dot_q6_half(b + i, 2 * P, codes, x, 1, i % 2, T);
        GEMM_UNROLL
        for (size_t r = 0; r < T; r++) {
            const size_t at = 2 * P * r + i;
            const __m256 last = _mm256_mul_ps(_mm256_cvtepi32_ps(b[at]), d1);
            const __m256 t = _mm256_fmadd_ps(_mm256_cvtepi32_ps(a[at]), d0, last);

            s[at] = _mm256_fmadd_ps(t, all_lanes_f(x + 32 * T + 4 * r), s[at]);
        }
    }
}

GEMM_INLINE void q6_k_run(const struct gemm_tile *t, size_t p, const size_t T, const size_t P)
{
    const uint8_t *w = t->w + p * t->panel_bytes;
    const uint8_t *x = t->x;
    float *out = t->out + 16 * p;
    __m256 s[ACC];

    load_sums(s, t, out, T, P);
    for (size_t b = 0; b < t->cols / 256; b++, w += KERN_Q6_K_GROUP) {
        const uintptr_t ahead = gemm_ahead(t, w, P);

        gemm_fetch(ahead, t->panel_bytes, KERN_Q6_K_CODES, P);
        for (size_t g = 0; g < 8; g++, x += 44 * T) {
            gemm_fetch(ahead + KERN_Q6_K_CODES + KERN_Q6_K_SUB * g, t->panel_bytes, KERN_Q6_K_SUB,
                       P);
            q6_k_group(s, w, g, t->panel_bytes, x, T, P);
        }
    }
    store_sums(s, t, out, T, P);
}

/* Codes widened to int16 and reordered, per quad (0, 2) (1, 3): the order in which even and odd
 * bytes of the weights come apart. Per group [m][64 bytes], scales, 128 * sum. */
static void pack_q8_0(uint8_t *dst, const struct gemm_rows *rows)
{
    const size_t m = rows->m;
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, 0,
                                           1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);

    for (size_t t = 0; t < m; t++) {
        const struct kern_qrow row = kern_qrow(rows->x + t * rows->stride, rows->k);
        uint8_t *group = dst;

        for (size_t g = rows->c0 / 32; g < (rows->c0 + rows->cols) / 32; g++, group += 72 * m) {
            float *scale = (float *)(void *)(group + 64 * m);
            int32_t *bias = (int32_t *)(void *)(group + 68 * m);

            for (size_t h = 0; h < 2; h++) {
                const __m128i *code = (const __m128i *)(const void *)(row.code + 32 * g + 16 * h);
                const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(code));

                _mm256_storeu_si256((__m256i *)(void *)(group + 64 * t + 32 * h),
                                    _mm256_shuffle_epi8(wide, order));
            }
            scale[t] = row.scale[g];
            bias[t] = -128 * (row.sum[2 * g] + row.sum[2 * g + 1]);
        }
    }
}

static void pack_q4_0(uint8_t *dst, const struct gemm_rows *rows)
{
    gemm_pack_codes(dst, rows, 8, false);
}

static void pack_q4_k(uint8_t *dst, const struct gemm_rows *rows)
{
    gemm_pack_codes_sum(dst, rows);
}

static void pack_q6_k(uint8_t *dst, const struct gemm_rows *rows)
{
    gemm_pack_codes(dst, rows, 32, true);
}

#define QUANTISED_KIND(weight, name, x_group)                                                      \
    GEMM_TILES_4(name, WIDE_PANELS)                                                                \
    void kern_gemm_##name##_avx2 KERN_GEMM_PARAMS                                                  \
    {                                                                                              \
        static void (*const tile[])(const struct gemm_tile *t) = {GEMM_NAMES_4(name)};             \
        static const struct gemm_kind kind = {weight, HEIGHT, x_group, pack_##name, tile};         \
                                                                                                   \
        gemm_drive(&kind, out, out_stride, x, x_stride, m, panels, n_panels, k);                   \
    }

QUANTISED_KIND(KERN_Q8_0, q8_0, 72)
QUANTISED_KIND(KERN_Q4_0, q4_0, 40)
QUANTISED_KIND(KERN_Q4_K, q4_k, 40)
QUANTISED_KIND(KERN_Q6_K, q6_k, 44)

/* NOT YET VECTORISED: each line goes when its type has a body. */
#define BY_DEFINITION(name)                                                                        \
    void kern_gemm_##name##_avx2 KERN_GEMM_PARAMS                                                  \
    {                                                                                              \
        kern_gemm_##name##_scalar(out, out_stride, x, x_stride, m, panels, n_panels, k);           \
    }
BY_DEFINITION(q4_1)
BY_DEFINITION(q5_0)
BY_DEFINITION(q5_1)
BY_DEFINITION(q5_k)
BY_DEFINITION(q3_k)
BY_DEFINITION(q2_k)
