/* tests/unit/formats/test_blocks.c - the block formats against an inverse written here.
 *
 * Each packer below puts random codes and scales where the format's description wants them; what
 * block_decode() reads must be the formula over those numbers, rounded to a float where it has more
 * digits.
 */
#include "core/formats/gguf/gguf.h"
#include "tests/fixtures/files.h"
#include "tests/unit/formats/packed_blocks.h"

#include <stdio.h>
#include <stdlib.h>

static double unit(void)
{
    return (double)rnd(1u << 30) / (double)(1u << 30);
}

static void put_half(uint8_t *p, uint16_t h)
{
    p[0] = h & 255;
    p[1] = h >> 8;
}

static void test_half_is_exact(void **arg)
{
    (void)arg;
    for (uint32_t h = 0; h < 65536; h++) {
        const double want = half((uint16_t)h);
        const float got = block_f16_to_f32((uint16_t)h);

        if (isnan(want)) {
            assert_true(isnan(got));
            assert_true(isnan(half(block_f32_to_f16(got))));
        } else {
            assert_true((double)got == want && !!signbit(got) == !!(h & 0x8000));
            assert_int_equal(block_f32_to_f16(got), h);
        }
    }
}

/* The next half upwards in magnitude is farther away, or as far and odd. */
static void check_nearest_half(float f)
{
    const uint16_t h = block_f32_to_f16(f);
    const uint16_t mag = h & 0x7fff;
    const double a = fabs((double)f);
    const double top = 65536.0; /* where infinity stands for rounding */
    const double here = mag == 0x7c00 ? top : fabs(half(h));
    const double above = mag >= 0x7bff ? top : half((uint16_t)(mag + 1));
    const double below = mag == 0 ? 0.0 : half((uint16_t)(mag - 1));

    assert_int_equal(h >> 15, signbit(f) ? 1 : 0);
    if (mag < 0x7c00)
        assert_true(fabs(a - here) < fabs(above - a) ||
                    (fabs(a - here) == fabs(above - a) && mag % 2 == 0));
    if (mag > 0 && a < top)
        assert_true(fabs(a - here) < fabs(a - below) ||
                    (fabs(a - here) == fabs(a - below) && mag % 2 == 0));
}

