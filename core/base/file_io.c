/* core/base/file_io.c - see file_io.h.
 *
 * Each function is a loop that continues after a short count or EINTR. With an offset they use
 * pread() and pwrite(), so that several threads can read one descriptor, as the weight cache does.
 * A write of 0 bytes would loop forever and counts as a full disk.
 */
#include "core/base/file_io.h"

#include "core/base/buf.h"
#include "core/base/err.h"

#include <errno.h>
#include <unistd.h>

static ssize_t read_some(int fd, uint8_t *to, size_t n, int64_t at)
{
    return at == FILE_POSITION ? read(fd, to, n) : pread(fd, to, n, (off_t)at);
}

static ssize_t write_some(int fd, const uint8_t *from, size_t n, int64_t at)
{
    return at == FILE_POSITION ? write(fd, from, n) : pwrite(fd, from, n, (off_t)at);
}

int64_t file_read(int fd, void *bytes, size_t n, int64_t at)
{
    size_t done = 0;

    while (done < n) {
        const int64_t from = at == FILE_POSITION ? at : at + (int64_t)done;
        const ssize_t got = read_some(fd, (uint8_t *)bytes + done, n - done, from);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ERR_IO;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

int file_write(int fd, const void *bytes, size_t n, int64_t at)
{
    size_t done = 0;

    while (done < n) {
        const int64_t to = at == FILE_POSITION ? at : at + (int64_t)done;
        const ssize_t put = write_some(fd, (const uint8_t *)bytes + done, n - done, to);

        if (put < 0 && errno == EINTR)
            continue;
        if (put == 0)
            errno = ENOSPC;
        if (put <= 0)
            return ERR_IO;
        done += (size_t)put;
    }
    return 0;
}

int file_read_stream(FILE *in, struct buf *out)
{
    char chunk[65536];
    size_t n;
    int rc = 0;

    while (rc == 0 && (n = fread(chunk, 1, sizeof(chunk), in)) > 0)
        rc = buf_add(out, chunk, n);
    return rc < 0 ? rc : ferror(in) ? ERR_IO : 0;
}
