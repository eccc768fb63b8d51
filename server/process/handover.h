/* server/process/handover.h - passes the listening sockets of an old process to a new one.
 *
 * The serving process listens on a Unix socket that only its owner can use. A new process connects,
 * gets the listening sockets at once, this one included, and reports later that it is ready; from
 * then on it accepts clients, and the old one does not. Both have the same sockets: a client in a
 * socket's backlog is accepted by one of them, and none is refused. If the new process ends before
 * it is ready, the old one continues. No other user can take the sockets: the file belongs to its
 * owner, and the kernel reports the user of the connecting process.
 *
 * (Two sockets of SO_REUSEPORT would lose the clients that wait in the one that is closed.)
 *
 * Thread: the loop's; handover_open() before there are others.
 * Memory: the owner's.
 */
#ifndef SERVER_PROCESS_HANDOVER_H
#define SERVER_PROCESS_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "server/process/socket.h"

struct http_sockets { /* -1 = none */
    int tcp, local;
};

#define HTTP_NO_SOCKETS ((struct http_sockets){-1, -1})

struct handover_options {
    uv_loop_t *loop;
    const char *path;            /* path of the Unix socket; borrowed, as the sockets */
    struct http_sockets sockets; /* the sockets being served */
    void (*handed)(void *ud);    /* called when a new process is ready to serve them */
    void *ud;
};

struct handover {
    struct handover_options opt;
    int fd;   /* the listening Unix socket, -1 = none */
    int peer; /* connection to the old process, until this one is ready, or to a new process that
               * has the sockets */
    struct socket_file file;
    uv_poll_t on_fd, on_peer;
    bool is_polled, has_peer_poll;
};

/* Take the sockets of the process that listens at `path`. If there is none, listen there, and
 * *taken has no sockets. ERR_IO with a sentence. */
int handover_open(struct handover *h, const char *path, struct http_sockets *taken, char *err,
                  size_t err_len);
/* Called when this process begins to serve: tell the old process, and wait for a new one. */
void handover_ready(struct handover *h, const struct handover_options *options);
/* Close the hand-over; after handover_ready() the loop must run once more. handover_leave(): as
 * handover_close(), but a new process has the sockets, and the file stays. */
void handover_close(struct handover *h);
void handover_leave(struct handover *h);

/* The sockets that systemd has opened for this process (sd_listen_fds(3)), from its variables'
 * values, NULL: not set. ERR_INVAL with a sentence: there are sockets other than one TCP and one
 * Unix socket. */
int handover_from_systemd(const char *pid, const char *n_fds, struct http_sockets *out, char *err,
                          size_t err_len);

#endif
