/* core/formats/gguf/mapped_file.c - see mapped_file.h.
 *
 * The file is mapped privately and read-only under a guard (mapped_guard.h), and the descriptor is
 * closed at once. Hints are madvise() on whole pages: will_read rounds inwards at the end, so that
 * parts read side by side do not prefetch twice; has_read rounds outwards, because the kernel's
 * fault-around has mapped pages beyond both ends.
 */
#include "core/formats/gguf/mapped_file.h"

#include "core/base/err.h"
#include "core/formats/gguf/mapped_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A page fault in a mapping also maps its neighbours, up to an aligned window of this size. */
#define FAULT_AROUND ((uintptr_t)64 << 10)

static int fail_errno(const char *path, const char *verb, char *err, size_t err_len)
{
    const int errnum = errno;

    snprintf(err, err_len, "%s: cannot %s: %s", path, verb, strerror(errnum));
    return errnum == ENOMEM ? ERR_NOMEM : ERR_IO;
}

static int64_t mtime_of(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static int map_fd(struct mapped_file *f, int fd, const char *path, char *err, size_t err_len)
{
    struct stat st;
    int guard;
    void *p;

    if (fstat(fd, &st) < 0)
        return fail_errno(path, "read", err, err_len);
    if (!S_ISREG(st.st_mode)) {
        snprintf(err, err_len, "%s: is not a regular file", path);
        return ERR_IO;
    }
    if (st.st_size == 0) { /* an empty file cannot be mapped */
        snprintf(err, err_len, "%s: the file is empty", path);
        return ERR_FORMAT;
    }
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return fail_errno(path, "map", err, err_len);
    guard = mapped_guard_on(p, (size_t)st.st_size);
    if (guard < 0) {
        munmap(p, (size_t)st.st_size);
        snprintf(err, err_len, "%s: more than %d files are open", path, MAPPED_GUARD_MAX);
        return ERR_LIMIT;
    }
    *f = (struct mapped_file){.base = p,
                              .bytes = (uint64_t)st.st_size,
                              .mapping = p,
                              .guard = guard,
                              .device = (uint64_t)st.st_dev,
                              .inode = (uint64_t)st.st_ino,
                              .mtime_ns = mtime_of(&st)};
    return 0;
}

int mapped_file_open(struct mapped_file *f, const char *path, char *err, size_t err_len)
{
    /* O_NONBLOCK: a FIFO must be refused, not waited for. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int rc;

    *f = (struct mapped_file){0};
    if (fd < 0)
        return fail_errno(path, "open", err, err_len);
    rc = map_fd(f, fd, path, err, err_len);
    close(fd);
    return rc;
}

void mapped_file_close(struct mapped_file *f)
{
    if (f->mapping != NULL) {
        mapped_guard_off(f->guard);
        munmap(f->mapping, (size_t)f->bytes);
    }
    *f = (struct mapped_file){0};
}

bool mapped_file_holds(const struct mapped_file *f, const void *data)
{
    const uintptr_t at = (uintptr_t)data, base = (uintptr_t)f->base;

    return f->mapping != NULL && at >= base && at - base < f->bytes;
}

/* Advise about the pages from that of `from` to that of `to`, without the page of `to` itself
 * unless the file ends in it. */
static void advise(const struct mapped_file *f, uintptr_t from, uintptr_t to, int advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)f->base, end = begin + f->bytes;

    from = from > begin ? from & ~(page - 1) : begin;
    to = to < end ? to & ~(page - 1) : end;
    if (from < to)
        (void)madvise((void *)from, to - from, advice);
}

void mapped_file_will_read(const struct mapped_file *f, const void *data, uint64_t bytes)
{
    advise(f, (uintptr_t)data, (uintptr_t)data + bytes, MADV_WILLNEED);
}

/* Drop the pages of a part, rounded outwards to what faults at both ends have mapped. Pages that
 * other threads still read come back from the page cache; pages that no call covers would add up
 * over the file. */
void mapped_file_has_read(const struct mapped_file *f, const void *data, uint64_t bytes)
{
    const uintptr_t at = (uintptr_t)data;

    if (bytes > 0)
        advise(f, at & ~(FAULT_AROUND - 1), (at + bytes + FAULT_AROUND) & ~(FAULT_AROUND - 1),
               MADV_DONTNEED);
}

int mapped_file_check_read(const struct mapped_file *f, const char *path, char *err,
                           size_t err_len)
{
    if (f->mapping == NULL || !mapped_guard_has_holes(f->guard))
        return 0;
    snprintf(err, err_len, "%s: the file was truncated while it was read, or cannot be read", path);
    return ERR_IO;
}

int mapped_file_check(const struct mapped_file *f, const char *path, char *err, size_t err_len)
{
    struct stat st;

    if (mapped_file_check_read(f, path, err, err_len) < 0)
        return ERR_IO;
    if (f->mapping == NULL || stat(path, &st) < 0 || (uint64_t)st.st_dev != f->device ||
        (uint64_t)st.st_ino != f->inode)
        return 0;
    if ((uint64_t)st.st_size == f->bytes && mtime_of(&st) == f->mtime_ns)
        return 0;
    snprintf(err, err_len, "%s: the file was changed while it was read", path);
    return ERR_IO;
}
