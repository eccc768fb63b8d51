/* core/hub/cache.c - see cache.h.
 *
 * Small files are written under another name and renamed; snapshots are relative symbolic links, as
 * the Hub's clients make them. A lock is taken without blocking, in a loop with naps, so that
 * signals are seen. After taking it the path is compared with the locked file, since the previous
 * holder may have removed it.
 */
#include "core/hub/cache.h"

#include "core/base/err.h"
#include "core/base/fixed_text.h"
#include "core/base/log.h"
#include "core/base/replace_file.h"
#include "core/hub/hub_impl.h"
#include "core/hub/interrupt.h"
#include "core/hub/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LOCK_NAP_MS 100
#define KEPT_FREE ((uint64_t)16 << 20) /* bytes of the disk that a download leaves free */

/* Marks the folder for backup programs, which skip it (https://bford.info/cachedir/). */
#define CACHEDIR_TAG "Signature: 8a477f597d28d172789f06886806bc55\n"

int hub_cache_fail(const char *path, const char *verb, char *err, size_t err_len)
{
    const int errnum = errno;

    return hub_fail(err_from_errno(errnum), err, err_len, "%.600s: cannot %s: %s", path, verb,
                    strerror(errnum));
}

/* Write OWNER--NAME for OWNER/NAME. */
static void flat_name(char out[HUB_MAX_REPO + 2], const char *repo)
{
    const size_t owner = strcspn(repo, "/");

    snprintf(out, HUB_MAX_REPO + 2, "%.*s--%s", (int)owner, repo, repo + owner + 1);
}

void hub_cache_path(char path[HUB_MAX_LOCAL], const struct hub_place *p, const char *repo,
                    enum hub_part part, const char *name, const char *below)
{
    static const char *const parts[] = {[HUB_FOLDER] = "",
                                        [HUB_REFS] = "/refs",
                                        [HUB_BLOBS] = "/blobs",
                                        [HUB_SNAPSHOTS] = "/snapshots",
                                        [HUB_LOCKS] = ""};
    char flat[HUB_MAX_REPO + 2];

    flat_name(flat, repo);
    snprintf(path, HUB_MAX_LOCAL, "%s%s/models--%s%s%s%s%s%s", p->cache,
             part == HUB_LOCKS ? "/.locks" : "", flat, parts[part], name[0] != '\0' ? "/" : "",
             name, below[0] != '\0' ? "/" : "", below);
}

int hub_cache_commit(const struct hub_place *p, const struct hub_reference *r, char commit[41])
{
    char path[HUB_MAX_LOCAL];
    ssize_t n;
    int fd;

    if (hub_is_commit(r->revision)) {
        memcpy(commit, r->revision, 41);
        return 0;
    }
    hub_cache_path(path, p, r->repo, HUB_REFS, r->revision, "");
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ERR_NOENT;
    n = read(fd, commit, 40);
    close(fd);
    commit[n > 0 ? n : 0] = '\0';
    return hub_is_commit(commit) ? 0 : ERR_NOENT;
}

/* Write a small file; a reader sees the old text or the new one. */
static int write_small(const char *path, const char *text, char *err, size_t err_len)
{
    const size_t n = strlen(text);
    char part[HUB_MAX_LOCAL + 32];
    int fd, rc;

    snprintf(part, sizeof(part), "%s.%ld.tmp", path, (long)getpid());
    fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    rc = fd >= 0 && write(fd, text, n) == (ssize_t)n ? replace_file(fd, part, path) : ERR_IO;
    if (rc < 0)
        rc = hub_cache_fail(path, "write", err, err_len);
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        (void)unlink(part);
    return rc;
}

int hub_cache_set_commit(const struct hub_place *p, const struct hub_reference *r,
                         const char *commit, char *err, size_t err_len)
{
    char path[HUB_MAX_LOCAL], now[41];
    int rc;

    if (strcmp(r->revision, commit) == 0 ||
        (hub_cache_commit(p, r, now) == 0 && strcmp(now, commit) == 0))
        return 0;
    hub_cache_path(path, p, r->repo, HUB_REFS, r->revision, "");
    rc = hub_cache_make_folders(path, err, err_len);
    return rc == 0 ? write_small(path, commit, err, err_len) : rc;
}

/* ---- reading ---- */

bool hub_cache_has(const char *path, uint64_t size)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size;
}

/* List a folder of the snapshot. `root` is the length of the snapshot's path with its slash; the
 * path inside it begins there and ends at `at`. */
static int list_folder(struct hub_listing *l, char path[HUB_MAX_LOCAL], size_t root, int depth,
                       char *err, size_t err_len)
{
    const size_t at = strlen(path);
    const struct dirent *e;
    DIR *d = opendir(path);
    int rc = 0;

    while (d != NULL && rc == 0 && (e = readdir(d)) != NULL) {
        struct stat st;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            at + strlen(e->d_name) + 2 > HUB_MAX_LOCAL)
            continue;
        snprintf(path + at, HUB_MAX_LOCAL - at, "%s%s", path[at - 1] == '/' ? "" : "/", e->d_name);
        if (stat(path, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < HUB_MAX_DEPTH)
            rc = list_folder(l, path, root, depth + 1, err, err_len);
        else if (S_ISREG(st.st_mode) && hub_path_is_safe(path + root))
            rc = hub_listing_add(l, path + root, (uint64_t)st.st_size, "", err, err_len);
    }
    path[at] = '\0';
    if (d != NULL)
        closedir(d);
    return rc;
}

int hub_cache_list(struct hub_listing *l, const struct hub_place *p, const char *repo,
                   const char *commit, char *err, size_t err_len)
{
    char path[HUB_MAX_LOCAL];
    size_t n;

    hub_cache_path(path, p, repo, HUB_SNAPSHOTS, commit, "");
    n = strlen(path);
    snprintf(path + n, sizeof(path) - n, "/");
    return list_folder(l, path, n + 1, 0, err, err_len);
}

