/* core/formats/gguf/gguf.c - opening, closing and looking up; the checks are in parse.c, sets of
 * files in parts.c.
 *
 * A handle is one directory (keys, tensors, two name indexes) over one or more mapped files: `more`
 * has the other parts of a split model, or the safetensors files that a header in memory refers to.
 * Functions about bytes loop over all files; look-ups use the first one's directory alone.
 */
#include "core/formats/gguf/gguf.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/formats/gguf/gguf_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static int fail_nomem(const char *name, char *err, size_t err_len)
{
    snprintf(err, err_len, "%s: out of memory", name);
    return ERR_NOMEM;
}

struct gguf *gguf_create(const char *name)
{
    struct gguf *g = mem_calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->name = mem_strdup(name);
    if (g->name == NULL) {
        mem_free(g);
        return NULL;
    }
    return g;
}

int gguf_map(struct gguf **out, const char *path, bool parse, char *err, size_t err_len)
{
    struct gguf *g = gguf_create(path);
    int rc;

    *out = NULL;
    if (g == NULL)
        return fail_nomem(path, err, err_len);
    rc = mapped_file_open(&g->file, path, err, err_len);
    if (rc == 0 && parse)
        rc = gguf_parse(g, err, err_len);
    if (rc < 0 && gguf_check_read(g, err, err_len) < 0)
        rc = ERR_IO;
    if (rc < 0) {
        gguf_close(&g);
        return rc;
    }
    *out = g;
    return 0;
}

int gguf_make_room(struct gguf *g, uint32_t n, char *err, size_t err_len)
{
    g->more = mem_calloc(n, sizeof(*g->more));
    return g->more != NULL ? 0 : fail_nomem(g->name, err, err_len);
}

int gguf_open(struct gguf **out, const char *path, char *err, size_t err_len)
{
    int rc = gguf_map(out, path, true, err, err_len);

    if (rc == 0)
        rc = gguf_open_parts(out, err, err_len);
    if (rc < 0 && *out != NULL && gguf_check_read(*out, err, err_len) < 0)
        rc = ERR_IO;
    if (rc < 0)
        gguf_close(out);
    return rc;
}

int gguf_open_memory(struct gguf **out, const char *name, const void *data, size_t bytes, char *err,
                     size_t err_len)
{
    struct gguf *g = gguf_create(name);
    int rc;

    assert((uintptr_t)data % 8 == 0);
    *out = NULL;
    if (g == NULL)
        return fail_nomem(name, err, err_len);
    g->file.base = data;
    g->file.bytes = bytes;
    rc = gguf_parse(g, err, err_len);
    if (rc == 0)
        rc = gguf_open_parts(&g, err, err_len);
    if (rc < 0) {
        gguf_close(&g);
        return rc;
    }
    *out = g;
    return 0;
}

void gguf_close(struct gguf **gp)
{
    struct gguf *g = gp != NULL ? *gp : NULL;

    if (g == NULL)
        return;
    for (uint32_t i = 0; i < g->n_kv; i++)
        mem_free((void *)g->kv[i].index);
    mem_free(g->kv);
    for (uint32_t i = 0; i < g->n_tensors && g->owns_recipes; i++)
        mem_free((void *)g->tensors[i].recipe);
    mem_free(g->tensors);
    name_index_release(&g->kv_index);
    name_index_release(&g->tensor_index);
    for (uint32_t i = 0; i < g->n_more; i++)
        gguf_close(&g->more[i]);
    mem_free(g->more);
    mapped_file_close(&g->file);
    mem_free(g->owned);
    mem_free(g->name);
    mem_free(g);
    *gp = NULL;
}

/* Return the i-th file: the handle's own, or one of `more`. */
static const struct gguf *file_at(const struct gguf *g, uint32_t i)
{
    assert(i <= g->n_more);
    return i == 0 ? g : g->more[i - 1];
}

uint32_t gguf_n_files(const struct gguf *g)
{
    return 1 + g->n_more;
}

struct gguf_file gguf_file_at(const struct gguf *g, uint32_t i)
{
    const struct gguf *f = file_at(g, i);

    return (struct gguf_file){.name = f->name,
                              .data = f->file.base,
                              .bytes = f->file.bytes,
                              .data_at = f->data_at,
                              .n_tensors = f->n_own_tensors,
                              .mtime_ns = f->file.mtime_ns};
}

bool gguf_is_file(const struct gguf *g)
{
    return file_at(g, g->n_more)->file.mapping != NULL;
}

int gguf_check_read(const struct gguf *g, char *err, size_t err_len)
{
    int rc = 0;

    for (uint32_t i = 0; i <= g->n_more && rc == 0; i++)
        rc = mapped_file_check_read(&file_at(g, i)->file, file_at(g, i)->name, err, err_len);
    return rc;
}

int gguf_check_unchanged(const struct gguf *g, char *err, size_t err_len)
{
    int rc = 0;

    for (uint32_t i = 0; i <= g->n_more && rc == 0; i++)
        rc = mapped_file_check(&file_at(g, i)->file, file_at(g, i)->name, err, err_len);
    return rc;
}

const char *gguf_name(const struct gguf *g)
{
    return g->name;
}

uint32_t gguf_version(const struct gguf *g)
{
    return g->version;
}

uint64_t gguf_file_bytes(const struct gguf *g)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i <= g->n_more; i++)
        n += file_at(g, i)->file.bytes;
    return n;
}

uint64_t gguf_n_kv(const struct gguf *g)
{
    return g->n_kv;
}

const struct gguf_kv *gguf_kv_at(const struct gguf *g, uint64_t i)
{
    assert(i < g->n_kv);
    return &g->kv[i];
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
    const uint32_t i = name_index_find(&g->kv_index, key, strlen(key));

    return i != NAME_INDEX_NONE ? &g->kv[i] : NULL;
}

uint64_t gguf_n_tensors(const struct gguf *g)
{
    return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, uint64_t i)
{
    assert(i < g->n_tensors);
    return &g->tensors[i];
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
    const uint32_t i = name_index_find(&g->tensor_index, name, strlen(name));

    return i != NAME_INDEX_NONE ? &g->tensors[i] : NULL;
}
