/* core/hub/download.c - see download.h.
 *
 * Bytes are hashed as they arrive, and an earlier part is read into the hash first, so a file is
 * never read again at the end. A resumed answer must say where it begins: a server without ranges
 * sends the whole file, and the part starts over. Tries that bring bytes are repeated without
 * limit, tries without are counted; a speed below HUB_MIN_SPEED over the whole file ends it.
 */
#include "core/hub/download.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/fixed_text.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/replace_file.h"
#include "core/hub/ask.h"
#include "core/hub/cache.h"
#include "core/hub/hash.h"
#include "core/hub/interrupt.h"
#include "core/hub/listing.h"
#include "core/hub/progress.h"
#include "core/hub/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 20)
#define SLOW_AFTER_MS 30000 /* from then on the average speed must be HUB_MIN_SPEED */

struct download {
    const struct hub_asker *k;
    const struct hub_file *file;
    char url[HUB_MAX_URL];
    char part[HUB_MAX_LOCAL + 16]; /* blobs/HASH.incomplete */
    int fd;
    uint64_t done; /* bytes of the part, all of them hashed */
    struct hub_hash hash;
    struct hub_progress progress;
    char *err;
    size_t err_len;
};

int hub_url(char *url, size_t size, const char *endpoint, const char *middle, const char *revision,
            const char *path)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
    const char *const parts[] = {revision, path};
    struct fixed_text t;

    fixed_text_init(&t, url, size);
    fixed_text_add(&t, "%s/%s", endpoint, middle);
    for (int i = 0; i < 2; i++) {
        fixed_text_add(&t, "/");
        /* the slashes of a path are kept; those of a revision (refs/pr/1) are escaped */
        for (const char *s = parts[i]; *s != '\0' && !t.is_full; s++)
            fixed_text_add(&t,
                           strchr(plain, *s) != NULL || (i == 1 && *s == '/') ? "%c" : "%%%02X",
                           (unsigned char)*s);
    }
    return t.is_full ? ERR_LIMIT : 0;
}

/* ---- the part ---- */

/* Fail with ERR_LIMIT for an error of the disk; ERR_IO would be tried again. */
static int fail_part(struct download *d, const char *verb)
{
    (void)hub_cache_fail(d->part, verb, d->err, d->err_len);
    return ERR_LIMIT;
}

static int restart(struct download *d)
{
    hub_hash_finish(&d->hash, NULL);
    d->done = 0;
    if (ftruncate(d->fd, 0) < 0 || lseek(d->fd, 0, SEEK_SET) < 0)
        return fail_part(d, "write");
    if (hub_hash_begin(&d->hash, d->file->hash, d->file->size) < 0)
        return hub_fail(ERR_INTERNAL, d->err, d->err_len, "GnuTLS has no such hash");
    return 0;
}

/* Hash the bytes that an earlier download has left. */
static int read_part(struct download *d, uint64_t size)
{
    char *bytes = mem_alloc(CHUNK);
    ssize_t got = 1;

    if (bytes == NULL)
        return hub_fail(ERR_NOMEM, d->err, d->err_len, "out of memory");
    while (got > 0 && d->done < size && !hub_interrupt_came()) {
        got = read(d->fd, bytes, CHUNK);
        if (got > 0) {
            hub_hash_add(&d->hash, bytes, (size_t)got);
            d->done += (uint64_t)got;
        }
    }
    mem_free(bytes);
    if (got < 0)
        return fail_part(d, "read");
    return hub_interrupt_came() ? hub_fail(ERR_CANCELED, d->err, d->err_len, "interrupted") : 0;
}

static int open_part(struct download *d)
{
    struct stat st;
    int rc;

    d->fd = open(d->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (d->fd < 0 || fstat(d->fd, &st) < 0)
        return fail_part(d, "open");
    if ((uint64_t)st.st_size > d->file->size)
        return restart(d);
    if (hub_hash_begin(&d->hash, d->file->hash, d->file->size) < 0)
        return hub_fail(ERR_INTERNAL, d->err, d->err_len, "GnuTLS has no such hash");
    rc = read_part(d, (uint64_t)st.st_size);
    if (rc == 0 && d->done > d->file->size)
        rc = restart(d);
    return rc;
}

/* ---- the bytes ---- */

static int write_all(struct download *d, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t put = write(d->fd, bytes, n);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail_part(d, "write");
        hub_hash_add(&d->hash, bytes, (size_t)put);
        d->done += (uint64_t)put;
        bytes += put;
        n -= (size_t)put;
    }
    return 0;
}

