/* server/http/http_call.h - the request and the answer, as a route's handler uses them.
 *
 * A route's handler either answers before it returns, or keeps the pointer and answers later on the
 * same thread; http_call_on_gone() reports when the call must not be touched any more.
 *
 * Thread: the loop's.
 * Memory: a call is freed when it ends: by http_call_reply(), _end() or _abort(), or a disconnect.
 */
#ifndef SERVER_HTTP_HTTP_CALL_H
#define SERVER_HTTP_HTTP_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/http/error.h"

#define HTTP_MAX_BACKLOG ((size_t)1 << 20) /* with more unsent bytes the client reads too slowly */
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
    const char *path; /* "/v1/models"; with a slash at the end it matches all longer paths ("/"
                       * alone only itself); a star matches one part, between slashes */
    unsigned methods; /* enum http_methods; a GET's body is read and dropped */
    void (*handle)(void *ud, struct http_call *call);
    const void *arg; /* http_call_arg() */
    size_t max_body; /* most bytes of a POST's body; 0: the setting max_body. The handler may parse
                      * it on the loop's thread if this is HTTP_SMALL_BODY at most. */
    /* Renders the route's errors; NULL: api_error_render(). */
    void (*render_error)(const struct api_error *e, struct buf *out);
    unsigned flags; /* for admit() */
    const char *also; /* further paths of the route, separated by blanks; NULL or "": none */
    const char *id_header; /* second header that carries the request id in the route's answers;
                            * NULL: none */
    bool takes_any_type;   /* any Content-Type is accepted, if no web page sends the request
                            * (head_check.h) */
    /* NULL: the body is kept in memory until it is complete (max_body). Else it may have max_upload
     * bytes, and `receive` is called whenever some have come: it takes them (http_call_take_body),
     * and pauses the client until it is ready for more. `handle` is called after the last bytes. */
    void (*receive)(void *ud, struct http_call *call);
};

/* True: the server itself made the call (local_call.h). */
bool http_call_is_local(const struct http_call *c);
/* Returns the pointer that a local call passes beside its request (local_request.context); NULL for
 * clients' calls. */
const void *http_call_context(const struct http_call *c);
const char *http_call_path(const struct http_call *c); /* decoded, without the query */
const char *http_call_id(const struct http_call *c);                       /* X-Request-Id */
const char *http_call_header(const struct http_call *c, const char *name); /* or NULL */
/* Return the value of ?name=value in the path, or NULL. */
const char *http_call_query(const struct http_call *c, const char *name);
/* Return the part of the path after the route's path, or in the place of its star; never cut. */
const char *http_call_tail(const struct http_call *c);
/* True: the request has that method. Only valid until the handler returns. */
bool http_call_is(const struct http_call *c, enum http_methods method);
const void *http_call_arg(const struct http_call *c);  /* its route's */

/* Return the body, which the call still owns. */
const struct buf *http_call_body(const struct http_call *c);
/* Parse the body on the loop's thread. The route must limit it to HTTP_SMALL_BODY, which is
 * asserted. 0: *out is to be deleted; or a negative ERR_* with *e filled. */
int http_call_json(const struct http_call *c, struct cJSON **out, struct api_error *e);
/* Take the body, so that the call has none; the caller releases it, or gives it back. */
struct buf http_call_take_body(struct http_call *c);
void http_call_give_body(struct http_call *c, struct buf *body /* takes */);

/* For a route with `receive`: read no more of the body until http_call_resume(). */
void http_call_pause(struct http_call *c);
void http_call_resume(struct http_call *c);
/* Set a pointer that `receive` passes to `handle`; NULL until it is set. */
void http_call_set_received(struct http_call *c, void *received);
void *http_call_received(const struct http_call *c);

/* Set the owner of the call; NULL: not known yet, or there are no keys. The call passes the owner
 * to `release` at its end; the access log has the name, as the key. */
void http_call_set_owner(struct http_call *c, void *owner, void (*release)(void *owner),
                         const char *name);
void *http_call_owner(const struct http_call *c);

/* Return the call's record in the access log, to which a job may take a reference (access_log.h);
 * or NULL. */
struct access *http_call_access(const struct http_call *c);

/* Return the clock_us() at which the request was complete. */
uint64_t http_call_arrival_us(const struct http_call *c);

/* Return the clock_us() since which the client's socket has not taken all written bytes; 0: it has
 * taken all. */
uint64_t http_call_blocked_since(const struct http_call *c);

/* Render the call's errors with `render` instead of its route's render_error. */
void http_call_render_errors(struct http_call *c,
                             void (*render)(const struct api_error *e, struct buf *out));

/* Add a header to the answer, before it is sent; both texts are copied. A header that does not fit
 * (at most 16, values of 255 bytes) is left out and logged: callers stay within these limits. */
void http_call_set_header(struct http_call *c, const char *name, const char *value);

/* Set the callback `gone`: it is called once if the client disconnects before the answer is
 * complete, or if HTTP has answered by itself (a body that is malformed, too long or too slow).
 * Afterwards the call must not be used. */
void http_call_on_gone(struct http_call *c, void (*gone)(void *ud), void *ud);

/* Answer with a whole body; `type` may be "" for an empty one. The handler must not use the call
 * afterwards. */
void http_call_reply(struct http_call *c, int status, const char *type,
                     struct buf *body /* takes */);
/* Answer with a page (status 200), which clients can request again. A page of more than 16 KiB
 * becomes a 429 when 16 MiB of pages wait for their clients to read them, and a quarter of
 * request_memory is in use. */
void http_call_reply_page(struct http_call *c, const char *type, struct buf *body /* takes */);
void http_call_reply_error(struct http_call *c, const struct api_error *e);

/* Begin a stream: status 200; writes follow, and then http_call_end(). */
void http_call_stream(struct http_call *c, const char *type);
/* Count the written bytes that the connection has not taken yet. */
size_t http_call_n_waiting(const struct http_call *c);
/* Set the callback `room`: until the stream's end it is called when the connection has taken all
 * written bytes. It may write or end, but not abort. */
void http_call_on_room(struct http_call *c, void (*room)(void *ud), void *ud);
/* Write bytes of a stream. ERR_LIMIT: the client reads too slowly; ERR_NOMEM. After an error the
 * caller aborts. */
int http_call_write(struct http_call *c, const void *bytes, size_t n); /* copies */
void http_call_end(struct http_call *c);
/* Close the connection without ending the answer. The handler must not use the call afterwards. */
void http_call_abort(struct http_call *c);

#endif
