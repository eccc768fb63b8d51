/* server/http/connection.h - one client: its requests one after the other, and its end.
 *
 * libmicrohttpd (daemon.h) reads requests and writes answers; the connection decides when. It waits
 * for a head, takes a body, answers, and waits for the next head:
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
    CONNECTION_ANSWERING, /* an answer is being made or sent */
    CONNECTION_LINGERING, /* our side is closed */
};

struct connection {
    struct list link;       /* in its daemon's connections, or connections.lingering */
    struct list woken;      /* in connections.woken, or alone */
    struct list shaking;    /* in connections.shaking, or alone */
    struct list by_address; /* in a bucket of limits.h, or alone */
    struct in6_addr address;
    struct connections *group;
    struct daemon *daemon;
    struct MHD_Connection *mhd; /* NULL: only the socket is left */
    struct tls_credentials *credentials; /* of its session; NULL = plain */
    int fd; /* libmicrohttpd's; its own where `mhd` is NULL */
    struct timeout timeout;
    uint64_t n_moved; /* bytes since the timeout began */
    uint64_t idle_since_ms; /* clock_ms() when its last answer had gone */
    uint64_t n_received;    /* by its socket, when its last request was complete */
    enum connection_phase phase;
    enum head_origin from;
    bool is_trusted;  /* what it says of others' requests is believed (proxy_headers.h) */
    bool is_reserved;
    bool has_asked;   /* a request has been answered */
    bool has_finished[2]; /* of the handshake: our side, the client's; both: it is complete */
    bool is_suspended;
    bool is_watched;  /* by the group's epoll set */
    bool has_ended;   /* the client has closed, or half-closed */
    bool is_sending;  /* libmicrohttpd has bytes of the answer that the socket has not taken */
    bool is_dropped;  /* to be closed whatever it was doing */
    char *target;     /* of the request line, as it was sent; NULL: none has come */
    struct http_call *call; /* the exchange under way, or NULL */
};

struct connections_options {
    struct http_shared *http;
    uv_loop_t *loop;
    uint32_t header_timeout_s, idle_timeout_s;
    uint32_t min_rate; /* bytes per second; 0 = any */
    void (*closed)(void *ud); /* a connection has ended */
    void *ud;
};

struct connections { /* all of them */
    struct connections_options opt;
    struct daemons daemons;
    struct connection *fresh; /* is being given to libmicrohttpd */
    struct list lingering, woken;
    struct list shaking; /* libmicrohttpd looks at their handshakes in its next run */
    uint32_t n;
    struct timeouts timeouts;
    int watch_fd; /* epoll set: who has ended its side, and what lingering ones still get */
    uv_poll_t watch;
    uv_prepare_t before_sleep;
    uv_idle_t sleepless; /* runs while a connection has more to do: the loop does not sleep */
    bool is_stopping;
};

/* ERR_IO: there is no epoll set. */
int connections_init(struct connections *group, const struct connections_options *options);
void connections_start(struct connections *group);
/* End some, until the callback is due (loop_guard.h). False: others are left. */
bool connections_close(struct connections *group);
/* End all, answered or not. After connections_start() the loop must run once more before the
 * memory goes. */
void connections_stop(struct connections *group);
void connections_release(struct connections *group);

/* Make room: end the connection that can best be missed; false: none can. */
bool connections_evict(struct connections *group);

/* A new client, whose socket is taken in any case. NULL: no memory. */
struct connection *connection_open(struct connections *group, int fd, struct tls *tls,
                                   enum head_origin from);

/* ---- between connection.c and connections.c ---- */

/* libmicrohttpd calls these, with the group as their argument. */
extern const struct daemon_callbacks connection_callbacks;

/* Its handler has written or decided: it is resumed before the loop sleeps. */
void connection_wake(void *connection);
/* One that was woken: libmicrohttpd looks at it in its next run. */
void connection_resume(struct connection *cn);
/* libmicrohttpd has looked at its handshake: one that waits for its client is suspended until the
 * client has sent more. */
void connection_rest(struct connection *cn);
/* End it, answered or not, at libmicrohttpd's next run. One that libmicrohttpd has given up ends at
 * once, with its memory. */
void connection_close(struct connection *cn);
/* Answer with an error that ends the connection, also where no head has come. */
void connection_fail(struct connection *cn, int status, const char *why);
/* The epoll set has told that the client has ended its side, or that a lingering one has bytes. */
void connection_gone(struct connection *cn);

#endif
