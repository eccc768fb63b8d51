/* server/process/socket.c - see socket.h.
 *
 * A TCP socket tries each address that the host's name resolves to. A Unix socket first removes a
 * file that no process listens on, found by connecting to it; its own file is remembered by device
 * and inode, so that the end of the process removes only the file that it made.
 */
#include "server/process/socket.h"

#include "core/base/err.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Connections that may wait in the kernel to be accepted: a burst of clients in one turn of the
 * loop. */
#define BACKLOG 1024

static int try_address(const struct addrinfo *a)
{
    const int on = 1;
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* otherwise binding fails for a
                                                                * minute after a restart */
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

uint16_t listen_port(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof(a);

    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        return 0;
    if (a.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
    return a.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&a)->sin_port) : 0;
}

int listen_open(const char *host, uint16_t port, int *fd, uint16_t *bound, char *err,
                size_t err_len)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    char service[8];
    int rc;

    *fd = -1;
    snprintf(service, sizeof(service), "%u", port);
    rc = getaddrinfo(host, service, &hints, &list);
    if (rc != 0) {
        snprintf(err, err_len, "cannot listen on %s:%u: %s", host, port, gai_strerror(rc));
        return ERR_IO;
    }
    for (const struct addrinfo *a = list; a != NULL && *fd < 0; a = a->ai_next)
        *fd = try_address(a);
    if (*fd < 0)
        snprintf(err, err_len, "cannot listen on %s:%u: %s", host, port, strerror(errno));
    freeaddrinfo(list);
    if (*fd < 0)
        return ERR_IO;
    *bound = listen_port(*fd);
    return 0;
}

bool listen_is_loopback(int fd)
{
    struct sockaddr_storage a = {0};
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&a;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&a;
    socklen_t n = sizeof(a);

    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        return false;
    if (a.ss_family == AF_INET)
        return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    return a.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* ---- Unix sockets ---- */

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* True: a process listens there, perhaps with a full backlog. */
static bool is_alive(const struct sockaddr_un *a)
{
    const int fd = open_socket();
    bool alive;

    if (fd < 0)
        return true; /* not known: do not remove the file */
    alive = connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno != ECONNREFUSED;
    close(fd);
    return alive;
}

/* Remove an abandoned socket file. 0, or an errno: the path cannot be used. */
static int remove_old(const struct sockaddr_un *a)
{
    struct stat st;

    if (lstat(a->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : errno;
    if (!S_ISSOCK(st.st_mode))
        return EEXIST;
    if (is_alive(a))
        return EADDRINUSE;
    return unlink(a->sun_path) < 0 ? errno : 0;
}

/* Create the file with the owner's permissions only, and add the others afterwards. */
static int bind_file(int fd, const struct sockaddr_un *a, mode_t mode, struct socket_file *file)
{
    const mode_t before = umask(S_IRWXG | S_IRWXO);
    const int rc = bind(fd, (const struct sockaddr *)a, sizeof(*a));
    const int saved = errno;
    struct stat st;

    umask(before);
    errno = saved;
    if (rc < 0 || lstat(a->sun_path, &st) < 0)
        return -1;
    memcpy(file->path, a->sun_path, sizeof(file->path));
    file->device = st.st_dev;
    file->inode = st.st_ino;
    return chmod(a->sun_path, mode) < 0 || listen(fd, BACKLOG) < 0 ? -1 : 0;
}

int listen_unix(const char *path, mode_t mode, int *fd, struct socket_file *file, char *err,
                size_t err_len)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    *fd = -1;
    *file = (struct socket_file){0};
    if (strlen(path) >= sizeof(a.sun_path)) {
        snprintf(err, err_len, "cannot listen on '%s': the path is longer than %zu bytes", path,
                 sizeof(a.sun_path) - 1);
        return ERR_IO;
    }
    memcpy(a.sun_path, path, strlen(path) + 1);
    errno = remove_old(&a);
    if (errno == 0)
        *fd = open_socket();
    if (*fd >= 0 && bind_file(*fd, &a, mode, file) == 0)
        return 0;
    snprintf(err, err_len, "cannot listen on '%s': %s", path, strerror(errno));
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    listen_unlink(file);
    return ERR_IO;
}

void socket_file_of(const char *path, struct socket_file *file)
{
    struct stat st;

    *file = (struct socket_file){0};
    if (strlen(path) >= sizeof(file->path) || lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return;
    memcpy(file->path, path, strlen(path) + 1);
    file->device = st.st_dev;
    file->inode = st.st_ino;
}

void listen_unlink(struct socket_file *file)
{
    struct stat st;

    if (file->path[0] != '\0' && lstat(file->path, &st) == 0 && st.st_dev == file->device &&
        st.st_ino == file->inode)
        unlink(file->path);
    file->path[0] = '\0';
}

uint64_t socket_n_received(int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 ? info.tcpi_bytes_received : 0;
}
