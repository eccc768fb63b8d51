/* server/process/handover.c - see handover.h.
 *
 * The old process sends its sockets as SCM_RIGHTS with one message that lists their kinds, and
 * waits for "ready\n" on the same connection; only then does it call handed(). Each side polls one
 * connection at a time. SO_PEERCRED reports the user of the connecting process. The new process
 * receives the hand-over socket too, and so is the old process of the next hand-over.
 */
#include "server/process/handover.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "server/process/loop_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

/* The text of the message with the sockets, followed by a letter for each; and the text of the
 * answer. */
#define GREETING "quire-handover 1 "
#define READY "ready\n"
#define MAX_SOCKETS 3
/* Seconds for the old process to answer, which takes one turn of its loop. */
#define RECEIVE_S 10

struct message {
    char text[64];
    struct iovec iov;
    struct msghdr head;
    union { /* aligned as a control message must be */
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MAX_SOCKETS * sizeof(int))];
    } control;
};

static void prepare_message(struct message *m, size_t n_control)
{
    m->iov = (struct iovec){m->text, sizeof(m->text)};
    m->head = (struct msghdr){.msg_iov = &m->iov, .msg_iovlen = 1};
    m->head.msg_control = n_control > 0 ? m->control.bytes : NULL;
    m->head.msg_controllen = n_control;
}

/* ---- the old process ---- */

/* Send the sockets. Letters: "t" a TCP socket, "l" a Unix socket, "h" the hand-over socket. */
static int send_sockets(const struct handover *h)
{
    const int fds[] = {h->opt.sockets.tcp, h->opt.sockets.local, h->fd};
    struct message m = {.text = GREETING};
    int sent[MAX_SOCKETS];
    size_t n = 0;
    struct cmsghdr *c;

    for (size_t i = 0; i < MAX_SOCKETS; i++) {
        if (fds[i] < 0)
            continue;
        m.text[strlen(m.text)] = "tlh"[i];
        sent[n++] = fds[i];
    }
    prepare_message(&m, CMSG_SPACE(n * sizeof(int)));
    m.iov.iov_len = strlen(m.text);
    c = CMSG_FIRSTHDR(&m.head);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(c), sent, n * sizeof(int));
    return sendmsg(h->peer, &m.head, MSG_NOSIGNAL) < 0 ? ERR_IO : 0;
}

/* Called when the connection is closed: another new process may connect. */
static void on_peer_closed(uv_handle_t *handle)
{
    LOOP_CALLBACK(handle->loop, "handover.closed");
    struct handover *h = handle->data;

    h->has_peer_poll = false;
}

static void stop_peer(struct handover *h)
{
    if (h->has_peer_poll && !uv_is_closing((uv_handle_t *)&h->on_peer))
        uv_close((uv_handle_t *)&h->on_peer, on_peer_closed);
    if (h->peer >= 0)
        close(h->peer);
    h->peer = -1;
}

