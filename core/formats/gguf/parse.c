/* core/formats/gguf/parse.c - see gguf_impl.h.
 *
 * The file, in order: header (magic, version, number of tensors, number of keys), the keys with
 * their values, the tensor infos, padding to the alignment, the tensors' data. The tensors are in
 * tensors.c.
 */
#include "core/formats/gguf/gguf_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/cursor.h"

#include <inttypes.h>
#include <string.h>

#define HEADER_BYTES 24
/* The least bytes of an entry: the name's length and one byte of it, the type, a value. */
#define MIN_KV_BYTES (8 + 1 + 4 + 1)
#define DEFAULT_ALIGNMENT 32
#define MAX_ALIGNMENT 65536

size_t gguf_scalar_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
    };

    return type < sizeof(bytes) ? bytes[type] : 0;
}

/* Header. */

static int parse_header(struct gguf *g, struct cursor *p, uint64_t *n_tensors, uint64_t *n_kv)
{
    const uint8_t *h = NULL;
    int rc;

    cursor_subject(p, "header");
    if (cursor_left(p) >= 4 && memcmp(p->base, "FUGG", 4) == 0)
        return cursor_fail(p, ERR_UNSUPPORTED,
                           "the file is big-endian; only little-endian is supported");
    if (cursor_left(p) >= 4 && memcmp(p->base, "GGUF", 4) != 0)
        return cursor_fail(p, ERR_FORMAT, "is not a GGUF file: it does not begin with 'GGUF'");
    rc = cursor_take(p, HEADER_BYTES, "the header", &h);
    if (rc < 0)
        return rc;
    g->version = gguf_load_u32(h + 4);
    if (g->version != 0 && (g->version & 0xffff) == 0)
        return cursor_fail(p, ERR_UNSUPPORTED,
                           "the file is big-endian; only little-endian is supported");
    if (g->version != 2 && g->version != 3)
        return cursor_fail(p, ERR_UNSUPPORTED, "GGUF version %u is not supported (2 and 3 are)",
                           g->version);
    *n_tensors = gguf_load_u64(h + 8);
    *n_kv = gguf_load_u64(h + 16);
    rc = cursor_check_count(p, "keys", *n_kv, GGUF_MAX_KV, MIN_KV_BYTES);
    if (rc == 0)
        rc = cursor_check_count(p, "tensors", *n_tensors, GGUF_MAX_TENSORS, GGUF_MIN_TENSOR_BYTES);
    return rc;
}

/* Keys and values. */

static int check_bools(struct cursor *p, const uint8_t *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (b[i] > 1)
            return cursor_fail(p, ERR_FORMAT, "has the value %u as a bool, which must be 0 or 1",
                               b[i]);
    return 0;
}

static int parse_strings(struct cursor *p, struct gguf_kv *kv)
{
    struct gguf_str s;
    uint64_t *index;
    const uint64_t start = p->at;

    index = mem_alloc((size_t)(kv->count + 1) * sizeof(*index)); /* each 8 bytes here stand for at
                                                                  * least 8 in the file */
    if (index == NULL)
        return cursor_fail(p, ERR_NOMEM, "out of memory");
    kv->index = index;
    for (uint64_t i = 0; i < kv->count; i++) {
        int rc;

        index[i] = p->at - start;
        rc = cursor_take_str(p, "an element", &s);
        if (rc < 0)
            return rc;
    }
    index[kv->count] = p->at - start;
    return 0;
}

static int parse_array(struct cursor *p, struct gguf_kv *kv)
{
    uint32_t elem = 0;
    uint64_t each;
    const uint8_t *b = NULL;
    int rc = cursor_take_u32(p, "the array's type", &elem);

    if (rc == 0)
        rc = cursor_take_u64(p, "the array's length", &kv->count);
    if (rc < 0)
        return rc;
    if (elem == GGUF_ARRAY)
        return cursor_fail(p, ERR_UNSUPPORTED, "is an array of arrays, which is not supported");
    each = elem == GGUF_STRING ? 8 : gguf_scalar_bytes(elem);
    if (each == 0)
        return cursor_fail(p, ERR_FORMAT, "is an array of the unknown type %u", elem);
    if (kv->count > cursor_left(p) / each)
        return cursor_fail(p, ERR_FORMAT,
                           "claims %" PRIu64 " elements, which cannot fit into the %" PRIu64
                           " bytes left",
                           kv->count, cursor_left(p));
    kv->elem = (enum gguf_type)elem;
    kv->data = p->base + p->at;
    if (elem == GGUF_STRING)
        return parse_strings(p, kv);
    rc = cursor_take(p, kv->count * each, "the array", &b);
    if (rc == 0 && elem == GGUF_BOOL)
        rc = check_bools(p, b, kv->count);
    return rc;
}

