/* server/http/http.h - HTTP/1.1, plain or over TLS, inside the server's libuv loop.
 *
 * A connection (connection.h) is read while a request comes in, and only watched for its client's
 * end while the answer is made: what the client sends meanwhile stays in the kernel. What is no
 * request of RFC 9112 to the letter is refused, and its connection closed (http_parser.h).
 *
 * What counts as gone: a reset, and the end of the client's sending side (EPOLLRDHUP). Half-closed
 * and closed look the same to a server that has not yet sent anything. Clients that half-close but
 * still want their answer hardly exist, and computing for a client that has left would take time
 * from the others: so a FIN after the request means gone. Answers that need no waiting
 * (health, metrics, errors) are sent all the same.
 *
 * Connections have slots. When all are taken, a new client takes the slot of the connection that
 * has been idle for longest, else of the oldest whose head is incomplete, else of a body that comes
 * too slowly, else of the reader that has been blocking for longest. Where there is none of these,
 * a few reserved slots answer the routes with one of the `reserved_flags`, and 503 to all else.
 *
 * One exchange is an http_call. Its handler either answers before it returns or keeps the
 * pointer, and answers later on the same thread; http_call_on_gone() tells when it may not be
 * touched any more.
 *
 * Thread: the loop's. What was written is sent before the loop sleeps again.
 * Memory: per connection 1 KiB; with a request its head of at most 16 KiB, a body of at most
 *         max_body, 64 KiB of what came behind it, and what waits to be sent: one reply, or a
 *         backlog that ends the stream once it exceeds HTTP_MAX_BACKLOG. A connection over TLS
 *         has some 40 KiB of GnuTLS's beside.
 */
#ifndef SERVER_HTTP_HTTP_H
#define SERVER_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/buf.h"
#include "server/http/error.h"

#define HTTP_MAX_BACKLOG ((size_t)1 << 20) /* unsent bytes after which a reader is too slow */
/* A single reply: echo of a long prompt with logprobs. */
#define HTTP_MAX_REPLY ((size_t)256 << 20)

enum http_methods {
    HTTP_GET = 1u << 0, /* and HEAD */
    HTTP_POST = 1u << 1,
};

struct access;
struct http_call;
struct tls;

struct http_route {
    const char *path; /* "/v1/models"; with a slash at the end it takes whatever follows */
    enum http_methods method;
    void (*handle)(void *ud, struct http_call *call);
    /* How its errors look; NULL: as everybody's (api_error_render). */
    void (*render_error)(const struct api_error *e, struct buf *out);
    unsigned flags; /* for admit() */
};

/* What is turned away before a route sees it: XX(NAME, label) */
#define HTTP_EDGE(XX)                                                                              \
    XX(MALFORMED, "malformed")             /* no request of RFC 9112 */                            \
    XX(HOST, "host")                       /* 403: not one of allowed_hosts */                     \
    XX(ORIGIN, "origin")                   /* 403: a page of another origin */                     \
    XX(HANDSHAKE, "handshake")             /* TLS that did not come to be */                       \
    XX(HEADER_TIMEOUT, "header_timeout")   /* no head in time */                                   \
    XX(BODY_TIMEOUT, "body_timeout")       /* 408: slower than min_body_rate */                    \
    XX(READER_TIMEOUT, "reader_timeout")   /* a reader, the same */                                \
    XX(ADDRESS, "address")                 /* too many of one address */                           \
    XX(FULL, "full")                       /* 503 or closed: no slot  */                           \
    XX(DESCRIPTORS, "descriptors")         /* no descriptor for it */                              \
    XX(EVICTED_IDLE, "evicted_idle")       /* made room for a new client */                        \
    XX(EVICTED_HEAD, "evicted_head")                                                               \
    XX(EVICTED_BODY, "evicted_body")                                                               \
    XX(EVICTED_READER, "evicted_reader")
enum http_edge {
#define XX(name, label) HTTP_EDGE_##name,
    HTTP_EDGE(XX)
#undef XX
        HTTP_EDGE_COUNT
};

