/* tests/fuzz/scratch.h - what fuzz targets of files share: a folder of the process's own.
 *
 * It is in memory where the system has /dev/shm, is made at the first use, and goes with its files
 * when the process exits. libFuzzer ends without that: run_all.sh names a folder, and removes it.
 *
 * Thread: one. Memory: paths are valid until the call after next.
 */
#ifndef TESTS_FUZZ_SCRATCH_H
#define TESTS_FUZZ_SCRATCH_H

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/target.h"

#define SCRATCH_MAX_PATH 128

static char scratch_dir[64];

static inline void scratch_remove(void)
{
    DIR *dir = opendir(scratch_dir);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    rmdir(scratch_dir);
}

static inline const char *scratch_folder(void)
{
    const char *in = getenv("QUIRE_FUZZ_SCRATCH");

    if (scratch_dir[0] != '\0')
        return scratch_dir;
    snprintf(scratch_dir, sizeof(scratch_dir), "%s/quire-fuzz-XXXXXX",
             in != NULL ? in : "/dev/shm");
    if (mkdtemp(scratch_dir) == NULL) {
        snprintf(scratch_dir, sizeof(scratch_dir), "/tmp/quire-fuzz-XXXXXX");
        require(mkdtemp(scratch_dir) != NULL);
    }
    atexit(scratch_remove);
    return scratch_dir;
}

static inline const char *scratch_path(const char *name)
{
    static char paths[2][SCRATCH_MAX_PATH];
    static int i;

    i = !i;
    snprintf(paths[i], sizeof(paths[i]), "%s/%s", scratch_folder(), name);
    return paths[i];
}

/* The file has these bytes and no others. */
static inline const char *scratch_write(const char *name, const void *bytes, size_t n)
{
    const char *path = scratch_path(name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    require(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
    return path;
}

static inline void scratch_unlink(const char *name)
{
    unlink(scratch_path(name));
}

/* The next line of a settings file that begins a section, behind its '[' (inih passes over blanks
 * of any kind, and a byte order mark); NULL: there are no more. *at moves behind the line. */
static inline const char *scratch_section(const char **at)
{
    while (**at != '\0') {
        const char *line = *at, *end = line + strcspn(line, "\n");

        *at = *end == '\n' ? end + 1 : end;
        while (line < end && (isspace((unsigned char)*line) || *line == '\xEF' || *line == '\xBB' ||
                              *line == '\xBF'))
            line++;
        if (line < end && *line == '[')
            return line + 1;
    }
    return NULL;
}

/* Part of an input: *n bytes of it are left. What is missing is zero. */
static inline uint32_t scratch_number(const uint8_t **data, size_t *n, size_t bytes)
{
    uint32_t v = 0;

    for (size_t i = 0; i < bytes && *n > 0; i++, ++*data, --*n)
        v |= (uint32_t)**data << 8 * i;
    return v;
}

#endif
