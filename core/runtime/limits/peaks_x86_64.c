/* core/runtime/limits/peaks_x86_64.c - the loops of x86-64's levels.
 *
 * Macros of peaks_impl.h make each loop from one step of a product (vpdpbusd, tdpbssd, vpmaddubsw,
 * vpmaddwd) and the conversion of its sum; a "halves" loop has a scale for each half of a group.
 * Target attributes compile each loop for its level, whatever the build's own flags are.
 */
#include "core/runtime/limits/peaks_impl.h"

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

/* A scale for the group; or a scale for each half, and the halves are added as floats. */
#define FINISH(p, flat) s = p##_fmadd_ps(p##_cvtepi32_ps(flat), p##_mul_ps(d, scale), s)
#define FINISH_HALVES(p, flat)                                                                     \
    float_of_half = p##_mul_ps(p##_cvtepi32_ps(flat), d);                                          \
    OPAQUE(a);                                                                                     \
    float_of_half = p##_fmadd_ps(p##_cvtepi32_ps(flat), d, float_of_half);                         \
    s = p##_fmadd_ps(float_of_half, scale, s)

/* ---- AVX-512 and AVX-VNNI: all codes are bytes ---- */

#define ONES_512 _mm512_set1_epi16(1)
#define ONES_256 _mm256_set1_epi16(1)
#define HALF_512 _mm512_set1_ps(0.5f)
#define HALF_256 _mm256_set1_ps(0.5f)

GROUPS(vnni_512, "avx512f,avx512bw,avx512vnni", __m512i, ONES_512, __m512, HALF_512, 8,
       _mm512_dpbusd_epi32(a, w, x), FINISH(_mm512, a))
GROUPS(vnni_512_halves, "avx512f,avx512bw,avx512vnni", __m512i, ONES_512, __m512, HALF_512, 8,
       _mm512_dpbusd_epi32(a, w, x), __m512 FINISH_HALVES(_mm512, a))
GROUPS(vnni_256vl, "avx2,fma,avx512vl,avx512vnni", __m256i, ONES_256, __m256, HALF_256, 8,
       _mm256_dpbusd_epi32(a, w, x), FINISH(_mm256, a))
GROUPS(vnni_256vl_halves, "avx2,fma,avx512vl,avx512vnni", __m256i, ONES_256, __m256, HALF_256, 8,
       _mm256_dpbusd_epi32(a, w, x), __m256 FINISH_HALVES(_mm256, a))
GROUPS(vnni_256, "avx2,fma,avxvnni", __m256i, ONES_256, __m256, HALF_256, 8,
       _mm256_dpbusd_avx_epi32(a, w, x), FINISH(_mm256, a))
GROUPS(vnni_256_halves, "avx2,fma,avxvnni", __m256i, ONES_256, __m256, HALF_256, 8,
       _mm256_dpbusd_avx_epi32(a, w, x), __m256 FINISH_HALVES(_mm256, a))

/* ---- AMX: sixteen sums of a group at a time, on tiles of shapes as gemm_q_amx.c has them ---- */

/* Products of a group, or of half a group; a row's sums become floats as above. */
#define TILE_GROUPS(name, columns, dots, finish)                                                   \
    __attribute__((target("avx512f"))) static void name(void)                                      \
    {                                                                                              \
        static const struct {                                                                      \
            uint8_t palette, start_row, zero[14];                                                  \
            uint16_t row_bytes[16];                                                                \
            uint8_t n_rows[16];                                                                    \
        } shape = {1, 0, {0}, {64, 64, columns, 64}, {16, 16, 16, columns / 4}};                   \
        __m512 d = HALF_512, scale = HALF_512, out[2] = {HALF_512, HALF_512};                      \
        __m512i a = _mm512_set1_epi32(1);                                                          \
                                                                                                   \
        __asm__ volatile("ldtilecfg %0" : : "m"(shape));                                           \
        for (int i = 0; i < N_GROUPS * GROUP_SUMS / 16; i++) {                                     \
            __asm__ volatile(dots : :);                                                            \
            _Pragma("GCC unroll 16") for (int j = 0; j < 16; j++)                                  \
            {                                                                                      \
                __m512 s = out[j % 2];                                                             \
                OPAQUE(a);                                                                         \
                OPAQUE(scale);                                                                     \
                finish;                                                                            \
                OPAQUE(s);                                                                         \
                out[j % 2] = s;                                                                    \
            }                                                                                      \
        }                                                                                          \
        __asm__ volatile("tilerelease");                                                           \
    }