struct http_options {
    uv_loop_t *loop;
    const char *host; /* "" = no TCP */
    uint16_t port;
    struct tls *tls;       /* for TCP; NULL = plain */
    const char *unix_path; /* a Unix socket beside it or instead; "" = none */
    unsigned unix_mode;    /* its permissions */
    size_t max_body;
    uint32_t max_connections; /* of all sockets, lowered to what the descriptors allow */
    uint32_t max_connections_per_address; /* 0 = half of them; loopback and the Unix socket: all */
    uint32_t n_other_fds;   /* that the process may open beside what is open now */
    uint32_t header_timeout_s; /* for a head, a handshake included */
    uint32_t idle_timeout_s;   /* between two requests; and for a reader that takes nothing */
    uint32_t min_body_rate;    /* bytes per second, of bodies and of readers; 0 = any */
    const char *allowed_hosts; /* checked (config/hosts.h); "" = as http.h says for loopback */
    const char *tenant_header; /* may stand in a request once; "" = none */
    const struct http_route *routes; /* [n_routes], borrowed */
    size_t n_routes;
    const char *cors_origins; /* checked; "" = no web page may call (cors.h) */
    unsigned reserved_flags;  /* of routes that are answered when all slots are taken */
    void *ud;                 /* for the handlers and what follows */
    /* Bodies and unsent answers take so many bytes more, or less. False: there is no room, which
     * only matters with may_refuse. NULL: it is not counted. */
    bool (*hold)(void *ud, int64_t bytes, bool may_refuse);
    /* May the call go on, as far as its head shows? If not, a refusal has been given as the answer
     * and the result is negative. */
    int (*admit)(void *ud, struct http_call *call, unsigned flags);
    /* An exchange is over; route n_routes stands for an unknown path. */
    void (*done)(void *ud, size_t route, int status);
};

struct http;

/* Bind and listen. A sentence in `err` when that fails. */
int http_create(struct http **out, const struct http_options *options, char *err, size_t err_len);
uint16_t http_port(const struct http *h); /* of TCP; 0 = there is none */

/* Start and stop taking part in the loop. http_stop() ends every connection, answered or not; the
 * loop must run once more before http_destroy(). */
void http_start(struct http *h);
void http_drain(struct http *h); /* from now on each answer is its connection's last */
void http_stop(struct http *h);
void http_destroy(struct http **h);

uint32_t http_n_connections(const struct http *h);
uint32_t http_n_owed(const struct http *h); /* complete requests whose answers are not */
const uint64_t *http_edge_counts(const struct http *h); /* [HTTP_EDGE_COUNT] */

/* ---- one exchange ---- */

const char *http_call_id(const struct http_call *c);                       /* X-Request-Id */
const char *http_call_header(const struct http_call *c, const char *name); /* or NULL */
/* Of ?name=value in the path, or NULL. */
const char *http_call_query(const struct http_call *c, const char *name);
const char *http_call_tail(const struct http_call *c); /* what follows the route's path */

/* The body, still the call's. */
const struct buf *http_call_body(const struct http_call *c);
/* The body, empty afterwards; the caller releases it. */
struct buf http_call_take_body(struct http_call *c);

/* Whose exchange it is; NULL: not known yet, or there are no keys. The call takes the owner
 * and gives it to `release` at its end; the log has the name, as the key. */
void http_call_set_owner(struct http_call *c, void *owner, void (*release)(void *owner),
                         const char *name);
void *http_call_owner(const struct http_call *c);

/* The exchange's line in the log, which a job for it may hold (access_log.h); or NULL. */
struct access *http_call_access(const struct http_call *c);

/* Since when the client's socket has not taken all that was written, clock_us(); 0: it has. */
uint64_t http_call_blocked_since(const struct http_call *c);

/* Add a header to the answer to come (at most 16; both are copied). */
void http_call_set_header(struct http_call *c, const char *name, const char *value);

/* `gone` is called once if the client is gone before the answer is complete; then the call must
 * not be used any more. */
void http_call_on_gone(struct http_call *c, void (*gone)(void *ud), void *ud);

/* Answer with a whole body; `type` may be "" where there is none. The call is over for the
 * handler. */
void http_call_reply(struct http_call *c, int status, const char *type,
                     struct buf *body /* takes */);
void http_call_reply_error(struct http_call *c, const struct api_error *e);

/* Answer with a stream: 200, then writes, then the end. */
void http_call_stream(struct http_call *c, const char *type);
/* 0; ERR_LIMIT: the reader is too slow, ERR_NOMEM. The caller then aborts. */
int http_call_write(struct http_call *c, const void *bytes, size_t n); /* copies */
void http_call_end(struct http_call *c);
/* Close the connection without a proper end. The call is over for the handler. */
void http_call_abort(struct http_call *c);

#endif
