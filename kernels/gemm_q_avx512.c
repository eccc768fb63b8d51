/* kernels/gemm_q_avx512.c - products with quantised weights on VNNI.
 *
 * vpdpbusd adds four products of unsigned by signed bytes to each of 16 lanes: a lane is an output
 * row, the unsigned bytes are a quad of weight codes, the signed ones a quad of activation codes,
 * the same in all lanes. The codes' offset is taken out by where the accumulators start.
 */
#include <immintrin.h>

#include "kernels/gemm_drive.h"

#define ACC 12

GEMM_INLINE __m512i load_512(const uint8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

/* Four activation codes, or one int32, in every lane. */
GEMM_INLINE __m512i all_lanes(const uint8_t *p)
{
    int32_t quad;

    memcpy(&quad, p, sizeof quad);
    return _mm512_set1_epi32(quad);
}

GEMM_INLINE __m512 all_lanes_f(const uint8_t *p)
{
    float f;

    memcpy(&f, p, sizeof f);
    return _mm512_set1_ps(f);
}

GEMM_INLINE __m512 load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

GEMM_INLINE __m512 load_u8(const uint8_t *p)
{
    const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)p);

    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(b));
}

GEMM_INLINE __m512 load_i8(const uint8_t *p)
{
    const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)p);

    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b));
}

/* The sums of T rows x P panels between two chunks of columns. */
GEMM_INLINE void load_sums(__m512 *s, const struct gemm_tile *t, const float *out, const size_t T,
                           const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < T * P; i++)
        s[i] = t->first ? _mm512_setzero_ps()
                        : _mm512_loadu_ps(out + i / P * t->out_stride + 16 * (i % P));
}

GEMM_INLINE void store_sums(const __m512 *s, const struct gemm_tile *t, float *out, const size_t T,
                            const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < T * P; i++)
        _mm512_storeu_ps(out + i / P * t->out_stride + 16 * (i % P), s[i]);
}

/* Quad j of a group for T rows (codes x[T][32]) and P panels. */
GEMM_INLINE void dot_quad(__m512i *acc, const __m512i *w, const uint8_t *x, size_t j,
                          const size_t T, const size_t P)
{
    GEMM_UNROLL
    for (size_t r = 0; r < T; r++) {
        const __m512i xr = all_lanes(x + 32 * r + 4 * j);

        GEMM_UNROLL
        for (size_t i = 0; i < P; i++)
            acc[r * P + i] = _mm512_dpbusd_epi32(acc[r * P + i], w[i], xr);
    }
}

/* A group's codes as nibbles, at w: quad j from low halves, quad j + 4 from high ones. */
GEMM_INLINE void dot_nibbles(__m512i *acc, const uint8_t *w, size_t panel_bytes, const uint8_t *x,
                             const size_t T, const size_t P)
{
    const __m512i low = _mm512_set1_epi8(15);

    GEMM_UNROLL
    for (size_t j = 0; j < 4; j++) {
        __m512i lo[4];
        __m512i hi[4];

        GEMM_UNROLL
        for (size_t i = 0; i < P; i++) {
            const __m512i both = load_512(w + i * panel_bytes + 64 * j);

            lo[i] = _mm512_and_si512(both, low);
            hi[i] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
        }
        dot_quad(acc, lo, x, j, T, P);
        dot_quad(acc, hi, x, j + 4, T, P);
    }
}

/* Where the accumulators of a group start: the int32 of each row at `bias`. */
GEMM_INLINE void start_at(__m512i *acc, const uint8_t *bias, const size_t T, const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < T * P; i++)
        acc[i] = all_lanes(bias + 4 * (i / P));
}

/* s = fma(n, d * scale, s) for every row and panel. */
GEMM_INLINE void add_scaled(__m512 *s, const __m512i *n, const __m512 *d, const uint8_t *scale,
                            const size_t T, const size_t P)
{
    GEMM_UNROLL
    for (size_t i = 0; i < T * P; i++) {
        const __m512 f = _mm512_mul_ps(d[i % P], all_lanes_f(scale + 4 * (i / P)));

        s[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(n[i]), f, s[i]);
    }
}