TILE_GROUPS(tiles, 32, "tdpbssd %%tmm3, %%tmm2, %%tmm0", FINISH(_mm512, a))
TILE_GROUPS(tiles_halves, 16, "tdpbssd %%tmm3, %%tmm2, %%tmm0; tdpbssd %%tmm3, %%tmm2, %%tmm1",
            __m512 FINISH_HALVES(_mm512, a))

/* ---- AVX2: 16-bit sums that vpmaddwd widens to 32 bits at the end, or widened codes ---- */

#define NARROW_256 _mm256_add_epi16(a, _mm256_maddubs_epi16(w, x))
#define WIDE_256 _mm256_add_epi32(a, _mm256_madd_epi16(w, x))
#define FLAT_256 _mm256_madd_epi16(a, x)

GROUPS(narrow_256, "avx2,fma", __m256i, ONES_256, __m256, HALF_256, 8, NARROW_256,
       FINISH(_mm256, FLAT_256))
GROUPS(narrow_256_halves, "avx2,fma", __m256i, ONES_256, __m256, HALF_256, 8, NARROW_256,
       __m256 FINISH_HALVES(_mm256, FLAT_256))
GROUPS(wide_256, "avx2,fma", __m256i, ONES_256, __m256, HALF_256, 16, WIDE_256, FINISH(_mm256, a))
GROUPS(wide_256_halves, "avx2,fma", __m256i, ONES_256, __m256, HALF_256, 16, WIDE_256,
       __m256 FINISH_HALVES(_mm256, a))

/* ---- "scalar": the fastest loop that a compiler can make with SSE2 ---- */

GROUPS(wide_128, "sse2", __m128i, _mm_set1_epi16(1), __m128, _mm_set1_ps(0.5f), 16,
       _mm_add_epi32(a, _mm_madd_epi16(w, x)),
       s = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(a), _mm_mul_ps(d, scale)), s))

FMAS(fma_512, "avx512f", __m512, _mm512_set1_ps(0.5f), _mm512_fmadd_ps(a[j], x, x))
FMAS(fma_256, "avx2,fma", __m256, _mm256_set1_ps(0.5f), _mm256_fmadd_ps(a[j], x, x))
FMAS(fma_128, "sse2", __m128, _mm_set1_ps(0.5f), _mm_add_ps(_mm_mul_ps(a[j], x), x))

/* Looked up by name; a level without a row of its own is measured as the lowest. */
static const struct peak_level LEVELS[] = {
    {"scalar", {fma_128, wide_128, wide_128, wide_128, wide_128}, 4},
    {"avx2", {fma_256, narrow_256, narrow_256_halves, wide_256, wide_256_halves}, 8},
    {"avxvnni", {fma_256, vnni_256, vnni_256_halves, vnni_256, vnni_256_halves}, 8},
    {"avx512", {fma_512, vnni_512, vnni_512_halves, vnni_512, vnni_512_halves}, 16},
    {"amx", {fma_512, tiles, tiles_halves, tiles, tiles_halves}, 16},
};

/* Used at the level below 512 bits on processors that have the instruction only in AVX-512's
 * encoding. */
static const struct peak_level AVX512VL = {
    "avxvnni", {fma_256, vnni_256vl, vnni_256vl_halves, vnni_256vl, vnni_256vl_halves}, 8};

static bool has_avx_vnni(void)
{
    uint32_t a, b, c, d;

    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

const struct peak_level *peak_level_of(enum kern_isa isa)
{
    const size_t n = sizeof(LEVELS) / sizeof(LEVELS[0]);

    if (isa == KERN_ISA_AVXVNNI && !has_avx_vnni())
        return &AVX512VL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(LEVELS[i].isa, kern_isa_name(isa)) == 0)
            return &LEVELS[i];
    return &LEVELS[0];
}
