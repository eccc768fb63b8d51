/* core/formats/safetensors/safetensors.c - see safetensors.h.
 *
 * Only headers are read, never data. Each is a JSON tree that stays in memory, because tensor names
 * are borrowed from it, so the total of all headers has a limit too. All tensors go into one array
 * sorted by name: neighbours show duplicates, and a binary search compares it with the index.
 */
#include "core/formats/safetensors/safetensors.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/hf_folder.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEAD ((size_t)32 << 20) /* some hundred bytes a tensor */
#define MAX_FILES 1024
#define MAX_HEADS ((size_t)64 << 20) /* bytes of all headers: their trees stay in memory */
#define MAX_TENSORS ((size_t)1 << 18) /* experts and scales are tensors of their own */
#define EXACT 9007199254740992.0 /* 2^53: whole numbers up to here are exact in JSON's doubles */

static const struct {
    const char *name;
    uint32_t bytes;
} types[] = {
    {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}, {"I64", 8},     {"I32", 4},     {"I16", 2},
    {"I8", 1},  {"U8", 1},  {"U16", 2},  {"U32", 4}, {"U64", 8},     {"BOOL", 1},    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
};

static int fail_tensor(const struct hf_folder *f, const char *file, const char *name,
                       const char *what)
{
    char shown[80];

    return hf_fail(f, ERR_FORMAT, file, "tensor '%s': %s", hf_printable(shown, sizeof(shown), name),
                   what);
}

static bool read_whole(const cJSON *m, uint64_t *v)
{
    if (!cJSON_IsNumber(m) || !(m->valuedouble >= 0.0) || m->valuedouble > EXACT ||
        m->valuedouble != floor(m->valuedouble))
        return false;
    *v = (uint64_t)m->valuedouble;
    return true;
}

/* ---- one tensor ---- */

static uint32_t type_bytes(const char *type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(type, types[i].name) == 0)
            return types[i].bytes;
    return 0;
}

/* Read the shape; *n gets the product of its dimensions. */
static bool read_shape(const cJSON *shape, struct safetensor *t, uint64_t *n)
{
    const cJSON *d;

    *n = 1;
    t->n_dims = 0;
    if (!cJSON_IsArray(shape))
        return false;
    cJSON_ArrayForEach(d, shape)
    {
        uint64_t v;

        if (!read_whole(d, &v) || __builtin_mul_overflow(*n, v, n))
            return false;
        if (t->n_dims >= SAFETENSORS_MAX_DIMS) {
            t->n_dims = UINT32_MAX;
            continue;
        }
        t->dims[t->n_dims++] = v;
    }
    return true;
}

static int read_tensor(const struct hf_folder *f, const char *file, const cJSON *m,
                       uint64_t n_data, struct safetensor *t)
{
    const cJSON *at = hf_member(m, "data_offsets");
    uint64_t n, begin, end, bytes;

    t->name = m->string;
    t->type = hf_text(m, "dtype");
    if (t->type == NULL || type_bytes(t->type) == 0)
        return fail_tensor(f, file, t->name, "its 'dtype' is none that is known");
    if (!read_shape(hf_member(m, "shape"), t, &n))
        return fail_tensor(f, file, t->name, "its 'shape' is not a list of whole numbers");
    if (cJSON_GetArraySize(at) != 2 || !read_whole(cJSON_GetArrayItem(at, 0), &begin) ||
        !read_whole(cJSON_GetArrayItem(at, 1), &end) || end < begin)
        return fail_tensor(f, file, t->name, "its 'data_offsets' are not a begin and an end");
    if (end > n_data)
        return fail_tensor(f, file, t->name, "its data reaches past the end of the file");
    if (__builtin_mul_overflow(n, (uint64_t)type_bytes(t->type), &bytes) || bytes != end - begin)
        return fail_tensor(f, file, t->name, "its shape does not fit its bytes");
    t->offset = begin;
    t->bytes = bytes;
    return 0;
}

/* ---- one file ---- */

