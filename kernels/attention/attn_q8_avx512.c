/* kernels/attention/attn_q8_avx512.c - attention on 8-bit keys and values: tiles of 12 queries. */
#include "kernels/simd/v16_avx512.inc"

typedef __m512i ints;

static inline ints ints_start(int32_t bias)
{
    return _mm512_set1_epi32(-bias);
}

static inline ints ints_zero(void)
{
    return _mm512_setzero_si512();
}

static inline ints ints_keys(const uint8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

/* Without the offset, as signed bytes. */
static inline ints ints_values(const uint8_t *p)
{
    return _mm512_xor_si512(_mm512_loadu_si512((const void *)p), _mm512_set1_epi8(-128));
}

static inline ints ints_all(const int8_t *p)
{
    int32_t quad;

    memcpy(&quad, p, sizeof quad);
    return _mm512_set1_epi32(quad);
}

static inline ints ints_key(ints sum, ints keys, const int8_t *q)
{
    return _mm512_dpbusd_epi32(sum, keys, ints_all(q));
}

static inline ints ints_value(ints sum, ints values, const int8_t *e)
{
    return _mm512_dpbusd_epi32(sum, ints_all(e), values);
}

static inline v16 ints_float(ints a)
{
    return _mm512_cvtepi32_ps(a);
}

#define NAME(op) kern_##op##_avx512
#define A_TILE 12
#define A_TILES                                                                                    \
    ATTN_TILE(1, 4, 4)                                                                             \
    ATTN_TILE(2, 4, 4)                                                                             \
    ATTN_TILE(3, 4, 4)                                                                             \
    ATTN_TILE(4, 2, 2)                                                                             \
    ATTN_TILE(5, 2, 2)                                                                             \
    ATTN_TILE(6, 2, 2)                                                                             \
    ATTN_TILE(7, 1, 1)                                                                             \
    ATTN_TILE(8, 1, 1)                                                                             \
    ATTN_TILE(9, 1, 1) ATTN_TILE(10, 1, 1) ATTN_TILE(11, 1, 1) ATTN_TILE(12, 1, 1)
#define A_NAMES(f) f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12)
#include "kernels/attention/attn_q8_body.inc"