static void on_peer(uv_poll_t *poll, int status, int events)
{
    LOOP_CALLBACK(poll->loop, "handover.peer");
    struct handover *h = poll->data;
    char text[sizeof(READY)] = "";
    const ssize_t n = recv(h->peer, text, sizeof(READY) - 1, 0);

    (void)status, (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    stop_peer(h);
    if (n == (ssize_t)strlen(READY) && memcmp(text, READY, strlen(READY)) == 0)
        h->opt.handed(h->opt.ud);
    else
        log_warn("http", "event=handover_failed reason=new_process_gone");
}

static bool is_ours(int fd)
{
    struct ucred c;
    socklen_t n = sizeof(c);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0 &&
           (c.uid == geteuid() || c.uid == 0);
}

/* Serve one new process at a time. */
static void on_connect(uv_poll_t *poll, int status, int events)
{
    LOOP_CALLBACK(poll->loop, "handover.connect");
    struct handover *h = poll->data;
    const int fd = accept4(h->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    char quoted[100];

    (void)status, (void)events;
    if (fd < 0)
        return;
    if (!is_ours(fd) || h->has_peer_poll) {
        log_warn("http", "event=handover_refused reason=%s",
                 h->has_peer_poll ? "one_is_under_way" : "another_user");
        close(fd);
        return;
    }
    h->peer = fd;
    if (send_sockets(h) < 0 || uv_poll_init(h->opt.loop, &h->on_peer, fd) != 0) {
        log_warn("http", "event=handover_failed reason=%s",
                 log_quote(quoted, sizeof(quoted), strerror(errno)));
        stop_peer(h);
        return;
    }
    log_info("http", "event=handover_begun");
    h->has_peer_poll = true;
    h->on_peer.data = h;
    uv_poll_start(&h->on_peer, UV_READABLE, on_peer);
}

/* ---- the new process ---- */

static void take_socket(struct handover *h, struct http_sockets *taken, char kind, int fd)
{
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (kind == 't')
        taken->tcp = fd;
    else if (kind == 'l')
        taken->local = fd;
    else
        h->fd = fd;
}

static int receive_sockets(struct handover *h, struct http_sockets *taken)
{
    const struct timeval limit = {.tv_sec = RECEIVE_S};
    struct message m = {.text = ""};
    const struct cmsghdr *c;
    int fds[MAX_SOCKETS];
    const char *kinds;
    ssize_t n;

    prepare_message(&m, sizeof(m.control.bytes));
    m.iov.iov_len = sizeof(m.text) - 1;
    setsockopt(h->peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    n = recvmsg(h->peer, &m.head, MSG_CMSG_CLOEXEC);
    c = n > 0 ? CMSG_FIRSTHDR(&m.head) : NULL;
    if (c == NULL || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
        (m.head.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
        strncmp(m.text, GREETING, strlen(GREETING)) != 0)
        return ERR_FORMAT;
    kinds = m.text + strlen(GREETING);
    if (c->cmsg_len != CMSG_LEN(strlen(kinds) * sizeof(int)))
        return ERR_FORMAT;
    memcpy(fds, CMSG_DATA(c), strlen(kinds) * sizeof(int));
    for (size_t i = 0; kinds[i] != '\0'; i++)
        take_socket(h, taken, kinds[i], fds[i]);
    return h->fd >= 0 ? 0 : ERR_FORMAT;
}

/* Connect to the old process; false: none listens there. */
static bool reach(struct handover *h, const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(a.sun_path))
        return false; /* listening will report the error */
    memcpy(a.sun_path, path, strlen(path) + 1);
    h->peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (h->peer >= 0 && connect(h->peer, (const struct sockaddr *)&a, sizeof(a)) == 0)
        return true;
    stop_peer(h);
    return false;
}

int handover_open(struct handover *h, const char *path, struct http_sockets *taken, char *err,
                  size_t err_len)
{
    *h = (struct handover){.fd = -1, .peer = -1};
    *taken = HTTP_NO_SOCKETS;
    if (!reach(h, path))
        return listen_unix(path, S_IRUSR | S_IWUSR, &h->fd, &h->file, err, err_len);
    if (receive_sockets(h, taken) == 0)
        return 0;
    snprintf(err, err_len,
             "the process that listens at '%s' (handover_socket) did not hand over its sockets",
             path);
    handover_close(h);
    return ERR_IO;
}

void handover_ready(struct handover *h, const struct handover_options *o)
{
    if (h->peer >= 0 && send(h->peer, READY, strlen(READY), MSG_NOSIGNAL) < 0)
        log_warn("http", "event=handover_failed reason=old_process_gone");
    stop_peer(h);
    if (h->file.path[0] == '\0')
        socket_file_of(o->path, &h->file);
    h->opt = *o;
    h->on_fd.data = h;
    if (uv_poll_init(o->loop, &h->on_fd, h->fd) != 0)
        return;
    h->is_polled = true;
    uv_poll_start(&h->on_fd, UV_READABLE, on_connect);
}

void handover_close(struct handover *h)
{
    if (h->is_polled)
        uv_close((uv_handle_t *)&h->on_fd, NULL);
    h->is_polled = false;
    stop_peer(h);
    if (h->fd >= 0)
        close(h->fd);
    h->fd = -1;
    listen_unlink(&h->file);
}

void handover_leave(struct handover *h)
{
    h->file = (struct socket_file){0};
    handover_close(h);
}

/* ---- systemd ---- */

#define FIRST_FD 3

int handover_from_systemd(const char *pid, const char *n_fds, struct http_sockets *out, char *err,
                          size_t err_len)
{
    const long n = n_fds != NULL ? strtol(n_fds, NULL, 10) : 0;

    *out = HTTP_NO_SOCKETS;
    if (pid == NULL || strtol(pid, NULL, 10) != (long)getpid())
        return 0;
    for (int fd = FIRST_FD; fd < FIRST_FD + n; fd++) {
        struct sockaddr_storage a = {0};
        socklen_t size = sizeof(a);
        const bool is_socket = getsockname(fd, (struct sockaddr *)&a, &size) == 0;
        int *to = a.ss_family == AF_UNIX ? &out->local : &out->tcp;

        if (!is_socket || *to >= 0) {
            snprintf(err, err_len,
                     "systemd passed %ld descriptors (LISTEN_FDS), but only one TCP socket and one "
                     "Unix socket are supported",
                     n);
            return ERR_INVAL;
        }
        *to = fd;
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    }
    return 0;
}