GEMM_INLINE void q8_0_run(const struct gemm_tile *t, size_t p, const size_t T, const size_t P)
{
    const uint8_t *w = t->w + p * t->panel_bytes;
    const uint8_t *x = t->x;
    float *out = t->out + 16 * p;
    __m512 s[ACC];

    load_sums(s, t, out, T, P);
    for (size_t g = 0; g < t->cols / 32; g++, x += 40 * T, w += KERN_Q8_0_GROUP) {
        gemm_fetch(gemm_ahead(t, w, P), t->panel_bytes, KERN_Q8_0_GROUP, P);
        __m512i acc[ACC];
        __m512 d[4];

        start_at(acc, x + 36 * T, T, P);
        GEMM_UNROLL
        for (size_t j = 0; j < 8; j++) {
            __m512i quad[4];

            GEMM_UNROLL
            for (size_t i = 0; i < P; i++)
                quad[i] = load_512(w + i * t->panel_bytes + 32 + 64 * j);
            dot_quad(acc, quad, x, j, T, P);
        }
        GEMM_UNROLL
        for (size_t i = 0; i < P; i++)
            d[i] = load_f16(w + i * t->panel_bytes);
        add_scaled(s, acc, d, x + 32 * T, T, P);
    }
    store_sums(s, t, out, T, P);
}

GEMM_INLINE void q4_0_run(const struct gemm_tile *t, size_t p, const size_t T, const size_t P)
{
    const uint8_t *w = t->w + p * t->panel_bytes;
    const uint8_t *x = t->x;
    float *out = t->out + 16 * p;
    __m512 s[ACC];

    load_sums(s, t, out, T, P);
    for (size_t g = 0; g < t->cols / 32; g++, x += 40 * T, w += KERN_Q4_0_GROUP) {
        gemm_fetch(gemm_ahead(t, w, P), t->panel_bytes, KERN_Q4_0_GROUP, P);
        __m512i acc[ACC];
        __m512 d[4];

        start_at(acc, x + 36 * T, T, P);
        dot_nibbles(acc, w + 32, t->panel_bytes, x, T, P);
        GEMM_UNROLL
        for (size_t i = 0; i < P; i++)
            d[i] = load_f16(w + i * t->panel_bytes);
        add_scaled(s, acc, d, x + 32 * T, T, P);
    }
    store_sums(s, t, out, T, P);
}

/* Group g of 8 of a super-block at w. */
GEMM_INLINE void q4_k_group(__m512 *s, const uint8_t *w, size_t g, size_t panel_bytes,
                            const uint8_t *x, const size_t T, const size_t P)
{
    const __m512 minus = _mm512_set1_ps(-0.0f);
    __m512i acc[ACC];
    __m512 d[4];
    __m512 mn[4];

    GEMM_UNROLL
    for (size_t i = 0; i < T * P; i++)
        acc[i] = _mm512_setzero_si512();
    dot_nibbles(acc, w + KERN_Q4_K_CODES + 256 * g, panel_bytes, x, T, P);
    GEMM_UNROLL
    for (size_t i = 0; i < P; i++) {
        const uint8_t *wi = w + i * panel_bytes;

        d[i] = _mm512_mul_ps(load_f16(wi), load_u8(wi + KERN_Q4_K_SC + 16 * g));
        mn[i] = _mm512_xor_ps(minus, _mm512_mul_ps(load_f16(wi + KERN_Q4_K_DMIN),
                                                   load_u8(wi + KERN_Q4_K_MN + 16 * g)));
    }
    add_scaled(s, acc, d, x + 32 * T, T, P);
    GEMM_UNROLL
    for (size_t i = 0; i < T * P; i++)
        s[i] = _mm512_fmadd_ps(mn[i % P], all_lanes_f(x + 36 * T + 4 * (i / P)), s[i]);
}

