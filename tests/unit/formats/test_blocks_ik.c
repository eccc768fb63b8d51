/* tests/unit/formats/test_blocks_ik.c - the formats of ik_llama.cpp against an inverse.
 *
 * Each packer puts random codes, scales and shifts where the format's description wants them; what
 * block_decode() reads must be the formula over those numbers, which is exact in fp32 but for two:
 * the numbers of IQ6_K may have 26 digits, and scales of rows are floats, whose product with a
 * group's is rounded.
 */
#include "tests/unit/formats/packed_blocks.h"

/* The numbers of 16, 32 and 64 codes: plain ones, then those that are shifted. */
static const int FOUR[2][16] = {
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    {-123, -100, -79, -61, -45, -31, -18, -6, 5, 17, 29, 42, 57, 73, 93, 117}};
static const int FIVE[2][32] = {
    {-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6,
     -1,   5,    11,   17,  23,  29,  36,  43,  51,  59,  68,  77,  87,  97,  109, 121},
    {-124, -112, -101, -90, -81, -72, -63, -55, -48, -41, -34, -28, -22, -16, -10, -4,
     1,    7,    13,   19,  25,  31,  38,  45,  53,  61,  70,  79,  89,  99,  111, 123}};
static const int SIX[64] = {
    -127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54,
    -51,  -47,  -44,  -40,  -37,  -34, -31, -28, -25, -22, -19, -16, -13, -11, -8,  -5,
    -2,   0,    3,    6,    9,    12,  14,  17,  20,  23,  27,  30,  33,  36,  40,  44,
    47,   51,   55,   59,   63,   68,  72,  77,  82,  87,  92,  98,  103, 109, 115, 121};

/* Of each 16: a bit where its numbers are greater. */
static uint32_t put_shift(uint8_t *b, size_t h)
{
    const uint32_t is_shifted = rnd(2);

    put(b + 2, h, 1, is_shifted);
    return is_shifted;
}

static void pack_iq2_k(uint8_t *b, double *want)
{
    static const int table[2][4] = {{-31, -13, 1, 17}, {-26, -8, 6, 22}};
    const uint16_t d = put_scale(b);

    for (size_t h = 0; h < 16; h++) {
        const uint32_t scale = rnd(16), shift = put_shift(b, h);

        put(b + 4, 4 * h, 4, scale);
        for (size_t i = 16 * h; i < 16 * h + 16; i++) {
            const uint32_t q = rnd(4);

            put(b + 12 + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2, q);
            want[i] = half(d) * ((double)scale - 8) * table[shift][q];
        }
    }
}

static void pack_iq3_k(uint8_t *b, double *want)
{
    static const int table[2][8] = {{-63, -40, -23, -10, 1, 13, 28, 47},
                                    {-59, -36, -19, -6, 5, 17, 32, 51}};
    const uint16_t d = put_scale(b);

    for (size_t h = 0; h < 16; h++) {
        const uint32_t scale = rnd(16), minus = rnd(2), shift = put_shift(b, h);

        put(b + 4, h, 1, minus);
        put(b + 6, 4 * h, 4, scale);
        for (size_t i = 16 * h; i < 16 * h + 16; i++) {
            const uint32_t q = rnd(8);

            put(b + 14 + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2, q & 3);
            put(b + 78 + i % 32, i / 32, 1, q >> 2);
            want[i] = half(d) * (2.0 * scale + 1) * (minus ? -1 : 1) * table[shift][q];
        }
    }
}

/* A six-bit scale of half h: a nibble, and a pair of bits above it. */
static double put_six_bits(uint8_t *b, size_t h)
{
    const uint32_t scale = rnd(64);

    put(b + 4, 2 * h, 2, scale >> 4);
    put(b + 8, 4 * h, 4, scale & 15);
    return (double)scale - 32;
}

/* Codes of four bits, 16 bytes for each 32 numbers. */
static uint32_t put_four(uint8_t *qs, size_t i)
{
    const uint32_t q = rnd(16);

    put(qs + i / 32 * 16 + i % 16, i % 32 / 16 * 4, 4, q);
    return q;
}

/* Codes of five bits or six: nibbles of numbers i and i + 32 of each 64, then what is above. */
static uint32_t put_five(uint8_t *qs, uint8_t *qh, size_t i)
{
    const uint32_t q = rnd(32);

    put(qs + i / 64 * 32 + i % 32, i % 64 / 32 * 4, 4, q & 15);
    put(qh + i % 32, i / 32, 1, q >> 4);
    return q;
}

static uint32_t put_six(uint8_t *qs, uint8_t *qh, size_t i)
{
    const uint32_t q = rnd(64);

    put(qs + i / 64 * 32 + i % 32, i % 64 / 32 * 4, 4, q & 15);
    put(qh + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2, q >> 4);
    return q;
}

static void pack_iq4_k(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);

    for (size_t h = 0; h < 16; h++) {
        const uint32_t shift = put_shift(b, h);
        const double scale = put_six_bits(b, h);

        for (size_t i = 16 * h; i < 16 * h + 16; i++)
            want[i] = half(d) * scale * FOUR[shift][put_four(b + 16, i)];
    }
}

static void pack_iq5_k(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);

    for (size_t h = 0; h < 16; h++) {
        const uint32_t shift = put_shift(b, h);
        const double scale = put_six_bits(b, h);

        for (size_t i = 16 * h; i < 16 * h + 16; i++)
            want[i] = half(d) * scale * FIVE[shift][put_five(b + 16, b + 144, i)];
    }
}

