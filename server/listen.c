/* server/listen.c - see listen.h. */
#include "server/listen.h"

#include "core/base/err.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections that the kernel may accept before we do: a burst of clients in one turn. */
#define BACKLOG 1024

static int try_address(const struct addrinfo *a)
{
    const int on = 1;
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* else a restart waits a minute */
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof(a);

    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        return 0;
    if (a.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
    return ntohs(((struct sockaddr_in *)&a)->sin_port);
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
    *bound = port_of(*fd);
    return 0;
}
