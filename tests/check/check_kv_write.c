/* tests/check/check_kv_write.c - new keys and values in their block, in each type of the cache. */
#include <math.h>
#include <string.h>

#include "tests/check/check.h"
#include "tests/check/decode.h"

static float *floats(size_t n)
{
    return check_alloc(n * sizeof(float), 4);
}

static float random_any(struct check *c)
{
    const uint32_t kind = check_below(c, 8);
    uint32_t bits = check_rand(c);
    float f;

    if (kind == 0) /* halfway between two halves */
        return (float)check_half((uint16_t)check_below(c, 0x7bff)) * (1 + 0x1p-11f);
    if (kind == 1) /* subnormal halves */
        return check_uniform(c, -0x1p-13f, 0x1p-13f);
    if (kind == 2)
        return check_uniform(c, -70000, 70000);
    if (kind == 3) { /* any bits, NaN and infinity among them */
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    return check_normal(c);
}

static uint16_t half_of(const uint8_t *halves, size_t i)
{
    uint16_t h;

    memcpy(&h, halves + 2 * i, sizeof h);
    return h;
}

/* One head of a token: what is stored of its numbers, and nothing in the other slots. */
static void check_stored_halves(struct check *c, uint8_t *const *block, size_t slot, const float *k,
                                const float *v, const size_t *dims, enum kern_kv kv)
{
    uint16_t (*const to_half)(float f) = kv == KERN_KV_F16 ? check_to_half : check_to_bf16;
    const uint16_t infinite = kv == KERN_KV_F16 ? 0x7c00 : 0x7f80;

    for (size_t i = 0; i < 2 * KERN_BLOCK * (dims[0] > dims[1] ? dims[0] : dims[1]); i++) {
        const bool value = i % 2;
        const size_t d = i / 2 / KERN_BLOCK, t = i / 2 % KERN_BLOCK;
        const size_t dim = dims[value];

        if (d >= dim)
            continue;
        const float f = value ? v[d] : k[d];
        const uint16_t h = half_of(block[value], value ? t * dim + d : d * KERN_BLOCK + t);
        const uint16_t want = t == slot ? to_half(f) : 0xa5a5;

        check_that(c, f != f || h == want, "%s %.9g slot %zu of %zu: %04x, want %04x",
                   value ? "value" : "key", (double)f, t, slot, h, want);
        check_that(c, t != slot || f == f || (h & 0x7fff) > infinite, "lost a NaN");
    }
}

/* Key and value dimensions; the last ones for stores in groups too. */
static const size_t KV_DIMS[][2] = {{8, 8},   {24, 40},   {80, 80},   {112, 64},  {32, 32},
                                    {64, 96}, {192, 128}, {256, 256}, {576, 512}, {576, 576}};
#define KV_GROUPED 4

static void check_write_halves(struct check *c, enum kern_kv kv)
{
    for (size_t i = 0; i < CHECK_COUNT(KV_DIMS) * 16; i++) {
        const size_t *dims = KV_DIMS[i / 16];
        const size_t slot = i % 16;
        const size_t n_kv = 1 + check_below(c, 3);
        const size_t head[2] = {dims[0] * KERN_BLOCK * 2, dims[1] * KERN_BLOCK * 2};
        float *k = floats(n_kv * dims[0]);
        float *v = floats(n_kv * dims[1]);
        uint8_t *want[2] = {check_out(n_kv * head[0], 2), check_out(n_kv * head[1], 2)};
        uint8_t *got[2] = {check_out(n_kv * head[0], 2), check_out(n_kv * head[1], 2)};

        for (size_t j = 0; j < n_kv * dims[0]; j++)
            k[j] = random_any(c);
        for (size_t j = 0; j < n_kv * dims[1]; j++)
            v[j] = random_any(c);
        c->ref->kv_write[kv](want[0], want[1], slot, k, v, n_kv, dims[0], dims[1]);
        c->test->kv_write[kv](got[0], got[1], slot, k, v, n_kv, dims[0], dims[1]);
        for (int half = 0; half < 2; half++) {
            check_that(c, check_guard(got[half]), "wrote before a block");
            check_that(c, memcmp(got[half], want[half], n_kv * head[half]) == 0,
                       "%s: dim=%zu slot=%zu", half ? "values" : "keys", dims[half], slot);
        }
        for (size_t h = 0; c->isa == KERN_ISA_SCALAR && h < n_kv; h++)
            check_stored_halves(c, (uint8_t *[]){want[0] + h * head[0], want[1] + h * head[1]},
                                slot, k + h * dims[0], v + h * dims[1], dims, kv);
        check_free_all();
    }
}

void check_kv_write_f16(struct check *c)
{
    check_write_halves(c, KERN_KV_F16);
}

void check_kv_write_bf16(struct check *c)
{
    check_write_halves(c, KERN_KV_BF16);
}

/* One head of a token in f32: its numbers bit for bit, and nothing in the other slots. */
static void check_stored_floats(struct check *c, uint8_t *const *block, size_t slot, const float *k,
                                const float *v, const size_t *dims)
{
    static const uint8_t untouched[4] = {0xa5, 0xa5, 0xa5, 0xa5};

    for (int value = 0; value < 2; value++)
        for (size_t i = 0; i < dims[value] * KERN_BLOCK; i++) {
            const size_t d = value ? i % dims[1] : i / KERN_BLOCK;
            const size_t t = value ? i / dims[1] : i % KERN_BLOCK;
            const float *x = value ? v : k;

            check_that(
                c,
                memcmp(block[value] + 4 * i, t == slot ? (const void *)&x[d] : untouched, 4) == 0,
                "%s %zu of slot %zu of %zu", value ? "value" : "key", d, t, slot);
        }
}

void check_kv_write_f32(struct check *c)
{
    for (size_t i = 0; i < CHECK_COUNT(KV_DIMS) * 16; i++) {
        const size_t *dims = KV_DIMS[i / 16];
        const size_t slot = i % 16, n_kv = 1 + check_below(c, 3);
        const size_t head[2] = {dims[0] * KERN_BLOCK * 4, dims[1] * KERN_BLOCK * 4};
        float *k = floats(n_kv * dims[0]), *v = floats(n_kv * dims[1]);
        uint8_t *got[2] = {check_out(n_kv * head[0], 4), check_out(n_kv * head[1], 4)};

        for (size_t j = 0; j < n_kv * dims[0]; j++)
            k[j] = random_any(c);
        for (size_t j = 0; j < n_kv * dims[1]; j++)
            v[j] = random_any(c);
        c->test->kv_write[KERN_KV_F32](got[0], got[1], slot, k, v, n_kv, dims[0], dims[1]);
        check_that(c, check_guard(got[0]) && check_guard(got[1]), "wrote before a block");
        for (size_t h = 0; h < n_kv; h++)
            check_stored_floats(c, (uint8_t *[]){got[0] + h * head[0], got[1] + h * head[1]}, slot,
                                k + h * dims[0], v + h * dims[1], dims);
        check_free_all();
    }
}

/* Numbers that share a scale: of any size, also such that the scale is nothing, or the largest. */
static void random_group(struct check *c, float *x, size_t n)
{
    static const float SIZES[] = {1, 1, 1, 300, 1e-6f, 1e-7f, 1e-9f, 6e6f, 9e6f, 1e30f, 0};
    const float size = SIZES[check_below(c, CHECK_COUNT(SIZES))];

    check_fill(c, x, n, size);
    if (check_below(c, 3) == 0) /* halfway between two codes */
        for (size_t i = 0; i < n; i++)
            x[i] = i ? size * (0.5f + (float)check_below(c, 127)) : size * 127;
}

/* The scale and the codes [n] of numbers, at places that differ by the strides. */
static void check_codes(struct check *c, const float *x, size_t n, uint16_t scale,
                        const uint8_t *const *code)
{
    float a = 0;

    for (size_t i = 0; i < n; i++)
        a = fmaxf(a, fabsf(x[i]));
    const uint16_t d = check_to_half(fminf(a / 127, 65504));
    check_that(c, scale == d, "scale of %.9g: %04x, not %04x", (double)a, scale, d);
    const float inverse = d ? 1 / (float)check_half(d) : 0;
    for (size_t i = 0; i < n; i++) {
        const double rounded = rint((double)(x[i] * inverse));
        const double q = fmin(fmax(rounded, -127), 127);

        check_that(c, *code[i] == q + 128, "code of %.9g with scale %04x: %d", (double)x[i], scale,
                   *code[i] - 128);
    }
}

/* The scale and the codes of four bits of 32 dimensions, two in a byte. */
static void check_value_q4(struct check *c, const float *x, const uint8_t *scales,
                           const uint8_t *codes, size_t slot)
{
    float a = 0;

    for (size_t i = 0; i < 32; i++)
        a = fmaxf(a, fabsf(x[i]));
    const uint16_t d = check_to_half(fminf(a / 15, 65504)), scale = half_of(scales, slot);
    const float inverse = d ? 0.5f / (float)check_half(d) : 0;
    check_that(c, scale == d, "scale of %.9g: %04x, not %04x", (double)a, scale, d);
    for (size_t i = 0; i < 32; i++) {
        const uint8_t *at = codes + (slot / 4 * 16 + i % 16) * 4 + slot % 4;
        const int code = *at >> (i / 16 % 2 ? 4 : 0) & 15;
        const double want = rint(fmin(fmax((double)(x[i] * inverse + 7.5f), 0), 15));

        check_that(c, code == want, "code of %.9g with scale %04x: %d", (double)x[i], scale, code);
    }
}

static void check_stored_codes(struct check *c, uint8_t *const *block, size_t slot, const float *k,
                               const float *v, size_t n_kv, const size_t *dims, enum kern_kv kv)
{
    const uint8_t *code[KERN_MAX_HEAD];

    for (size_t g = 0; g < n_kv * dims[0] / 32; g++) {
        const uint8_t *group = block[0] + g * 544;

        for (size_t d = 0; d < 32; d++)
            code[d] = group + 32 + d / 4 * 64 + slot * 4 + d % 4;
        check_codes(c, k + 32 * g, 32, half_of(group, slot), code);
    }
    for (size_t h = 0; h < n_kv; h++) {
        const size_t bytes = kv == KERN_KV_Q4_0 ? 9 * dims[1] : 32 + 16 * dims[1];
        const uint8_t *head = block[1] + h * bytes;

        for (size_t g = 0; kv == KERN_KV_Q4_0 && g < dims[1] / 32; g++)
            check_value_q4(c, v + h * dims[1] + 32 * g, head + 32 * g, head + dims[1] + 256 * g,
                           slot);
        if (kv == KERN_KV_Q4_0)
            continue;
        for (size_t d = 0; d < dims[1]; d++)
            code[d] = head + 32 + slot / 4 * dims[1] * 4 + d * 4 + slot % 4;
        check_codes(c, v + h * dims[1], dims[1], half_of(head, slot), code);
    }
}

static void check_write_codes(struct check *c, enum kern_kv kv)
{
    for (size_t i = KV_GROUPED * 32; i < CHECK_COUNT(KV_DIMS) * 32; i++) {
        const size_t *dims = KV_DIMS[i / 32];
        const size_t slot = i % 16;
        const size_t n_kv = 1 + check_below(c, 3);
        const size_t bytes[2] = {n_kv * kern_kv_key_bytes(kv, (uint32_t)dims[0]),
                                 n_kv * kern_kv_value_bytes(kv, (uint32_t)dims[1])};
        float *k = floats(n_kv * dims[0]);
        float *v = floats(n_kv * dims[1]);
        uint8_t *want[2] = {check_out(bytes[0], 2), check_out(bytes[1], 2)};
        uint8_t *got[2] = {check_out(bytes[0], 2), check_out(bytes[1], 2)};

        for (size_t j = 0; j < n_kv * dims[0]; j += 32)
            random_group(c, k + j, 32);
        const size_t each = kv == KERN_KV_Q4_0 ? 32 : dims[1]; /* numbers that share a scale */
        for (size_t j = 0; j < n_kv * dims[1]; j += each)
            random_group(c, v + j, each);
        c->ref->kv_write[kv](want[0], want[1], slot, k, v, n_kv, dims[0], dims[1]);
        c->test->kv_write[kv](got[0], got[1], slot, k, v, n_kv, dims[0], dims[1]);
        for (int half = 0; half < 2; half++) {
            size_t n_touched = 0;

            check_that(c, check_guard(got[half]), "wrote before a block");
            check_that(c, memcmp(got[half], want[half], bytes[half]) == 0, "%s: dim=%zu slot=%zu",
                       half ? "values" : "keys", dims[half], slot);
            for (size_t j = 0; j < bytes[half]; j++)
                n_touched += !check_untouched(got[half] + j, 1);
            check_that(c, n_touched <= bytes[half] / KERN_BLOCK, "touched %zu bytes of %zu",
                       n_touched, bytes[half]);
        }
        if (c->isa == KERN_ISA_SCALAR)
            check_stored_codes(c, want, slot, k, v, n_kv, dims, kv);
        check_free_all();
    }
}

void check_kv_write_q8_0(struct check *c)
{
    check_write_codes(c, KERN_KV_Q8_0);
}

void check_kv_write_q4_0(struct check *c)
{
    check_write_codes(c, KERN_KV_Q4_0);
}
