/* kernels/attention/attn_q8_avx2.c - attention on 8-bit keys and values: tiles of 6 queries.
 *
 * vpmaddubsw wants one side unsigned and adds pairs in 16 bits. Codes are without their offset
 * here: of the keys the size is the unsigned side, and the query takes over their sign; the
 * weights of values are unsigned already. Pairs are at most 2 * 128 * 127: nothing saturates.
 */
#include "kernels/simd/v16_avx2.inc"

typedef struct {
    __m256i h[2]; /* lanes 0-7 and 8-15 */
} ints;

static inline ints ints_zero(void)
{
    return (ints){{_mm256_setzero_si256(), _mm256_setzero_si256()}};
}

static inline ints ints_start(int32_t bias)
{
    (void)bias; /* the offset is gone before the products */
    return ints_zero();
}

/* Without the offset, as signed bytes. */
static inline ints ints_values(const uint8_t *p)
{
    const __m256i offset = _mm256_set1_epi8(-128);
    const __m256i lo = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i hi = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));

    return (ints){{_mm256_xor_si256(lo, offset), _mm256_xor_si256(hi, offset)}};
}

static inline ints ints_keys(const uint8_t *p)
{
    return ints_values(p);
}

static inline __m256i ints_all(const int8_t *p)
{
    int32_t quad;

    memcpy(&quad, p, sizeof quad);
    return _mm256_set1_epi32(quad);
}

static inline __m256i ints_dot(__m256i sum, __m256i u, __m256i s)
{
    const __m256i pairs = _mm256_maddubs_epi16(u, s);

    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline ints ints_key(ints sum, ints keys, const int8_t *q)
{
    const __m256i x = ints_all(q);

    for (int i = 0; i < 2; i++)
        sum.h[i] = ints_dot(sum.h[i], _mm256_abs_epi8(keys.h[i]),
                            _mm256_sign_epi8(x, keys.h[i]));
    return sum;
}

static inline ints ints_value(ints sum, ints values, const int8_t *e)
{
    const __m256i x = ints_all(e);

    for (int i = 0; i < 2; i++)
        sum.h[i] = ints_dot(sum.h[i], x, values.h[i]);
    return sum;
}

static inline v16 ints_float(ints a)
{
    return (v16){_mm256_cvtepi32_ps(a.h[0]), _mm256_cvtepi32_ps(a.h[1])};
}

#define NAME(op) kern_##op##_avx2
#define A_TILE 6
#define A_TILES                                                                                    \
    ATTN_TILE(1, 2, 2)                                                                             \
    ATTN_TILE(2, 1, 1) ATTN_TILE(3, 1, 1) ATTN_TILE(4, 1, 1) ATTN_TILE(5, 1, 1) ATTN_TILE(6, 1, 1)
#define A_NAMES(f) f(1), f(2), f(3), f(4), f(5), f(6)
#include "kernels/attention/attn_q8_body.inc"
