/* tests/unit/formats/test_blocks_iq.c - the formats with tables and codebooks against an inverse
 * written here.
 *
 * Each packer puts random indices, signs and scales where the format's description wants them; what
 * block_decode() reads must be the formula over those numbers, which is exact in fp32. The
 * codebooks themselves have checksums, and a few patterns are written out.
 */
#include "kernels/gemm/codebook.h"
#include "tests/unit/formats/packed_blocks.h"

#include <stdio.h>

/* Eight signs; seven are stored where `parity`, and the eighth makes the minuses even. */
static uint32_t any_signs(bool parity)
{
    uint32_t signs = rnd(256), ones = 0;

    for (int i = 0; i < 8; i++)
        ones += signs >> i & 1;
    return parity && ones % 2 ? signs ^ 128 : signs;
}

static double times_sign(double x, uint32_t signs, int i)
{
    return signs >> i & 1 ? -x : x;
}

static const int IQ4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                            1,    13,   25,  38,  53,  69,  89,  113};
static const double E2M1[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};

static void pack_iq4_nl(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);

    for (int i = 0; i < 32; i++) {
        const uint32_t q = rnd(16);

        put(b + 2, (size_t)(i % 16 * 8 + i / 16 * 4), 4, q);
        want[i] = half(d) * IQ4[q];
    }
}

static void pack_iq4_xs(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);

    for (size_t g = 0; g < 8; g++) {
        const uint32_t scale = rnd(64);

        put(b + 2, 2 * g, 2, scale >> 4);
        put(b + 4, 4 * g, 4, scale & 15);
        for (size_t i = 0; i < 32; i++) {
            const uint32_t q = rnd(16);

            put(b + 8 + 16 * g, i % 16 * 8 + i / 16 * 4, 4, q);
            want[32 * g + i] = half(d) * ((double)scale - 32) * IQ4[q];
        }
    }
}

static void pack_mxfp4(uint8_t *b, double *want)
{
    const uint32_t e = rnd(4) == 0 ? rnd(3) : rnd(253);

    b[0] = (uint8_t)e;
    for (int i = 0; i < 32; i++) {
        const uint32_t q = rnd(16);

        put(b + 1, (size_t)(i % 16 * 8 + i / 16 * 4), 4, q);
        want[i] = ldexp(E2M1[q], (int)e - 127);
    }
}

/* The value of an e4m3 byte, written down once more. */
static double e4m3(uint32_t x)
{
    const uint32_t e = x >> 3 & 15, m = x & 7;

    if (x == 0x7f)
        return 0;
    return e == 0 ? ldexp(m, -9) : ldexp(1 + m / 8.0, (int)e - 7);
}

static void pack_nvfp4(uint8_t *b, double *want)
{
    for (size_t s = 0; s < 4; s++) {
        const uint32_t scale = rnd(8) == 0 ? 0x7f : rnd(256);

        put(b, 8 * s, 8, scale);
        for (size_t i = 0; i < 16; i++) {
            const uint32_t q = rnd(16);

            put(b + 4 + 8 * s, i % 8 * 8 + i / 8 * 4, 4, q);
            want[16 * s + i] = e4m3(scale) * E2M1[q];
        }
    }
}

static void pack_q1_0(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);

    for (size_t i = 0; i < 128; i++) {
        const uint32_t q = rnd(2);

        put(b + 2, i, 1, q);
        want[i] = q ? half(d) : -half(d);
    }
}

static void pack_q2_0(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);

    for (size_t i = 0; i < 64; i++) {
        const uint32_t q = rnd(4);

        put(b + 2, 2 * i, 2, q);
        want[i] = half(d) * ((double)q - 1);
    }
}

static void pack_tq2_0(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b + 64);

    for (int i = 0; i < 256; i++) {
        const uint32_t q = rnd(4);

        put(b + i / 128 * 32 + i % 32, (size_t)(i % 128 / 32 * 2), 2, q);
        want[i] = half(d) * ((double)q - 1);
    }
}

/* `digits` numbers of a byte, `step` apart, most significant first; of four the last counts as if a
 * fifth one followed. */
static void pack_digits(uint8_t *byte, double *want, double d, int digits, int step)
{
    uint32_t n = 0;

    for (int i = 0; i < 5; i++) {
        const uint32_t q = i < digits ? rnd(3) : 0;

        n = 3 * n + q;
        if (i < digits)
            want[i * step] = d * ((double)q - 1);
    }
    *byte = (uint8_t)((n * 256 + 242) / 243);
}