static int take_string(struct cursor *p, struct gguf_kv *kv)
{
    struct gguf_str s = {0};
    const int rc = cursor_take_str(p, "the string", &s);

    kv->len = s.len;
    return rc;
}

static int parse_value(struct cursor *p, struct gguf_kv *kv, uint32_t type)
{
    int rc;

    if (type != GGUF_STRING && type != GGUF_ARRAY && gguf_scalar_bytes(type) == 0)
        return cursor_fail(p, ERR_FORMAT, "has the unknown type %u", type);
    kv->type = (enum gguf_type)type;
    if (type == GGUF_ARRAY)
        return parse_array(p, kv);
    kv->count = 1;
    kv->elem = kv->type;
    kv->data = p->base + p->at;
    if (type == GGUF_STRING)
        return take_string(p, kv);
    rc = cursor_take(p, gguf_scalar_bytes(type), "the value", &kv->data);
    if (rc == 0 && type == GGUF_BOOL)
        rc = check_bools(p, kv->data, 1);
    return rc;
}

static int parse_kv(struct gguf *g, struct cursor *p, uint32_t i)
{
    struct gguf_kv *kv = &g->kv[i];
    uint32_t type = 0;
    int rc;

    cursor_subject(p, "key %u", i);
    rc = cursor_take_name(p, "key", &kv->key);
    if (rc < 0)
        return rc;
    if (name_index_add(&g->kv_index, i) != i)
        return cursor_fail(p, ERR_FORMAT, "occurs twice in the file");
    rc = cursor_take_u32(p, "the type", &type);
    if (rc < 0)
        return rc;
    g->n_kv = i + 1;
    return parse_value(p, kv, type);
}

static int parse_kvs(struct gguf *g, struct cursor *p, uint64_t n)
{
    int rc = 0;

    g->kv = mem_calloc((size_t)n, sizeof(*g->kv));
    if (g->kv == NULL || name_index_init(&g->kv_index, g->kv, sizeof(*g->kv), (uint32_t)n) < 0)
        return cursor_fail(p, ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = parse_kv(g, p, i);
    return rc;
}

static int parse_alignment(struct gguf *g, struct cursor *p)
{
    const struct gguf_kv *kv = gguf_find(g, "general.alignment");
    uint32_t a;

    g->alignment = DEFAULT_ALIGNMENT;
    if (kv == NULL)
        return 0;
    cursor_subject(p, "key 'general.alignment'");
    if (kv->type != GGUF_U32)
        return cursor_fail(p, ERR_FORMAT, "has type %s, but u32 is expected",
                           gguf_type_name(kv->type));
    a = gguf_load_u32(kv->data);
    if (a < 8 || a > MAX_ALIGNMENT || (a & (a - 1)) != 0)
        return cursor_fail(p, ERR_FORMAT, "is %u, but must be a power of two from 8 to %d", a,
                           MAX_ALIGNMENT);
    g->alignment = a;
    return 0;
}

int gguf_parse(struct gguf *g, char *err, size_t err_len)
{
    struct cursor p = {.file = g->name,
                       .base = g->file.base,
                       .bytes = g->file.bytes,
                       .err = err,
                       .err_len = err_len};
    uint64_t n_tensors = 0, n_kv = 0;
    int rc = parse_header(g, &p, &n_tensors, &n_kv);

    if (rc == 0)
        rc = parse_kvs(g, &p, n_kv);
    if (rc == 0)
        rc = parse_alignment(g, &p);
    cursor_subject(&p, "header");
    if (rc == 0)
        rc = cursor_check_count(&p, "tensors", n_tensors, GGUF_MAX_TENSORS, GGUF_MIN_TENSOR_BYTES);
    if (rc == 0)
        rc = gguf_parse_tensors(g, &p, (uint32_t)n_tensors);
    return rc;
}