static void pack_iq6_k(uint8_t *b, double *want)
{
    const uint16_t d = put_scale(b);

    for (size_t h = 0; h < 16; h++) {
        const uint32_t shift = put_shift(b, h), scale = rnd(256);

        put(b + 4, 8 * h, 8, scale);
        for (size_t i = 16 * h; i < 16 * h + 16; i++)
            want[i] = half(d) * (int8_t)scale * (SIX[put_six(b + 20, b + 148, i)] + (int)shift);
    }
}

/* A byte of scales; it multiplies a row's, which makes a float. */
static float put_group(uint8_t *b, size_t g, float row_scale, uint32_t *shift)
{
    const uint32_t steps = rnd(128);

    *shift = rnd(2);
    put(b, 8 * g, 8, 2 * steps + *shift);
    return row_scale * (float)(2 * (int)steps - 127);
}

static void pack_iq4_ks(uint8_t *b, float row_scale, double *want)
{
    for (size_t g = 0; g < 8; g++) {
        uint32_t shift;
        const double scale = (double)put_group(b, g, row_scale, &shift);

        for (size_t i = 32 * g; i < 32 * g + 32; i++)
            want[i] = scale * FOUR[shift][put_four(b + 8, i)];
    }
}

static void pack_iq5_ks(uint8_t *b, float row_scale, double *want)
{
    for (size_t g = 0; g < 8; g++) {
        uint32_t shift;
        const double scale = (double)put_group(b, g, row_scale, &shift);

        for (size_t i = 32 * g; i < 32 * g + 32; i++)
            want[i] = scale * FIVE[shift][put_five(b + 8, b + 136, i)];
    }
}

static const struct packed packed[] = {
    {137, "IQ2_K", 256, 76, pack_iq2_k},  {138, "IQ3_K", 256, 110, pack_iq3_k},
    {139, "IQ4_K", 256, 144, pack_iq4_k}, {140, "IQ5_K", 256, 176, pack_iq5_k},
    {141, "IQ6_K", 256, 212, pack_iq6_k},
};
#define N_PACKED (sizeof(packed) / sizeof(packed[0]))

static void test_decode_is_the_formula(void **arg)
{
    (void)arg;
    for (size_t f = 0; f < N_PACKED; f++)
        check_decoding(&packed[f], packed[f].type == BLOCK_IQ6_K);
}

static void test_table(void **arg)
{
    float x[256] = {0};
    uint8_t bytes[1024];

    (void)arg;
    for (size_t f = 0; f < N_PACKED; f++) {
        check_format(&packed[f]);
        assert_int_equal(block_format(packed[f].type)->head, 0);
        assert_false(block_encode((enum block_type)packed[f].type, x, bytes, 256));
    }
}

/* ---- rows with a scale ---- */

#define ROW_BLOCKS 3

static const struct scaled {
    enum block_type type;
    uint32_t bytes;
    void (*pack)(uint8_t *b, float row_scale, double *want);
} scaled[] = {
    {BLOCK_IQ4_KS, 136, pack_iq4_ks},
    {BLOCK_IQ5_KS, 168, pack_iq5_ks},
};

/* A float of all digits, and now and then 0 or the greatest that a model may hold. */
static float any_row_scale(void)
{
    static const float extremes[] = {0.0f, -0.0f, 0x1p114f, -0x1p114f};

    if (rnd(4) == 0)
        return extremes[rnd(4)];
    return ldexpf((float)rnd(1 << 24) - 0x1p23f, (int)rnd(60) - 40);
}

static void check_numbers(const struct scaled *s, const float *got, const double *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (got[i] != (float)want[i])
            fail_msg("type %d: number %zu is %.9g, not %.9g", (int)s->type, i, (double)got[i],
                     want[i]);
}

/* A whole row, and each of its blocks alone; at any alignment. */
static void check_row(const struct scaled *s)
{
    uint8_t bytes[1 + 4 + ROW_BLOCKS * MAX_PACKED] = {0};
    double want[ROW_BLOCKS * 256];
    float got[ROW_BLOCKS * 256];
    const float row_scale = any_row_scale();
    uint8_t *row = bytes + 1;

    memcpy(row, &row_scale, 4);
    for (size_t b = 0; b < ROW_BLOCKS; b++)
        s->pack(row + 4 + b * s->bytes, row_scale, want + 256 * b);
    block_decode(s->type, row, got, ROW_BLOCKS * 256);
    check_numbers(s, got, want, ROW_BLOCKS * 256);
    for (size_t b = 0; b < ROW_BLOCKS; b++) {
        block_decode_part(s->type, row, 256 * b, got, 256);
        check_numbers(s, got, want + 256 * b, 256);
    }
}

static void test_rows_with_a_scale(void **arg)
{
    (void)arg;
    for (size_t i = 0; i < sizeof(scaled) / sizeof(scaled[0]); i++) {
        const struct block_format *f = block_format(scaled[i].type);

        assert_int_equal(f->elems, 256);
        assert_int_equal(f->bytes, scaled[i].bytes);
        assert_int_equal(f->head, 4);
        assert_int_equal(block_row_bytes(f, 512), 4 + 2 * scaled[i].bytes);
        for (int round = 0; round < 300; round++)
            check_row(&scaled[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_is_the_formula),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_rows_with_a_scale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
