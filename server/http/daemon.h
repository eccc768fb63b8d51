/* server/http/daemon.h - runs libmicrohttpd inside the server's loop.
 *
 * A daemon of libmicrohttpd has an epoll set of its own, which the loop polls. MHD_run() visits
 * each of its connections that is ready, so one daemon has at most DAEMON_CONNECTIONS: that bounds
 * what one callback of the loop computes (promise P11), and more clients get more daemons. TLS and
 * plain connections have daemons of their own. A daemon without connections is kept for new ones.
 * libmicrohttpd's time limits are off: connection.h has its own. While a TLS handshake waits for
 * its client, libmicrohttpd asks to be run again at once, so connection.h suspends it.
 *
 * Thread: the loop's.
 * Memory: a daemon some KiB and a descriptor; a connection DAEMON_POOL_BYTES, in which
 *         libmicrohttpd keeps the request's head and bytes to be sent, and 1 KiB.
 */
#ifndef SERVER_HTTP_DAEMON_H
#define SERVER_HTTP_DAEMON_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/list.h"

#define DAEMON_CONNECTIONS 256
#define DAEMON_FDS 1 /* descriptors that a daemon itself has open */
#define DAEMON_POOL_BYTES ((size_t)32 << 10)

struct daemons;

struct daemon {
    struct list link;        /* in daemons.all */
    struct list connections; /* struct connection */
    struct daemons *group;
    struct MHD_Daemon *mhd;
    uv_poll_t poll;
    uint32_t n_connections;
    bool is_tls;
    bool is_pending; /* MHD_run() is due before the loop sleeps */
};

struct daemon_callbacks { /* libmicrohttpd's callbacks; `ud` is their first argument */
    void *(*target)(void *ud, const char *target, struct MHD_Connection *c);
    MHD_AccessHandlerCallback access;
    MHD_RequestCompletedCallback completed;
    MHD_NotifyConnectionCallback notify;
    void *ud;
};

struct daemons { /* all daemons */
    uv_loop_t *loop;
    struct daemon_callbacks callbacks;
    uint64_t *n_malformed; /* counts requests that libmicrohttpd itself refuses */
    struct list all; /* the daemon to run next is the first */
};

void daemons_start(struct daemons *group, uv_loop_t *loop, const struct daemon_callbacks *callbacks,
                   uint64_t *n_malformed);

/* Return a daemon with room for a connection; NULL: no memory, or no descriptor. */
struct daemon *daemons_with_room(struct daemons *group, bool is_tls);
/* Run the pending daemons once. True: some are pending again, and the loop should not sleep. */
bool daemons_run_pending(struct daemons *group);

/* Pass a socket to the daemon; libmicrohttpd owns and closes it. False: it failed, and the socket
 * has been closed. */
bool daemon_add(struct daemon *d, int fd);
/* Run the daemon before the loop sleeps. */
void daemon_ask(struct daemon *d);
/* Run the daemon now; not called from its own callbacks. */
void daemon_run(struct daemon *d);
/* Stop the daemon and close all its connections, none of which may be suspended. */
void daemon_stop(struct daemon *d);

#endif
