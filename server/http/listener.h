/* server/http/listener.h - a listening socket: accepts clients while there are slots for them.
 *
 * When descriptors run out, an idle connection is closed (limits.h). If none is idle, one client is
 * refused by means of a spare descriptor that is kept for that purpose, and the listener pauses
 * until a connection ends or a tenth of a second has passed, so that the loop does not spin.
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

/* Set up a listener for the socket `fd`, which it owns from then on. The caller has filled in all
 * but the private members. */
void listener_init(struct listener *l, int fd);
void listener_start(struct listener *l, uv_loop_t *loop);
/* Accept again; called when a descriptor or slot has become free. */
void listener_resume(struct listener *l);
/* After listener_start() the loop must run once more before the memory is freed. */
void listener_close(struct listener *l);

#endif
