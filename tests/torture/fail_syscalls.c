/* tests/torture/fail_syscalls.c - a library to preload that makes the n-th system call fail.
 *
 * QUIRE_TORTURE_CALLS names a file of one struct control that the test has mapped too. Of the calls
 * whose bit is in `mask`, `countdown` work (< 0: all), then `n_to_fail` fail with `errnum`, or,
 * with errnum 0, are short: they do a part of what was asked. Which calls there are: the list
 * CALLS.
 *
 * Left alone: what libuv answers with abort() by its own choice (writes to its eventfds and its
 * signal pipe, the threads of its pool, epoll_ctl), because nothing in this program can answer it
 * otherwise.
 *
 * Thread: any.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* XX(name): the order is that of the bits, known to torture.py. */
#define CALLS(XX)                                                                                  \
    XX(read) XX(write) XX(pread) XX(pwrite) XX(preadv) XX(pwritev) XX(open) XX(mmap)               \
    XX(pthread_create) XX(accept4) XX(fstat) XX(ftruncate) XX(fsync) XX(fallocate) XX(flock)       \
    XX(rename) XX(unlink) XX(socket) XX(bind) XX(listen) XX(setsockopt) XX(recv) XX(send)          \
    XX(sendmsg) XX(madvise) XX(getrandom) XX(fopen) XX(readv) XX(writev)

enum call {
#define XX(name) CALL_##name,
    CALLS(XX)
#undef XX
};

struct control {
    uint64_t mask;
    int64_t countdown, n_to_fail;
    int64_t errnum;           /* 0: short */
    int64_t n_seen, n_failed; /* counted here */
};

static struct control *control;

__attribute__((constructor)) static void attach(void)
{
    const char *path = getenv("QUIRE_TORTURE_CALLS");
    int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    void *(*real_mmap)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
    const int fd = path != NULL ? real_open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p;

    if (fd < 0)
        return;
    p = real_mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    control = p != MAP_FAILED ? p : NULL;
}

