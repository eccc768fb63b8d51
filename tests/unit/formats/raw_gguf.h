/* tests/unit/formats/raw_gguf.h - compose GGUF bytes field by field, right or wrong, for tests.
 *
 * Unlike the writer nothing is checked, so that every lie can be told. raw_open() hands a copy of
 * exactly the composed bytes to gguf_open_memory(), so that a sanitizer sees a read past the end.
 */
#ifndef TESTS_UNIT_FORMATS_RAW_GGUF_H
#define TESTS_UNIT_FORMATS_RAW_GGUF_H

#include "core/base/buf.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

static inline void raw_int(struct buf *b, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_add_char(b, (char)(v >> 8 * i));
}

static inline void raw_str(struct buf *b, const char *s)
{
    raw_int(b, strlen(s), 8);
    buf_add_str(b, s);
}

static inline void raw_header(struct buf *b, uint64_t n_tensors, uint64_t n_kv)
{
    buf_init(b, (size_t)1 << 30);
    buf_add(b, "GGUF", 4);
    raw_int(b, 3, 4);
    raw_int(b, n_tensors, 8);
    raw_int(b, n_kv, 8);
}

/* A key and its type; the value follows. */
static inline void raw_key(struct buf *b, const char *key, uint32_t type)
{
    raw_str(b, key);
    raw_int(b, type, 4);
}

static inline void raw_array(struct buf *b, const char *key, uint32_t elem, uint64_t n)
{
    raw_key(b, key, GGUF_ARRAY);
    raw_int(b, elem, 4);
    raw_int(b, n, 8);
}

static inline void raw_f32(struct buf *b, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, 4);
    raw_int(b, bits, 4);
}

static inline void raw_f64(struct buf *b, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, 8);
    raw_int(b, bits, 8);
}

static inline void raw_tensor(struct buf *b, const char *name, uint32_t n_dims,
                              const uint64_t *dims, uint32_t type, uint64_t offset)
{
    raw_str(b, name);
    raw_int(b, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++)
        raw_int(b, dims[i], 8);
    raw_int(b, type, 4);
    raw_int(b, offset, 8);
}

static inline void raw_pad(struct buf *b, size_t alignment)
{
    while (b->len % alignment != 0)
        buf_add_char(b, 0);
}

static inline void raw_zeros(struct buf *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_add_char(b, 0);
}

/* The bytes in a block of their own size; free() it after gguf_close(). */
static inline void *raw_copy(const void *bytes, size_t n)
{
    void *p = NULL;

    if (posix_memalign(&p, 8, n > 0 ? n : 1) != 0)
        abort();
    if (n > 0)
        memcpy(p, bytes, n);
    return p;
}

#endif
