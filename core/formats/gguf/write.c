/* core/formats/gguf/write.c - see write.h.
 *
 * Keys are serialised as they come. Tensors are kept in a list until the end, because all their
 * infos stand before the data of any.
 */
#include "core/formats/gguf/write.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/formats/gguf/cursor.h"
#include "core/formats/gguf/gguf_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_ALIGNMENT 32
#define PIECE_BYTES ((size_t)1 << 20) /* about as many bytes as one call of `fill` makes */

struct entry {
    struct list link;
    char name[GGUF_MAX_NAME];
    enum block_type type;
    uint32_t n_dims;
    uint64_t dims[GGUF_MAX_DIMS];
    uint64_t bytes;
    uint64_t room; /* bytes of the tensor in the file, or 0 if its data is elsewhere */
    uint8_t *data; /* owned, or NULL: */
    gguf_writer_fill *fill;
    void *ud;
};

struct gguf_writer {
    struct buf keys;
    uint64_t n_keys;
    struct list entries;
    uint64_t n_entries;
    uint64_t alignment;
    int err; /* the first error */
};

/* The destination of finished bytes: memory or a file. */
struct sink {
    uint8_t *memory;
    FILE *file;
    uint64_t at;
};

int gguf_writer_create(struct gguf_writer **out)
{
    struct gguf_writer *w = mem_calloc(1, sizeof(*w));

    *out = w;
    if (w == NULL)
        return ERR_NOMEM;
    buf_init(&w->keys, SIZE_MAX / 4);
    list_init(&w->entries);
    w->alignment = DEFAULT_ALIGNMENT;
    return 0;
}

void gguf_writer_destroy(struct gguf_writer **wp)
{
    struct gguf_writer *w = wp != NULL ? *wp : NULL;

    if (w == NULL)
        return;
    list_each(it, &w->entries)
    {
        struct entry *e = list_entry(it, struct entry, link);

        mem_free(e->data);
        mem_free(e);
    }
    buf_release(&w->keys);
    mem_free(w);
    *wp = NULL;
}

static void set_err(struct gguf_writer *w, int rc)
{
    if (w->err == 0)
        w->err = rc;
}

/* Integers are written byte by byte: little-endian whatever the machine. */

static void add_int(struct buf *b, uint64_t v, size_t n)
{
    char bytes[8];

    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(v >> 8 * i);
    buf_add(b, bytes, n);
}

static void add_float(struct buf *b, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, 4);
    add_int(b, bits, 4);
}

static void add_str(struct buf *b, const char *s, size_t len)
{
    add_int(b, len, 8);
    buf_add(b, s, len);
}

static bool is_key_name(const char *name)
{
    const size_t len = strlen(name);

    return len > 0 && len < GGUF_MAX_NAME;
}

static void begin_key(struct gguf_writer *w, const char *key, enum gguf_type type)
{
    if (!is_key_name(key))
        set_err(w, ERR_INVAL);
    add_str(&w->keys, key, strlen(key));
    add_int(&w->keys, type, 4);
    w->n_keys++;
}

static void begin_array(struct gguf_writer *w, const char *key, enum gguf_type elem, size_t n)
{
    begin_key(w, key, GGUF_ARRAY);
    add_int(&w->keys, elem, 4);
    add_int(&w->keys, n, 8);
}

void gguf_writer_u16(struct gguf_writer *w, const char *key, uint16_t value)
{
    begin_key(w, key, GGUF_U16);
    add_int(&w->keys, value, 2);
}

void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    begin_key(w, key, GGUF_U32);
    add_int(&w->keys, value, 4);
    if (strcmp(key, "general.alignment") != 0)
        return;
    if (value < 8 || value > 65536 || (value & (value - 1)) != 0)
        set_err(w, ERR_INVAL);
    else
        w->alignment = value;
}

void gguf_writer_f32(struct gguf_writer *w, const char *key, float value)
{
    begin_key(w, key, GGUF_F32);
    add_float(&w->keys, value);
}

void gguf_writer_bool(struct gguf_writer *w, const char *key, bool value)
{
    begin_key(w, key, GGUF_BOOL);
    add_int(&w->keys, value, 1);
}

void gguf_writer_text(struct gguf_writer *w, const char *key, struct gguf_str value)
{
    begin_key(w, key, GGUF_STRING);
    add_str(&w->keys, value.data, value.len);
}

void gguf_writer_str(struct gguf_writer *w, const char *key, const char *value)
{
    gguf_writer_text(w, key, (struct gguf_str){value, strlen(value)});
}

void gguf_writer_str_array(struct gguf_writer *w, const char *key, const struct gguf_str *values,
                           size_t n)
{
    begin_array(w, key, GGUF_STRING, n);
    for (size_t i = 0; i < n; i++)
        add_str(&w->keys, values[i].data, values[i].len);
}

