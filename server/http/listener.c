/* server/http/listener.c - see listener.h.
 *
 * uv_poll reports a readable socket; up to MAX_ACCEPTS clients are accepted in one callback. When
 * the backlog cannot be served, polling stops and a timer or the end of a connection resumes it
 * (listener_resume()), because a level-triggered poll would spin. The spare descriptor is a
 * duplicate of the listening socket: closing it frees one descriptor, with which a client can be
 * accepted and closed.
 */
#include "server/http/listener.h"

#include "server/http/connection.h"
#include "server/http/exchange.h"
#include "server/http/limits.h"
#include "server/process/loop_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Most clients accepted in one turn of the loop, so that other work gets its turn. */
#define MAX_ACCEPTS 64
#define REST_MS 100
/* Milliseconds of a pause when all slots are taken by clients that are not idle. */
#define SHORT_REST_MS 10

/* Open the spare descriptor as a duplicate of the listening socket, which needs no path that the
 * sandbox would have to allow. */
static int open_spare(const struct listener *l)
{
    return fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
}

static void on_readable(uv_poll_t *handle, int status, int events);

static void on_rested(uv_timer_t *rest)
{
    LOOP_CALLBACK(rest->loop, "listener.rested");
    listener_resume(rest->data);
}

static void rest(struct listener *l, uint64_t ms)
{
    l->is_resting = true;
    uv_poll_stop(&l->poll);
    uv_timer_start(&l->rest, on_rested, ms, 0);
}

void listener_resume(struct listener *l)
{
    if (!l->is_resting)
        return;
    l->is_resting = false;
    if (l->spare_fd < 0)
        l->spare_fd = open_spare(l);
    uv_timer_stop(&l->rest);
    uv_poll_start(&l->poll, UV_READABLE, on_readable);
}

/* ---- one client ---- */

static void refuse_client(struct listener *l, int fd, enum http_edge why)
{
    l->http->edge[why]++;
    close(fd);
}

/* Open the connection. TCP_NODELAY, because answers are sent in few writes, none of which should
 * wait for a full packet. */
static void admit(struct listener *l, int fd, const struct in6_addr *address, bool is_reserved)
{
    const int on = 1;
    struct connection *cn;

    if (l->from != HEAD_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    cn = connection_open(l->group, fd, l->tls, l->from);
    if (cn == NULL) {
        l->http->edge[HTTP_EDGE_FULL]++;
        return;
    }
    cn->is_reserved = is_reserved;
    if (address != NULL) {
        cn->address = *address;
        limits_add(l->limits, cn);
    }
}

static void welcome(struct listener *l, int fd, const struct sockaddr_storage *from)
{
    struct in6_addr address;
    const bool is_counted = l->from != HEAD_UNIX && limits_address(from, &address);
    const enum limits_verdict verdict = limits_ask(l->limits, is_counted ? &address : NULL);

    switch (verdict) {
    case LIMITS_PLACE:
    case LIMITS_RESERVED_PLACE:
        admit(l, fd, is_counted ? &address : NULL, verdict == LIMITS_RESERVED_PLACE);
        break;
    case LIMITS_TOO_MANY_OF_ADDRESS:
        refuse_client(l, fd, HTTP_EDGE_ADDRESS);
        break;
    }
}

/* ---- descriptors that run out ---- */

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* Accept and close the first client of the backlog, which would otherwise wait for an unknown
 * time. */
static void shed_one(struct listener *l)
{
    int fd;

    if (l->spare_fd < 0)
        return;
    close(l->spare_fd);
    fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    l->spare_fd = open_spare(l);
}

/* Called when no descriptor is free. True: one was freed, and accepting may continue. */
static bool relieve(struct listener *l)
{
    l->http->edge[HTTP_EDGE_DESCRIPTORS]++;
    if (connections_evict(l->group))
        return true;
    shed_one(l);
    rest(l, REST_MS);
    return false;
}

/* True: the backlog has a client. Only then another connection is closed to make room. */
static bool has_client(const struct listener *l)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

/* Accept one client. True: accepting may continue. */
static bool accept_one(struct listener *l)
{
    struct sockaddr_storage from = {0};
    socklen_t n = sizeof(from);
    int fd;

    if (limits_are_full(l->limits) && !has_client(l))
        return false;
    if (!limits_make_room(l->limits)) {
        rest(l, SHORT_REST_MS);
        return false;
    }
    fd = accept4(l->fd, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        welcome(l, fd, &from);
    else if (is_shortage(errno))
        return relieve(l);
    return fd >= 0 || errno == ECONNABORTED || errno == EINTR;
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    LOOP_CALLBACK(handle->loop, "listener.accept");
    (void)status, (void)events;
    for (int i = 0; i < MAX_ACCEPTS && accept_one(handle->data); i++)
        ;
}

/* ---- life ---- */

void listener_init(struct listener *l, int fd)
{
    l->fd = fd;
    l->spare_fd = open_spare(l);
}

void listener_start(struct listener *l, uv_loop_t *loop)
{
    uv_poll_init(loop, &l->poll, l->fd);
    uv_timer_init(loop, &l->rest);
    l->poll.data = l->rest.data = l;
    l->is_started = true;
    uv_poll_start(&l->poll, UV_READABLE, on_readable);
}

void listener_close(struct listener *l)
{
    if (l->fd < 0)
        return;
    if (l->is_started) {
        uv_close((uv_handle_t *)&l->poll, NULL);
        uv_close((uv_handle_t *)&l->rest, NULL);
    }
    l->is_resting = false;
    close(l->fd);
    if (l->spare_fd >= 0)
        close(l->spare_fd);
    l->fd = l->spare_fd = -1;
    listen_unlink(&l->file);
}
