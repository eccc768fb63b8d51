/* core/base/file_append.c - see file_append.h.
 *
 * O_NOFOLLOW refuses a link in the last part of the path. O_NONBLOCK is only for open(), which
 * would wait for the reader of a FIFO; it is cleared afterwards, so that writes block as usual.
 */
#include "core/base/file_append.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

int file_append_open(const char *path, mode_t mode)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY |
                                  O_NONBLOCK, mode);
    const int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;

    if (flags >= 0)
        (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    return fd;
}

const char *file_append_error(int errnum)
{
    return errnum == ELOOP ? "it is a symbolic link, and is not followed" : strerror(errnum);
}
