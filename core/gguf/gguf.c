/* core/gguf/gguf.c - opening, closing and looking up; the checks are in gguf_parse.c. */
#include "core/gguf/gguf.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/gguf/gguf_parse.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail_errno(const char *path, const char *verb, char *err, size_t err_len)
{
    const int errnum = errno;

    snprintf(err, err_len, "%s: cannot %s: %s", path, verb, strerror(errnum));
    return errnum == ENOMEM ? ERR_NOMEM : ERR_IO;
}

static int fail_nomem(const char *name, char *err, size_t err_len)
{
    snprintf(err, err_len, "%s: out of memory", name);
    return ERR_NOMEM;
}

static int map_fd(struct gguf *g, int fd, char *err, size_t err_len)
{
    struct stat st;
    void *p;

    if (fstat(fd, &st) < 0)
        return fail_errno(g->name, "read", err, err_len);
    if (!S_ISREG(st.st_mode)) {
        snprintf(err, err_len, "%s: is not a regular file", g->name);
        return ERR_IO;
    }
    if (st.st_size == 0) { /* cannot be mapped */
        snprintf(err, err_len, "%s: the file is empty", g->name);
        return ERR_FORMAT;
    }
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return fail_errno(g->name, "map", err, err_len);
    g->mapping = p;
    g->base = p;
    g->bytes = (uint64_t)st.st_size;
    g->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return 0;
}

static int map_file(struct gguf *g, char *err, size_t err_len)
{
    /* O_NONBLOCK: a FIFO must be refused below, not waited for. */
    const int fd = open(g->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int rc;

    if (fd < 0)
        return fail_errno(g->name, "open", err, err_len);
    rc = map_fd(g, fd, err, err_len);
    close(fd);
    return rc;
}

static struct gguf *create(const char *name)
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

int gguf_open(struct gguf **out, const char *path, char *err, size_t err_len)
{
    struct gguf *g = create(path);
    int rc;

    *out = NULL;
    if (g == NULL)
        return fail_nomem(path, err, err_len);
    rc = map_file(g, err, err_len);
    if (rc == 0)
        rc = gguf_parse(g, err, err_len);
    if (rc < 0) {
        gguf_close(&g);
        return rc;
    }
    *out = g;
    return 0;
}

int gguf_open_memory(struct gguf **out, const char *name, const void *data, size_t bytes, char *err,
                     size_t err_len)
{
    struct gguf *g = create(name);
    int rc;

    assert((uintptr_t)data % 8 == 0);
    *out = NULL;
    if (g == NULL)
        return fail_nomem(name, err, err_len);
    g->base = data;
    g->bytes = bytes;
    rc = gguf_parse(g, err, err_len);
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
    mem_free(g->tensors);
    name_index_release(&g->kv_index);
    name_index_release(&g->tensor_index);
    if (g->mapping != NULL)
        munmap(g->mapping, (size_t)g->bytes);
    mem_free(g->name);
    mem_free(g);
    *gp = NULL;
}

bool gguf_is_file(const struct gguf *g)
{
    return g->mapping != NULL;
}

int64_t gguf_mtime_ns(const struct gguf *g)
{
    return g->mtime_ns;
}

const void *gguf_bytes(const struct gguf *g, uint64_t *data_at)
{
    *data_at = g->data_at;
    return g->base;
}

/* Whole pages only: of those at the ends others may still want their part. */
static void advise(const struct gguf *g, const void *data, uint64_t bytes, int advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data;
    const uintptr_t from = (at + page - 1) & ~(page - 1), to = (at + bytes) & ~(page - 1);

    if (g->mapping != NULL && from < to)
        (void)madvise((void *)from, to - from, advice);
}

void gguf_will_read(const struct gguf *g, const void *data, uint64_t bytes)
{
    advise(g, data, bytes, MADV_WILLNEED);
}

void gguf_has_read(const struct gguf *g, const void *data, uint64_t bytes)
{
    advise(g, data, bytes, MADV_DONTNEED);
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
    return g->bytes;
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
