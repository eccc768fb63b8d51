/* server/cli/model_files.c - see model_files.h.
 *
 * The hash covers device, inode, size and times of the file, or of each file in the folder. The
 * hashes of a folder's files are added up, so that the order of readdir() does not matter. 1 stands
 * for a path that does not exist.
 */
#include "server/cli/model_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define LEAST_TIME ((int64_t)31 * 24 * 3600) /* Unix seconds: 1 February 1970 */

static uint64_t hash_stat(const struct stat *st)
{
    const uint64_t what[] = {(uint64_t)st->st_dev,          (uint64_t)st->st_ino,
                             (uint64_t)st->st_size,         (uint64_t)st->st_mtim.tv_sec,
                             (uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ctim.tv_sec,
                             (uint64_t)st->st_ctim.tv_nsec};

    return XXH3_64bits(what, sizeof(what));
}

/* The sum does not depend on the order of the files. */
static uint64_t hash_folder(const char *path)
{
    DIR *folder = opendir(path);
    uint64_t sum = 0;
    struct dirent *e;

    while (folder != NULL && (e = readdir(folder)) != NULL) {
        struct stat st;

        if (e->d_name[0] != '.' && fstatat(dirfd(folder), e->d_name, &st, 0) == 0)
            sum += hash_stat(&st) ^ XXH3_64bits(e->d_name, strlen(e->d_name));
    }
    if (folder != NULL)
        closedir(folder);
    return sum;
}

uint64_t model_files_hash(const char *path)
{
    uint64_t hash;
    struct stat st;

    if (path[0] == '\0' || stat(path, &st) != 0)
        return 1;
    hash = S_ISDIR(st.st_mode) ? hash_folder(path) : hash_stat(&st);
    return hash > 1 ? hash : 2;
}

static bool has_weights(const char *name)
{
    const char *end = strrchr(name, '.');

    return name[0] != '.' && end != NULL &&
           (strcmp(end, ".safetensors") == 0 || strcmp(end, ".gguf") == 0);
}

static int64_t folder_time(const char *path)
{
    DIR *folder = opendir(path);
    int64_t latest = 0;
    struct dirent *e;

    while (folder != NULL && (e = readdir(folder)) != NULL) {
        struct stat st;

        if (has_weights(e->d_name) && fstatat(dirfd(folder), e->d_name, &st, 0) == 0 &&
            st.st_mtim.tv_sec > latest)
            latest = st.st_mtim.tv_sec;
    }
    if (folder != NULL)
        closedir(folder);
    return latest;
}

int64_t model_files_time(const char *path)
{
    const char *file = path[0] != '\0' ? path : "/proc/self/exe";
    struct stat st;
    int64_t seconds;

    if (stat(file, &st) != 0)
        return 0;
    seconds = S_ISDIR(st.st_mode) ? folder_time(file) : st.st_mtim.tv_sec;
    return seconds >= LEAST_TIME ? seconds : 0;
}
