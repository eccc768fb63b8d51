/* core/formats/gguf/tensors.c - the tensor infos, and the places of their data.
 *
 * Infos are parsed one by one with every size computed by overflow-checked arithmetic; only then
 * the offsets are sorted, and one pass checks bounds and overlaps. A type that is known but not
 * supported is refused by its name.
 */
#include "core/formats/gguf/gguf_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/cursor.h"

#include <inttypes.h>
#include <stdlib.h>

/* A tensor's offset, kept until the start of the data section is known. */
struct extent {
    uint64_t offset; /* from the start of the data section */
    uint32_t tensor;
};

/* Return the name of a type that exists but is not supported, for the sentence that refuses it. */
static const char *foreign_type(uint32_t type)
{
    static const char *const names[] = {
        [9] = "Q8_1", [15] = "Q8_K", [24] = "I8",    [25] = "I16",  [26] = "I32",
        [27] = "I64", [28] = "F64",
    };

    if (type >= sizeof(names) / sizeof(names[0]) || names[type] == NULL)
        return "unknown";
    return names[type];
}

static int parse_dims(struct cursor *p, struct gguf_tensor *t)
{
    int rc = cursor_take_u32(p, "the number of dimensions", &t->n_dims);

    if (rc < 0)
        return rc;
    if (t->n_dims < 1 || t->n_dims > GGUF_MAX_DIMS)
        return cursor_fail(p, ERR_FORMAT, "has %u dimensions, but 1 to %d are allowed", t->n_dims,
                           GGUF_MAX_DIMS);
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++) {
        t->dims[i] = 1;
        if (i < t->n_dims)
            rc = cursor_take_u64(p, "a dimension", &t->dims[i]);
        if (rc < 0)
            return rc;
        if (t->dims[i] == 0)
            return cursor_fail(p, ERR_FORMAT, "dimension %u is 0", i);
    }
    return 0;
}

/* Compute a tensor's bytes from its type and dimensions. */
static int size_tensor(struct cursor *p, struct gguf_tensor *t, uint32_t type)
{
    const struct block_format *f = block_format(type);
    uint64_t bytes;
    bool overflow;

    if (f == NULL)
        return cursor_fail(p, ERR_UNSUPPORTED, "has type %u (%s), which is not supported", type,
                           foreign_type(type));
    t->type = (enum block_type)type;
    if (t->dims[0] % f->elems != 0)
        return cursor_fail(p, ERR_FORMAT,
                           "rows of %" PRIu64
                           " numbers are not a multiple of the %u in a block of %s",
                           t->dims[0], f->elems, f->name);
    overflow = __builtin_mul_overflow(t->dims[0] / f->elems, (uint64_t)f->bytes, &bytes) ||
               __builtin_add_overflow(bytes, (uint64_t)f->head, &bytes);
    for (int i = 1; i < GGUF_MAX_DIMS; i++)
        overflow |= __builtin_mul_overflow(bytes, t->dims[i], &bytes);
    if (overflow)
        return cursor_fail(p, ERR_FORMAT, "the dimensions multiply to more than 64 bits can hold");
    t->bytes = bytes;
    return 0;
}

static int parse_tensor(struct gguf *g, struct cursor *p, uint32_t i, struct extent *e)
{
    struct gguf_tensor *t = &g->tensors[i];
    uint32_t type = 0;
    int rc;

    cursor_subject(p, "tensor %u", i);
    rc = cursor_take_name(p, "tensor", &t->name);
    if (rc < 0)
        return rc;
    if (name_index_add(&g->tensor_index, i) != i)
        return cursor_fail(p, ERR_FORMAT, "occurs twice in the file");
    rc = parse_dims(p, t);
    if (rc == 0)
        rc = cursor_take_u32(p, "the type", &type);
    if (rc == 0)
        rc = size_tensor(p, t, type);
    if (rc == 0)
        rc = cursor_take_u64(p, "the offset", &e->offset);
    if (rc == 0 && e->offset % g->alignment != 0)
        rc = cursor_fail(p, ERR_FORMAT,
                         "offset %" PRIu64 " is not a multiple of the alignment %" PRIu64,
                         e->offset, g->alignment);
    e->tensor = i;
    g->n_tensors = i + 1;
    return rc;
}

static int by_offset(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Place every tensor's data: inside the file, and no byte in two tensors. */
static int place(struct gguf *g, struct cursor *p, struct extent *e, uint32_t n)
{
    const uint64_t start = (p->at + g->alignment - 1) & ~(g->alignment - 1);
    const uint64_t room = p->bytes > start ? p->bytes - start : 0;
    const struct gguf_tensor *before = NULL;
    uint64_t end = 0;

    g->data_at = start < p->bytes ? start : p->bytes;
    qsort(e, n, sizeof(*e), by_offset);
    for (uint32_t i = 0; i < n; i++) {
        struct gguf_tensor *t = &g->tensors[e[i].tensor];

        cursor_subject(p, "tensor '%.*s'", (int)t->name.len, t->name.data);
        if (e[i].offset > room || t->bytes > room - e[i].offset)
            return cursor_fail(p, ERR_FORMAT,
                               "%" PRIu64 " bytes at offset %" PRIu64 " reach past the %" PRIu64
                               " bytes of data in the file",
                               t->bytes, e[i].offset, room);
        if (before != NULL && e[i].offset < end)
            return cursor_fail(p, ERR_FORMAT, "overlaps tensor '%.*s'", (int)before->name.len,
                               before->name.data);
        t->data = p->base + start + e[i].offset;
        end = e[i].offset + t->bytes;
        before = t;
    }
    return 0;
}

int gguf_parse_tensors(struct gguf *g, struct cursor *p, uint32_t n)
{
    struct extent *extents = mem_calloc(n, sizeof(*extents));
    uint32_t n_here = 0;
    int rc = 0;

    g->tensors = mem_calloc(n, sizeof(*g->tensors));
    if (extents == NULL || g->tensors == NULL ||
        name_index_init(&g->tensor_index, g->tensors, sizeof(*g->tensors), n) < 0)
        rc = cursor_fail(p, ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = parse_tensor(g, p, i, &extents[n_here]);
        n_here += g->places == NULL ||
                  (g->places[i].recipe == NULL && g->places[i].file == GGUF_OWN_DATA);
    }
    g->n_own_tensors = n_here;
    if (rc == 0)
        rc = place(g, p, extents, n_here);
    mem_free(extents);
    return rc;
}
