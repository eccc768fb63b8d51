/* server/storage/request_log.c - see request_log.h.
 *
 * Records are appended with O_APPEND; a partial write is truncated, or skipped by checksum when the
 * file is read. Opening reads the whole file, keeps the requests that can be continued, and writes
 * them to NAME.new, which is locked before it is renamed over the file, so that the lock is never
 * free. The keeper's thread calls these functions, one at a time; at the start the main thread
 * calls request_log_open().
 */
#include "server/storage/request_log.h"

#include "core/base/err.h"
#include "core/base/file_io.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/replace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first bytes of each file. */
#define TITLE "quire requests 1\n"
#define N_TITLE (sizeof(TITLE) - 1)
/* Bytes of a new file that are written at once. */
#define PIECE ((size_t)1 << 20)
#define MAX_PATH 4096

struct request_log {
    char path[MAX_PATH], new_path[MAX_PATH + 8];
    int fd;
    uint64_t bytes;
};

/* ---- bytes ---- */

/* Read the whole file; the caller owns *data. */
static int read_log(int fd, char **data, size_t *n)
{
    struct stat st;
    int64_t got;

    *data = NULL;
    *n = 0;
    if (fstat(fd, &st) < 0)
        return ERR_IO;
    *data = mem_alloc((size_t)st.st_size + 1);
    if (*data == NULL)
        return ERR_NOMEM;
    got = file_read(fd, *data, (size_t)st.st_size, 0);
    if (got < 0) {
        mem_free(*data);
        *data = NULL;
        return ERR_IO;
    }
    *n = (size_t)got;
    return 0;
}

int request_log_append(struct request_log *l, const char *records, size_t n)
{
    int reason;

    if (file_write(l->fd, records, n, FILE_POSITION) == 0) {
        l->bytes += n;
        return 0;
    }
    reason = errno;
    if (ftruncate(l->fd, (off_t)l->bytes) < 0) /* a partial record is skipped when the file is
                                                * read */
        l->bytes = (uint64_t)lseek(l->fd, 0, SEEK_END);
    errno = reason;
    return ERR_IO;
}

int request_log_sync(struct request_log *l)
{
    return fdatasync(l->fd) == 0 ? 0 : ERR_IO;
}

uint64_t request_log_bytes(const struct request_log *l)
{
    return l->bytes;
}

/* ---- a new file ---- */

static int flush(int fd, struct buf *records, uint64_t *bytes)
{
    int rc = records->err < 0 ? records->err
                              : file_write(fd, records->data, records->len, FILE_POSITION);

    *bytes += records->len;
    buf_clear(records);
    return rc;
}

static int write_saved(int fd, const struct saved_requests *s, uint64_t *bytes)
{
    struct buf records;
    int rc = file_write(fd, TITLE, N_TITLE, FILE_POSITION);

    *bytes = N_TITLE;
    buf_init(&records, SIZE_MAX / 4);
    for (size_t i = 0; i < s->n && rc == 0; i++) {
        if (saved_request_is_whole(&s->all[i]))
            saved_request_write(&s->all[i], &records);
        if (records.len >= PIECE || records.err < 0)
            rc = flush(fd, &records, bytes);
    }
    if (rc == 0 && records.len > 0)
        rc = flush(fd, &records, bytes);
    buf_release(&records);
    return rc;
}

/* Replace the file. The new one is locked before it gets the name, so that no other process can
 * lock it in between. */
