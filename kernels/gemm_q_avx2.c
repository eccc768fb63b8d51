/* kernels/gemm_q_avx2.c - products with quantised weights without VNNI.
 *
 * vpmaddubsw adds two products of unsigned by signed bytes in 16 bits, vpmaddwd with ones the two
 * halves of a lane in 32. Codes of up to 5 bits are summed over a group of 32 in 16 bits, codes of
 * 6 bits over a half of 16, because the sums start at what the codes' offset will add
 * (gemm_q_avx2_rows.inc); 8 bits do not even leave room for two products. So 8-bit weights are
 * widened to 16 bits, once for all rows of the tile, and meet activations that were widened when
 * repacked. A panel's 16 lanes are two registers: accumulators are [row][panel][lanes half].
 */
#include <immintrin.h>

#include "kernels/gemm_drive.h"

#define HEIGHT 4 /* rows: 8 accumulators, and as many registers for everything else */
#define ACC (2 * HEIGHT)
#define WIDE_PANELS 2 /* rows x panels while that is all a tile needs */

#include "kernels/gemm_q_avx2_codes.inc"
#include "kernels/gemm_q_avx2_rows.inc"

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

/* A group of 32 columns of P panels against T rows. */
struct group {
    const uint8_t *head;  /* of the first panel: scales and minima */
    const uint8_t *codes; /* of the first panel */
    size_t panel_bytes;
    size_t g;         /* number below the head */
    const uint8_t *x; /* the rows' codes */
    const uint8_t *f; /* the rows' fields */
};

/* Quad j of widened codes: even ones and odd ones of each lane, against pairs of int16. */
GEMM_INLINE void dot_wide(__m256i *acc, const struct group *v, const size_t j, const size_t T,
                          const size_t P)
{
    __m256i even[4];
    __m256i odd[4];

    GEMM_UNROLL
    for (size_t i = 0; i < 2 * P; i++) {
        const __m256i code = codes(KERN_Q8_0, v->codes + i / 2 * v->panel_bytes, j, i % 2);

        even[i] = _mm256_and_si256(code, _mm256_set1_epi16(255));
        odd[i] = _mm256_srli_epi16(code, 8);
    }
    GEMM_UNROLL
    for (size_t r = 0; r < T; r++) {
        const __m256i x0 = all_lanes(v->x + 64 * r + 8 * j);
        const __m256i x1 = all_lanes(v->x + 64 * r + 8 * j + 4);

        GEMM_UNROLL
        for (size_t i = 0; i < 2 * P; i++) {
            __m256i *a = &acc[2 * P * r + i];

            *a = in_order(_mm256_add_epi32(*a, _mm256_madd_epi16(even[i], x0)));
            *a = in_order(_mm256_add_epi32(*a, _mm256_madd_epi16(odd[i], x1)));
        }
    }
}

/* Quad j of codes of up to 7 bits, in 16 bits. */
GEMM_INLINE void dot_quad(const enum kern_weight w, __m256i *acc, const struct group *v,
                          const size_t j, const size_t T, const size_t P)
{
    __m256i code[4];

    GEMM_UNROLL
    for (size_t i = 0; i < 2 * P; i++)
        code[i] = codes(w, v->codes + i / 2 * v->panel_bytes, j, i % 2);
    GEMM_UNROLL
    for (size_t r = 0; r < T; r++) {
        const __m256i xr = all_lanes(v->x + 32 * r + 4 * j);

        GEMM_UNROLL
        for (size_t i = 0; i < 2 * P; i++) {
            __m256i *a = &acc[2 * P * r + i];

            *a = in_order(_mm256_add_epi16(*a, _mm256_maddubs_epi16(code[i], xr)));
        }
    }
}

