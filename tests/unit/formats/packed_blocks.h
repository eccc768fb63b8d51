/* tests/unit/formats/packed_blocks.h - block formats against an inverse that the test has written.
 *
 * A packer puts random codes and scales where the format's description wants them, and says which
 * numbers that makes; what block_decode() reads must be those.
 *
 * Thread: one.
 * Memory: none.
 */
#ifndef TESTS_UNIT_FORMATS_PACKED_BLOCKS_H
#define TESTS_UNIT_FORMATS_PACKED_BLOCKS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/formats/gguf/blocks.h"
#include "tests/fixtures/random.h"

#define MAX_PACKED 212 /* bytes of a block */

struct packed {
    uint32_t type; /* enum block_type */
    const char *name;
    uint32_t elems, bytes;
    void (*pack)(uint8_t *b, double *want); /* b is zeroed */
};

static uint64_t rng;

static inline uint32_t rnd(uint32_t n)
{
    return random_below(&rng, n);
}

/* The value of a half from its definition. */
static inline double half(uint16_t h)
{
    const int exp = h >> 10 & 31;
    const double sign = h & 0x8000 ? -1.0 : 1.0;

    if (exp == 31)
        return h & 0x3ff ? (double)NAN : sign * (double)INFINITY;
    return sign * (exp == 0 ? ldexp(h & 0x3ff, -24) : ldexp(1024 + (h & 0x3ff), exp - 25));
}

/* A finite half: now and then zero, the least, the greatest. */
static inline uint16_t any_half(void)
{
    static const uint16_t extremes[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff,
                                        0x0400, 0x7bff, 0xfbff, 0x3c00, 0xbc00};

    if (rnd(4) == 0)
        return extremes[rnd(11)];
    return (uint16_t)(rnd(2) << 15 | rnd(31) << 10 | rnd(1024));
}

/* OR `n` bits of v into a little-endian string of bits. */
static inline void put(uint8_t *p, size_t from, size_t n, uint32_t v)
{
    for (size_t i = 0; i < n; i++)
        p[(from + i) / 8] |= (uint8_t)((v >> i & 1) << (from + i) % 8);
}

static inline uint16_t put_scale(uint8_t *p)
{
    const uint16_t d = any_half();

    put(p, 0, 16, d);
    return d;
}

/* is_rounded: the formula's number may have more digits than the float that is decoded. */
static inline void check_decoding(const struct packed *p, bool is_rounded)
{
    enum { BLOCKS = 3 };
    uint8_t bytes[1 + BLOCKS * MAX_PACKED];
    double want[BLOCKS * 256];
    float got[BLOCKS * 256];
    const uint32_t n = p->elems;

    assert_true(p->bytes <= MAX_PACKED && n <= 256);
    for (int round = 0; round < 300; round++) {
        memset(bytes, 0, sizeof(bytes));
        for (uint32_t i = 0; i < BLOCKS; i++)
            p->pack(bytes + 1 + i * p->bytes, want + i * n);
        block_decode((enum block_type)p->type, bytes + 1, got, BLOCKS * n); /* unaligned */
        for (uint32_t i = 0; i < BLOCKS * n; i++)
            if ((double)got[i] != (is_rounded ? (double)(float)want[i] : want[i]))
                fail_msg("%s: number %u is %.9g, not %.9g", p->name, i, (double)got[i], want[i]);
    }
}

static inline void check_format(const struct packed *p)
{
    const struct block_format *b = block_format((enum block_type)p->type);

    assert_non_null(b);
    assert_string_equal(b->name, p->name);
    assert_int_equal(b->elems, p->elems);
    assert_int_equal(b->bytes, p->bytes);
}

#endif
