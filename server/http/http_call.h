/* server/http/http_call.h - one exchange, as its handler sees it: the request, and the answer.
 *
 * A route's handler either answers before it returns, or keeps the pointer and answers later on the
 * same thread; http_call_on_gone() reports when the call must not be touched any more.
 *
 * Thread: the loop's.
 * Memory: the call's end frees it: http_call_reply(), _end() or _abort(), or a disconnect.
 */
#ifndef SERVER_HTTP_HTTP_CALL_H
#define SERVER_HTTP_HTTP_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/http/error.h"

#define HTTP_MAX_BACKLOG ((size_t)1 << 20) /* unsent bytes after which a reader is too slow */
/* Largest single reply: the echo of a long prompt with logprobs. */
#define HTTP_MAX_REPLY ((size_t)256 << 20)

/* The largest body that a handler may parse on the loop's thread. */
#define HTTP_SMALL_BODY ((size_t)8 << 10)

enum http_methods {
    HTTP_GET = 1u << 0, /* and HEAD */
    HTTP_POST = 1u << 1,
    HTTP_DELETE = 1u << 2,
};

struct access;
struct cJSON;
struct http_call;

struct http_route {
    const char *path; /* "/v1/models"; with a slash at the end it takes whatever follows, "/" itself
                       * nothing; a star matches one part, between slashes */
    unsigned methods; /* enum http_methods; a GET's body is read and dropped */
    void (*handle)(void *ud, struct http_call *call);
    const void *arg; /* http_call_arg() */
    size_t max_body; /* limit of a POST's body; 0: the setting max_body. The handler may parse it on
                      * the loop's thread if this is HTTP_SMALL_BODY at most. */
    /* Renders its errors; NULL: api_error_render(). */
    void (*render_error)(const struct api_error *e, struct buf *out);
    unsigned flags; /* for admit() */
    const char *also; /* further paths, separated by blanks; NULL or "": none */
    const char *id_header; /* a second name for X-Request-Id in its answers; NULL: none */
    bool takes_any_type;   /* any Content-Type, if no web page sends it (head_check.h) */
    /* NULL: a body waits in memory for its end (max_body). Else it may have max_upload bytes, and
     * this is called whenever some have come: it takes them (http_call_take_body), and pauses the
     * client until it is ready for more. `handle` is called after the last of them. */
    void (*receive)(void *ud, struct http_call *call);
};

/* Whether the server itself made the call (local_call.h). */
bool http_call_is_local(const struct http_call *c);
/* Returns the pointer that a local call passes beside its request (local_request.context); NULL for
 * clients' calls. */
const void *http_call_context(const struct http_call *c);
const char *http_call_path(const struct http_call *c); /* decoded, without the query */
const char *http_call_id(const struct http_call *c);                       /* X-Request-Id */
const char *http_call_header(const struct http_call *c, const char *name); /* or NULL */
/* The value of ?name=value in the path, or NULL. */
const char *http_call_query(const struct http_call *c, const char *name);
/* The part of the path after the route's own, or in the place of its star; it is never cut. */
const char *http_call_tail(const struct http_call *c);
/* Only valid until the handler returns. */
bool http_call_is(const struct http_call *c, enum http_methods method);
const void *http_call_arg(const struct http_call *c);  /* its route's */

/* The body, which the call still owns. */
const struct buf *http_call_body(const struct http_call *c);
/* Parse the body on the loop's thread. The route must limit it to HTTP_SMALL_BODY, which is
 * asserted. 0: *out is to be deleted; or a negative ERR_* with *e filled. */
int http_call_json(const struct http_call *c, struct cJSON **out, struct api_error *e);
/* Take the body, which is empty afterwards; the caller releases it, or gives it back. */
struct buf http_call_take_body(struct http_call *c);
void http_call_give_body(struct http_call *c, struct buf *body /* takes */);

/* For a route with `receive`: read no more of the body until http_call_resume(). */
void http_call_pause(struct http_call *c);
void http_call_resume(struct http_call *c);
/* A pointer that `receive` leaves for `handle`; NULL until it is set. */
void http_call_set_received(struct http_call *c, void *received);
void *http_call_received(const struct http_call *c);

/* The owner of the exchange; NULL: not known yet, or there are no keys. The call takes the owner
 * and passes it to `release` at its end; the log has the name, as the key. */
void http_call_set_owner(struct http_call *c, void *owner, void (*release)(void *owner),
                         const char *name);
void *http_call_owner(const struct http_call *c);

/* The exchange's record of the log, which a job for it may hold (access_log.h); or NULL. */
struct access *http_call_access(const struct http_call *c);

/* When the request was complete, clock_us(). */
uint64_t http_call_arrival_us(const struct http_call *c);

/* Since when the client's socket has not taken all that was written, clock_us(); 0: it has. */
uint64_t http_call_blocked_since(const struct http_call *c);

/* Render the call's errors with `render` instead of its route's render_error. */
void http_call_render_errors(struct http_call *c,
                             void (*render)(const struct api_error *e, struct buf *out));

/* Add a header to the answer to come; both texts are copied. A header that does not fit (at most
 * 16, values of 255 bytes) is left out whole and logged: callers stay below that. */
void http_call_set_header(struct http_call *c, const char *name, const char *value);

/* `gone` is called once if the client disconnects before the answer is complete, or HTTP has
 * answered by itself (a body that is malformed, too long or too slow); then the call must not be
 * used any more. */
void http_call_on_gone(struct http_call *c, void (*gone)(void *ud), void *ud);

/* Answer with a whole body; `type` may be "" for an empty one. The handler must not use the call
 * afterwards. */
void http_call_reply(struct http_call *c, int status, const char *type,
                     struct buf *body /* takes */);
/* Answer with a page (status 200) that clients may ask for again. A page of more than 16 KiB
 * becomes a 429 when 16 MiB of pages wait for their clients to read them, and a quarter of
 * request_memory is in use. */
void http_call_reply_page(struct http_call *c, const char *type, struct buf *body /* takes */);
void http_call_reply_error(struct http_call *c, const struct api_error *e);

/* Answer with a stream: 200, then writes, then the end. */
void http_call_stream(struct http_call *c, const char *type);
/* Bytes that were written and the connection has not taken yet. */
size_t http_call_n_waiting(const struct http_call *c);
/* `room` is called, until the stream's end, when the connection has taken all that was written and
 * could take more: it may write or end, but not abort. */
void http_call_on_room(struct http_call *c, void (*room)(void *ud), void *ud);
/* 0; ERR_LIMIT: the reader is too slow, ERR_NOMEM. The caller then aborts. */
int http_call_write(struct http_call *c, const void *bytes, size_t n); /* copies */
void http_call_end(struct http_call *c);
/* Close the connection without a proper end. The handler must not use the call afterwards. */
void http_call_abort(struct http_call *c);

#endif
