/* server/process/handover.h - hands the listening sockets of an old process to a new one.
 *
 * The serving process listens on a Unix socket that only its owner can use. A new process connects,
 * gets the listening sockets at once, this one included, and reports later that it is ready; from
 * then on it accepts clients, and the old one does not. Both have the same sockets: a client that
 * waits in one is accepted by either of them, and none is refused. A new process that ends before
 * it is ready has changed nothing.
 *
 * No other user can do this: the file belongs to its owner, and the kernel tells whose process
 * connects.
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
    const char *path;            /* borrowed, as the sockets */
    struct http_sockets sockets; /* the sockets being served */
    void (*handed)(void *ud);    /* a new process is ready to serve them */
    void *ud;
};

struct handover {
    struct handover_options opt;
    int fd;   /* of the listening Unix socket, -1 = none */
    int peer; /* the old process, until this one is ready; or a new one that has the sockets */
    struct socket_file file;
    uv_poll_t on_fd, on_peer;
    bool is_polled, has_peer_poll;
};

/* Take the sockets of the process that listens at `path`, or, if there is none, listen there; then
 * *taken has no sockets. 0, or ERR_IO with a sentence. */
int handover_open(struct handover *h, const char *path, struct http_sockets *taken, char *err,
                  size_t err_len);
/* This process serves from now on: tell the old one, and wait for a new one. */
void handover_ready(struct handover *h, const struct handover_options *options);
/* After handover_ready() the loop must run once more. handover_leave(): a new process has the
 * sockets and the file. */
void handover_close(struct handover *h);
void handover_leave(struct handover *h);

/* The sockets that systemd has opened for this process (sd_listen_fds(3)), from its variables'
 * values, NULL: not set. ERR_INVAL with a sentence: there are others than a TCP and a Unix one. */
int handover_from_systemd(const char *pid, const char *n_fds, struct http_sockets *out, char *err,
                          size_t err_len);

#endif
