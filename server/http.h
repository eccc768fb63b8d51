/* server/http.h - HTTP/1.1: libmicrohttpd inside the server's libuv loop.
 *
 * MHD has no thread here. Its epoll descriptor is polled by the loop, its timeout is a loop timer,
 * and a connection that has nothing to say is suspended: it costs nothing until something resumes
 * it. A suspended connection does not notice its client's end, so the loop watches every socket
 * itself (peer.h).
 *
 * What counts as gone: a reset, and the end of the client's sending side (EPOLLRDHUP). Half-closed
 * and closed look the same to a server that has not yet sent anything, and clients that half-close
 * but still want their answer are as good as extinct, while a request computed for nobody takes
 * somebody else's time. So a FIN after the request means gone. Answers that need no waiting
 * (health, metrics, errors) are sent all the same.
 *
 * One exchange is an http_call. Its handler either answers before it returns or keeps the
 * pointer, and answers later on the same thread; http_call_on_gone() tells when it may not be
 * touched any more.
 *
 * Thread: the loop's.
 * Memory: per connection 64 KiB of MHD's pool, a body of at most max_body, and what waits to be
 *         sent: one reply, or a backlog that ends the stream once it exceeds HTTP_MAX_BACKLOG.
 */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/buf.h"
#include "server/error.h"

#define HTTP_MAX_HEADER ((size_t)16 << 10) /* request line and headers; more is a 431 */
#define HTTP_MAX_BACKLOG ((size_t)1 << 20) /* unsent bytes after which a reader is too slow */
#define HTTP_MAX_REPLY                                                                             \
    ((size_t)256 << 20) /* a single reply: echo of a long prompt with logprobs                     \
                         */

enum http_methods {
    HTTP_GET = 1u << 0, /* and HEAD */
    HTTP_POST = 1u << 1,
};

struct http_call;

struct http_route {
    const char *path; /* "/v1/models"; with a slash at the end it takes whatever follows */
    enum http_methods method;
    void (*handle)(void *ud, struct http_call *call);
    /* How its errors look; NULL: as everybody's (api_error_render). */
    void (*render_error)(const struct api_error *e, struct buf *out);
};

struct http_options {
    uv_loop_t *loop;
    const char *host;
    uint16_t port;
    size_t max_body;
    uint32_t max_connections;        /* lowered to what the descriptor limit allows */
    uint32_t idle_timeout_s;         /* a connection on which nothing moves */
    const struct http_route *routes; /* [n_routes], borrowed */
    size_t n_routes;
    void *ud; /* for the handlers and done() */
    /* An exchange is over; route n_routes stands for a path that nobody has. */
    void (*done)(void *ud, size_t route, int status);
};

struct http;

/* Bind and listen. A sentence in `err` when that fails. */
int http_create(struct http **out, const struct http_options *options, char *err, size_t err_len);
uint16_t http_port(const struct http *h);

/* Start and stop taking part in the loop. http_stop() ends every connection, answered or not; the
 * loop must run once more before http_destroy(). */
void http_start(struct http *h);
void http_drain(struct http *h); /* from now on each answer is its connection's last */
void http_stop(struct http *h);
void http_destroy(struct http **h);

/* Let MHD act on what was written or resumed since it last ran. To be called at the end of a loop
 * callback in which calls were answered; inside a handler it does nothing. */
void http_kick(struct http *h);

uint32_t http_n_connections(const struct http *h);
uint32_t http_n_owed(const struct http *h); /* complete requests whose answers are not */

/* ---- one exchange ---- */

const char *http_call_id(const struct http_call *c);                       /* X-Request-Id */
const char *http_call_header(const struct http_call *c, const char *name); /* or NULL */
const char *http_call_tail(const struct http_call *c); /* what follows the route's path */

/* The body, empty afterwards; the caller releases it. */
struct buf http_call_take_body(struct http_call *c);

/* Add a header to the answer to come (at most 8; both are copied). */
void http_call_set_header(struct http_call *c, const char *name, const char *value);

/* `gone` is called once if the client is gone before the answer is complete; then the call must
 * not be used any more. */
void http_call_on_gone(struct http_call *c, void (*gone)(void *ud), void *ud);

/* Answer with a whole body. The call is over for the handler. */
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
