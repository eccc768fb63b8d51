/* server/cli/system_file.c - see system_file.h.
 *
 * A file is read with one read() into the caller's buffer, which is enough for files of /sys and
 * /proc: the kernel writes them whole. `root` is put before each path, so tests can use a folder in
 * place of the machine.
 */
#include "server/cli/system_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4200

bool system_file_read(const char *root, const char *path, char *text, size_t size)
{
    char full[PATH_BYTES];
    ssize_t n;
    int fd;

    text[0] = '\0';
    if ((size_t)snprintf(full, sizeof(full), "%s%s", root, path) >= sizeof(full))
        return false;
    fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    n = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    return n > 0;
}

bool system_file_number(const char *root, const char *path, uint64_t *out)
{
    char text[64], *end;

    if (!system_file_read(root, path, text, sizeof(text)))
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return end != text && errno == 0;
}

bool system_file_choice(const char *root, const char *path, char *text, size_t size)
{
    char *open, *close;

    if (!system_file_read(root, path, text, size))
        return false;
    open = strchr(text, '[');
    close = open != NULL ? strchr(open, ']') : NULL;
    if (close != NULL) {
        *close = '\0';
        memmove(text, open + 1, strlen(open + 1) + 1);
    }
    return true;
}

static void take_limit(const char *root, const char *path, uint64_t *least)
{
    uint64_t limit;

    /* Without a limit v2 has the text "max", v1 a number near 2^63. */
    if (system_file_number(root, path, &limit) && limit < (uint64_t)1 << 60 && limit < *least)
        *least = limit;
}

/* Return the least limit of all groups from the process's own up to the root. */
uint64_t system_file_memory_limit(const char *root)
{
    char text[4096], group[2048] = "", path[PATH_BYTES];
    uint64_t least = UINT64_MAX;
    const char *line;

    line = system_file_read(root, "/proc/self/cgroup", text, sizeof(text)) ? strstr(text, "0::/")
                                                                           : NULL;
    if (line != NULL)
        snprintf(group, sizeof(group), "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    for (char *slash; (slash = strrchr(group, '/')) != NULL; *slash = '\0') {
        snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", group);
        take_limit(root, path, &least);
    }
    take_limit(root, "/sys/fs/cgroup/memory.max", &least);
    take_limit(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", &least);
    return least;
}
