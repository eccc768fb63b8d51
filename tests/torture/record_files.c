/* tests/torture/record_files.c - a library to preload that writes down which files are written,
 * synced and named, in order.
 *
 * QUIRE_RECORD names the file of lines: "write INODE", "sync INODE", and "rename INODE FOLDER PATH"
 * (or symlink) after the file got that name, FOLDER being the inode of the folder it is in. Links
 * are renames here.
 *
 * Thread: any; a line is one write.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name)                                                                                 \
    static __typeof__(name) *real;                                                                 \
    if (real == NULL)                                                                              \
    real = dlsym(RTLD_NEXT, #name)
#define OUT __attribute__((visibility("default")))

static int lines = -1;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("QUIRE_RECORD");

    if (path != NULL)
        lines = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void say(const char *line, int n)
{
    static ssize_t (*real)(int, const void *, size_t);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "write");
    if (lines >= 0 && n > 0)
        (void)!real(lines, line, (size_t)n);
}

static void note(const char *what, int fd)
{
    char line[64];
    struct stat st;

    if (lines >= 0 && fd != lines && fstat(fd, &st) == 0 &&
        (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        say(line, snprintf(line, sizeof(line), "%s %lu\n", what, (unsigned long)st.st_ino));
}

static void note_name(const char *path)
{
    char line[PATH_MAX + 64], folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct stat st, in;

    snprintf(folder, sizeof(folder), "%.*s", slash != NULL ? (int)(slash - path) + 1 : 1,
             slash != NULL ? path : ".");
    if (lstat(path, &st) == 0 && stat(folder, &in) == 0)
        say(line, snprintf(line, sizeof(line), "%s %lu %lu %s\n",
                           S_ISLNK(st.st_mode) ? "symlink" : "rename", (unsigned long)st.st_ino,
                           (unsigned long)in.st_ino, path));
}

#define WRITES(name, params, args)                                                                 \
    OUT ssize_t name params                                                                        \
    {                                                                                              \
        REAL(name);                                                                                \
        note("write", fd);                                                                         \
        return real args;                                                                          \
    }
WRITES(write, (int fd, const void *buf, size_t n), (fd, buf, n))
WRITES(pwrite, (int fd, const void *buf, size_t n, off_t at), (fd, buf, n, at))
WRITES(pwrite64, (int fd, const void *buf, size_t n, off64_t at), (fd, buf, n, at))
WRITES(writev, (int fd, const struct iovec *v, int n), (fd, v, n))

#define SYNCS(name)                                                                                \
    OUT int name(int fd)                                                                           \
    {                                                                                              \
        REAL(name);                                                                                \
        note("sync", fd);                                                                          \
        return real(fd);                                                                           \
    }
SYNCS(fsync)
SYNCS(fdatasync)

#define NAMES(name)                                                                                \
    OUT int name(const char *from, const char *to)                                                 \
    {                                                                                              \
        REAL(name);                                                                                \
        const int rc = real(from, to);                                                             \
        if (rc == 0)                                                                               \
            note_name(to);                                                                         \
        return rc;                                                                                 \
    }
NAMES(rename)
NAMES(link)
NAMES(symlink)