/* ---- writing ---- */

int hub_cache_make_folders(const char *path, char *err, size_t err_len)
{
    char folder[HUB_MAX_LOCAL];

    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
        if (mkdir(folder, 0777) == 0) {
            if (sync_folder_of(folder) < 0)
                return hub_cache_fail(folder, "sync the folder of", err, err_len);
        } else if (errno != EEXIST) {
            const int errnum = errno;
            struct stat st;

            if (stat(folder, &st) == 0 && S_ISDIR(st.st_mode))
                continue; /* the disk may be read-only */
            errno = errnum;
            return hub_cache_fail(folder, "make the folder", err, err_len);
        }
    }
    return 0;
}

/* Make a link. 0 also if another process has made the same link; a folder of that name is an
 * error. */
static int make_link(const char *target, const char *link)
{
    char there[HUB_MAX_LOCAL];
    ssize_t n;

    if (symlink(target, link) == 0)
        return 0;
    if (errno != EEXIST)
        return -1;
    n = readlink(link, there, sizeof(there) - 1);
    there[n > 0 ? n : 0] = '\0';
    errno = EEXIST;
    return strcmp(there, target) == 0 ? 0 : -1;
}

int hub_cache_link(const struct hub_place *p, const char *repo, const char *commit,
                   const char *path, const char *hash, char *err, size_t err_len)
{
    char link[HUB_MAX_LOCAL], target[3 * (2 + HUB_MAX_DEPTH) + HUB_HASH_TEXT + 8], shown[120];
    struct fixed_text t;
    int rc;

    fixed_text_init(&t, target, sizeof(target));
    fixed_text_add(&t, "../../");
    hub_cache_path(link, p, repo, HUB_SNAPSHOTS, commit, path);
    for (const char *s = strchr(path, '/'); s != NULL; s = strchr(s + 1, '/'))
        fixed_text_add(&t, "../");
    if (!fixed_text_add(&t, "blobs/%s", hash))
        return hub_fail(ERR_LIMIT, err, err_len, "'%s': the path has too many folders",
                        hub_printable(shown, sizeof(shown), path));
    rc = hub_cache_make_folders(link, err, err_len);
    if (rc < 0)
        return rc;
    (void)unlink(link); /* remove a link whose blob is gone or has another size */
    if (make_link(target, link) < 0 || sync_folder_of(link) < 0)
        return hub_cache_fail(link, "make the link", err, err_len);
    return 0;
}

static void tag_cache(const struct hub_place *p)
{
    char path[HUB_MAX_LOCAL], err[8];

    snprintf(path, sizeof(path), "%s/CACHEDIR.TAG", p->cache);
    if (access(path, F_OK) < 0)
        (void)write_small(path, CACHEDIR_TAG, err, sizeof(err));
}

/* True: the locked file is still the one at the path. The lock's previous holder may have removed
 * it, and then other processes do not see the lock. */
static bool is_still(int fd, const char *path)
{
    struct stat mine, there;

    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

/* Take the lock, or return ERR_AGAIN: another process has it. */
static int try_lock(const char *path, char *err, size_t err_len)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
    int rc = fd;

    if (fd < 0)
        return hub_cache_fail(path, "open", err, err_len);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        rc = errno == EWOULDBLOCK || errno == EINTR ? ERR_AGAIN
                                                    : hub_cache_fail(path, "lock", err, err_len);
    else if (!is_still(fd, path))
        rc = ERR_AGAIN;
    if (rc < 0)
        close(fd);
    return rc;
}

int hub_cache_lock(const struct hub_place *p, const char *repo, const char *hash, char *err,
                   size_t err_len)
{
    char path[HUB_MAX_LOCAL], file[HUB_HASH_TEXT + 8], quoted[HUB_HASH_TEXT];
    bool is_told = false;
    int rc;

    snprintf(file, sizeof(file), "%s.lock", hash);
    hub_cache_path(path, p, repo, HUB_LOCKS, file, "");
    rc = hub_cache_make_folders(path, err, err_len);
    if (rc < 0)
        return rc;
    tag_cache(p);
    while ((rc = try_lock(path, err, err_len)) == ERR_AGAIN) {
        if (!is_told)
            log_info("hub", "event=waiting blob=%s reason=\"another process downloads it\"",
                     hub_printable(quoted, sizeof(quoted), hash));
        is_told = true;
        if (!hub_interrupt_sleep(LOCK_NAP_MS))
            return hub_fail(ERR_CANCELED, err, err_len, "interrupted");
    }
    return rc;
}

/* Check the disk of the first folder on the path that exists, since the cache may have to be
 * made. */
int hub_cache_check_room(const struct hub_place *p, uint64_t bytes, char *err, size_t err_len)
{
    char folder[HUB_MAX_FOLDER];
    struct statvfs fs;
    char *slash;
    uint64_t room;

    snprintf(folder, sizeof(folder), "%s", p->cache);
    while (statvfs(folder, &fs) < 0) {
        slash = strrchr(folder, '/');
        if (slash == NULL || slash == folder)
            return 0; /* making the folder will report the error */
        *slash = '\0';
    }
    room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (bytes == 0 || (bytes <= room && room - bytes >= KEPT_FREE))
        return 0;
    return hub_fail(ERR_LIMIT, err, err_len,
                    "%.600s: the disk has %" PRIu64 " MiB left, but the missing files need %" PRIu64
                    " MiB: free space, or set HF_HUB_CACHE to a folder on another disk",
                    p->cache, room >> 20, (bytes >> 20) + 1);
}
