/* server/process/sandbox.c - see sandbox.h.
 *
 * Paths are collected first, with the access that Landlock grants and the access(2) mode that must
 * work without capabilities; model folders add an entry for each file, because a file may be a link
 * to elsewhere. sandbox_enter() then gives up rights in an order in which each step is still
 * allowed by the ones before it. Failed steps are noted in struct sandbox_state, and are an error
 * only when strict.
 */
#include "server/process/sandbox.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/process/capabilities.h"
#include "server/process/syscall_filter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1ul
#endif

#define MAX_PATHS 8192 /* entries of model folders, mostly; further ones are left out */
#define PART_SUFFIX "-00001-of-00001.gguf"
#define MAX_PARTS 1024

#ifdef __has_feature /* in clang it tests which sanitizer is on */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

struct allowed_path {
    char *path;
    unsigned access; /* of enum landlock_access; 0: only `mode` is checked */
    int mode;        /* of access(2): must work without capabilities */
};

struct sandbox_paths {
    struct allowed_path items[MAX_PATHS];
    size_t n;
    uint16_t port; /* that may be connected to; 0: none */
    bool is_short; /* memory or room was missing */
};

/* ---- the allowed paths ---- */

static void add_path(struct sandbox_paths *p, const char *path, unsigned access, int mode)
{
    struct allowed_path *to = &p->items[p->n];

    if (path[0] == '\0')
        return;
    if (p->n < MAX_PATHS)
        *to = (struct allowed_path){mem_strdup(path), access, mode};
    if (p->n < MAX_PATHS && to->path != NULL)
        p->n++;
    else
        p->is_short = true;
}

/* Begin with what every server reads: the process's own numbers (metrics), the machine's CPUs and
 * nodes, limits of its control group, the zone of local times. */
int sandbox_paths_create(struct sandbox_paths **out)
{
    static const char *const always[] = {"/proc/self", "/sys/devices/system", "/sys/fs/cgroup",
                                         "/etc/localtime", "/dev/urandom"};
    struct sandbox_paths *p = mem_calloc(1, sizeof(*p));

    *out = p;
    if (p == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        add_path(p, always[i], LANDLOCK_READ, 0);
    return 0;
}

void sandbox_paths_destroy(struct sandbox_paths **paths)
{
    struct sandbox_paths *p = paths != NULL ? *paths : NULL;

    if (p == NULL)
        return;
    for (size_t i = 0; i < p->n; i++)
        mem_free(p->items[i].path);
    mem_free(p);
    *paths = NULL;
}

void sandbox_allow(struct sandbox_paths *p, const char *path, unsigned access)
{
    const bool writes = (access & ~(unsigned)LANDLOCK_READ) != 0;

    add_path(p, path, access, writes ? W_OK | X_OK : R_OK);
}

/* Add a folder and its files. Files in it, and in its folders (1_Pooling), may be links to
 * somewhere else, as in a cache of downloaded models. */
static void read_folder(struct sandbox_paths *p, const char *path, bool is_inner)
{
    DIR *d = opendir(path);
    char inside[PATH_MAX];

    add_path(p, path, is_inner ? 0 : LANDLOCK_READ, R_OK | X_OK);
    for (const struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        if (e->d_name[0] == '.' ||
            snprintf(inside, sizeof(inside), "%s/%s", path, e->d_name) >= (int)sizeof(inside))
            continue;
        if (e->d_type == DT_DIR && !is_inner)
            read_folder(p, inside, true);
        else
            add_path(p, inside, e->d_type == DT_LNK || e->d_type == DT_UNKNOWN ? LANDLOCK_READ : 0,
                     R_OK);
    }
    if (d != NULL)
        closedir(d);
}

/* Return the number of parts in the name of a part of a split file; 0 = it is not a part. */
static unsigned n_parts(const char *path)
{
    const size_t n = strlen(path), m = sizeof(PART_SUFFIX) - 1;
    unsigned no, of;
    int end = 0;

    if (n <= m || sscanf(path + n - m, "-%5u-of-%5u.gguf%n", &no, &of, &end) != 2 || end != (int)m)
        return 0;
    return of < MAX_PARTS ? of : MAX_PARTS;
}

static void read_parts(struct sandbox_paths *p, const char *path, unsigned n)
{
    const int head = (int)(strlen(path) - (sizeof(PART_SUFFIX) - 1));
    char part[PATH_MAX];

    for (unsigned i = 1; i <= n; i++)
        if (snprintf(part, sizeof(part), "%.*s-%05u-of-%05u.gguf", head, path, i, n) <
            (int)sizeof(part))
            add_path(p, part, LANDLOCK_READ, R_OK);
}

void sandbox_read(struct sandbox_paths *p, const char *path)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        read_folder(p, path, false);
    else if (n_parts(path) > 0)
        read_parts(p, path, n_parts(path));
    else
        add_path(p, path, LANDLOCK_READ, R_OK);
}

/* Write the folder of a path, without slashes at its end, to folder[]; "" for a file directly in
 * /. */
static void folder_of(const char *path, char folder[PATH_MAX])
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    if (n == 0)
        snprintf(folder, PATH_MAX, "%s", path[0] != '\0' ? "." : "");
    else
        snprintf(folder, PATH_MAX, "%.*s", (int)(n - 1), path);
}

