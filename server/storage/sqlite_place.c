/* server/storage/sqlite_place.c - see sqlite_place.h.
 *
 * Names change by renaming only, in an order that can be resumed after any of them: NEW to
 * FILE.saved, FILE to FILE.damaged, FILE-wal to FILE.damaged-wal, FILE.saved to FILE. While
 * FILE.saved exists the work is not done, and sqlite_place_finish() does the rest at the next
 * opening. The lock on that file keeps two processes from doing so at once.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/sqlite_place.h"

#include "core/base/err.h"
#include "core/base/replace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_PATH 4096

static int io_error(int fd)
{
    const int reason = errno;

    if (fd >= 0)
        close(fd);
    errno = reason;
    return ERR_IO;
}

/* Whether the name still belongs to the open file: another process may have been faster. */
static bool is_still(const char *path, int fd)
{
    struct stat mine, there;

    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

static bool is_gone(int rc)
{
    return rc == 0 || errno == ENOENT;
}

/* FILE.saved is complete: move the files. The older log is removed only while FILE still exists:
 * afterwards its name belongs to the damaged database's. */
static int move(const char *path, const char *saved)
{
    char log[MAX_PATH + 8], kept[MAX_PATH + 16], kept_log[MAX_PATH + 24];

    snprintf(log, sizeof(log), "%s-wal", path);
    snprintf(kept, sizeof(kept), "%s.damaged", path);
    snprintf(kept_log, sizeof(kept_log), "%s.damaged-wal", path);
    if (access(path, F_OK) == 0 && (!is_gone(unlink(kept_log)) || rename_file(path, kept) < 0))
        return ERR_IO;
    if (!is_gone(rename_file(log, kept_log)))
        return ERR_IO;
    return rename_file(saved, path);
}

int sqlite_place_take(const char *path, const char *new_path)
{
    const int fd = open(new_path, O_RDONLY | O_CLOEXEC);
    char saved[MAX_PATH + 16];

    snprintf(saved, sizeof(saved), "%s.saved", path);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || replace_file(fd, new_path, saved) < 0)
        return io_error(fd);
    if (move(path, saved) < 0)
        return io_error(fd);
    close(fd);
    return 0;
}

int sqlite_place_finish(const char *path)
{
    char saved[MAX_PATH + 16];
    int fd, rc = 1;

    snprintf(saved, sizeof(saved), "%s.saved", path);
    fd = open(saved, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? 0 : ERR_IO;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        rc = errno == EWOULDBLOCK ? ERR_BUSY : ERR_IO;
    else if (!is_still(saved, fd))
        rc = 0;
    else if (move(path, saved) < 0)
        rc = ERR_IO;
    if (rc == ERR_IO)
        return io_error(fd);
    close(fd);
    return rc;
}
#endif
