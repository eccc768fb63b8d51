/* kvcache/swap_store.c - see swap_store.h.
 *
 * The RAM tier is an mmap'ed array of slots, the file tier a sparse file with slots after one
 * header page. A transfer joins slots that are neighbours in the file into one pwritev() or
 * preadv(). It runs on the server's transfer threads, while the engine thread keeps the slots
 * reserved, so no lock is needed. Opening takes the lock first and looks at the content afterwards,
 * so that a file of another program is never overwritten.
 */
#include "kvcache/swap_store.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/file_append.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#define HEADER_BYTES 4096 /* one page, so that slots begin at a page boundary */
#define MAX_IOV 64        /* slots in one transfer */
#define OPEN_TRIALS 8     /* the owner may remove the file between opening and locking */
#define LOG_EVERY_MS 60000

struct header {
    char magic[8];
    uint32_t version;
    uint32_t pid; /* tells a human who finds the file who wrote it */
    uint64_t block_bytes;
};

static const char magic[8] = {'Q', 'U', 'I', 'R', 'E', 'S', 'W', 'P'};

struct swap_store {
    size_t block_bytes;
    uint32_t n_ram, n_file;
    int fd;
    char *path;
    char *ram;      /* [n_ram][block_bytes] */
    uint64_t *sums; /* [n_file] checksum of the slot's latest write */
    _Atomic uint64_t log_after_ms; /* compare-exchange: one of the I/O threads logs */
};