void gguf_writer_f32_array(struct gguf_writer *w, const char *key, const float *values, size_t n)
{
    begin_array(w, key, GGUF_F32, n);
    for (size_t i = 0; i < n; i++)
        add_float(&w->keys, values[i]);
}

void gguf_writer_i32_array(struct gguf_writer *w, const char *key, const int32_t *values, size_t n)
{
    begin_array(w, key, GGUF_I32, n);
    for (size_t i = 0; i < n; i++)
        add_int(&w->keys, (uint32_t)values[i], 4);
}

void gguf_writer_kv(struct gguf_writer *w, const struct gguf_kv *kv)
{
    char key[GGUF_MAX_NAME];
    size_t each;

    snprintf(key, sizeof(key), "%.*s", (int)kv->key.len, kv->key.data);
    if (strcmp(key, "general.alignment") == 0) { /* the writer writes this key itself */
        gguf_writer_u32(w, key, gguf_load_u32(kv->data));
        return;
    }
    if (kv->type == GGUF_ARRAY)
        begin_array(w, key, kv->elem, (size_t)kv->count);
    else
        begin_key(w, key, kv->type);
    each = gguf_scalar_bytes(kv->elem);
    if (kv->index != NULL)
        buf_add(&w->keys, (const char *)kv->data, (size_t)kv->index[kv->count]);
    else if (kv->elem == GGUF_STRING)
        buf_add(&w->keys, (const char *)kv->data, 8 + (size_t)kv->len);
    else
        buf_add(&w->keys, (const char *)kv->data, (size_t)kv->count * each);
}

/* Tensors. */

/* Compute a tensor's bytes and its number of values; ERR_INVAL: its shape is not valid. */
static int measure(const struct entry *e, uint64_t *bytes, uint64_t *n)
{
    const struct block_format *f = block_format(e->type);

    *n = 1;
    for (uint32_t i = 0; i < e->n_dims; i++)
        if (e->dims[i] == 0 || __builtin_mul_overflow(*n, e->dims[i], n))
            return ERR_INVAL;
    if (f == NULL || e->dims[0] % f->elems != 0)
        return ERR_INVAL;
    return __builtin_mul_overflow(*n / f->elems, (uint64_t)f->bytes, bytes) ||
                   __builtin_add_overflow(*bytes, *n / e->dims[0] * f->head, bytes)
               ? ERR_INVAL
               : 0;
}

/* Append a new entry to the list; NULL with the error set. */
static struct entry *add_entry(struct gguf_writer *w, const char *name, enum block_type type,
                               uint32_t n_dims, const uint64_t *dims, uint64_t *n)
{
    struct entry *e;
    int rc;

    if (!is_key_name(name) || n_dims < 1 || n_dims > GGUF_MAX_DIMS) {
        set_err(w, ERR_INVAL);
        return NULL;
    }
    e = mem_calloc(1, sizeof(*e));
    if (e == NULL) {
        set_err(w, ERR_NOMEM);
        return NULL;
    }
    snprintf(e->name, sizeof(e->name), "%s", name);
    e->type = type;
    e->n_dims = n_dims;
    memcpy(e->dims, dims, n_dims * sizeof(*dims));
    rc = measure(e, &e->bytes, n);
    if (rc < 0) {
        set_err(w, rc);
        mem_free(e);
        return NULL;
    }
    e->room = e->bytes;
    list_push_back(&w->entries, &e->link);
    w->n_entries++;
    return e;
}

void gguf_writer_tensor(struct gguf_writer *w, const char *name, enum block_type type,
                        uint32_t n_dims, const uint64_t *dims, const float *values)
{
    uint64_t n = 0;
    struct entry *e = add_entry(w, name, type, n_dims, dims, &n);

    if (e == NULL)
        return;
    e->data = mem_alloc((size_t)e->bytes);
    if (e->data == NULL)
        set_err(w, ERR_NOMEM);
    else if (!block_encode(type, values, e->data, (size_t)n))
        set_err(w, ERR_UNSUPPORTED);
}

void gguf_writer_tensor_fill(struct gguf_writer *w, const char *name, enum block_type type,
                             uint32_t n_dims, const uint64_t *dims, gguf_writer_fill *fill,
                             void *ud)
{
    uint64_t n = 0;
    struct entry *e = add_entry(w, name, type, n_dims, dims, &n);

    if (e == NULL)
        return;
    e->fill = fill;
    e->ud = ud;
}

void gguf_writer_tensor_elsewhere(struct gguf_writer *w, const char *name, enum block_type type,
                                  uint32_t n_dims, const uint64_t *dims)
{
    uint64_t n = 0;
    struct entry *e = add_entry(w, name, type, n_dims, dims, &n);

    if (e != NULL)
        e->room = 0;
}

/* Layout. */