static void pack_tq1_0(uint8_t *b, double *want)
{
    const double d = half(put_scale(b + 52));

    for (int j = 0; j < 32; j++)
        pack_digits(b + j, want + j, d, 5, 32);
    for (int j = 0; j < 16; j++)
        pack_digits(b + 32 + j, want + 160 + j, d, 5, 16);
    for (int j = 0; j < 4; j++)
        pack_digits(b + 48 + j, want + 240 + j, d, 4, 4);
}

/* Number i of a pattern: of IQ3 a field of three bits, of the others one of two. */
static double iq3_s(uint16_t pattern, size_t i)
{
    return 2 * (pattern >> 3 * i & 7) + 1;
}

static double iq3_xxs(uint16_t pattern, size_t i)
{
    const int c = pattern >> 3 * i & 7;

    return c == 7 ? 62 : 8 * c + 4;
}

static double iq2(uint16_t pattern, size_t i)
{
    static const double magnitude[3] = {8, 25, 43};

    return magnitude[pattern >> 2 * i & 3];
}

static void pack_iq3_s(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);
    uint32_t scale = 0, signs = 0, index = 0;

    for (size_t i = 0; i < 256; i++) {
        if (i % 32 == 0)
            put(b + 106, i / 32 * 4, 4, scale = rnd(16));
        if (i % 8 == 0)
            put(b + 74, i, 8, signs = any_signs(false));
        if (i % 4 == 0) {
            index = rnd(512);
            b[2 + i / 4] = (uint8_t)index;
            put(b + 66, i / 4, 1, index >> 8);
        }
        want[i] = half(d) * (1 + 2 * scale) *
                  times_sign(iq3_s(KERN_IQ3_S_GRID[index], i % 4), signs, i % 8);
    }
}

static void pack_iq3_xxs(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);
    uint32_t scale = 0, signs = 0;

    for (size_t i = 0; i < 256; i++) {
        uint8_t *word = b + 66 + i / 32 * 4;

        if (i % 32 == 0)
            put(word, 28, 4, scale = rnd(16));
        if (i % 8 == 0)
            put(word, i % 32 / 8 * 7, 7, signs = any_signs(true));
        if (i % 4 == 0)
            b[2 + i / 4] = (uint8_t)rnd(256);
        want[i] = half(d) * (0.5 + scale) * 0.5 *
                  times_sign(iq3_xxs(KERN_IQ3_XXS_GRID[b[2 + i / 4]], i % 4), signs, i % 8);
    }
}

static void pack_iq2_xxs(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);
    uint32_t scale = 0, signs = 0, index = 0;

    for (size_t i = 0; i < 256; i++) {
        uint8_t *g = b + 2 + i / 32 * 8;

        if (i % 32 == 0)
            put(g + 4, 28, 4, scale = rnd(16));
        if (i % 8 == 0) {
            put(g + 4, i % 32 / 8 * 7, 7, signs = any_signs(true));
            put(g, i % 32, 8, index = rnd(256));
        }
        want[i] = half(d) * (0.5 + scale) * 0.25 *
                  times_sign(iq2(KERN_IQ2_XXS_GRID[index], i % 8), signs, i % 8);
    }
}

static void pack_iq2_xs(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);
    uint32_t scale = 0, signs = 0, index = 0;

    for (size_t i = 0; i < 256; i++) {
        if (i % 16 == 0)
            put(b + 66, i / 4, 4, scale = rnd(16));
        if (i % 8 == 0) {
            put(b + 2, 2 * i, 9, index = rnd(512));
            put(b + 2, 2 * i + 9, 7, signs = any_signs(true));
        }
        want[i] = half(d) * (0.5 + scale) * 0.25 *
                  times_sign(iq2(KERN_IQ2_XS_GRID[index], i % 8), signs, i % 8);
    }
}

static void pack_iq2_s(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);
    uint32_t scale = 0, signs = 0, index = 0;

    for (size_t i = 0; i < 256; i++) {
        if (i % 16 == 0)
            put(b + 74, i / 4, 4, scale = rnd(16));
        if (i % 8 == 0) {
            index = rnd(1024);
            put(b + 2, i, 8, index);
            put(b + 66, i / 4, 2, index >> 8);
            put(b + 34, i, 8, signs = any_signs(false));
        }
        want[i] = half(d) * (0.5 + scale) * 0.25 *
                  times_sign(iq2(KERN_IQ2_S_GRID[index], i % 8), signs, i % 8);
    }
}