static int take_chunk(struct download *d, const void *bytes, size_t n)
{
    int rc;

    if (n > d->file->size - d->done)
        return hub_fail(ERR_FORMAT, d->err, d->err_len,
                        "%s: the Hub sends more than the %" PRIu64 " bytes that it announced",
                        d->file->path, d->file->size);
    rc = write_all(d, bytes, n);
    hub_progress_update(&d->progress, d->done);
    return rc;
}

/* State of one answer: its first piece tells whether it continues the part or begins again, since
 * some servers have no ranges. */
struct piece {
    struct download *d;
    bool is_begun;
    uint64_t offset;
};

static int take_piece(void *ud, const struct hub_answer *a, const void *bytes, size_t n)
{
    struct piece *p = ud;
    int rc = 0;

    if (!p->is_begun) {
        p->is_begun = true;
        if (p->offset > 0 && a->status == 200)
            rc = restart(p->d);
        else if (p->offset > 0 && a->range_start != p->offset)
            return hub_fail(ERR_FORMAT, p->d->err, p->d->err_len,
                            "%s: the server sent another range than the requested one",
                            p->d->file->path);
    }
    return rc == 0 ? take_chunk(p->d, bytes, n) : rc;
}

/* Fetch the bytes of one answer. 0: the file is complete; ERR_IO: try again. */
static int fetch_once(struct download *d, struct hub_answer *a)
{
    struct piece p = {.d = d, .offset = d->done};
    const struct hub_request r = {.url = d->url, .offset = d->done, .sink = take_piece, .ud = &p};
    int rc = hub_transfer_run(d->k->transfer, &r, a, d->err, d->err_len);

    if (rc < 0)
        return rc;
    if (a->status == 416) { /* there is no such range: the part belongs to another file */
        rc = restart(d);
        return rc == 0 ? hub_fail(ERR_IO, d->err, d->err_len,
                                  "%s: the server sent a part of another file", d->file->path)
                       : rc;
    }
    if (a->status != 200 && a->status != 206)
        return hub_refused(d->k, a, "such file", d->err, d->err_len);
    if (d->done == d->file->size)
        return 0;
    return hub_fail(ERR_IO, d->err, d->err_len,
                    "%s: the answer ended after %" PRIu64 " of %" PRIu64 " bytes", d->file->path,
                    d->done, d->file->size);
}

/* True: the download is too slow: a server that sends a few bytes in each answer, or each minute,
 * would never end. */
static bool is_too_slow(const struct download *d, uint64_t begin_ms, uint64_t begin_bytes)
{
    const uint64_t ms = clock_ms() - begin_ms;
    const uint64_t bytes = d->done > begin_bytes ? d->done - begin_bytes : 0;

    return ms > SLOW_AFTER_MS && bytes * 1000 / ms < HUB_MIN_SPEED;
}

static int fetch(struct download *d)
{
    const uint64_t begin_bytes = d->done;
    uint64_t begin_ms = clock_ms();
    unsigned n_failed = 0;

    while (d->done < d->file->size) {
        struct hub_answer a;
        const uint64_t before = d->done;
        int rc = fetch_once(d, &a);
        unsigned long wait;
        char quoted[300];

        if (rc == 0)
            return 0;
        if (rc != ERR_IO)
            return rc;
        if (is_too_slow(d, begin_ms, begin_bytes))
            return hub_fail(ERR_IO, d->err, d->err_len,
                            "%s: the transfer was slower than %d bytes per second; the next pull "
                            "continues after %" PRIu64 " of %" PRIu64 " bytes",
                            d->file->path, HUB_MIN_SPEED, d->done, d->file->size);
        n_failed = d->done > before ? 1 : n_failed + 1;
        wait = hub_wait_ms(&a, n_failed);
        if (wait == ULONG_MAX)
            return rc;
        log_warn("hub", "event=retry in_ms=%lu done_bytes=%" PRIu64 " cause=%s", wait, d->done,
                 log_quote(quoted, sizeof(quoted), d->err));
        if (!hub_interrupt_sleep(wait))
            return hub_fail(ERR_CANCELED, d->err, d->err_len, "interrupted");
        if (d->done == before) /* n_failed counts such tries; the speed ignores their waits */
            begin_ms += wait;
    }
    return 0;
}

/* ---- the blob ---- */

static int check_hash(struct download *d)
{
    char found[HUB_HASH_TEXT];

    hub_hash_finish(&d->hash, found);
    if (strcmp(found, d->file->hash) == 0)
        return 0;
    (void)unlink(d->part);
    return hub_fail(
        ERR_FORMAT, d->err, d->err_len,
        "%s: the downloaded file has the hash %s instead of the Hub's %s, and was removed",
        d->file->path, found, d->file->hash);
}

