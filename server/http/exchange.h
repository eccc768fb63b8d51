/* server/http/exchange.h - one request and its answer, as HTTP sees it; handlers use http_call.h.
 *
 * Life: created when a head is complete (or has failed), checked (head_check.h), fed with its body,
 * dispatched once when the request is complete, answered at once or later, ended by its client's
 * side when the last byte was sent or the client has disconnected. The client's side is a
 * connection, or a part of the server itself (local_call.h).
 *
 * Thread: the loop's.
 * Memory: see http.h.
 */
#ifndef SERVER_HTTP_EXCHANGE_H
#define SERVER_HTTP_EXCHANGE_H

#include "core/base/list.h"
#include "server/http/http_shared.h"
#include "server/http/http_request.h"

#define CALL_MAX_HEADERS 16

enum call_state {
    CALL_RECEIVING = 0, /* reads the body */
    CALL_WAITING,       /* dispatched; the handler owes an answer */
    CALL_REPLIED,       /* the whole answer is in `out` */
    CALL_STREAMING,     /* the handler may write more */
    CALL_ENDED,         /* the handler has written all */
    CALL_DEAD,          /* the connection is to be closed */
};

struct http_call {
    struct http_shared *http;
    void *client;              /* a connection, or a local call (local_call.h) */
    void (*wake)(void *client); /* called when the exchange has bytes to send, or its state has
                                 * changed */
    struct http_request request; /* the client's */
    bool is_trusted; /* its proxy headers are believed (proxy_headers.h) */
    void *owner;                       /* the owner of the call (http_call_set_owner()), or NULL;
                                        * passed to release_owner at the end */
    void (*release_owner)(void *owner);
    struct access *access;             /* reference to the record of the access log, or NULL */
    size_t route;                      /* index of the route; n_routes: no route takes the path */
    enum call_state state;
    bool has_head_sent; /* the answer has begun */
    bool is_local;      /* the server itself made the call: there is no connection */
    const void *context; /* pointer that a local call passes beside the request, or NULL */
    bool is_head;       /* the answer is sent without its body */
    bool is_owed;       /* counted in n_owed: the request is complete, the answer is not */
    bool is_discarding; /* the rest of the body is thrown away: it was refused */
    bool closes;        /* the connection ends with the answer */
    bool is_paused;     /* the client is not read until http_call_resume() */
    bool has_more;      /* bytes of an encoded body are decoded in the loop's next turn */
    int status;
    void (*render_error)(const struct api_error *e, struct buf *out); /* renders errors; NULL: the
                                                                       * route's function does */
    char type[64];
    char id[132];
    char *tail;     /* http_call_tail(), in the call's own allocation */
    char *query;    /* name NUL value NUL …, n_query pairs; or NULL */
    size_t n_query;
    struct buf body, out;
    size_t out_pos;      /* bytes of `out` that were passed to the connection */
    const struct body_encoding *encoding; /* of the body; NULL: it has none, or was decoded */
    struct body_decoder *decoder; /* NULL until the first bytes of an encoded body */
    uint64_t n_received; /* body bytes so far as they were sent, kept or not */
    uint64_t n_body;     /* body bytes that were kept so far, decoded */
    uint64_t n_kept;     /* body bytes in memory */
    uint64_t n_decoder;  /* bytes of the decoder */
    uint64_t n_held;     /* bytes that http_hold() has counted */
    uint64_t n_page;     /* a page's bytes, until the exchange ends (http_call_reply_page()) */
    uint64_t n_sent;     /* bytes of the answer's body that were sent */
    uint64_t arrival_us; /* when the request was complete */
    uint64_t blocked_us; /* time since which written bytes are unsent; 0 = all are sent */
    size_t n_headers;
    struct call_header {
        char name[32], value[256];
    } headers[CALL_MAX_HEADERS];
    void *received; /* http_call_set_received() */
    void (*gone)(void *ud);
    void *gone_ud;
    bool is_out_of_hands; /* the handler has answered completely, or was told that the call is
                           * gone */
    void (*room)(void *ud);
    void *room_ud;
};

/* Create an exchange; NULL: no memory. `request` may be a refused one; it is copied, and its texts
 * are borrowed until exchange_end(). */
struct http_call *exchange_create(struct http_shared *h, void *client, void (*wake)(void *client),
                                  const struct http_request *request);
/* Call the handler's `gone` if it still waits, count, log, and free. */
void exchange_end(struct http_call *c);

/* Refuse the request. A handler that has begun to receive the body is told that the call is gone,
 * the client gets the error, and the rest of the body is discarded. */
void exchange_refuse(struct http_call *c, int status, const char *code, const char *message);

/* Return the most bytes that the body may have, decoded; refuse a body that has more. */
uint64_t exchange_max_body(const struct http_call *c);
void exchange_refuse_body(struct http_call *c);
/* Take a piece of the body. *n becomes the number of its last bytes that were not taken, because
 * one call decodes a bounded number of bytes: the caller passes them again in the loop's next turn.
 * Negative: the body is so much too large that the answer must not wait for its end. */
int exchange_receive(struct http_call *c, const char *bytes, size_t *n);
/* Called when the last piece was taken: decode what is left of the body, and check that it is
 * whole. If `has_more` or `is_paused` is set afterwards, the caller calls again: in the loop's next
 * turn, or after http_call_resume(). */
void exchange_finish_body(struct http_call *c);

/* Called when the request is complete: call the route's handler, which answers now or later. */
void exchange_dispatch(struct http_call *c);

/* The exchange's route, or NULL. */
const struct http_route *exchange_route(const struct http_call *c);

/* Take the next bytes of the answer's body, `max` at most. 0: the answer is complete, or its
 * handler has to write more. */
size_t exchange_read(struct http_call *c, char *out, size_t max);
bool exchange_is_complete(const struct http_call *c);

/* ---- for http_call.c ---- */

/* A drained buffer larger than this is freed instead of kept for the next write. */
#define EXCHANGE_KEEPS ((size_t)64 << 10)

/* Called once for each exchange (asserted), when the handler has answered, aborted, or was told
 * that the client is gone: from then on it must not use the call. */
void exchange_take_from_handler(struct http_call *c);
/* Send a whole answer, or an error in the route's form. For a handler's answer, or for HTTP's own
 * after exchange_take_from_handler(). */
void exchange_answer(struct http_call *c, int status, const char *type,
                     struct buf *body /* takes */);
void exchange_answer_error(struct http_call *c, const struct api_error *e);

/* Update the counted memory (http_hold()) to the bytes that the body and the unsent answer take
 * now. */
void exchange_hold_memory(struct http_call *c);
void exchange_drop_owner(struct http_call *c);

#endif
