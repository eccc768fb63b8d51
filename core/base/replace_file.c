/* core/base/replace_file.c - see replace_file.h.
 *
 * The order is fsync() of the file, rename(), fsync() of the folder: after a power failure the name
 * then leads to the old bytes or to all of the new ones. A folder that cannot be opened or synced
 * (permissions, some network file systems) is not an error, since nothing better can be done there.
 */
#include "core/base/replace_file.h"

#include "core/base/err.h"
#include "core/base/name_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    int fd, rc, reason;

    if (slash != NULL &&
        name_copy_n(folder, sizeof(folder), path, (size_t)(slash - path) + 1) < 0) {
        errno = ENAMETOOLONG;
        return ERR_IO;
    }
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES || errno == EPERM ? 0 : ERR_IO;
    rc = fsync(fd);
    reason = errno;
    close(fd);
    errno = reason;
    return rc == 0 || reason == EINVAL || reason == ENOTSUP ? 0 : ERR_IO;
}

int rename_file(const char *from, const char *to)
{
    return rename(from, to) == 0 ? sync_folder_of(to) : ERR_IO;
}

int replace_file(int fd, const char *part, const char *path)
{
    return fsync(fd) == 0 ? rename_file(part, path) : ERR_IO;
}
