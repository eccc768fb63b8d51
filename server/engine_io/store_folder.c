/* server/engine_io/store_folder.c - records as files of a folder; see store_backend.h.
 *
 * A record is the file XX/NAME.kv, XX being the first two digits of its name. It is written under
 * another name beside it and renamed: a reader sees the whole record or none, on a network file
 * system too, without locks. Nothing is synced: a record that a crash has left incomplete fails its
 * checksum, and is removed.
 *
 * Budget: the writer sums up the folder from time to time, and when it is above the budget removes
 * the least recently used files until nine tenths of it are left. A file's time of modification is
 * that of its latest use, give or take a minute. Other servers may do the same at the same time: a
 * file that does not exist any more is not an error.
 */
#include "server/engine_io/store_backend.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/file_io.h"
#include "core/base/mem.h"
#include "server/engine_io/store_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDERS 256
#define SUFFIX ".kv"
#define PART_PREFIX ".part-"
#define TOUCH_AFTER_MS 60000  /* uses within a minute count as one */
#define PART_AFTER_MS 3600000 /* ms after which an unfinished file counts as abandoned */
#define SUM_EVERY_MS 300000   /* ms between two sums, because other servers write and remove files
                               * too */
#define SUM_PARTS 20          /* the folder is also summed up when 1 / SUM_PARTS of the budget was
                               * written here */
#define BUCKETS (48 * 16)     /* buckets of ages in ms: 16 for each power of two */

struct store_folder {
    struct store_backend base;
    int fd;                    /* of the folder */
    uint64_t max_bytes, bytes; /* bytes: as this process knows it */
    uint64_t summed_ms;        /* time at which the folder was summed up; 0: never */
    uint64_t new_bytes;        /* bytes written by this process since then */
    uint64_t n_written;
};

static int fail_folder(struct store_folder *f, const char *what, const char *name)
{
    snprintf(f->base.why, sizeof(f->base.why), "%s %.20s: %s", what, name, strerror(errno));
    return ERR_IO;
}

static void path_of(char path[KV_RECORD_NAME + 16], const char *name)
{
    snprintf(path, KV_RECORD_NAME + 16, "%.2s/%s" SUFFIX, name, name);
}

static uint64_t now_ms(void) /* ms of the clock that file times use */
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t age_ms(const struct stat *st, uint64_t now)
{
    const uint64_t at =
        (uint64_t)st->st_mtim.tv_sec * 1000 + (uint64_t)st->st_mtim.tv_nsec / 1000000;

    return now > at ? now - at : 0; /* 0: another machine's clock may be ahead */
}

/* ---- records ---- */

static int folder_count(struct store_backend *b, const store_name *names, uint32_t n)
{
    struct store_folder *f = (struct store_folder *)b;
    char path[KV_RECORD_NAME + 16];
    uint32_t i;

    for (i = 0; i < n; i++) {
        path_of(path, names[i]);
        if (faccessat(f->fd, path, R_OK, 0) == 0)
            continue;
        if (errno != ENOENT)
            return fail_folder(f, "cannot find", names[i]);
        break;
    }
    return (int)i;
}

/* Read the file, at most `size` bytes; returns size + 1 if it is longer. */
static int64_t read_record(int fd, uint8_t *buf, size_t size)
{
    const int64_t n = file_read(fd, buf, size, FILE_POSITION);
    char more;

    return n < (int64_t)size ? n : n + (read(fd, &more, 1) > 0);
}

/* Set the file's time of use, so that it is removed later. Fails for another user's file, which
 * only its owner's process updates. */
static void touch(int fd)
{
    struct stat st;

    if (fstat(fd, &st) == 0 && age_ms(&st, now_ms()) > TOUCH_AFTER_MS)
        (void)futimens(fd, NULL);
}