static int keep(struct download *d, const char *blob)
{
    const int rc = check_hash(d);

    if (rc < 0)
        return rc;
    if (replace_file(d->fd, d->part, blob) == 0)
        return 0;
    return hub_cache_fail(blob, "write", d->err, d->err_len);
}

/* Fetch the blob; the caller holds the lock. */
static int fetch_blob(struct download *d, const char *blob)
{
    int rc;

    snprintf(d->part, sizeof(d->part), "%s.incomplete", blob);
    rc = hub_cache_make_folders(blob, d->err, d->err_len);
    if (rc == 0)
        rc = open_part(d);
    if (rc == 0) {
        hub_progress_begin(&d->progress, d->file->path, d->done, d->file->size);
        rc = fetch(d);
        hub_progress_end(&d->progress, d->done, rc == 0);
    }
    if (rc == 0)
        rc = keep(d, blob);
    if (rc == ERR_CANCELED)
        hub_fail(rc, d->err, d->err_len,
                 "%s: interrupted after %" PRIu64 " of %" PRIu64
                 " bytes; the next pull continues from there",
                 d->file->path, d->done, d->file->size);
    hub_hash_finish(&d->hash, NULL);
    if (d->fd >= 0)
        close(d->fd);
    return rc;
}

/* Check that the Hub's head for the file agrees with its listing. */
static int check_head(struct download *d, const char *commit)
{
    struct hub_answer a;
    const int rc = hub_ask(d->k, d->url, NULL, &a, d->err, d->err_len);
    const struct hub_file *f = d->file;
    char shown[80];

    if (rc < 0)
        return rc;
    if (a.commit[0] == '\0')
        return hub_fail(ERR_FORMAT, d->err, d->err_len,
                        "%s: the answer has no X-Repo-Commit, so the server is not a Hub (check "
                        "HF_ENDPOINT and proxies)",
                        d->url);
    if (strcmp(a.commit, commit) != 0 || strcmp(a.etag, f->hash) != 0 ||
        (a.size != UINT64_MAX && a.size != f->size))
        return hub_fail(ERR_FORMAT, d->err, d->err_len,
                        "%s: the Hub's ETag '%s' differs from the hash in its listing", f->path,
                        hub_printable(shown, sizeof(shown), a.etag));
    return 0;
}

uint64_t hub_download_missing(const struct hub_asker *k, const char *commit,
                              const struct hub_file *f)
{
    const char *repo = k->reference->repo;
    char path[HUB_MAX_LOCAL], part[HUB_HASH_TEXT + 16];
    struct stat st;

    hub_cache_path(path, k->place, repo, HUB_SNAPSHOTS, commit, f->path);
    if (hub_cache_has(path, f->size))
        return 0;
    hub_cache_path(path, k->place, repo, HUB_BLOBS, f->hash, "");
    if (hub_cache_has(path, f->size))
        return 0;
    snprintf(part, sizeof(part), "%s.incomplete", f->hash);
    hub_cache_path(path, k->place, repo, HUB_BLOBS, part, "");
    return stat(path, &st) == 0 && (uint64_t)st.st_size <= f->size ? f->size - (uint64_t)st.st_size
                                                                   : f->size;
}

int hub_download(const struct hub_asker *k, const char *commit, const struct hub_file *f, char *err,
                 size_t err_len)
{
    const char *repo = k->reference->repo;
    struct download d = {.k = k, .file = f, .fd = -1, .err = err, .err_len = err_len};
    char blob[HUB_MAX_LOCAL], middle[HUB_MAX_REPO + 16], path[HUB_MAX_LOCAL];
    int lock, rc;

    hub_cache_path(path, k->place, repo, HUB_SNAPSHOTS, commit, f->path);
    if (hub_cache_has(path, f->size))
        return 0;
    snprintf(middle, sizeof(middle), "%s/resolve", repo);
    if (hub_url(d.url, sizeof(d.url), k->place->endpoint, middle, commit, f->path) < 0)
        return hub_fail(ERR_LIMIT, err, err_len, "%s: the path is too long", f->path);
    rc = check_head(&d, commit);
    if (rc < 0)
        return rc;
    lock = hub_cache_lock(k->place, repo, f->hash, err, err_len);
    if (lock < 0)
        return lock;
    hub_cache_path(blob, k->place, repo, HUB_BLOBS, f->hash, "");
    if (!hub_cache_has(blob, f->size))
        rc = fetch_blob(&d, blob);
    if (rc == 0)
        rc = hub_cache_link(k->place, repo, commit, f->path, f->hash, err, err_len);
    close(lock);
    return rc;
}