/* Must this one fail? errno is set then. */
static bool fails(enum call call)
{
    int64_t left;

    if (control == NULL || (__atomic_load_n(&control->mask, __ATOMIC_RELAXED) >> call & 1) == 0)
        return false;
    __atomic_fetch_add(&control->n_seen, 1, __ATOMIC_RELAXED);
    left = __atomic_load_n(&control->countdown, __ATOMIC_RELAXED);
    do {
        if (left < 0)
            return false;
    } while (!__atomic_compare_exchange_n(&control->countdown, &left, left > 0 ? left - 1 : 0,
                                          false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (left > 0)
        return false;
    if (__atomic_sub_fetch(&control->n_to_fail, 1, __ATOMIC_RELAXED) <= 0)
        __atomic_store_n(&control->countdown, -1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&control->n_failed, 1, __ATOMIC_RELAXED);
    errno = (int)control->errnum;
    return true;
}

static bool is_short(void)
{
    return control->errnum == 0;
}

/* libuv's own descriptors: see above. */
static bool is_internal(int fd)
{
    struct stat st;
    int (*real)(int, struct stat *) = dlsym(RTLD_NEXT, "fstat");

    if (real(fd, &st) != 0)
        return false;
    if (S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode))
        return false;
    return !S_ISFIFO(st.st_mode) || fd > 2; /* a pipe: only the standard ones are not libuv's */
}

/* A socket takes a part of what is sent only where its buffer is full, and epoll tells when there
 * is room again. A part without a reason is nothing that a kernel does: whoever waits for that
 * edge, as libmicrohttpd, would wait for ever. */
static bool sends_all(int call, int fd)
{
    struct stat st;
    int (*real)(int, struct stat *) = dlsym(RTLD_NEXT, "fstat");
    const bool is_send = call == CALL_write || call == CALL_writev || call == CALL_send;

    return is_send && control != NULL && is_short() && real(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

#define REAL(name) static __typeof__(name) *real; if (real == NULL) real = dlsym(RTLD_NEXT, #name)
#define OUT __attribute__((visibility("default")))

/* A call that moves n bytes: fails, or is done with half of them. */
#define BYTES(name, params, fd, args_with, n)                                                      \
    OUT ssize_t name params;                                                                       \
    OUT ssize_t name params                                                                        \
    {                                                                                              \
        REAL(name);                                                                                \
        if (is_internal(fd) || sends_all(CALL_##name, fd) || !fails(CALL_##name))                  \
            return real args_with(n);                                                              \
        return is_short() ? real args_with((n) > 1 ? (n) / 2 : (n)) : -1;                          \
    }

#define A_READ(n) (fd, buf, n)
BYTES(read, (int fd, void *buf, size_t size), fd, A_READ, size)
BYTES(write, (int fd, const void *buf, size_t size), fd, A_READ, size)
#define A_AT(n) (fd, buf, n, at)
BYTES(pread, (int fd, void *buf, size_t size, off_t at), fd, A_AT, size)
BYTES(pwrite, (int fd, const void *buf, size_t size, off_t at), fd, A_AT, size)
#define A_IOV(n) (fd, iov, n, at)
BYTES(preadv, (int fd, const struct iovec *iov, int count, off_t at), fd, A_IOV, count)
BYTES(pwritev, (int fd, const struct iovec *iov, int count, off_t at), fd, A_IOV, count)
#define A_VEC(n) (fd, iov, n)
BYTES(readv, (int fd, const struct iovec *iov, int count), fd, A_VEC, count)
BYTES(writev, (int fd, const struct iovec *iov, int count), fd, A_VEC, count)
#define A_FLAGS(n) (fd, buf, n, flags)
BYTES(recv, (int fd, void *buf, size_t size, int flags), fd, A_FLAGS, size)
BYTES(send, (int fd, const void *buf, size_t size, int flags), fd, A_FLAGS, size)

/* A call that fails or not. */
#define PLAIN(type, bad, name, params, args)                                                       \
    OUT type name params;                                                                          \
    OUT type name params                                                                           \
    {                                                                                              \
        REAL(name);                                                                                \
        return fails(CALL_##name) && !is_short() ? bad : real args;                                \
    }

PLAIN(void *, MAP_FAILED, mmap, (void *p, size_t n, int prot, int flags, int fd, off_t at),
      (p, n, prot, flags, fd, at))
PLAIN(int, -1, accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags))
PLAIN(int, -1, fstat, (int fd, struct stat *st), (fd, st))
PLAIN(int, -1, ftruncate, (int fd, off_t n), (fd, n))
PLAIN(int, -1, fsync, (int fd), (fd))
PLAIN(int, -1, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
PLAIN(int, -1, flock, (int fd, int op), (fd, op))
PLAIN(int, -1, rename, (const char *a, const char *b), (a, b))
PLAIN(int, -1, unlink, (const char *a), (a))
PLAIN(int, -1, socket, (int d, int t, int p), (d, t, p))
PLAIN(int, -1, bind, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
PLAIN(int, -1, listen, (int fd, int n), (fd, n))
PLAIN(int, -1, setsockopt, (int fd, int l, int o, const void *v, socklen_t n), (fd, l, o, v, n))
PLAIN(ssize_t, -1, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
PLAIN(int, -1, madvise, (void *p, size_t n, int advice), (p, n, advice))
PLAIN(ssize_t, -1, getrandom, (void *p, size_t n, unsigned flags), (p, n, flags))
PLAIN(FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode))

OUT int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *ud)
{
    Dl_info caller;
    REAL(pthread_create);

    if (dladdr(__builtin_return_address(0), &caller) != 0 && strstr(caller.dli_fname, "libuv"))
        return real(t, a, f, ud); /* of its pool: it would abort */
    return fails(CALL_pthread_create) && !is_short() ? errno : real(t, a, f, ud);
}

OUT int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;
    REAL(open);

    if ((flags & (O_CREAT | __O_TMPFILE)) != 0) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    return fails(CALL_open) && !is_short() ? -1 : real(path, flags, mode);
}

/* The same calls under the other names that they have with 64-bit offsets and _FORTIFY_SOURCE. */
OUT int open64(const char *path, int flags, ...) __attribute__((alias("open")));
OUT void *mmap64(void *p, size_t n, int prot, int flags, int fd, off_t at)
    __attribute__((alias("mmap")));
OUT int fstat64(int fd, struct stat64 *st)
{
    return fstat(fd, (struct stat *)(void *)st); /* the same on x86-64 */
}
OUT int ftruncate64(int fd, off_t n) __attribute__((alias("ftruncate")));
OUT int fallocate64(int fd, int mode, off_t at, off_t n) __attribute__((alias("fallocate")));
OUT FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));
OUT ssize_t pread64(int fd, void *buf, size_t n, off_t at) __attribute__((alias("pread")));
OUT ssize_t pwrite64(int fd, const void *buf, size_t n, off_t at) __attribute__((alias("pwrite")));
OUT ssize_t preadv64(int fd, const struct iovec *iov, int n, off_t at)
    __attribute__((alias("preadv")));
OUT ssize_t pwritev64(int fd, const struct iovec *iov, int n, off_t at)
    __attribute__((alias("pwritev")));
int __open_2(const char *path, int flags);
OUT int __open_2(const char *path, int flags)
{
    return open(path, flags);
}
int __open64_2(const char *path, int flags);
OUT int __open64_2(const char *path, int flags)
{
    return open(path, flags);
}
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
OUT ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
    return n <= room ? read(fd, buf, n) : (abort(), -1);
}
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room);
OUT ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room)
{
    return n <= room ? pread(fd, buf, n, at) : (abort(), -1);
}
ssize_t __pread64_chk(int fd, void *buf, size_t n, off_t at, size_t room);
OUT ssize_t __pread64_chk(int fd, void *buf, size_t n, off_t at, size_t room)
{
    return n <= room ? pread(fd, buf, n, at) : (abort(), -1);
}
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
OUT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags)
{
    return n <= room ? recv(fd, buf, n, flags) : (abort(), -1);
}