static int64_t folder_get(struct store_backend *b, const char *name, uint8_t *buf, size_t size)
{
    struct store_folder *f = (struct store_folder *)b;
    char path[KV_RECORD_NAME + 16];
    int64_t n;
    int fd;

    path_of(path, name);
    fd = openat(f->fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT ? ERR_NOENT : fail_folder(f, "cannot open", name);
    n = read_record(fd, buf, size);
    if (n < 0)
        n = fail_folder(f, "cannot read", name);
    else
        touch(fd);
    close(fd);
    return n;
}

static int folder_put(struct store_backend *b, const char *name, const uint8_t *bytes, size_t n)
{
    struct store_folder *f = (struct store_folder *)b;
    char path[KV_RECORD_NAME + 16], part[KV_RECORD_NAME + 16];
    int fd, rc = 0;

    path_of(path, name);
    snprintf(part, sizeof(part), "%.2s/" PART_PREFIX "%ld-%llx", name, (long)getpid(),
             (unsigned long long)(clock_us() ^ f->n_written++ << 48));
    fd = openat(f->fd, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fail_folder(f, "cannot make", name);
    if (file_write(fd, bytes, n, FILE_POSITION) < 0)
        rc = fail_folder(f, "cannot write", name);
    if (close(fd) < 0 && rc == 0) /* a network file system may report errors at close() */
        rc = fail_folder(f, "cannot write", name);
    /* Not synced, which would cost more than a record saves: a record that a power failure has cut
     * fails its checksum, is removed, and is computed again. */
    if (rc == 0 && renameat(f->fd, part, f->fd, path) < 0)
        rc = fail_folder(f, "cannot rename", name);
    if (rc < 0)
        (void)unlinkat(f->fd, part, 0);
    else
        f->bytes += n, f->new_bytes += n;
    return rc;
}

static int folder_remove(struct store_backend *b, const char *name)
{
    struct store_folder *f = (struct store_folder *)b;
    char path[KV_RECORD_NAME + 16];

    path_of(path, name);
    return unlinkat(f->fd, path, 0) == 0 || errno == ENOENT ? 0
                                                            : fail_folder(f, "cannot remove", name);
}

/* ---- the budget ---- */

/* Return the bucket of an age: the older, the higher. */
static unsigned age_bucket(uint64_t ms)
{
    const unsigned log = 63u - (unsigned)__builtin_clzll(ms | 1);
    const unsigned part = (unsigned)(log >= 4 ? ms >> (log - 4) : ms << (4 - log)) & 15;
    const unsigned bucket = log * 16 + part;

    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

struct folder_sum {
    uint64_t now;
    uint64_t bytes[BUCKETS];
    uint64_t total, target;
    unsigned cut; /* files to remove: all in buckets above this one, and as many of this one as
                   * needed */
    int n_removed;
    bool removes; /* second pass: files are removed */
};

static void see_file(struct folder_sum *s, int dir, const char *name)
{
    const size_t len = strlen(name);
    const bool is_part = strncmp(name, PART_PREFIX, sizeof(PART_PREFIX) - 1) == 0;
    struct stat st;
    unsigned bucket;

    if (!is_part &&
        (len != KV_RECORD_NAME + sizeof(SUFFIX) - 1 || strcmp(name + KV_RECORD_NAME, SUFFIX) != 0))
        return; /* not a record */
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return; /* another server has just removed it */
    bucket = age_bucket(age_ms(&st, s->now));
    if (is_part) {
        if (age_ms(&st, s->now) > PART_AFTER_MS)
            (void)unlinkat(dir, name, 0);
    } else if (!s->removes) {
        s->bytes[bucket] += (uint64_t)st.st_size;
        s->total += (uint64_t)st.st_size;
    } else if (bucket > s->cut || (bucket == s->cut && s->total > s->target)) {
        s->n_removed += unlinkat(dir, name, 0) == 0;
        s->total -= (uint64_t)st.st_size < s->total ? (uint64_t)st.st_size : s->total;
    }
}

static void see_all(const struct store_folder *f, struct folder_sum *s)
{
    for (int i = 0; i < FOLDERS; i++) {
        char name[3];
        DIR *d;
        int fd;

        snprintf(name, sizeof(name), "%02x", i);
        fd = openat(f->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        d = fd >= 0 ? fdopendir(fd) : NULL;
        if (d == NULL && fd >= 0)
            close(fd);
        for (const struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d))
            see_file(s, fd, e->d_name);
        if (d != NULL)
            closedir(d);
    }
}

/* Choose the bucket from which on files are removed, so that the oldest files that make up the
 * excess are. */
static void choose_cut(struct folder_sum *s)
{
    uint64_t kept = s->total;

    s->cut = BUCKETS;
    while (s->cut > 0 && kept > s->target)
        kept -= s->bytes[--s->cut];
}

static int folder_tidy(struct store_backend *b, uint64_t *bytes)
{
    struct store_folder *f = (struct store_folder *)b;
    const uint64_t now = clock_ms();
    struct folder_sum s = {.now = now_ms()};

    *bytes = f->bytes;
    if (f->summed_ms != 0 && f->bytes <= f->max_bytes && now - f->summed_ms < SUM_EVERY_MS &&
        f->new_bytes < f->max_bytes / SUM_PARTS)
        return 0;
    see_all(f, &s);
    f->summed_ms = now;
    f->new_bytes = 0;
    if (s.total > f->max_bytes) {
        s.target = f->max_bytes / 10 * 9;
        choose_cut(&s);
        s.removes = true;
        see_all(f, &s);
    }
    *bytes = f->bytes = s.total;
    return s.n_removed;
}

/* ---- opening ---- */

static void folder_close(struct store_backend *b)
{
    struct store_folder *f = (struct store_folder *)b;

    if (f->fd >= 0)
        close(f->fd);
    mem_free(f);
}

int store_folder_open(struct store_backend **out, const struct store_place *place,
                      uint64_t max_bytes)
{
    static const struct store_backend_ops ops = {folder_count,  folder_get,  folder_put,
                                                 folder_remove, folder_tidy, folder_close};
    struct store_folder *f = mem_calloc(1, sizeof(*f));

    *out = NULL;
    if (f == NULL)
        return ERR_NOMEM;
    f->base.ops = &ops;
    f->max_bytes = max_bytes;
    f->fd = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->fd < 0) {
        folder_close(&f->base);
        return ERR_IO;
    }
    *out = &f->base;
    return 0;
}