static int read_head(struct safetensors *s, const struct hf_folder *f, uint32_t i, uint64_t *n_head,
                     uint64_t *size)
{
    uint8_t length[8];
    size_t n = sizeof(length);
    uint64_t now;
    char *text;
    int rc = hf_read_bytes(f, s->files[i], 0, (char *)length, &n, size);

    if (rc < 0)
        return rc;
    if (n < sizeof(length))
        return hf_fail(f, ERR_FORMAT, s->files[i], "is not a safetensors file: it has %zu bytes",
                       n);
    *n_head = 0;
    for (int b = 7; b >= 0; b--)
        *n_head = *n_head << 8 | length[b];
    if (*n_head > *size - sizeof(length) || *n_head > MAX_HEAD)
        return hf_fail(f, ERR_FORMAT, s->files[i],
                       "claims a header of %" PRIu64 " bytes; the file has %" PRIu64
                       ", and %zu at most are read",
                       *n_head, *size, MAX_HEAD);
    s->head_bytes += *n_head;
    if (s->head_bytes > MAX_HEADS)
        return hf_fail(f, ERR_LIMIT, s->files[i],
                       "the headers of all files take more than %zu bytes", MAX_HEADS);
    n = (size_t)*n_head;
    text = mem_alloc(n + 1);
    if (text == NULL)
        return hf_fail(f, ERR_NOMEM, s->files[i], "out of memory");
    rc = hf_read_bytes(f, s->files[i], sizeof(length), text, &n, &now);
    if (rc == 0 && now != *size)
        rc = hf_fail(f, ERR_FORMAT, s->files[i], "has changed while it was read");
    if (rc == 0)
        rc = hf_parse(f, s->files[i], text, n, &s->heads[i]);
    mem_free(text);
    return rc;
}

static int read_file(struct safetensors *s, const struct hf_folder *f, uint32_t i)
{
    uint64_t n_head = 0, size = 0, n_data;
    const cJSON *m;
    struct safetensor *more;
    size_t n;
    int rc = read_head(s, f, i, &n_head, &size);

    if (rc < 0)
        return rc;
    n_data = size - n_head - 8;
    n = s->n_items + (size_t)cJSON_GetArraySize(s->heads[i]);
    if (n > MAX_TENSORS)
        return hf_fail(f, ERR_LIMIT, s->files[i], "more than %zu tensors", MAX_TENSORS);
    more = mem_realloc(s->items, (n + 1) * sizeof(*more));
    if (more == NULL)
        return hf_fail(f, ERR_NOMEM, s->files[i], "out of memory");
    s->items = more;
    cJSON_ArrayForEach(m, s->heads[i])
    {
        struct safetensor *t = &s->items[s->n_items];

        if (strcmp(m->string, "__metadata__") == 0)
            continue;
        *t = (struct safetensor){.file = i};
        rc = read_tensor(f, s->files[i], m, n_data, t);
        if (rc < 0)
            return rc;
        t->offset += n_head + 8;
        s->n_items++;
    }
    return 0;
}

/* ---- all files ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensor *)a)->name, ((const struct safetensor *)b)->name);
}

/* True: a file's name stays in the folder. */
static bool is_plain_name(const char *name)
{
    const size_t n = strlen(name);

    return n > 12 && n < 256 && strchr(name, '/') == NULL && name[0] != '.' &&
           strcmp(name + n - 12, ".safetensors") == 0;
}

/* List the files that the index names, each once. */
static int list_files(struct safetensors *s, const struct hf_folder *f, const cJSON *map)
{
    const size_t n = cJSON_IsObject(map) ? (size_t)cJSON_GetArraySize(map) : 0;
    const cJSON *m;
    size_t n_named = 0, n_files = 0;

    if (n == 0 || n > MAX_TENSORS)
        return hf_fail(f, ERR_FORMAT, SAFETENSORS_INDEX,
                       "'weight_map' has %zu tensors, but 1 to %zu are supported", n, MAX_TENSORS);
    s->files = mem_calloc(n, sizeof(*s->files));
    if (s->files == NULL)
        return hf_fail(f, ERR_NOMEM, SAFETENSORS_INDEX, "out of memory");
    cJSON_ArrayForEach(m, map)
    {
        const char *name = cJSON_GetStringValue(m);

        if (name == NULL || !is_plain_name(name))
            return hf_fail(
                f, ERR_FORMAT, SAFETENSORS_INDEX,
                "'weight_map' names a file that is not a NAME.safetensors in this folder");
        s->files[n_named++] = name;
    }
    qsort(s->files, n_named, sizeof(*s->files), by_text);
    for (size_t i = 0; i < n_named; i++)
        if (n_files == 0 || strcmp(s->files[n_files - 1], s->files[i]) != 0)
            s->files[n_files++] = s->files[i];
    if (n_files > MAX_FILES)
        return hf_fail(f, ERR_LIMIT, SAFETENSORS_INDEX, "'weight_map' names %zu files, at most %d "
                       "are supported", n_files, MAX_FILES);
    s->n_files = (uint32_t)n_files;
    return 0;
}

static int take_file(struct safetensors *s, const struct hf_folder *f, const char *name)
{
    s->files = mem_calloc(1, sizeof(*s->files));
    if (s->files == NULL)
        return hf_fail(f, ERR_NOMEM, name, "out of memory");
    s->files[0] = name;
    s->n_files = 1;
    return 0;
}

