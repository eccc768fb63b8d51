/* server/http/listener.h - a listening socket: accepts clients as long as there is room for them.
 *
 * When descriptors run out, a waiting connection is closed (limits.h). If none waits, one client is
 * turned away with the help of a descriptor that is kept for that, and the listener pauses until a
 * connection ends or a tenth of a second has passed, so that the loop does not spin.
 *
 * Thread: the loop's.
 * Memory: the owner's.
 */
#ifndef SERVER_HTTP_LISTENER_H
#define SERVER_HTTP_LISTENER_H

#include <stdbool.h>
#include <uv.h>

#include "server/http/head_check.h"
#include "server/process/socket.h"

struct connections;
struct http_shared;
struct limits;
struct tls;

struct listener {
    struct http_shared *http;
    struct connections *group;
    struct limits *limits;
    struct tls *tls; /* NULL = plain */
    enum head_origin from;
    struct socket_file file; /* file of a Unix socket */
    int fd;                    /* -1 = closed */
    int spare_fd;              /* -1 = none at the moment */
    uv_poll_t poll;
    uv_timer_t rest;
    bool is_started, is_resting;
};

/* All but the private members must be filled in; takes the socket. */
void listener_init(struct listener *l, int fd);
void listener_start(struct listener *l, uv_loop_t *loop);
/* A descriptor is free: accept again. */
void listener_resume(struct listener *l);
/* After listener_start() the loop must run once more before the memory is freed. */
void listener_close(struct listener *l);

#endif
