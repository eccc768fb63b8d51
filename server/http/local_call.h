/* server/http/local_call.h - a call that comes from the server itself and has no socket.
 *
 * It is an exchange like any other: a head (http_request.h), a route, an owner, a body, and an
 * answer that is kept until its caller has it. Handlers treat it like a client's, and the access
 * log and the counters include it. Hosts, origins and content types are not checked; the route's
 * admission, with the owner's limits, applies. Its work has the lowest priority, whatever its body
 * says (http_call_is_local()).
 *
 * Answers are passed to `done` before the loop sleeps, never from within local_call_start().
 *
 * Thread: the loop's.
 * Memory: the call is its caller's; its head and its body are freed with the answer.
 */
#ifndef SERVER_HTTP_LOCAL_CALL_H
#define SERVER_HTTP_LOCAL_CALL_H

#include <uv.h>

#include "core/base/buf.h"
#include "core/base/list.h"

struct http_call;
struct http_shared;

struct local_calls { /* all local calls; zero is none */
    struct http_shared *http;
    struct list all, woken;
    uv_prepare_t before_sleep;
    uv_idle_t sleepless; /* runs while answers have not been passed to their callers */
    bool is_open;
};

void local_calls_start(struct local_calls *group, struct http_shared *http);
/* End all calls without calling `done`. The loop must run once more. */
void local_calls_stop(struct local_calls *group);

struct local_request {
    const char *path;   /* "/v1/completions", encoded, with a query or without */
    const char *tenant; /* tenant of the call if there are no keys; "" = none */
    const char *id;     /* X-Request-Id */
    const struct buf *body; /* copies */
    void *owner;      /* owner for http_call_set_owner(), taken on success; NULL: none */
    void (*release_owner)(void *owner);
    const char *owner_name;
    const void *context; /* returned by http_call_context(); NULL: none. It must live until `done`,
                          * or until all work that the call has begun has ended */
};

struct local_reply {
    int status;                /* 0: the answer was too large to be kept */
    struct buf *body;          /* valid until `done` returns; its bytes may be taken */
    uint32_t retry_after_s;    /* 0: no Retry-After */
    bool is_final;             /* a retry would not help */
};

struct local_call {
    /* Called exactly once, unless the call is cancelled before. The call may be freed or started
     * again in it. */
    void (*done)(struct local_call *c, const struct local_reply *reply);
    /* private */
    struct local_calls *group;
    struct list link, woken;
    char *texts; /* copies of the request's texts */
    struct http_call *call;
};

/* Start a POST; `done` must be set. ERR_INVAL: path, tenant or id is not valid in HTTP; ERR_NOENT:
 * no route has the path; ERR_NOMEM. */
int local_call_start(struct local_call *c, struct local_calls *group,
                     const struct local_request *r);
/* Cancel the call: its handler is told, as when a client disconnects, and `done` is not called. */
void local_call_cancel(struct local_call *c);

#endif