/* Find model.safetensors, or the files of the index. */
static int find_files(struct safetensors *s, const struct hf_folder *f)
{
    uint64_t size;
    size_t none = 0;
    int rc = hf_read_bytes(f, SAFETENSORS_ONE, 0, NULL, &none, &size);

    if (rc == ERR_NOENT) {
        rc = hf_read(f, SAFETENSORS_INDEX, MAX_HEAD, &s->index);
        if (rc == ERR_NOENT)
            return hf_fail(f, ERR_NOENT, SAFETENSORS_ONE,
                           "is missing, and so is " SAFETENSORS_INDEX);
        return rc == 0 ? list_files(s, f, hf_member(s->index, "weight_map")) : rc;
    }
    return rc == 0 ? take_file(s, f, SAFETENSORS_ONE) : rc;
}

/* Sort the tensors from `from` on, and check that no name is among them twice. */
static int sort_items(const struct safetensors *s, const struct hf_folder *f, size_t from)
{
    if (s->n_items > from)
        qsort(s->items + from, s->n_items - from, sizeof(*s->items), by_name);
    for (size_t i = from + 1; i < s->n_items; i++)
        if (by_name(&s->items[i - 1], &s->items[i]) == 0)
            return fail_tensor(f, s->files[s->items[i].file], s->items[i].name, "occurs twice");
    return 0;
}

/* Check that each tensor of the index is in the file that it names, and that the files have no
 * others. */
static int check_index(const struct safetensors *s, const struct hf_folder *f)
{
    const cJSON *map = hf_member(s->index, "weight_map"), *m;

    cJSON_ArrayForEach(m, map)
    {
        const struct safetensor wanted = {.name = m->string};
        const struct safetensor *t =
            bsearch(&wanted, s->items, s->n_items, sizeof(wanted), by_name);

        if (t == NULL || strcmp(s->files[t->file], m->valuestring) != 0)
            return fail_tensor(f, SAFETENSORS_INDEX, m->string,
                               "is not in the file that 'weight_map' says");
    }
    if ((size_t)cJSON_GetArraySize(map) != s->n_items)
        return hf_fail(f, ERR_FORMAT, SAFETENSORS_INDEX,
                       "'weight_map' has %d tensors, but the files have %zu",
                       cJSON_GetArraySize(map), s->n_items);
    return 0;
}

/* Read the headers of the files that were found. */
static int read_files(struct safetensors *s, const struct hf_folder *f)
{
    int rc = 0;

    s->heads = mem_calloc(s->n_files, sizeof(*s->heads));
    if (s->heads == NULL)
        return hf_fail(f, ERR_NOMEM, s->files[0], "out of memory");
    for (uint32_t i = 0; i < s->n_files && rc == 0; i++)
        rc = read_file(s, f, i);
    if (rc < 0)
        return rc;
    rc = sort_items(s, f, 0);
    return rc == 0 && s->index != NULL ? check_index(s, f) : rc;
}

/* Add the tensors of a head's file, which no index names, behind those that are there. */
static int add_file(struct safetensors *s, const struct hf_folder *f, const char *name)
{
    const char **files = mem_realloc(s->files, (s->n_files + 1) * sizeof(*files));
    const size_t from = s->n_items;
    cJSON **heads;
    int rc;

    if (files == NULL)
        return hf_fail(f, ERR_NOMEM, name, "out of memory");
    s->files = files;
    heads = mem_realloc(s->heads, (s->n_files + 1) * sizeof(*heads));
    if (heads == NULL)
        return hf_fail(f, ERR_NOMEM, name, "out of memory");
    s->heads = heads;
    s->files[s->n_files] = name;
    s->heads[s->n_files] = NULL;
    rc = read_file(s, f, s->n_files++);
    return rc == 0 ? sort_items(s, f, from) : rc;
}

int safetensors_read(struct safetensors *s, const struct hf_folder *f)
{
    int rc;

    *s = (struct safetensors){0};
    rc = find_files(s, f);
    if (rc == 0)
        rc = read_files(s, f);
    s->n_main = s->n_files;
    for (uint32_t i = 0; rc == 0 && i < f->n_heads; i++)
        rc = add_file(s, f, f->heads[i].file);
    return rc;
}

int safetensors_read_file(struct safetensors *s, const struct hf_folder *f, const char *name)
{
    int rc;

    *s = (struct safetensors){0};
    rc = take_file(s, f, name);
    if (rc == 0)
        rc = read_files(s, f);
    s->n_main = s->n_files;
    return rc;
}

void safetensors_release(struct safetensors *s)
{
    for (uint32_t i = 0; i < s->n_files && s->heads != NULL; i++)
        cJSON_Delete(s->heads[i]);
    cJSON_Delete(s->index);
    mem_free(s->heads);
    mem_free(s->files);
    mem_free(s->items);
    *s = (struct safetensors){0};
}
