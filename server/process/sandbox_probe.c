/* server/process/sandbox_probe.c - see sandbox_probe.h.
 *
 * In a debug build each attempt is one system call with its result in the log; the tests compare
 * these lines with what the sandbox should allow. Other builds have empty functions.
 */
#include "server/process/sandbox_probe.h"

#ifdef QUIRE_DEBUG
#include "core/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int try_open(const char *path, int flags)
{
    const int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static int try_mapping(bool later)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | (later ? 0 : PROT_EXEC),
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return -1;
    return later ? mprotect(p, 4096, PROT_READ | PROT_EXEC) : 0;
}

static int try_limit(void)
{
    struct rlimit r;

    return getrlimit(RLIMIT_NOFILE, &r) == 0 ? setrlimit(RLIMIT_NOFILE, &r) : 0;
}

/* Fork by system call; newer architectures have no fork(). */
static int try_fork(void)
{
#ifdef SYS_fork
    return (int)syscall(SYS_fork);
#else
    return (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

/* Call io_uring_setup() with arguments that every kernel that has it refuses. */
static int try_ring(void)
{
    return (int)syscall(SYS_io_uring_setup, 0, NULL);
}

/* Call a number that no kernel has yet, on a thread that blocks every signal, as ZeroMQ's do. */
static int try_unknown(void)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    rc = (int)syscall(1000);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static int try_path(const char *what, const char *path)
{
    if (strcmp(what, "read") == 0)
        return try_open(path, O_RDONLY);
    if (strcmp(what, "write") == 0)
        return try_open(path, O_WRONLY);
    if (strcmp(what, "make") == 0)
        return try_open(path, O_WRONLY | O_CREAT | O_EXCL);
    if (strcmp(what, "remove") == 0)
        return unlink(path);
    if (strcmp(what, "link") == 0)
        return symlink("/etc/passwd", path);
    if (strcmp(what, "folder") == 0)
        return mkdir(path, 0700);
    return chmod(path, 0777);
}

static int try_bare(const char *what)
{
    char *const nothing[] = {NULL};

    if (strcmp(what, "socket") == 0)
        return socket(AF_INET, SOCK_STREAM, 0);
    if (strcmp(what, "exec") == 0)
        return execve("/bin/true", nothing, nothing);
    if (strcmp(what, "fork") == 0)
        return try_fork();
    if (strcmp(what, "ptrace") == 0)
        return (int)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    if (strcmp(what, "memfd") == 0)
        return memfd_create("x", 0);
    if (strcmp(what, "setuid") == 0)
        return (int)syscall(SYS_setuid, 0);
    if (strcmp(what, "limit") == 0)
        return try_limit();
    if (strcmp(what, "ring") == 0)
        return try_ring();
    if (strcmp(what, "unknown") == 0)
        return try_unknown();
    if (strcmp(what, "kill_parent") == 0)
        return kill(getppid(), 0);
    return try_mapping(strcmp(what, "mprotect_exec") == 0);
}

static void try(const char *where, char *attempt)
{
    char quoted[300];
    char *path = strchr(attempt, ':');
    int rc;

    log_quote(quoted, sizeof(quoted), attempt);
    if (path != NULL)
        *path++ = '\0';
    errno = 0;
    rc = path != NULL ? try_path(attempt, path) : try_bare(attempt);
    log_info("sandbox", "event=probe where=%s attempt=%s result=%s", where, quoted,
             rc >= 0 ? "ok" : strerrorname_np(errno));
}

void sandbox_probe(const char *where)
{
    const char *list = getenv("QUIRE_DEBUG_FORBIDDEN"), *only = getenv("QUIRE_DEBUG_FORBIDDEN_IN");
    char text[2048], *rest = text, *attempt;

    if (list == NULL || (only != NULL && strcmp(only, where) != 0))
        return;
    snprintf(text, sizeof(text), "%s", list);
    while ((attempt = strsep(&rest, ",")) != NULL)
        try(where, attempt);
}

static void *probe(void *where)
{
    sandbox_probe(where);
    return NULL;
}

void sandbox_probe_on_new_thread(const char *where)
{
    char name[32];
    pthread_t thread;

    snprintf(name, sizeof(name), "%s", where);
    if (pthread_create(&thread, NULL, probe, name) == 0)
        pthread_join(thread, NULL);
}
#else
void sandbox_probe(const char *where)
{
    (void)where;
}

void sandbox_probe_on_new_thread(const char *where)
{
    (void)where;
}
#endif