static uint64_t align(const struct gguf_writer *w, uint64_t at)
{
    return (at + w->alignment - 1) & ~(w->alignment - 1);
}

static void add_infos(const struct gguf_writer *w, struct buf *b)
{
    uint64_t offset = 0;

    list_each(it, &w->entries)
    {
        const struct entry *e = list_entry(it, struct entry, link);

        add_str(b, e->name, strlen(e->name));
        add_int(b, e->n_dims, 4);
        for (uint32_t i = 0; i < e->n_dims; i++)
            add_int(b, e->dims[i], 8);
        add_int(b, e->type, 4);
        add_int(b, offset, 8);
        offset = align(w, offset + e->room);
    }
}

/* Write everything that is before the data. */
static int make_head(const struct gguf_writer *w, struct buf *b)
{
    buf_add(b, "GGUF", 4);
    add_int(b, 3, 4);
    add_int(b, w->n_entries, 8);
    add_int(b, w->n_keys, 8);
    buf_add(b, w->keys.data, w->keys.len);
    add_infos(w, b);
    return b->err;
}

static int put_bytes(struct sink *s, const void *bytes, size_t n)
{
    if (s->memory != NULL)
        memcpy(s->memory + s->at, bytes, n);
    else if (fwrite(bytes, 1, n, s->file) != n)
        return ERR_IO;
    s->at += n;
    return 0;
}

/* Write zeros up to the alignment. */
static int pad(const struct gguf_writer *w, struct sink *s)
{
    static const char zeros[64];
    uint64_t n = align(w, s->at) - s->at;
    int rc = 0;

    for (; n > 0 && rc == 0; n -= n < 64 ? n : 64)
        rc = put_bytes(s, zeros, n < 64 ? (size_t)n : 64);
    return rc;
}

static int put_filled(struct sink *s, const struct entry *e)
{
    const struct block_format *f = block_format(e->type);
    const size_t unit = f->head > 0 ? (size_t)block_row_bytes(f, e->dims[0]) : f->bytes;
    const size_t piece = unit < PIECE_BYTES ? PIECE_BYTES / unit * unit : unit;
    uint8_t *bytes = mem_alloc(piece);
    int rc = bytes != NULL ? 0 : ERR_NOMEM;

    for (uint64_t at = 0; at < e->room && rc == 0; at += piece) {
        const size_t n = e->room - at < piece ? (size_t)(e->room - at) : piece;

        e->fill(e->ud, at, bytes, n);
        rc = put_bytes(s, bytes, n);
    }
    mem_free(bytes);
    return rc;
}

static int put_all(const struct gguf_writer *w, struct sink *s, const struct buf *head)
{
    int rc = put_bytes(s, head->data, head->len);

    if (rc == 0)
        rc = pad(w, s);
    list_each(it, &w->entries)
    {
        const struct entry *e = list_entry(it, struct entry, link);

        if (rc == 0 && e->fill != NULL)
            rc = put_filled(s, e);
        else if (rc == 0 && e->data != NULL)
            rc = put_bytes(s, e->data, (size_t)e->room);
        if (rc == 0)
            rc = pad(w, s);
    }
    return rc;
}

/* Make the file up to the tensors' data; returns the writer's first error, if any. `head` is to be
 * released in any case. */
static int begin_head(const struct gguf_writer *w, struct buf *head)
{
    const int rc = w->err != 0 ? w->err : w->keys.err;

    buf_init(head, SIZE_MAX / 4);
    return rc < 0 ? rc : make_head(w, head);
}

int gguf_writer_finish(struct gguf_writer *w, uint8_t **data, size_t *bytes)
{
    struct sink s = {0};
    struct buf head;
    uint64_t total;
    int rc = begin_head(w, &head);

    *data = NULL;
    *bytes = 0;
    if (rc < 0)
        goto done;
    total = align(w, head.len);
    list_each(it, &w->entries) total = align(w, total + list_entry(it, struct entry, link)->room);
    s.memory = mem_aligned(1, (size_t)total);
    rc = s.memory != NULL ? put_all(w, &s, &head) : ERR_NOMEM;
    if (rc < 0) {
        mem_free(s.memory);
        goto done;
    }
    *data = s.memory;
    *bytes = (size_t)s.at;
done:
    buf_release(&head);
    return rc;
}

int gguf_writer_save(struct gguf_writer *w, const char *path)
{
    struct sink s = {0};
    struct buf head;
    int rc = begin_head(w, &head);

    if (rc < 0)
        goto done;
    s.file = fopen(path, "wb");
    if (s.file == NULL) {
        rc = ERR_IO;
        goto done;
    }
    rc = put_all(w, &s, &head);
    if (fclose(s.file) != 0 && rc == 0)
        rc = ERR_IO;
    if (rc < 0)
        unlink(path);
done:
    buf_release(&head);
    return rc;
}