GEMM_INLINE void q4_k_run(const struct gemm_tile *t, size_t p, const size_t T, const size_t P)
{
    const uint8_t *w = t->w + p * t->panel_bytes;
    const uint8_t *x = t->x;
    float *out = t->out + 16 * p;
    __m512 s[ACC];

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

/* Quad 4h + j of a group at w: nibbles h of row j, topped by two bits. */
GEMM_INLINE void dot_q6_quad(__m512i *acc, const uint8_t *w, size_t panel_bytes, const size_t h,
                             const size_t j, const uint8_t *x, const size_t T, const size_t P)
{
    __m512i code[4];

    GEMM_UNROLL
    for (size_t i = 0; i < P; i++) {
        const __m512i both = load_512(w + i * panel_bytes + 64 * j);
        const __m512i bits = load_512(w + i * panel_bytes + KERN_Q6_K_HIGH + 64 * h);
        const __m512i nib = h ? _mm512_srli_epi16(both, 4) : both;
        const __m512i top = j < 2 ? _mm512_slli_epi16(bits, (unsigned)(4 - 2 * j) & 15)
                                  : _mm512_srli_epi16(bits, (unsigned)(2 * j - 4) & 15);

        code[i] = _mm512_or_si512(_mm512_and_si512(nib, _mm512_set1_epi8(15)),
                                  _mm512_and_si512(top, _mm512_set1_epi8(48)));
    }
    dot_quad(acc, code, x, 4 * h + j, T, P);
}

/* Half h of a group: 16 columns, which share a scale. */
GEMM_INLINE void dot_q6_half(__m512i *acc, const uint8_t *w, size_t panel_bytes, const size_t h,
                             const uint8_t *x, const size_t T, const size_t P)
{
    dot_q6_quad(acc, w, panel_bytes, h, 0, x, T, P);
    dot_q6_quad(acc, w, panel_bytes, h, 1, x, T, P);
    dot_q6_quad(acc, w, panel_bytes, h, 2, x, T, P);
    dot_q6_quad(acc, w, panel_bytes, h, 3, x, T, P);
}

GEMM_INLINE void q6_k_group(__m512 *s, const uint8_t *w, size_t g, size_t panel_bytes,
                            const uint8_t *x, const size_t T, const size_t P)
{
    const uint8_t *codes = w + KERN_Q6_K_CODES + KERN_Q6_K_SUB * g;
    __m512i acc[ACC];
    __m512 t[ACC];

    start_at(acc, x + 40 * T, T, P);
    dot_q6_half(acc, codes, panel_bytes, 1, x, T, P);
    GEMM_UNROLL
    for (size_t i = 0; i < T * P; i++) {
        const uint8_t *wi = w + i % P * panel_bytes;
        const __m512 sc = _mm512_mul_ps(load_f16(wi), load_i8(wi + KERN_Q6_K_SC + 32 * g + 16));

        t[i] = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[i]), sc);
    }
    start_at(acc, x + 36 * T, T, P);
    dot_q6_half(acc, codes, panel_bytes, 0, x, T, P);
    GEMM_UNROLL
    for (size_t i = 0; i < T * P; i++) {
        const uint8_t *wi = w + i % P * panel_bytes;
        const __m512 sc = _mm512_mul_ps(load_f16(wi), load_i8(wi + KERN_Q6_K_SC + 32 * g));

        t[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[i]), sc, t[i]);
        s[i] = _mm512_fmadd_ps(t[i], all_lanes_f(x + 32 * T + 4 * (i / P)), s[i]);
    }
}

GEMM_INLINE void q6_k_run(const struct gemm_tile *t, size_t p, const size_t T, const size_t P)
{
    const uint8_t *w = t->w + p * t->panel_bytes;
    const uint8_t *x = t->x;
    float *out = t->out + 16 * p;
    __m512 s[ACC];

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

static void pack_q8_0(uint8_t *dst, const struct gemm_rows *rows)
{
    gemm_pack_codes(dst, rows, 128, false);
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

#define QUANTISED_KIND(weight, name, height, acc, x_group)                                         \
    GEMM_TILES_##height(name, acc) void kern_gemm_##name##_avx512 KERN_GEMM_PARAMS                 \
    {                                                                                              \
        static void (*const tile[])(const struct gemm_tile *t) = {GEMM_NAMES_##height(name)};      \
        static const struct gemm_kind kind = {weight, height, x_group, pack_##name, tile};         \
                                                                                                   \
        gemm_drive(&kind, out, out_stride, x, x_stride, m, panels, n_panels, k);                   \
    }

QUANTISED_KIND(KERN_Q8_0, q8_0, 12, 12, 40)
QUANTISED_KIND(KERN_Q4_0, q4_0, 12, 12, 40)
QUANTISED_KIND(KERN_Q4_K, q4_k, 12, 12, 40)
QUANTISED_KIND(KERN_Q6_K, q6_k, 8, 8, 44)

/* NOT YET VECTORISED: each line goes when its type has a body. */
#define BY_DEFINITION(name)                                                                        \
    void kern_gemm_##name##_avx512 KERN_GEMM_PARAMS                                               \
    {                                                                                              \
        kern_gemm_##name##_scalar(out, out_stride, x, x_stride, m, panels, n_panels, k);           \
    }
BY_DEFINITION(q4_1)
BY_DEFINITION(q5_0)
BY_DEFINITION(q5_1)
BY_DEFINITION(q5_k)
BY_DEFINITION(q3_k)
BY_DEFINITION(q2_k)
