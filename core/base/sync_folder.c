/* core/base/sync_folder.c - see sync_folder.h. */
#include "core/base/sync_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    int fd;

    if (slash != NULL)
        snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1, path);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}
