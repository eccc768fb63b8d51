/* server/storage/slot_folder.c - see slot_folder.h.
 *
 * Two kinds of flock() protect servers that share the folder from each other: one on the folder,
 * held while its files are counted and a new one is created, and one on each file being written.
 * The kernel drops both when a process ends, which is how slot_folder_sweep(), at the start,
 * recognises leftovers.
 */
#include "server/storage/slot_folder.h"

#include "core/base/err.h"
#include "core/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int slot_folder_lock(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc, reason;

    if (fd < 0)
        return -1;
    do
        rc = flock(fd, LOCK_EX);
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return fd;
    reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

/* Open a stream over the folder, from its beginning; the caller keeps the descriptor. */
static DIR *list_folder(int folder)
{
    const int copy = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;

    if (dir == NULL && copy >= 0)
        close(copy);
    if (dir != NULL)
        rewinddir(dir); /* because both descriptors share one position */
    return dir;
}

static bool is_file(int folder, const char *name, struct stat *st)
{
    return fstatat(folder, name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st->st_mode);
}

int slot_folder_check_room(int folder, const struct slot_limits *limits, uint64_t bytes,
                           const char *replaces, struct api_error *e)
{
    DIR *dir = list_folder(folder);
    const struct dirent *it;
    uint64_t n_files = 1;
    struct stat st;

    if (dir == NULL)
        return api_error_set(e, 503, "filename", NULL, "the folder of slots cannot be read: %s",
                             strerror(errno)),
               ERR_IO;
    while ((it = readdir(dir)) != NULL) {
        if (strcmp(it->d_name, replaces) == 0 || !is_file(folder, it->d_name, &st))
            continue;
        n_files++;
        bytes += (uint64_t)st.st_size;
    }
    closedir(dir);
    if (limits->max_files > 0 && n_files > limits->max_files) {
        api_error_set(e, 413, "filename", "slot_save_files",
                      "there are %" PRIu64 " saved slots, which is the limit (slot_save_files): "
                      "save under an existing name, or remove files",
                      n_files - 1);
        return ERR_LIMIT;
    }
    if (limits->max_bytes == 0 || bytes <= limits->max_bytes)
        return 0;
    api_error_set(e, 413, "filename", "slot_save_size",
                  "the saved slots would take %" PRIu64 " bytes, and may take %" PRIu64
                  " (slot_save_size): remove files",
                  bytes, limits->max_bytes);
    return ERR_LIMIT;
}

/* True: the unfinished file is a leftover; the lock of a file that is being written is held. */
static bool is_left(int folder, const char *name)
{
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is;

    if (fd < 0)
        return false;
    is = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return is;
}

void slot_folder_sweep(const char *path)
{
    const int folder = slot_folder_lock(path);
    DIR *dir = folder >= 0 ? list_folder(folder) : NULL;
    const struct dirent *it;
    unsigned n = 0;

    while (dir != NULL && (it = readdir(dir)) != NULL)
        if (strncmp(it->d_name, SLOT_FOLDER_PART, sizeof(SLOT_FOLDER_PART) - 1) == 0 &&
            is_left(folder, it->d_name))
            n += unlinkat(folder, it->d_name, 0) == 0;
    if (dir != NULL)
        closedir(dir);
    if (folder >= 0)
        close(folder);
    if (n > 0)
        log_info("slots", "event=parts_removed n=%u", n);
}
