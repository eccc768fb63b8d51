/* core/formats/hf_folder.c - see hf_folder.h.
 *
 * Files are read whole, with a limit on their size, and parsed with core/json/json.h, which limits
 * depth and number of values. The small getters at the end do the same for members: they leave a
 * default alone where a member is absent or null, and turn a wrong type or range into a sentence
 * that names file and member.
 */
#include "core/formats/hf_folder.h"

#include "core/base/err.h"
#include "core/base/file_io.h"
#include "core/base/mem.h"
#include "core/formats/gguf/write.h"
#include "core/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_CONFIG ((size_t)1 << 20)
#define MAX_TOKENIZER ((size_t)64 << 20) /* the largest in use have 33 MB */
#define MAX_VALUES ((size_t)1 << 22)     /* most values in tokenizer.json, with merges as pairs: 2
                                          * million in use */

int hf_fail(const struct hf_folder *f, int rc, const char *file, const char *format, ...)
{
    va_list args;
    const int n = snprintf(f->err, f->err_len, "%s/%s: ", f->path, file);

    va_start(args, format);
    if (n >= 0 && (size_t)n < f->err_len)
        vsnprintf(f->err + n, f->err_len - (size_t)n, format, args);
    va_end(args);
    return rc;
}

const char *hf_printable(char *dst, size_t size, const char *text)
{
    size_t n = 0;

    for (; text[n] != '\0' && n + 1 < size; n++)
        dst[n] = text[n] >= 0x20 && text[n] <= 0x7e ? text[n] : '?';
    dst[n] = '\0';
    return dst;
}

int hf_path(const struct hf_folder *f, const char *file, char path[HF_MAX_PATH])
{
    const int n = snprintf(path, HF_MAX_PATH, "%s/%s", f->path, file);

    return n < 0 || n >= HF_MAX_PATH ? hf_fail(f, ERR_LIMIT, file, "the path is too long") : 0;
}

/* ---- files ---- */

static int open_regular(const struct hf_folder *f, const char *file, int *fd, uint64_t *size)
{
    char path[HF_MAX_PATH];
    struct stat st;
    int rc = hf_path(f, file, path);

    if (rc < 0)
        return rc;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: a FIFO must not make open()
                                                          * wait; it is refused below */
    if (*fd < 0 && errno == ENOENT) {
        hf_fail(f, ERR_NOENT, file, "cannot open: %s", strerror(errno));
        return ERR_NOENT;
    }
    if (*fd < 0 || fstat(*fd, &st) < 0)
        rc = hf_fail(f, ERR_IO, file, "cannot open: %s", strerror(errno));
    else if (!S_ISREG(st.st_mode))
        rc = hf_fail(f, ERR_IO, file, "is not a regular file");
    else
        *size = (uint64_t)st.st_size;
    if (rc < 0 && *fd >= 0)
        close(*fd);
    return rc;
}

int hf_read_bytes(const struct hf_folder *f, const char *file, uint64_t at, char *to, size_t *n,
                  uint64_t *size)
{
    int fd, rc = open_regular(f, file, &fd, size);
    int64_t got;

    if (rc < 0)
        return rc;
    got = file_read(fd, to, *n, (int64_t)at);
    if (got < 0)
        rc = hf_fail(f, ERR_IO, file, "cannot read: %s", strerror(errno));
    close(fd);
    *n = got > 0 ? (size_t)got : 0;
    return rc;
}

static int parse_file(const struct hf_folder *f, const char *file, const char *text, size_t n,
                      cJSON **out)
{
    static const char subject[] = "the body "; /* the JSON parser's sentences begin with this
                                                * subject, which does not fit a file */
    const char *why = "";
    const int rc = json_parse_up_to(text, n, MAX_VALUES, out, &why);

    if (rc < 0) {
        why += strncmp(why, subject, sizeof(subject) - 1) == 0 ? sizeof(subject) - 1 : 0;
        return hf_fail(f, ERR_FORMAT, file, "%s", why);
    }
    return 0;
}

/* Keep the parsed tree if it has the wanted type. */
static int keep_if(const struct hf_folder *f, bool is_wanted, const char *file, const char *what,
                   cJSON **out)
{
    if (is_wanted)
        return 0;
    cJSON_Delete(*out);
    *out = NULL;
    return hf_fail(f, ERR_FORMAT, file, "is not a JSON %s", what);
}

