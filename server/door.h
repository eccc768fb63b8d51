/* server/door.h - one listening socket and the MHD daemon behind it, inside the loop.
 *
 * MHD has no thread here: its epoll descriptor is polled by the loop, its timeout is a loop timer.
 * A server has a door for TCP, with or without TLS, and one for a Unix socket; they differ in
 * nothing else, and who has come in by which is forgotten at once.
 *
 * Thread: the loop's.
 * Memory: MHD's; the door itself is the owner's.
 */
#ifndef SERVER_DOOR_H
#define SERVER_DOOR_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "server/listen.h"

struct http;
struct tls;

struct door_options {
    struct http *http;
    uv_loop_t *loop;
    uint32_t max_connections, idle_timeout_s;
    struct tls *tls; /* NULL = plain */
    /* MHD's callbacks; they get the door. */
    MHD_AccessHandlerCallback access;
    MHD_RequestCompletedCallback completed;
    MHD_NotifyConnectionCallback connection;
};

struct door { /* zero is closed */
    struct http *http;
    uv_loop_t *loop;
    struct tls *tls;
    struct listen_place place; /* the file of a Unix socket */
    struct MHD_Daemon *daemon;
    uv_poll_t poll;
    uv_timer_t timer;
    uint32_t n_fresh; /* connections over TLS that have not asked anything yet */
    bool is_started;
    bool is_due;  /* MHD has to run */
    bool has_run; /* since the last reminder */
};

/* Start a daemon on a listening socket, which is the door's from here on, also on failure. */
int door_open(struct door *d, const struct door_options *options, int fd /* takes */,
              const struct listen_place *place, char *err, size_t err_len);

/* Take part in the loop. */
void door_start(struct door *d);

/* Let MHD run if it has to. Afterwards, when all doors have run: wake up for what comes next. */
void door_run(struct door *d);
void door_remind(struct door *d);

/* Calls must have been lost before, so that none is suspended when MHD stops. The loop must run
 * once more before the memory goes. */
void door_close(struct door *d);

#endif