static int fail_store(int rc, char *err, size_t err_len, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int fail_store(int rc, char *err, size_t err_len, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(err, err_len, format, args);
    va_end(args);
    return rc;
}

/* ---- the file ---- */

/* True: the path still names the open file. */
static bool is_still_there(int fd, const char *path)
{
    struct stat opened, named;

    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* Check that the file may be replaced: it must be empty or begin with a swap file's header. */
static int check_owner(int fd, const char *path, char *err, size_t err_len)
{
    struct header h;
    struct stat st;
    ssize_t got;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return fail_store(ERR_FORMAT, err, err_len, "%s is not a regular file", path);
    if (st.st_size == 0)
        return 0;
    got = pread(fd, &h, sizeof(h), 0);
    if (got < 0)
        return fail_store(ERR_IO, err, err_len, "cannot read %s: %s", path, strerror(errno));
    if (got < (ssize_t)sizeof(magic) || memcmp(h.magic, magic, sizeof(magic)) != 0)
        return fail_store(ERR_FORMAT, err, err_len,
                          "%s exists and is not a swap file; it is not overwritten", path);
    return 0;
}

/* Open the file, lock it and check its owner. Returns the descriptor, or ERR_AGAIN: its owner
 * removed it meanwhile. */
static int open_locked(const char *path, char *err, size_t err_len)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK,
                        0600);
    int rc;

    if (fd < 0)
        return fail_store(ERR_IO, err, err_len, "cannot open %s: %s", path,
                          file_append_error(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        rc = errno == EWOULDBLOCK
                 ? fail_store(ERR_BUSY, err, err_len, "%s is already used by another process", path)
                 : fail_store(ERR_IO, err, err_len, "cannot lock %s: %s", path, strerror(errno));
    else if (!is_still_there(fd, path))
        rc = fail_store(ERR_AGAIN, err, err_len,
                        "%s is removed and created again by another process", path);
    else
        rc = check_owner(fd, path, err, err_len);
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

static int write_header(const struct swap_store *s)
{
    struct header h = {.version = 1, .pid = (uint32_t)getpid(), .block_bytes = s->block_bytes};
    char page[HEADER_BYTES] = {0};

    memcpy(h.magic, magic, sizeof(magic));
    memcpy(page, &h, sizeof(h));
    if (ftruncate(s->fd, 0) < 0)
        return -1;
    return pwrite(s->fd, page, sizeof(page), 0) == (ssize_t)sizeof(page) ? 0 : -1;
}

static int open_file(struct swap_store *s, const char *path, char *err, size_t err_len)
{
    int fd = ERR_AGAIN;

    s->path = mem_strdup(path); /* allocated before a file exists that would have to be removed */
    if (s->path == NULL)
        return fail_store(ERR_NOMEM, err, err_len, "no memory for the path of %s", path);
    for (int i = 0; i < OPEN_TRIALS && fd == ERR_AGAIN; i++)
        fd = open_locked(path, err, err_len);
    if (fd < 0)
        return fd == ERR_AGAIN ? ERR_BUSY : fd;
    s->fd = fd;
    if (write_header(s) < 0)
        return fail_store(ERR_IO, err, err_len, "cannot write %s: %s", path, strerror(errno));
    return 0;
}

/* ---- opening and closing ---- */

int swap_store_open(struct swap_store **out, const struct swap_store_options *o, char *err,
                    size_t err_len)
{
    struct swap_store *s;
    size_t bytes;
    int rc = 0;

    *out = NULL;
    assert(o->block_bytes > 0 && o->n_ram > 0);
    s = mem_calloc(1, sizeof(*s));
    if (s == NULL)
        return fail_store(ERR_NOMEM, err, err_len, "no memory for swapping");
    s->block_bytes = o->block_bytes;
    s->n_ram = o->n_ram;
    s->n_file = o->n_file;
    s->fd = -1;
    if (!__builtin_mul_overflow((size_t)o->n_ram, o->block_bytes, &bytes))
        s->ram = mem_map(bytes);
    s->sums = mem_calloc(o->n_file, sizeof(*s->sums));
    if (s->ram == NULL || s->sums == NULL)
        rc = fail_store(ERR_NOMEM, err, err_len, "no memory for %u swapped blocks of %zu bytes",
                        o->n_ram, o->block_bytes);
    if (rc == 0 && o->n_file > 0)
        rc = open_file(s, o->path, err, err_len);
    if (rc < 0)
        swap_store_close(&s);
    *out = s;
    return rc;
}

void swap_store_close(struct swap_store **store)
{
    struct swap_store *s = store != NULL ? *store : NULL;

    if (s == NULL)
        return;
    if (s->fd >= 0) {
        unlink(s->path); /* while locked, so that no other process has begun to use it */
        close(s->fd);
    }
    mem_unmap(s->ram, s->n_ram * s->block_bytes);
    mem_free(s->sums);
    mem_free(s->path);
    mem_free(s);
    *store = NULL;
}

/* ---- RAM ---- */

static char *ram_slot(const struct swap_store *s, uint32_t ram)
{
    assert(ram < s->n_ram);
    return s->ram + ram * s->block_bytes;
}

size_t swap_store_block_bytes(const struct swap_store *s)
{
    return s->block_bytes;
}

void swap_store_save(struct swap_store *s, uint32_t ram, const void *block)
{
    memcpy(ram_slot(s, ram), block, s->block_bytes);
}

void swap_store_load(const struct swap_store *s, uint32_t ram, void *block)
{
    memcpy(block, ram_slot(s, ram), s->block_bytes);
}

/* ---- transfers ---- */

static int io_failed(struct swap_store *s, const char *what, int errnum)
{
    const uint64_t now = clock_ms();
    uint64_t after = atomic_load(&s->log_after_ms);
    char path[256], reason[128];

    if (now >= after &&
        atomic_compare_exchange_strong(&s->log_after_ms, &after, now + LOG_EVERY_MS))
        log_error("swap", "%s=failed path=%s errno=%d reason=%s", what,
                  log_quote(path, sizeof(path), s->path), errnum,
                  log_quote(reason, sizeof(reason),
                            errnum == 0 ? "the file's content differs from what was written"
                                        : strerror(errnum)));
    return ERR_IO;
}

/* Remove the first `done` bytes, which were transferred, from the list. */
static struct iovec *advance_io(struct iovec *iov, struct iovec *end, size_t done)
{
    while (iov < end && done >= iov->iov_len)
        done -= iov++->iov_len;
    if (iov < end) {
        iov->iov_base = (char *)iov->iov_base + done;
        iov->iov_len -= done;
    }
    return iov;
}

/* Transfer the whole list, in several calls if need be. 0, or an errno (EIO: the file ended). */
static int transfer(int fd, bool is_write, struct iovec *iov, uint32_t n, off_t at)
{
    struct iovec *const end = iov + n;

    while (iov < end) {
        const int left = (int)(end - iov);
        const ssize_t done = is_write ? pwritev(fd, iov, left, at) : preadv(fd, iov, left, at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        at += done;
        iov = advance_io(iov, end, (size_t)done);
    }
    return 0;
}

/* Transfer slots that are neighbours in the file at once. Returns how many, or -errno. */
static int transfer_run(const struct swap_store *s, bool is_write, uint32_t n, const uint32_t *ram,
                        const uint32_t *file)
{
    const off_t at = HEADER_BYTES + (off_t)file[0] * (off_t)s->block_bytes;
    struct iovec iov[MAX_IOV];
    uint32_t run = 0;
    int errnum;

    while (run < n && run < MAX_IOV && file[run] == file[0] + run) {
        assert(file[run] < s->n_file);
        iov[run] = (struct iovec){ram_slot(s, ram[run]), s->block_bytes};
        run++;
    }
    errnum = transfer(s->fd, is_write, iov, run, at);
    return errnum == 0 ? (int)run : -errnum;
}

static uint64_t slot_sum(const struct swap_store *s, uint32_t ram)
{
    return XXH3_64bits(ram_slot(s, ram), s->block_bytes);
}

int swap_store_write(struct swap_store *s, uint32_t n, const uint32_t *ram, const uint32_t *file)
{
    for (uint32_t i = 0; i < n;) {
        const int run = transfer_run(s, true, n - i, ram + i, file + i);

        if (run < 0)
            return io_failed(s, "write", -run);
        for (const uint32_t end = i + (uint32_t)run; i < end; i++)
            s->sums[file[i]] = slot_sum(s, ram[i]);
    }
    return 0;
}

int swap_store_read(struct swap_store *s, uint32_t n, const uint32_t *ram, const uint32_t *file)
{
    for (uint32_t i = 0; i < n;) {
        const int run = transfer_run(s, false, n - i, ram + i, file + i);

        if (run < 0)
            return io_failed(s, "read", -run);
        for (const uint32_t end = i + (uint32_t)run; i < end; i++)
            if (s->sums[file[i]] != slot_sum(s, ram[i]))
                return io_failed(s, "read", 0);
    }
    return 0;
}