int hf_parse(const struct hf_folder *f, const char *file, const char *text, size_t n, cJSON **out)
{
    const int rc = parse_file(f, file, text, n, out);

    return rc == 0 ? keep_if(f, cJSON_IsObject(*out), file, "object", out) : rc;
}

static int read_any(const struct hf_folder *f, const char *file, size_t max, cJSON **out)
{
    uint64_t size = 0;
    size_t n = 0;
    char *text;
    int rc = hf_read_bytes(f, file, 0, NULL, &n, &size);

    *out = NULL;
    if (rc < 0)
        return rc;
    if (size > max)
        return hf_fail(f, ERR_LIMIT, file, "has %llu bytes, but at most %zu are supported",
                       (unsigned long long)size, max);
    n = (size_t)size;
    text = mem_alloc(n + 1);
    if (text == NULL)
        return hf_fail(f, ERR_NOMEM, file, "out of memory");
    rc = hf_read_bytes(f, file, 0, text, &n, &size);
    if (rc == 0)
        rc = parse_file(f, file, text, n, out);
    mem_free(text);
    return rc;
}

int hf_read(const struct hf_folder *f, const char *file, size_t max, cJSON **out)
{
    const int rc = read_any(f, file, max, out);

    return rc == 0 ? keep_if(f, cJSON_IsObject(*out), file, "object", out) : rc;
}

int hf_read_list(const struct hf_folder *f, const char *file, size_t max, cJSON **out)
{
    const int rc = read_any(f, file, max, out);

    return rc == 0 ? keep_if(f, cJSON_IsArray(*out), file, "list", out) : rc;
}

/* ---- members ---- */

const cJSON *hf_member(const cJSON *o, const char *name)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(o, name);

    return cJSON_IsNull(m) ? NULL : m;
}

const char *hf_text(const cJSON *o, const char *name)
{
    return cJSON_GetStringValue(hf_member(o, name));
}

int hf_u32(const struct hf_folder *f, const char *file, const cJSON *o, const char *name,
           uint32_t lo, uint32_t hi, uint32_t *v)
{
    const cJSON *m = hf_member(o, name);
    const double found = cJSON_IsNumber(m) ? m->valuedouble : -1.0;

    if (m == NULL)
        return 0;
    if (!(found >= lo && found <= hi) || found != floor(found))
        return hf_fail(f, ERR_FORMAT, file, "'%s' is not a whole number from %u to %u", name, lo,
                       hi);
    *v = (uint32_t)found;
    return 0;
}

int hf_positive(const struct hf_folder *f, const char *file, const cJSON *o, const char *name,
                double *v)
{
    const cJSON *m = hf_member(o, name);

    if (m == NULL)
        return 0;
    if (!cJSON_IsNumber(m) || !(m->valuedouble > 0.0) || !(m->valuedouble < 1e30))
        return hf_fail(f, ERR_FORMAT, file, "'%s' is not a number above 0", name);
    *v = m->valuedouble;
    return 0;
}

int hf_bool(const struct hf_folder *f, const char *file, const cJSON *o, const char *name, bool *v)
{
    const cJSON *m = hf_member(o, name);

    if (m == NULL)
        return 0;
    if (!cJSON_IsBool(m))
        return hf_fail(f, ERR_FORMAT, file, "'%s' is neither true nor false", name);
    *v = cJSON_IsTrue(m);
    return 0;
}

/* ---- the folder ---- */

int hf_folder_open(struct hf_folder *f, const char *path, const char *forced_pre, char *err,
                   size_t err_len)
{
    int rc;

    *f = (struct hf_folder){.path = path, .forced_pre = forced_pre, .err = err, .err_len = err_len};
    rc = gguf_writer_create(&f->w);
    if (rc < 0)
        return hf_fail(f, rc, HF_CONFIG, "out of memory");
    rc = hf_read(f, HF_CONFIG, MAX_CONFIG, &f->config);
    if (rc == 0)
        rc = hf_read(f, HF_TOKENIZER, MAX_TOKENIZER, &f->tokenizer);
    if (rc < 0)
        return rc;
    rc = hf_read(f, HF_TOKENIZER_CONFIG, MAX_TOKENIZER, &f->tokenizer_config);
    return rc == ERR_NOENT ? 0 : rc;
}

void hf_folder_release(struct hf_folder *f)
{
    cJSON_Delete(f->config);
    cJSON_Delete(f->tokenizer);
    cJSON_Delete(f->tokenizer_config);
    gguf_writer_destroy(&f->w);
    *f = (struct hf_folder){0};
}
