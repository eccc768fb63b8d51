/* core/formats/gguf/parts.c - joins the parts of a split model into one (see gguf.h).
 *
 * Each part is a whole GGUF file, parsed by itself; its keys split.no, counted from 0, and
 * split.count tell which part of how many it is; split.tensors.count in the first is the number of
 * tensors of all parts. The names of the files differ in these numbers only.
 */
#include "core/formats/gguf/gguf_impl.h"

#include "core/base/err.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_PARTS 1024
#define SUFFIX_LEN 20 /* bytes of -00001-of-00003.gguf */

static int part_fail(const struct gguf *g, int rc, char *err, size_t err_len, const char *format,
                     ...)
    __attribute__((format(printf, 5, 6)));

static int part_fail(const struct gguf *g, int rc, char *err, size_t err_len, const char *format,
                     ...)
{
    va_list args;
    const int n = snprintf(err, err_len, "%s: ", g->name);

    va_start(args, format);
    if (n >= 0 && (size_t)n < err_len)
        vsnprintf(err + n, err_len - (size_t)n, format, args);
    va_end(args);
    return rc;
}

/* Read the file's part number and count; count 1 when it is whole. */
static int read_numbers(const struct gguf *g, uint32_t *no, uint32_t *count, char *err,
                        size_t err_len)
{
    int rc = gguf_get_u32(g, "split.count", count, err, err_len);

    *no = 0;
    if (rc == ERR_NOENT)
        *count = 1;
    else if (rc == 0)
        rc = gguf_get_u32(g, "split.no", no, err, err_len);
    if (rc < 0 && rc != ERR_NOENT)
        return rc;
    *count = *count > 0 ? *count : 1;
    if (*count > MAX_PARTS)
        return part_fail(g, ERR_FORMAT, err, err_len,
                         "key 'split.count': is %u, but at most %d parts are supported", *count,
                         MAX_PARTS);
    if (*no >= *count)
        return part_fail(g, ERR_FORMAT, err, err_len,
                         "key 'split.no': is %u, but there are %u parts", *no, *count);
    return 0;
}

/* Return the path of part i, in the folder of another part; NULL when there is no memory. */
static char *path_of_part(const char *path, uint32_t i, uint32_t count)
{
    char suffix[SUFFIX_LEN + 8]; /* room for more than five digits */
    char *to = mem_strdup(path);

    snprintf(suffix, sizeof(suffix), "-%05u-of-%05u.gguf", i + 1, count);
    if (to != NULL)
        memcpy(to + strlen(to) - SUFFIX_LEN, suffix, SUFFIX_LEN + 1);
    return to;
}

static bool has_name_of_part(const char *path, uint32_t i, uint32_t count)
{
    char suffix[SUFFIX_LEN + 8];
    const size_t len = strlen(path);

    snprintf(suffix, sizeof(suffix), "-%05u-of-%05u.gguf", i + 1, count);
    return len > SUFFIX_LEN && strcmp(path + len - SUFFIX_LEN, suffix) == 0;
}

static int open_part(struct gguf **out, const char *beside, uint32_t i, uint32_t count, char *err,
                     size_t err_len)
{
    char *path = path_of_part(beside, i, count);
    uint32_t no = 0, n = 0;
    int rc;

    *out = NULL;
    if (path == NULL) {
        snprintf(err, err_len, "%s: out of memory", beside);
        return ERR_NOMEM;
    }
    rc = gguf_map(out, path, true, err, err_len);
    mem_free(path);
    if (rc == 0)
        rc = read_numbers(*out, &no, &n, err, err_len);
    if (rc == 0 && n == 1)
        rc = part_fail(*out, ERR_FORMAT, err, err_len,
                       "should be part %u of %u, but is not a part of a split model", i + 1, count);
    if (rc == 0 && n != count)
        rc = part_fail(*out, ERR_FORMAT, err, err_len,
                       "should be part %u of %u, but its header says that there are %u parts",
                       i + 1, count, n);
    if (rc == 0 && no != i)
        rc = part_fail(*out, ERR_FORMAT, err, err_len,
                       "should be part %u of %u, but its header says that it is part %u", i + 1,
                       count, no + 1);
    if (rc < 0)
        gguf_close(out);
    return rc;
}

