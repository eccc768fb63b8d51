/* server/http/http_call.h - one exchange, as its handler sees it: the request, and the answer.
 *
 * A route's handler either answers before it returns or keeps the pointer, and answers later on the
 * same thread; http_call_on_gone() tells when it may not be touched any more.
 *
 * Thread: the loop's.
 * Memory: the call's end frees it: http_call_reply(), _end() or _abort(), or its client's leaving.
 */
#ifndef SERVER_HTTP_HTTP_CALL_H
#define SERVER_HTTP_HTTP_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/http/error.h"

#define HTTP_MAX_BACKLOG ((size_t)1 << 20) /* unsent bytes after which a reader is too slow */
/* A single reply: echo of a long prompt with logprobs. */
#define HTTP_MAX_REPLY ((size_t)256 << 20)

/* The largest body that a handler may parse on the loop's thread. */
#define HTTP_SMALL_BODY ((size_t)8 << 10)

enum http_methods {
    HTTP_GET = 1u << 0, /* and HEAD */
    HTTP_POST = 1u << 1,
    HTTP_DELETE = 1u << 2,
};

struct access;
struct http_call;

struct http_route {
    const char *path; /* "/v1/models"; with a slash at the end it takes whatever follows, "/" itself
                       * nothing; a star stands for one part, between slashes */
    unsigned methods; /* enum http_methods; GET's body is read and forgotten */
    void (*handle)(void *ud, struct http_call *call);
    const void *arg; /* http_call_arg() */
    size_t max_body; /* of a POST's body; 0: the setting max_body. The handler may parse it on the
                      * loop's thread where this is HTTP_SMALL_BODY at most. */
    /* How its errors look; NULL: as everybody's (api_error_render). */
    void (*render_error)(const struct api_error *e, struct buf *out);
    unsigned flags; /* for admit() */
    const char *also; /* other paths of it, with blanks between; NULL or "": none */
    const char *id_header; /* another name that its answers give X-Request-Id; NULL: none */
    bool takes_any_type;   /* of a body that no page sends (head_check.h) */
    /* NULL: a body waits in memory for its end (max_body). Else it may have max_upload bytes, and
     * this is called whenever some have come: it takes them (http_call_take_body), and pauses the
     * client until they have been dealt with. `handle` follows behind the last of them. */
    void (*receive)(void *ud, struct http_call *call);
};

/* Is it one of the server's own (local_call.h)? */
bool http_call_is_local(const struct http_call *c);
/* What such a one says beside its request (local_request.context); NULL, as for any stranger. */
const void *http_call_context(const struct http_call *c);
const char *http_call_path(const struct http_call *c); /* decoded, without the query */
const char *http_call_id(const struct http_call *c);                       /* X-Request-Id */
const char *http_call_header(const struct http_call *c, const char *name); /* or NULL */
/* Of ?name=value in the path, or NULL. */
const char *http_call_query(const struct http_call *c, const char *name);
/* The part of the path behind the route's own, or in the place of its star; it is never cut. */
const char *http_call_tail(const struct http_call *c);
/* To be asked until the handler returns. */
bool http_call_is(const struct http_call *c, enum http_methods method);
const void *http_call_arg(const struct http_call *c);  /* its route's */

/* The body, still the call's. */
const struct buf *http_call_body(const struct http_call *c);
/* The body, empty afterwards; the caller releases it, or gives it back. */
struct buf http_call_take_body(struct http_call *c);
void http_call_give_body(struct http_call *c, struct buf *body /* takes */);

/* Of a route with `receive`: no more of the body is read until http_call_resume(). */
void http_call_pause(struct http_call *c);
void http_call_resume(struct http_call *c);
/* What `receive` leaves for `handle`: NULL until it is set. */
void http_call_set_received(struct http_call *c, void *received);
void *http_call_received(const struct http_call *c);

/* Whose exchange it is; NULL: not known yet, or there are no keys. The call takes the owner
 * and gives it to `release` at its end; the log has the name, as the key. */
void http_call_set_owner(struct http_call *c, void *owner, void (*release)(void *owner),
                         const char *name);
void *http_call_owner(const struct http_call *c);

/* The exchange's line in the log, which a job for it may hold (access_log.h); or NULL. */
struct access *http_call_access(const struct http_call *c);

/* When the request was complete, clock_us(). */
uint64_t http_call_arrival_us(const struct http_call *c);

/* Since when the client's socket has not taken all that was written, clock_us(); 0: it has. */
uint64_t http_call_blocked_since(const struct http_call *c);

/* How the call's errors look, in place of its route's render_error. */
void http_call_render_errors(struct http_call *c,
                             void (*render)(const struct api_error *e, struct buf *out));

/* Add a header to the answer to come; both are copied. One that has no room (at most 16, values of
 * 255 bytes) is left out whole, with a line in the log: callers stay below that. */
void http_call_set_header(struct http_call *c, const char *name, const char *value);

/* `gone` is called once if the client is gone before the answer is complete, or HTTP has answered
 * itself (a body that is malformed, too long or too slow); then the call must not be used any more.
 */
void http_call_on_gone(struct http_call *c, void (*gone)(void *ud), void *ud);

/* Answer with a whole body; `type` may be "" where there is none. The call is over for the
 * handler. */
void http_call_reply(struct http_call *c, int status, const char *type,
                     struct buf *body /* takes */);
/* The same for a page that may be asked for again, with 200. One of more than 16 KiB is a 429 where
 * pages of 16 MiB wait for their clients to read them, and a quarter of the memory for requests. */
void http_call_reply_page(struct http_call *c, const char *type, struct buf *body /* takes */);
void http_call_reply_error(struct http_call *c, const struct api_error *e);

/* Answer with a stream: 200, then writes, then the end. */
void http_call_stream(struct http_call *c, const char *type);
/* Of what was written, the bytes that the connection has not taken. */
size_t http_call_n_waiting(const struct http_call *c);
/* `room` is called, until the stream's end, when the connection has taken all that was written and
 * could take more: it may write or end, but not abort. */
void http_call_on_room(struct http_call *c, void (*room)(void *ud), void *ud);
/* 0; ERR_LIMIT: the reader is too slow, ERR_NOMEM. The caller then aborts. */
int http_call_write(struct http_call *c, const void *bytes, size_t n); /* copies */
void http_call_end(struct http_call *c);
/* Close the connection without a proper end. The call is over for the handler. */
void http_call_abort(struct http_call *c);

#endif