/* Where the sums of a group, or of its half, start. */
GEMM_INLINE void start(const enum kern_weight w, __m256i *acc, const struct group *v,
                       const size_t half, const size_t T, const size_t P)
{
    const bool zero = w != KERN_Q8_0 && offset_of(w) == 0;
    const uint8_t *at = v->f + 4 * T * (field_start(w) + half);

    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++)
        acc[i] = zero ? _mm256_setzero_si256() : all_lanes(at + 4 * (i / 2 / P));
}

/* The sums of a group in 32 bits. Quads j and j + 4 of nibbles come from one load. */
GEMM_INLINE void dot_group(const enum kern_weight w, __m256i *acc, const struct group *v,
                           const size_t T, const size_t P)
{
    start(w, acc, v, 0, T, P);
    GEMM_UNROLL
    for (size_t j = 0; j < 8; j++)
        if (w == KERN_Q8_0)
            dot_wide(acc, v, j, T, P);
        else
            dot_quad(w, acc, v, j / 2 + j % 2 * 4, T, P);
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++) {
        if (w != KERN_Q8_0)
            acc[i] = _mm256_madd_epi16(acc[i], _mm256_set1_epi16(1));
        if (has_minimum(w) && offset_of(w))
            acc[i] =
                _mm256_add_epi32(acc[i], all_lanes(v->f + 4 * T * FIELD_BACK + 4 * (i / 2 / P)));
    }
}

/* The sums of half `half` of a group, pairs of int16. */
GEMM_INLINE void dot_half(const enum kern_weight w, __m256i *acc, const struct group *v,
                          const size_t half, const size_t T, const size_t P)
{
    start(w, acc, v, half, T, P);
    GEMM_UNROLL
    for (size_t j = 0; j < 4; j++)
        dot_quad(w, acc, v, 4 * half + j, T, P);
}

/* s = fma(n, d * scale, s); d is [panel][lanes half]. */
GEMM_INLINE void add_scaled(__m256 *s, const __m256i *n, const __m256 *d, const struct group *v,
                            const size_t T, const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++) {
        const __m256 f = _mm256_mul_ps(d[i % (2 * P)], all_lanes_f(v->f + 4 * (i / 2 / P)));

        s[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(n[i]), f, s[i]);
    }
}

/* s = fma(minimum, sum, s), of the group or of its half. */
GEMM_INLINE void add_minimum(const enum kern_weight w, __m256 *s, const struct group *v,
                             const size_t half, const size_t T, const size_t P)
{
    __m256 m[4];

    GEMM_UNROLL
    for (size_t i = 0; i < 2 * P; i++)
        m[i] = minimum_of(w, v->head + i / 2 * v->panel_bytes, v->g, half, i % 2);
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++)
        s[i] = _mm256_fmadd_ps(
            m[i % (2 * P)], all_lanes_f(v->f + 4 * T * (FIELD_SUM + half) + 4 * (i / 2 / P)), s[i]);
}

GEMM_INLINE void scales(const enum kern_weight w, __m256 *d, const struct group *v,
                        const size_t half, const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * P; i++)
        d[i] = scale_of(w, v->head + i / 2 * v->panel_bytes, v->g, half, i % 2);
}

/* A group with one scale, and perhaps a minimum. */
GEMM_INLINE void plain_group(const enum kern_weight w, __m256 *s, const struct group *v,
                             const size_t T, const size_t P)
{
    __m256i acc[ACC];
    __m256 d[4];

    dot_group(w, acc, v, T, P);
    scales(w, d, v, 0, P);
    add_scaled(s, acc, d, v, T, P);
    if (has_minimum(w))
        add_minimum(w, s, v, 0, T, P);
}

