/* server/http/connection.h - one client: its bytes, its requests one after the other, and its
 * end.
 *
 * States: TLS handshake, reading a request, answering it, reading the next; at the end lingering,
 * its own side closed, until the client has read the answer. While a request is answered nothing is
 * read: the loop watches only for the client's end, and pipelined requests wait in the kernel.
 *
 * What has to be written is sent before the loop sleeps (connections_run), so that several writes
 * of one turn are one packet.
 *
 * Thread: the loop's. Memory: freed by the loop once the handle is closed. See http.h.
 */
#ifndef SERVER_HTTP_CONNECTION_H
#define SERVER_HTTP_CONNECTION_H

#include <netinet/in.h>
#include <stdbool.h>
#include <uv.h>

#include "core/base/buf.h"
#include "core/base/list.h"
#include "server/http/head_check.h"
#include "server/http/http_parser.h"
#include "server/http/timeouts.h"
#include "server/http/transport.h"

struct connections;
struct http_shared;
struct http_call;
struct tls;

enum connection_phase {
    CONNECTION_HANDSHAKE = 0,
    CONNECTION_READING,   /* a request, or nothing yet */
    CONNECTION_ANSWERING, /* an answer is being made or sent */
    CONNECTION_LINGERING, /* our side is closed */
    CONNECTION_CLOSED,
};

struct connection {
    struct list link;       /* in connections.all */
    struct list woken;      /* in connections.woken, or alone */
    struct list by_address; /* in a bucket of limits.h, or alone */
    struct in6_addr address;
    struct connections *group;
    uv_poll_t poll;
    int events; /* that the poll waits for; 0 = it is stopped */
    struct transport io;
    struct timeout timeout;
    uint64_t n_moved; /* bytes since the timeout began */
    enum connection_phase phase;
    enum head_origin from;
    bool is_trusted; /* what it says of others' requests is believed (proxy_headers.h) */
    bool is_reserved;
    bool has_asked;  /* a request has been answered */
    bool has_ended;  /* the client has closed or half-closed */
    bool is_readable; /* as far as the poll and TLS have told */
    bool is_last;     /* the end of the answer is in `wire` */
    bool is_running;  /* connection_run() is on the stack */
    bool was_paused;  /* bytes of a body may wait in the parser or in `in` */
    struct http_parser parser;
    struct http_call *call; /* the exchange under way, or NULL */
    struct buf in;          /* what came behind it */
    size_t in_pos;
    struct buf wire; /* on its way to the socket */
    size_t wire_pos;
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
    struct list all, woken;
    uint32_t n;
    struct timeouts timeouts;
    uv_prepare_t before_sleep;
    uv_idle_t sleepless; /* runs while a connection has more to do: the loop does not sleep */
    char *scratch;       /* what is read */
};

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

/* A new client, whose socket is taken on success. NULL: no memory. */
struct connection *connection_open(struct connections *group, int fd, struct tls *tls,
                                   enum head_origin from);

/* ---- between connection.c and connections.c ---- */

/* Go on, before the loop sleeps, with what was written or decided. */
void connection_wake(void *connection);
/* Go on as far as possible. */
void connection_run(struct connection *cn);
void connection_close(struct connection *cn);
/* Answer with an error that ends the connection, also where no head has come. */
void connection_fail(struct connection *cn, int status, const char *why);

#endif
