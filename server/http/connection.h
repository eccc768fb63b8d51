/* server/http/connection.h - a client's connection: its requests one after the other, and its end.
 *
 * libmicrohttpd (daemon.h) reads requests and writes answers; the connection decides when. A
 * connection waits for a head, takes a body, answers, and waits for the next head:
 *
 *     HEAD --head is complete--> BODY --request is complete--> ANSWERING --answer has gone--> HEAD
 *       \                          \
 *        `--too slow, too much------`--> LINGERING: the answer is written (answer.h), our side is
 *                                        closed, and bytes that still come are thrown away
 *
 * A connection that has to wait for its handler, or for the loop's next turn, is suspended: then
 * libmicrohttpd does not look at it. A handler's write wakes it, and the group resumes it before
 * the loop sleeps, so that several writes of one turn are one packet. The group has an epoll set of
 * its own that tells, in every state, when a client has ended its side.
 *
 * The connection keeps a socket that libmicrohttpd closes before its client does, and reads it to
 * its end (at most LINGER_S): the kernel resets a connection whose socket is closed with bytes
 * unread, and the client loses the answer.
 *
 * Thread: the loop's. Memory: see daemon.h and http.h.
 */
#ifndef SERVER_HTTP_CONNECTION_H
#define SERVER_HTTP_CONNECTION_H

#include <netinet/in.h>
#include <stdbool.h>
#include <uv.h>

#include "core/base/list.h"
#include "server/http/daemon.h"
#include "server/http/head_check.h"
#include "server/http/timeouts.h"

struct connections;
struct http_shared;
struct http_call;
struct tls;
struct tls_credentials;

enum connection_phase {
    CONNECTION_HEAD = 0, /* a handshake, a head, or nothing yet */
    CONNECTION_BODY,
    CONNECTION_ANSWERING, /* the answer is computed or sent */
    CONNECTION_LINGERING, /* our side is shut down */
};

struct connection {
    struct list link;       /* link in its daemon's connections, or in connections.lingering */
    struct list woken;      /* link in connections.woken, or unlinked */
    struct list shaking;    /* link in connections.shaking, or unlinked */
    struct list by_address; /* link in a bucket of limits.h, or unlinked */
    struct in6_addr address;
    struct connections *group;
    struct daemon *daemon;
    struct MHD_Connection *mhd; /* NULL: only the socket is left */
    struct tls_credentials *credentials; /* credentials of its TLS session; NULL = plain */
    int fd; /* libmicrohttpd's socket; the connection's own once `mhd` is NULL */
    struct timeout timeout;
    uint64_t n_moved; /* bytes received or sent since the timeout began */
    uint64_t idle_since_ms; /* clock_ms() when its last answer had been sent */
    uint64_t n_received;    /* bytes that its socket had received when its last request was
                             * complete */
    enum connection_phase phase;
    enum head_origin from;
    bool is_trusted;  /* its proxy headers are believed (proxy_headers.h) */
    bool is_reserved;
    bool has_asked;   /* at least one request has been answered */
    bool has_finished[2]; /* the handshake's Finished of our side and the client's; both: it is
                           * complete */
    bool is_suspended;
    bool is_watched;  /* the socket is in the group's epoll set */
    bool has_ended;   /* the client has closed or half-closed */
    bool is_sending;  /* libmicrohttpd has bytes of the answer that the socket has not taken */
    bool is_dropped;  /* the connection is to be closed as soon as possible */
    char *target;     /* the request line's target, as it was sent; NULL: none has come */
    struct http_call *call; /* the exchange under way, or NULL */
};

struct connections_options {
    struct http_shared *http;
    uv_loop_t *loop;
    uint32_t header_timeout_s, idle_timeout_s;
    uint32_t min_rate; /* bytes per second; 0 = any */
    void (*closed)(void *ud); /* called when a connection has ended */
    void *ud;
};

struct connections { /* all connections */
    struct connections_options opt;
    struct daemons daemons;
    struct connection *fresh; /* the connection that is being passed to libmicrohttpd */
    struct list lingering, woken;
    struct list shaking; /* connections whose TLS handshakes libmicrohttpd continues in its next
                          * run */
    uint32_t n;
    struct timeouts timeouts;
    int watch_fd; /* epoll set: reports clients that have ended their side, and bytes from lingering
                   * ones */
    uv_poll_t watch;
    uv_prepare_t before_sleep;
    uv_idle_t sleepless; /* runs while a connection has more to do, so that the loop does not
                          * sleep */
    bool is_stopping;
};

/* Set up an empty group. ERR_IO: the epoll set could not be made. */
int connections_init(struct connections *group, const struct connections_options *options);
void connections_start(struct connections *group);
/* Close connections until the callback's 5 ms are used up (loop_guard.h). False: some are left. */
bool connections_close(struct connections *group);
/* Close all connections, answered or not. After connections_start() the loop must run once more
 * before the memory is freed. */
void connections_stop(struct connections *group);
void connections_release(struct connections *group);

/* Make room: close the connection whose loss costs least (http.h says the order); false: none may
 * be closed. */
bool connections_evict(struct connections *group);

/* Open the connection of a new client; it owns the socket `fd` also on failure. NULL: no memory. */
struct connection *connection_open(struct connections *group, int fd, struct tls *tls,
                                   enum head_origin from);

/* ---- between connection.c and connections.c ---- */

/* The callbacks of libmicrohttpd; their `ud` is the group. */
extern const struct daemon_callbacks connection_callbacks;

/* Called when a handler has written or decided: the connection is resumed before the loop
 * sleeps. */
void connection_wake(void *connection);
/* Resume a connection that was woken: libmicrohttpd looks at it in its next run. */
void connection_resume(struct connection *cn);
/* Called after libmicrohttpd has continued the handshake: if the handshake waits for the client,
 * suspend the connection until the client has sent more. */
void connection_rest(struct connection *cn);
/* Close the connection, answered or not, in libmicrohttpd's next run. A connection that
 * libmicrohttpd has released is closed and freed at once. */
void connection_close(struct connection *cn);
/* Answer with an error that closes the connection, even if no head has come. */
void connection_fail(struct connection *cn, int status, const char *why);
/* Called when the epoll set reports that the client has ended its side, or that a lingering
 * connection has bytes. */
void connection_gone(struct connection *cn);

#endif
