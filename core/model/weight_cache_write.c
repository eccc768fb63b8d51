/* core/model/weight_cache_write.c - writes the weight cache's file (see weight_cache.h).
 *
 * The file is written under the cache's name with ".new" appended, and renamed at the end. The
 * process that holds the lock of that file writes; a second server that starts meanwhile does not.
 * A thread of its own does it while the server already answers; it looks between chunks whether it
 * must stop.
 */
#include "core/model/weight_cache.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/file_io.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/replace_file.h"
#include "core/model/weight_cache_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

struct weight_cache_writer {
    char path[WEIGHT_CACHE_MAX_PATH], new_path[WEIGHT_CACHE_MAX_PATH];
    struct weight_cache_id id;
    const uint8_t *panels;
    uint64_t bytes;
    uint64_t *sums;    /* checksums of the chunks written so far */
    int fd;            /* descriptor of new_path, or -1 */
    const char *cause; /* reason of the failure */
    pthread_t thread;
    atomic_bool stop;
};

uint64_t weight_cache_chunk_sum(const void *data, size_t bytes, uint64_t chunk)
{
    return XXH3_64bits_withSeed(data, bytes, chunk);
}

static int fail_write(struct weight_cache_writer *w, const char *cause)
{
    w->cause = cause;
    return ERR_IO;
}

static int fail_errno(struct weight_cache_writer *w)
{
    return fail_write(w, strerrorname_np(errno));
}

static int write_at(struct weight_cache_writer *w, const void *data, size_t bytes, uint64_t at)
{
    return file_write(w->fd, data, bytes, (int64_t)at) < 0 ? fail_errno(w) : 0;
}

/* Open and lock the file. If another process renamed it between the two, the path no longer names
 * this file, and the attempt is given up. */
static int open_new(struct weight_cache_writer *w)
{
    struct stat mine, there;

    w->fd = open(w->new_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (w->fd < 0)
        return fail_errno(w);
    if (flock(w->fd, LOCK_EX | LOCK_NB) != 0 || fstat(w->fd, &mine) != 0 ||
        lstat(w->new_path, &there) != 0 || mine.st_ino != there.st_ino ||
        mine.st_dev != there.st_dev)
        return fail_write(w, "another-process-writes-it");
    if (!S_ISREG(mine.st_mode) || mine.st_nlink != 1 || mine.st_uid != geteuid() ||
        (mine.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail_write(w, "another-file-has-its-name");
    return ftruncate(w->fd, 0) != 0 ? fail_errno(w) : 0;
}

static int write_panels(struct weight_cache_writer *w, uint64_t panels_at)
{
    int rc = 0;

    for (uint64_t c = 0; c < weight_cache_n_chunks(w->bytes) && rc == 0; c++) {
        const uint64_t at = c * WEIGHT_CACHE_CHUNK;
        const uint64_t left = w->bytes - at;
        const size_t n = (size_t)(left < WEIGHT_CACHE_CHUNK ? left : WEIGHT_CACHE_CHUNK);

        if (atomic_load_explicit(&w->stop, memory_order_relaxed))
            return fail_write(w, "the-program-ends");
        w->sums[c] = weight_cache_chunk_sum(w->panels + at, n, c);
        rc = write_at(w, w->panels + at, n, panels_at + at);
        /* start writing to the disk now, so that the sync at the end is short */
        (void)sync_file_range(w->fd, (off_t)(panels_at + at), (off_t)n, SYNC_FILE_RANGE_WRITE);
    }
    return rc;
}

static int write_file(struct weight_cache_writer *w)
{
    const size_t sums_bytes = (size_t)weight_cache_n_chunks(w->bytes) * sizeof(*w->sums);
    struct weight_cache_header h;
    int rc;

    weight_cache_fill_header(&h, &w->id, w->bytes);
    /* a full disk is an error here; file systems that cannot reserve report it later */
    if (fallocate(w->fd, 0, 0, (off_t)(h.panels_at + h.panel_bytes)) != 0 &&
        (errno == ENOSPC || errno == EFBIG || errno == EDQUOT))
        return fail_errno(w);
    rc = write_panels(w, h.panels_at);
    if (rc < 0)
        return rc;
    h.sums_sum = XXH3_64bits(w->sums, sums_bytes);
    h.header_sum = weight_cache_header_sum(&h);
    rc = write_at(w, w->sums, sums_bytes, sizeof(h));
    if (rc == 0)
        rc = write_at(w, &h, sizeof(h), 0);
    if (rc == 0 && replace_file(w->fd, w->new_path, w->path) < 0)
        rc = fail_errno(w);
    return rc;
}

static void *writer_main(void *ud)
{
    struct weight_cache_writer *w = ud;
    const uint64_t begin = clock_ms();
    char path[300]; /* a longer path is cut */
    int rc = open_new(w);

    if (rc == 0) {
        rc = write_file(w);
        if (rc < 0)
            (void)unlink(w->new_path); /* no other process uses it: the lock is held */
    }
    if (w->fd >= 0)
        close(w->fd);
    log_quote(path, sizeof(path), w->path);
    if (rc == 0)
        log_info("model", "event=weight-cache-written file=%s bytes=%llu ms=%llu", path,
                 (unsigned long long)w->bytes, (unsigned long long)(clock_ms() - begin));
    else
        log_warn("model", "event=weight-cache-not-written file=%s cause=%s", path, w->cause);
    return NULL;
}

/* Start the thread with all signals blocked: the program's are for its main thread, and a file that
 * may not grow gives an error of write(). */
static int start_write(struct weight_cache_writer *w)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    sigdelset(&all, SIGSYS); /* raised for a system call that the sandbox refuses */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&w->thread, NULL, writer_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? 0 : ERR_INTERNAL;
}

struct weight_cache_writer *weight_cache_write(const char *path, const struct weight_cache_id *id,
                                               const void *panels, uint64_t bytes)
{
    struct weight_cache_writer *w = mem_calloc(1, sizeof(*w));
    uint64_t *sums = mem_calloc((size_t)weight_cache_n_chunks(bytes), sizeof(*sums));

    if (w != NULL && sums != NULL) {
        snprintf(w->path, sizeof(w->path), "%s", path);
        snprintf(w->new_path, sizeof(w->new_path), "%.*s.new", WEIGHT_CACHE_MAX_PATH - 5, path);
        w->id = *id;
        w->panels = panels;
        w->bytes = bytes;
        w->sums = sums;
        w->fd = -1;
        if (start_write(w) == 0)
            return w;
    }
    log_warn("model", "event=weight-cache-not-written cause=no-memory-or-thread");
    mem_free(sums);
    mem_free(w);
    return NULL;
}

void weight_cache_writer_destroy(struct weight_cache_writer **writer)
{
    struct weight_cache_writer *w = writer != NULL ? *writer : NULL;

    if (w == NULL)
        return;
    atomic_store_explicit(&w->stop, true, memory_order_relaxed);
    pthread_join(w->thread, NULL);
    mem_free(w->sums);
    mem_free(w);
    *writer = NULL;
}