/* Add a part's tensors to those of `g`, which has room. */
static int add_tensors(struct gguf *g, const struct gguf *part, char *err, size_t err_len)
{
    for (uint32_t i = 0; i < part->n_tensors; i++) {
        const struct gguf_tensor *t = &part->tensors[i];
        uint32_t same;

        g->tensors[g->n_tensors] = *t;
        same = name_index_add(&g->tensor_index, g->n_tensors);
        if (same != g->n_tensors)
            return part_fail(part, ERR_FORMAT, err, err_len,
                             "tensor '%.*s': an earlier part contains it too", (int)t->name.len,
                             t->name.data);
        g->n_tensors++;
    }
    return 0;
}

/* Join the tensors of all parts into one directory. */
static int join_parts(struct gguf *g, char *err, size_t err_len)
{
    struct gguf own = {.name = g->name, .tensors = g->tensors, .n_tensors = g->n_tensors};
    uint64_t total = g->n_tensors;
    int rc = 0;

    for (uint32_t i = 0; i < g->n_more; i++)
        total += g->more[i]->n_tensors;
    if (total > GGUF_MAX_TENSORS)
        return part_fail(g, ERR_FORMAT, err, err_len, "the parts have %" PRIu64 " tensors", total);
    name_index_release(&g->tensor_index);
    g->n_tensors = 0;
    g->tensors = mem_calloc((size_t)total, sizeof(*g->tensors));
    if (g->tensors == NULL || name_index_init(&g->tensor_index, g->tensors, sizeof(*g->tensors),
                                              (uint32_t)total) < 0)
        rc = part_fail(g, ERR_NOMEM, err, err_len, "out of memory");
    if (rc == 0)
        rc = add_tensors(g, &own, err, err_len);
    for (uint32_t i = 0; i < g->n_more && rc == 0; i++)
        rc = add_tensors(g, g->more[i], err, err_len);
    mem_free(own.tensors);
    return rc;
}

static int check_total(const struct gguf *g, uint32_t count, char *err, size_t err_len)
{
    uint32_t wanted = 0;
    const int rc = gguf_get_u32(g, "split.tensors.count", &wanted, err, err_len);

    if (rc == ERR_NOENT)
        return part_fail(g, ERR_FORMAT, err, err_len, "key 'split.tensors.count' is missing");
    if (rc == 0 && wanted != g->n_tensors)
        return part_fail(g, ERR_FORMAT, err, err_len,
                         "key 'split.tensors.count': is %u, but the %u parts have %u tensors",
                         wanted, count, g->n_tensors);
    return rc;
}

static int open_others(struct gguf *g, uint32_t count, char *err, size_t err_len)
{
    int rc = gguf_make_room(g, count - 1, err, err_len);

    for (uint32_t i = 1; i < count && rc == 0; i++) {
        rc = open_part(&g->more[i - 1], g->name, i, count, err, err_len);
        g->n_more += rc == 0;
    }
    if (rc == 0)
        rc = join_parts(g, err, err_len);
    return rc == 0 ? check_total(g, count, err, err_len) : rc;
}

int gguf_open_parts(struct gguf **gp, char *err, size_t err_len)
{
    struct gguf *g = *gp, *first;
    uint32_t no, count;
    int rc = read_numbers(g, &no, &count, err, err_len);

    if (rc < 0 || count == 1)
        return rc;
    if (g->file.mapping == NULL)
        return part_fail(g, ERR_UNSUPPORTED, err, err_len,
                         "is one of %u parts of a split model, but the other parts are missing",
                         count);
    if (!has_name_of_part(g->name, no, count))
        return part_fail(g, ERR_FORMAT, err, err_len,
                         "is part %u of %u of a split model, but its name does not end in "
                         "-%05u-of-%05u.gguf, so that the others cannot be found",
                         no + 1, count, no + 1, count);
    if (no > 0) {
        rc = open_part(&first, g->name, 0, count, err, err_len);
        if (rc < 0)
            return rc;
        gguf_close(gp);
        *gp = g = first;
    }
    return open_others(g, count, err, err_len);
}