static double iq1(uint32_t index, size_t i, uint32_t down)
{
    return (KERN_IQ1_GRID[index] >> 2 * i & 3) - 1 + (down ? -0.125 : 0.125);
}

static void pack_iq1_s(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);
    uint32_t scale = 0, down = 0, index = 0;

    for (size_t i = 0; i < 256; i++) {
        uint8_t *word = b + 34 + i / 32 * 2;

        if (i % 32 == 0) {
            put(word, 12, 3, scale = rnd(8));
            put(word, 15, 1, down = rnd(2));
        }
        if (i % 8 == 0) {
            index = rnd(2048);
            put(b + 2, i, 8, index);
            put(word, i % 32 / 8 * 3, 3, index >> 8);
        }
        want[i] = half(d) * (2 * scale + 1) * iq1(index, i % 8, down);
    }
}

static void pack_iq1_m(uint8_t *b, double *want)
{
    const uint16_t d = any_half();
    uint32_t scale = 0, down = 0, index = 0;

    for (size_t i = 0; i < 4; i++)
        put(b + 48, 16 * i + 12, 4, d >> 4 * i);
    for (size_t i = 0; i < 256; i++) {
        if (i % 16 == 0)
            put(b + 48 + i / 64 * 2, i % 64 / 16 * 3, 3, scale = rnd(8));
        if (i % 8 == 0) {
            index = rnd(2048);
            put(b, i, 8, index);
            put(b + 32, i / 2, 3, index >> 8);
            put(b + 32, i / 2 + 3, 1, down = rnd(2));
        }
        want[i] = half(d) * (2 * scale + 1) * iq1(index, i % 8, down);
    }
}

static const struct packed packed[] = {
    {20, "IQ4_NL", 32, 18, pack_iq4_nl},    {23, "IQ4_XS", 256, 136, pack_iq4_xs},
    {39, "MXFP4", 32, 17, pack_mxfp4},      {35, "TQ2_0", 256, 66, pack_tq2_0},
    {34, "TQ1_0", 256, 54, pack_tq1_0},     {21, "IQ3_S", 256, 110, pack_iq3_s},
    {18, "IQ3_XXS", 256, 98, pack_iq3_xxs}, {22, "IQ2_S", 256, 82, pack_iq2_s},
    {17, "IQ2_XS", 256, 74, pack_iq2_xs},   {16, "IQ2_XXS", 256, 66, pack_iq2_xxs},
    {19, "IQ1_S", 256, 50, pack_iq1_s},     {29, "IQ1_M", 256, 56, pack_iq1_m},
    {40, "NVFP4", 64, 36, pack_nvfp4},      {41, "Q1_0", 128, 18, pack_q1_0},
    {42, "Q2_0", 64, 18, pack_q2_0},
};
#define N_PACKED (sizeof(packed) / sizeof(packed[0]))

static void test_decode_is_the_formula(void **arg)
{
    (void)arg;
    for (size_t f = 0; f < N_PACKED; f++)
        check_decoding(&packed[f], false);
}

static void test_table(void **arg)
{
    float x[256] = {0};
    uint8_t bytes[1024];

    (void)arg;
    for (size_t f = 0; f < N_PACKED; f++) {
        check_format(&packed[f]);
        assert_false(block_encode((enum block_type)packed[f].type, x, bytes, 256));
    }
}