static void test_half_rounds_to_nearest_even(void **arg)
{
    (void)arg;
    for (int i = 0; i < 200000; i++)
        check_nearest_half((float)ldexp(2 * unit() - 1, (int)rnd(45) - 28));
    for (uint16_t h = 0; h < 0x7bff; h++) /* every midpoint is a tie */
        check_nearest_half((float)((half(h) + half((uint16_t)(h + 1))) / 2));
    assert_int_equal(block_f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(block_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(block_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(block_f32_to_f16(1e30f), 0x7c00);
    assert_true(isnan(half(block_f32_to_f16(NAN))));
}

static void test_bf16(void **arg)
{
    (void)arg;
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = block_bf16_to_f32((uint16_t)h);
        uint32_t bits;

        memcpy(&bits, &f, 4);
        assert_int_equal(bits, h << 16);
        if (isnan(f))
            assert_true(isnan(block_bf16_to_f32(block_f32_to_bf16(f))));
        else
            assert_int_equal(block_f32_to_bf16(f), h);
    }
    assert_int_equal(block_f32_to_bf16(1.00390625f), 0x3f80); /* 1 + 2^-8: tie, to even */
    assert_int_equal(block_f32_to_bf16(1.01171875f), 0x3f82); /* 1 + 3 x 2^-8: tie, to even */
    assert_int_equal(block_f32_to_bf16(1.0040283203f), 0x3f81);
    assert_int_equal(block_f32_to_bf16(3.4e38f), 0x7f80);
    uint32_t low_nan = 0x7f800001; /* the payload would be cut off */
    float f;
    memcpy(&f, &low_nan, 4);
    assert_true(isnan(block_bf16_to_f32(block_f32_to_bf16(f))));
}

/* Packers. Each fills a block with random contents and `want` with what it means. */

static void pack_q4_0(uint8_t *b, double *want)
{
    const uint16_t d = any_half();

    put_half(b, d);
    memset(b + 2, 0, 16);
    for (int i = 0; i < 32; i++) {
        const uint32_t q = rnd(16);

        b[2 + i % 16] |= (uint8_t)(q << (i / 16 * 4));
        want[i] = half(d) * ((double)q - 8);
    }
}

static void pack_q4_1(uint8_t *b, double *want)
{
    const uint16_t d = any_half(), m = any_half();

    put_half(b, d);
    put_half(b + 2, m);
    memset(b + 4, 0, 16);
    for (int i = 0; i < 32; i++) {
        const uint32_t q = rnd(16);

        b[4 + i % 16] |= (uint8_t)(q << (i / 16 * 4));
        want[i] = half(d) * (double)q + half(m);
    }
}

static void pack_q5(uint8_t *b, double *want, bool has_min)
{
    const uint16_t d = any_half(), m = any_half();
    uint8_t *qh = b + (has_min ? 4 : 2);
    uint32_t high = 0;

    put_half(b, d);
    if (has_min)
        put_half(b + 2, m);
    memset(qh + 4, 0, 16);
    for (int i = 0; i < 32; i++) {
        const uint32_t q = rnd(32);

        qh[4 + i % 16] |= (uint8_t)((q & 15) << (i / 16 * 4));
        high |= q >> 4 << i;
        want[i] = has_min ? half(d) * (double)q + half(m) : half(d) * ((double)q - 16);
    }
    for (int i = 0; i < 4; i++)
        qh[i] = (uint8_t)(high >> 8 * i);
}

static void pack_q5_0(uint8_t *b, double *want)
{
    pack_q5(b, want, false);
}

static void pack_q5_1(uint8_t *b, double *want)
{
    pack_q5(b, want, true);
}

static void pack_q8_0(uint8_t *b, double *want)
{
    const uint16_t d = any_half();

    put_half(b, d);
    for (int i = 0; i < 32; i++) {
        const int q = (int)rnd(256) - 128;

        b[2 + i] = (uint8_t)q;
        want[i] = half(d) * q;
    }
}

static void pack_q2_k(uint8_t *b, double *want)
{
    const uint16_t d = any_half(), dmin = any_half();
    int at = 0;

    memset(b, 0, 84);
    put_half(b + 80, d);
    put_half(b + 82, dmin);
    for (int i = 0; i < 16; i++)
        b[i] = (uint8_t)rnd(256);
    for (int h = 0; h < 2; h++) /* 128 numbers in 32 bytes: four bit pairs a byte */
        for (int pair = 0; pair < 4; pair++)
            for (int l = 0; l < 32; l++, at++) {
                const uint32_t q = rnd(4);

                b[16 + 32 * h + l] |= (uint8_t)(q << 2 * pair);
                want[at] = half(d) * (b[at / 16] % 16) * q - half(dmin) * (b[at / 16] / 16);
            }
}

static void pack_q3_k(uint8_t *b, double *want)
{
    const uint16_t d = any_half();
    int scale[16];
    int at = 0;

    memset(b, 0, 110);
    put_half(b + 108, d);
    for (int j = 0; j < 16; j++) {
        const uint32_t s = rnd(64);

        scale[j] = (int)s - 32;
        b[96 + j % 8] |= (uint8_t)((s & 15) << (j / 8 * 4));
        b[96 + 8 + j % 4] |= (uint8_t)((s >> 4) << (j / 4 * 2));
    }
    for (int h = 0; h < 2; h++)
        for (int pair = 0; pair < 4; pair++)
            for (int l = 0; l < 32; l++, at++) {
                const int q = (int)rnd(8) - 4;

                b[32 + 32 * h + l] |= (uint8_t)((q & 3) << 2 * pair);
                if (q >= 0)
                    b[l] |= (uint8_t)(1 << (4 * h + pair));
                want[at] = half(d) * scale[at / 16] * q;
            }
}

/* The 12 bytes of Q4_K and Q5_K: 8 scales and 8 minima of six bits. */
static void pack_six_bits(uint8_t *s, const uint32_t *scale, const uint32_t *min)
{
    memset(s, 0, 12);
    for (int j = 0; j < 4; j++) {
        s[j] = (uint8_t)(scale[j] | scale[j + 4] / 16 * 64);
        s[j + 4] = (uint8_t)(min[j] | min[j + 4] / 16 * 64);
        s[j + 8] = (uint8_t)(scale[j + 4] % 16 | min[j + 4] % 16 * 16);
    }
}

static void pack_k45(uint8_t *b, double *want, bool is_q5)
{
    const uint16_t d = any_half(), dmin = any_half();
    uint32_t scale[8], min[8];
    uint8_t *qs = b + (is_q5 ? 48 : 16);

    memset(b, 0, is_q5 ? 176 : 144);
    put_half(b, d);
    put_half(b + 2, dmin);
    for (int j = 0; j < 8; j++) {
        scale[j] = rnd(64);
        min[j] = rnd(64);
    }
    pack_six_bits(b + 4, scale, min);
    for (int i = 0; i < 256; i++) {
        const uint32_t q = rnd(is_q5 ? 32 : 16);

        qs[i / 64 * 32 + i % 32] |= (uint8_t)((q & 15) << (i % 64 / 32 * 4));
        if (is_q5)
            b[16 + i % 32] |= (uint8_t)(q >> 4 << (i / 32));
        want[i] = half(d) * scale[i / 32] * q - half(dmin) * min[i / 32];
    }
}

static void pack_q4_k(uint8_t *b, double *want)
{
    pack_k45(b, want, false);
}

static void pack_q5_k(uint8_t *b, double *want)
{
    pack_k45(b, want, true);
}

static void pack_q6_k(uint8_t *b, double *want)
{
    const uint16_t d = any_half();

    memset(b, 0, 210);
    put_half(b + 208, d);
    for (int j = 0; j < 16; j++)
        b[192 + j] = (uint8_t)rnd(256);
    for (int h = 0; h < 2; h++)
        for (int l = 0; l < 32; l++)
            for (int part = 0; part < 4; part++) { /* numbers l, l+32, l+64, l+96 of the half */
                const int at = 128 * h + 32 * part + l;
                const uint32_t q = rnd(64);

                b[64 * h + 32 * (part & 1) + l] |= (uint8_t)((q & 15) << (part >= 2 ? 4 : 0));
                b[128 + 32 * h + l] |= (uint8_t)(q >> 4 << 2 * part);
                want[at] = half(d) * (int8_t)b[192 + at / 16] * ((double)q - 32);
            }
}

static const struct packed packed[] = {
    {BLOCK_Q4_0, "Q4_0", 32, 18, pack_q4_0},   {BLOCK_Q4_1, "Q4_1", 32, 20, pack_q4_1},
    {BLOCK_Q5_0, "Q5_0", 32, 22, pack_q5_0},   {BLOCK_Q5_1, "Q5_1", 32, 24, pack_q5_1},
    {BLOCK_Q8_0, "Q8_0", 32, 34, pack_q8_0},   {BLOCK_Q2_K, "Q2_K", 256, 84, pack_q2_k},
    {BLOCK_Q3_K, "Q3_K", 256, 110, pack_q3_k}, {BLOCK_Q4_K, "Q4_K", 256, 144, pack_q4_k},
    {BLOCK_Q5_K, "Q5_K", 256, 176, pack_q5_k}, {BLOCK_Q6_K, "Q6_K", 256, 210, pack_q6_k},
};
#define N_PACKED (sizeof(packed) / sizeof(packed[0]))

static void test_decode_is_the_formula(void **arg)
{
    (void)arg;
    for (size_t f = 0; f < N_PACKED; f++)
        check_decoding(&packed[f], true);
}

static void test_table(void **arg)
{
    (void)arg;
    for (size_t f = 0; f < N_PACKED; f++)
        check_format(&packed[f]);
    assert_string_equal(block_format(BLOCK_F32)->name, "F32");
    assert_int_equal(block_format(BLOCK_F32)->bytes, 4);
    assert_int_equal(block_format(BLOCK_F16)->bytes, 2);
    assert_int_equal(block_format(BLOCK_BF16)->bytes, 2);
    for (uint32_t type = 0; type < 200; type++) {
        const bool ours = type <= 3 || (type >= 6 && type <= 8) || (type >= 10 && type <= 14) ||
                          (type >= 16 && type <= 23) || type == 29 || type == 30 || type == 34 ||
                          type == 35 || (type >= 39 && type <= 42) ||
                          (type >= 137 && type <= 141) || type == 144 ||
                          type == 152; /* the later ones: test_blocks_iq.c, test_blocks_ik.c */

        assert_int_equal(block_format(type) != NULL, ours);
    }
    assert_null(block_format(UINT32_MAX));
}

/* Encoders: what comes back is within half a step of the block's scale, which the allowed error
 * expresses as a share of the block's largest magnitude (offsets: of its span). */
static const struct {
    enum block_type type;
    double allowed;
} encoders[] = {
    {BLOCK_F32, 0.0},
    {BLOCK_F16, 1.0 / 2048},
    {BLOCK_BF16, 1.0 / 256},
    {BLOCK_Q8_0, 0.5 / 127 + 0.001},
    {BLOCK_Q4_0, 1.0 / 8 + 0.001},
    {BLOCK_Q4_K, 0.11},
    {BLOCK_Q6_K, 0.05},
};

static void check_encoder(enum block_type type, double allowed, double scale, double shift)
{
    const struct block_format *f = block_format(type);
    const uint32_t n = 512, span = f->elems < 32 ? 1 : f->elems;
    float x[512], y[512];
    uint8_t bytes[512 * 4];
    double most = 0;

    for (uint32_t i = 0; i < n; i++)
        x[i] = (float)(scale * (2 * unit() - 1 + shift));
    assert_true(block_encode(type, x, bytes, n));
    block_decode(type, bytes, y, n);
    for (uint32_t i = 0; i < n; i++) {
        if (i % span == 0) {
            most = 0;
            for (uint32_t j = i; j < i + span; j++)
                most = fmax(most, fabs((double)x[j]));
        }
        if (!(fabs((double)x[i] - (double)y[i]) <= allowed * most + 0x1p-25))
            fail_msg("%s: %g came back as %g (block up to %g)", f->name, (double)x[i], (double)y[i],
                     most);
    }
}

static void test_encode_comes_back(void **arg)
{
    static const double scales[] = {1.0, 0.02, 7.0, 100.0, 3e4};
    static const double shifts[] = {0.0, 0.7, -0.9};

    (void)arg;
    for (size_t e = 0; e < sizeof(encoders) / sizeof(encoders[0]); e++)
        for (size_t s = 0; s < 5; s++)
            for (size_t h = 0; h < 3; h++)
                for (int round = 0; round < 20; round++)
                    check_encoder(encoders[e].type, encoders[e].allowed, scales[s], shifts[h]);
}

static void test_encode_extremes(void **arg)
{
    static const float edge[] = {0.0f, -0.0f, 1e-30f, 3e38f, -3e38f};
    float x[256], y[256];
    uint8_t bytes[1024];

    (void)arg;
    for (size_t e = 3; e < sizeof(encoders) / sizeof(encoders[0]); e++)
        for (size_t k = 0; k < 5; k++) {
            for (int i = 0; i < 256; i++)
                x[i] = i % 7 == 0 ? edge[k] : 0.0f;
            assert_true(block_encode(encoders[e].type, x, bytes, 256));
            block_decode(encoders[e].type, bytes, y, 256);
            for (int i = 0; i < 256; i++) {
                assert_true(isfinite(y[i]));
                if (fabsf(x[i]) < 1e-20f) /* the scale is stored as 0, or the number is 0 */
                    assert_true(k >= 3 || y[i] == 0.0f);
            }
        }
    assert_false(block_encode(BLOCK_Q5_0, x, bytes, 256));
    assert_false(block_encode(BLOCK_Q2_K, x, bytes, 256));
    assert_false(block_encode((enum block_type)99, x, bytes, 256));
}

/* An independent encoder's files against the same weights in half precision. */

static double relative_error(const struct gguf_tensor *a, const struct gguf_tensor *b)
{
    const size_t n = (size_t)(a->dims[0] * a->dims[1]);
    float *x = malloc(n * sizeof(*x)), *y = malloc(n * sizeof(*y));
    double diff = 0, sum = 0;

    assert_non_null(x);
    assert_non_null(y);
    block_decode(a->type, a->data, x, n);
    block_decode(b->type, b->data, y, n);
    for (size_t i = 0; i < n; i++) {
        diff += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        sum += (double)x[i] * (double)x[i];
    }
    free(x);
    free(y);
    return sqrt(diff / sum);
}

static struct gguf *open_x256(const char *type)
{
    char path[512], err[512];
    struct gguf *g = NULL;

    data_file(path, sizeof(path), "weights/stories260K-x256-llama.%s.gguf", type);
    if (gguf_open(&g, path, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    return g;
}

static void test_real_weights(void **arg)
{
    static const struct {
        const char *file;
        enum block_type type;
        double low, high; /* the relative error that the format costs */
    } files[] = {{"BF16", BLOCK_BF16, 1e-5, 0.004},
                 {"Q8_0", BLOCK_Q8_0, 1e-4, 0.01},
                 {"Q6_K", BLOCK_Q6_K, 1e-3, 0.03},
                 {"Q4_K_M", BLOCK_Q4_K, 1e-2, 0.12},
                 {"Q4_0", BLOCK_Q4_0, 1e-2, 0.15}};
    struct gguf *f16 = open_x256("F16");

    (void)arg;
    for (size_t k = 0; k < sizeof(files) / sizeof(files[0]); k++) {
        struct gguf *g = open_x256(files[k].file);
        int n_checked = 0;

        assert_non_null(g);
        for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
            const struct gguf_tensor *t = gguf_tensor_at(g, i);
            char name[GGUF_MAX_NAME];
            double e;

            if (t->type != files[k].type || t->n_dims != 2)
                continue;
            snprintf(name, sizeof(name), "%.*s", (int)t->name.len, t->name.data);
            e = relative_error(gguf_tensor_find(f16, name), t);
            if (!(e >= 0 && e < files[k].high))
                fail_msg("%s %s: relative error %g", files[k].file, name, e);
            n_checked++;
        }
        assert_true(n_checked > 0);
        gguf_close(&g);
    }
    gguf_close(&f16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_is_exact),
        cmocka_unit_test(test_half_rounds_to_nearest_even),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_decode_is_the_formula),
        cmocka_unit_test(test_encode_comes_back),
        cmocka_unit_test(test_encode_extremes),
        cmocka_unit_test(test_real_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