static int replace(struct request_log *l, const struct saved_requests *s)
{
    const int fd = open(l->new_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    uint64_t bytes = 0;
    int rc, reason;

    if (fd < 0)
        return ERR_IO;
    rc = flock(fd, LOCK_EX | LOCK_NB) == 0 ? write_saved(fd, s, &bytes) : ERR_IO;
    if (rc == 0)
        rc = replace_file(fd, l->new_path, l->path);
    if (rc < 0) {
        reason = errno;
        unlink(l->new_path);
        close(fd);
        errno = reason;
        return rc;
    }
    close(l->fd);
    l->fd = fd;
    l->bytes = bytes;
    return 0;
}

/* ---- reading ---- */

static void on_damage(void *ud, size_t offset, size_t n)
{
    const size_t *first = ud;

    log_error("requests", "event=request_log_damaged offset=%zu bytes=%zu", *first + offset, n);
}

static size_t title_of(const char *data, size_t n)
{
    return n >= N_TITLE && memcmp(data, TITLE, N_TITLE) == 0 ? N_TITLE : 0;
}

static int read_saved(struct request_log *l, struct saved_requests *s, bool tells)
{
    size_t n, first;
    char *data;
    int rc = read_log(l->fd, &data, &n);

    if (rc < 0)
        return rc;
    first = title_of(data, n);
    rc = saved_requests_read(s, data + first, n - first, tells ? on_damage : NULL, &first);
    mem_free(data);
    if (rc == 0 && n > 0 && first == 0 && s->n == 0)
        return ERR_FORMAT; /* it is not a file of requests_db */
    return rc;
}

int request_log_compact(struct request_log *l)
{
    struct saved_requests s = {0};
    int rc = read_saved(l, &s, false);

    if (rc == 0)
        rc = replace(l, &s);
    saved_requests_release(&s);
    return rc;
}

/* Remove requests that are gone, and log and count those that are lost. */
static uint64_t sift(struct saved_requests *s)
{
    uint64_t n_lost = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++) {
        struct saved_request *r = &s->all[i];
        char id[3 * REQUEST_RECORD_ID];

        if (saved_request_is_whole(r)) {
            s->all[n++] = *r;
            continue;
        }
        if (saved_request_is_lost(r)) {
            log_error("requests", "event=request_lost id=%s reason=damaged",
                      log_quote(id, sizeof(id), r->id));
            n_lost++;
        }
        saved_request_release(r);
    }
    s->n = n;
    return n_lost;
}

/* ---- life ---- */

/* True: the path still names the locked file. A lock on a replaced file has no effect. */
static bool is_named(const struct request_log *l)
{
    struct stat named, held;

    return stat(l->path, &named) == 0 && fstat(l->fd, &held) == 0 && named.st_ino == held.st_ino &&
           named.st_dev == held.st_dev;
}

static int take_file(struct request_log *l, char *err, size_t err_len)
{
    struct stat st;

    l->fd = open(l->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
    if (l->fd < 0 || fstat(l->fd, &st) < 0) {
        snprintf(err, err_len, "cannot open '%s': %s", l->path, strerror(errno));
        return ERR_IO;
    }
    if (!S_ISREG(st.st_mode)) {
        snprintf(err, err_len, "'%s' is not a regular file", l->path);
        return ERR_FORMAT;
    }
    if (sync_folder_of(l->path) < 0) { /* the file may be new */
        snprintf(err, err_len, "the folder of '%s' cannot be synced: %s", l->path, strerror(errno));
        return ERR_IO;
    }
    if (flock(l->fd, LOCK_EX | LOCK_NB) == 0 && is_named(l))
        return 0;
    snprintf(err, err_len, "another process uses '%s'", l->path);
    return ERR_BUSY;
}

static int load_log(struct request_log *l, struct saved_requests *saved, uint64_t *n_lost,
                    char *err, size_t err_len)
{
    int rc = read_saved(l, saved, true);

    if (rc == ERR_FORMAT) {
        snprintf(err, err_len, "'%s' is not a file of requests_db: it is left unchanged", l->path);
        return rc;
    }
    if (rc == 0) {
        *n_lost = sift(saved);
        rc = replace(l, saved);
    }
    if (rc < 0)
        snprintf(err, err_len, "'%s' cannot be used: %s", l->path,
                 rc == ERR_IO ? strerror(errno) : err_text(rc));
    return rc;
}

int request_log_open(struct request_log **out, const char *path, struct saved_requests *saved,
                     uint64_t *n_lost, char *err, size_t err_len)
{
    struct request_log *l = mem_calloc(1, sizeof(*l));
    int rc;

    *out = NULL;
    *n_lost = 0;
    *saved = (struct saved_requests){0};
    if (l == NULL)
        return snprintf(err, err_len, "no memory for '%s'", path), ERR_NOMEM;
    l->fd = -1;
    snprintf(l->path, sizeof(l->path), "%s", path);
    snprintf(l->new_path, sizeof(l->new_path), "%s.new", l->path);
    rc = strlen(path) < sizeof(l->path) ? take_file(l, err, err_len) : ERR_INVAL;
    if (rc == ERR_INVAL)
        snprintf(err, err_len, "the path of requests_db is too long");
    if (rc == 0)
        rc = load_log(l, saved, n_lost, err, err_len);
    if (rc < 0) {
        saved_requests_release(saved);
        request_log_close(&l);
        return rc;
    }
    *out = l;
    return 0;
}

void request_log_close(struct request_log **log)
{
    struct request_log *l = log != NULL ? *log : NULL;

    if (l == NULL)
        return;
    if (l->fd >= 0)
        close(l->fd);
    mem_free(l);
    *log = NULL;
}