/* Q6_K, Q3_K: each half has its scale, and the halves meet as floats. */
GEMM_INLINE void halves_group(const enum kern_weight w, __m256 *s, const struct group *v,
                              const size_t T, const size_t P)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i a[ACC];
    __m256i b[ACC];
    __m256 da[4];
    __m256 db[4];

    dot_half(w, a, v, 0, T, P);
    dot_half(w, b, v, 1, T, P);
    scales(w, da, v, 0, P);
    scales(w, db, v, 1, P);
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++) {
        const __m256 fa = _mm256_cvtepi32_ps(_mm256_madd_epi16(a[i], ones));
        const __m256 fb = _mm256_cvtepi32_ps(_mm256_madd_epi16(b[i], ones));
        const __m256 n =
            _mm256_fmadd_ps(fa, da[i % (2 * P)], _mm256_mul_ps(fb, db[i % (2 * P)]));

        s[i] = _mm256_fmadd_ps(n, all_lanes_f(v->f + 4 * (i / 2 / P)), s[i]);
    }
}

/* Q2_K: each half has an integer scale and a minimum. */
GEMM_INLINE void whole_halves_group(const enum kern_weight w, __m256 *s, const struct group *v,
                                    const size_t T, const size_t P)
{
    __m256i a[ACC];
    __m256i b[ACC];
    __m256 d[4];

    dot_half(w, a, v, 0, T, P);
    dot_half(w, b, v, 1, T, P);
    scales(w, d, v, 0, P);
    GEMM_UNROLL
    for (size_t i = 0; i < 2 * T * P; i++) {
        const uint8_t *head = v->head + i / 2 % P * v->panel_bytes;

        a[i] = _mm256_add_epi32(_mm256_madd_epi16(a[i], whole_scale(head, v->g, 0, i % 2)),
                                _mm256_madd_epi16(b[i], whole_scale(head, v->g, 1, i % 2)));
    }
    add_scaled(s, a, d, v, T, P);
    add_minimum(w, s, v, 0, T, P);
    add_minimum(w, s, v, 1, T, P);
}

/* T rows, P panels from panel p on. */
GEMM_INLINE void run(const enum kern_weight w, const struct gemm_tile *t, size_t p, const size_t T,
                     const size_t P)
{
    const struct shape q = shape_of(w);
    struct group v = {.head = t->w + p * t->panel_bytes, .panel_bytes = t->panel_bytes, .x = t->x};
    float *out = t->out + 16 * p;
    __m256 s[ACC];

    load_sums(s, t, out, T, P);
    for (size_t c = 0; c < t->cols; c += 32 * q.groups, v.head += q.bytes) {
        const uintptr_t ahead = gemm_ahead(t, v.head, P);

        gemm_fetch(ahead, t->panel_bytes, q.codes, P);
        for (v.g = 0; v.g < q.groups; v.g++, v.x += row_bytes(w) * T) {
            v.codes = v.head + q.codes + q.step * v.g;
            v.f = v.x + row_codes(w) * T;
            gemm_fetch(ahead + q.codes + q.step * v.g, t->panel_bytes, q.step, P);
            if (w == KERN_Q2_K)
                whole_halves_group(w, s, &v, T, P);
            else if (has_halves(w))
                halves_group(w, s, &v, T, P);
            else
                plain_group(w, s, &v, T, P);
        }
    }
    store_sums(s, t, out, T, P);
}

#define QUANTISED_KIND(weight, name)                                                               \
    GEMM_INLINE void name##_run(const struct gemm_tile *t, size_t p, const size_t T,               \
                                const size_t P)                                                    \
    {                                                                                              \
        run(weight, t, p, T, P);                                                                   \
    }                                                                                              \
    GEMM_TILES_4(name, WIDE_PANELS)                                                                \
    static void pack_##name(uint8_t *dst, const struct gemm_rows *rows)                            \
    {                                                                                              \
        pack_rows(weight, dst, rows);                                                              \
    }                                                                                              \
    void kern_gemm_##name##_avx2 KERN_GEMM_PARAMS                                                  \
    {                                                                                              \
        static void (*const tile[])(const struct gemm_tile *t) = {GEMM_NAMES_4(name)};             \
        const struct gemm_kind kind = {weight, HEIGHT, row_bytes(weight), pack_##name, tile};      \
                                                                                                   \
        gemm_drive(&kind, out, out_stride, x, x_stride, m, panels, n_panels, k);                   \
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