void sandbox_read_replaced(struct sandbox_paths *p, const char *path)
{
    char folder[PATH_MAX], *real = path[0] != '\0' ? realpath(path, NULL) : NULL;

    add_path(p, path, LANDLOCK_READ, R_OK);
    folder_of(path, folder);
    add_path(p, folder, LANDLOCK_READ, 0);
    if (real != NULL) {
        folder_of(real, folder);
        add_path(p, folder, LANDLOCK_READ, 0);
    }
    mem_free(real);
}

void sandbox_allow_folder_of(struct sandbox_paths *p, const char *path, unsigned access)
{
    char folder[PATH_MAX];

    folder_of(path, folder);
    sandbox_allow(p, folder[0] == '\0' && path[0] != '\0' ? "/" : folder, access);
}

void sandbox_connect(struct sandbox_paths *p, uint16_t port)
{
    p->port = port;
}

/* ---- entering ---- */

static bool still_works(const void *ud)
{
    const struct sandbox_paths *p = ud;

    for (size_t i = 0; i < p->n; i++) {
        const struct allowed_path *a = &p->items[i];

        if (a->mode != 0 && faccessat(AT_FDCWD, a->path, a->mode, AT_EACCESS) != 0 &&
            (errno == EACCES || errno == EPERM))
            return false;
    }
    return true;
}

static unsigned count_threads(void)
{
    DIR *d = opendir("/proc/self/task");
    unsigned n = 0;

    for (const struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d))
        n += e->d_name[0] != '.';
    if (d != NULL)
        closedir(d);
    return n;
}

bool sandbox_has_one_thread(void)
{
    const uint64_t until = clock_ms() + 2000;
    unsigned n = count_threads();

    while (n > 1 && clock_ms() < until) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        n = count_threads();
    }
    return n == 1;
}

static int restrict_files(const struct sandbox_paths *p, int *abi)
{
    struct landlock l;
    int rc;

    landlock_begin(&l);
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].access != 0)
            landlock_allow(&l, p->items[i].path, p->items[i].access);
    if (p->port != 0)
        landlock_connect(&l, p->port);
    rc = landlock_restrict(&l);
    *abi = rc == 0 ? l.abi : 0;
    return rc;
}

static int fail_sandbox(char *err, size_t err_len, const char *what)
{
    snprintf(err, err_len,
             "sandbox is strict, but %s; sandbox = auto uses the other parts of the sandbox", what);
    return ERR_UNSUPPORTED;
}

static int demand(const struct sandbox_state *s, const struct sandbox_paths *p, bool has_one_thread,
                  char *err, size_t err_len)
{
    if (!has_one_thread)
        return fail_sandbox(err, err_len,
                            "the process already has other threads, or /proc cannot be read");
    if (p->is_short)
        return fail_sandbox(err, err_len, "the list of its files is too long");
    if (!s->has_no_new_privs)
        return fail_sandbox(err, err_len, "the kernel does not set no_new_privs");
    if (s->landlock_abi == 0)
        return fail_sandbox(err, err_len, "the kernel has no Landlock, or Landlock is disabled");
    if (!s->has_filter)
        return fail_sandbox(err, err_len,
                            "system calls cannot be filtered (this binary was built without "
                            "libseccomp, or the kernel refuses it)");
    return 0;
}

void sandbox_begin(enum sandbox_mode mode, struct sandbox_state *state)
{
    *state = (struct sandbox_state){.capabilities = "none", .why_not = "setting"};
    if (mode == SANDBOX_OFF || IS_SANITIZED)
        return;
    state->has_no_new_privs = prctl(PR_SET_NO_NEW_PRIVS, 1ul, 0ul, 0ul, 0ul) == 0;
    state->refuses_rings = state->has_no_new_privs && syscall_filter_refuse_rings() == 0;
}

int sandbox_enter(enum sandbox_mode mode, const struct sandbox_paths *paths,
                  struct sandbox_state *state, char *err, size_t err_len)
{
    bool has_one_thread;

    if (mode == SANDBOX_OFF)
        return 0;
    if (IS_SANITIZED && mode == SANDBOX_STRICT)
        return fail_sandbox(
            err, err_len,
            "this build has a sanitizer, which needs system calls that the sandbox forbids");
    if (IS_SANITIZED) {
        state->why_not = "sanitizer";
        return 0;
    }
    has_one_thread = mode != SANDBOX_STRICT || sandbox_has_one_thread(); /* needs /proc */
    tzset(); /* while the files of the time zone can still be read */
    state->is_on = true;
    state->has_mdwe = prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0ul, 0ul, 0ul) == 0;
    state->capabilities = capabilities_drop(still_works, paths);
    if (!paths->is_short)
        (void)restrict_files(paths, &state->landlock_abi);
    /* The filter is installed only if rings are refused: libuv aborts when it has a ring that it
     * may not use. */
    state->has_filter = state->refuses_rings && syscall_filter_install(paths->port != 0) == 0;
    return mode == SANDBOX_STRICT ? demand(state, paths, has_one_thread, err, err_len) : 0;
}

void sandbox_log(const struct sandbox_state *s)
{
    char landlock[16] = "none";

    if (!s->is_on) {
        log_info("main", "event=sandbox state=off reason=%s", s->why_not);
        return;
    }
    if (s->landlock_abi > 0)
        snprintf(landlock, sizeof(landlock), "abi%d", s->landlock_abi);
    log_info("main",
             "event=sandbox state=on landlock=%s seccomp=%s mdwe=%s no_new_privs=%s "
             "capabilities=%s",
             landlock, s->has_filter ? "on" : "none", s->has_mdwe ? "on" : "none",
             s->has_no_new_privs ? "on" : "none", s->capabilities);
}