/* Blocks written out byte by byte. */
static void test_known_blocks(void **arg)
{
    static const uint8_t b_iq4_nl[18] = {0, 0x3c, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
    static const uint8_t b_mxfp4[17] = {127, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
    static const uint8_t b_iq3_s[110] = {0, 0x3c, [2] = 255, [66] = 1, [74] = 0x0a, [106] = 0x21};
    static const uint8_t b_iq2_xxs[66] = {0, 0x3c, 1, 0, 0, 0, 1, 0, 0, 0x10};
    static const uint8_t b_iq1_s[50] = {0, 0x3c, 255, [34] = 7, 0xa0};
    static const uint8_t b_tq1_0[54] = {0, 255, [52] = 0, 0x40};
    static const uint8_t b_nvfp4[36] = {0x38, 0x7f, 0x01,       0x7e,       0x21,
                                        [12] = 0x21, [20] = 0x02, [28] = 0x07};
    static const uint8_t b_q1_0[18] = {0, 0x3c, 0x01};
    static const uint8_t b_q2_0[18] = {0, 0x3c, 0xe4};
    float x[256];

    (void)arg;
    block_decode(BLOCK_NVFP4, b_nvfp4, x, 64); /* scales 1, none, the least, the greatest */
    assert_true(x[0] == 0.5f && x[8] == 1.0f && x[16] == 0.0f && x[24] == 0.0f);
    assert_true(x[32] == 0x1p-9f && x[48] == 448.0f * 6.0f);
    block_decode(BLOCK_Q1_0, b_q1_0, x, 128);
    assert_true(x[0] == 1.0f && x[1] == -1.0f && x[127] == -1.0f);
    block_decode(BLOCK_Q2_0, b_q2_0, x, 64);
    assert_true(x[0] == -1.0f && x[1] == 0.0f && x[2] == 1.0f && x[3] == 2.0f && x[4] == -1.0f);
    block_decode(BLOCK_IQ4_NL, b_iq4_nl, x, 32);
    for (int i = 0; i < 8; i++) {
        assert_true(x[i] == IQ4[2 * i]);
        assert_true(x[16 + i] == IQ4[2 * i + 1]);
    }
    block_decode(BLOCK_MXFP4, b_mxfp4, x, 32); /* an exponent of 127 is a scale of 1 */
    for (int i = 0; i < 8; i++) {
        assert_true(x[i] == E2M1[2 * i]);
        assert_true(x[16 + i] == E2M1[2 * i + 1]);
    }
    block_decode(BLOCK_IQ3_S, b_iq3_s, x, 256); /* pattern 511: 1 1 15 15; scales 3 and 5 */
    assert_true(x[0] == 3.0f && x[1] == -3.0f && x[2] == 45.0f && x[3] == -45.0f);
    assert_true(x[32] == 5.0f);
    block_decode(BLOCK_IQ2_XXS, b_iq2_xxs, x, 256); /* pattern 1: 43 and sevens of 8; scale 3/8 */
    assert_true(x[0] == -43 * 0.375f); /* one sign and, so that they are even, the eighth */
    assert_true(x[1] == 3.0f && x[6] == 3.0f && x[7] == -3.0f && x[8] == 3.0f);
    block_decode(BLOCK_IQ1_S, b_iq1_s, x, 256); /* the last pattern: ones; scale 5, shift down */
    for (int i = 0; i < 8; i++)
        assert_true(x[i] == 5 * 0.875f);
    assert_true(x[8] == 5 * -1.125f);
    block_decode(BLOCK_TQ1_0, b_tq1_0, x, 256); /* 255 is all twos, 0 is all zeros */
    for (int i = 0; i < 5; i++)
        assert_true(x[32 * i] == -2.0f && x[32 * i + 1] == 2.0f);
}

static uint64_t checksum(const uint16_t *list, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a over the little-endian bytes */

    for (size_t i = 0; i < 2 * n; i++)
        h = (h ^ (list[i / 2] >> 8 * (i % 2) & 255)) * 0x100000001b3u;
    return h;
}

static void test_codebooks(void **arg)
{
    static const struct {
        const uint16_t *list;
        size_t n;
        uint64_t sum;
    } books[] = {
        {KERN_IQ2_XXS_GRID, 256, 0x6fca17f5c451905d}, {KERN_IQ2_XS_GRID, 512, 0x29d6ac8e0e6b14e3},
        {KERN_IQ2_S_GRID, 1024, 0x641f9aa3fbd98694},  {KERN_IQ3_XXS_GRID, 256, 0x79d733576d562547},
        {KERN_IQ3_S_GRID, 512, 0x55b224116d1e5ca2},   {KERN_IQ1_GRID, 2048, 0x03f1880817eeffa4},
    };

    (void)arg;
    for (size_t b = 0; b < sizeof(books) / sizeof(books[0]); b++) {
        assert_int_equal(checksum(books[b].list, books[b].n), books[b].sum);
        for (size_t i = 1; i < books[b].n; i++)
            assert_in_range(books[b].list[i], books[b].list[i - 1] + 1, 0xffff);
    }
}

/* The eighth of eight signs. */
static void test_even_signs(void **arg)
{
    (void)arg;
    for (unsigned s = 0; s < 128; s++) {
        const uint8_t all = kern_even_signs(s);
        int ones = 0;

        for (int i = 0; i < 8; i++)
            ones += all >> i & 1;
        assert_int_equal(all & 127, s);
        assert_int_equal(ones % 2, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_is_the_formula),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_known_blocks),
        cmocka_unit_test(test_codebooks),
        cmocka_unit_test(test_even_signs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
