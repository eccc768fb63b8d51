/* server/call.h - one HTTP exchange from inside: shared by http.c and call.c only.
 *
 * Life: created at the first callback for a request, fed with its body, dispatched once when the
 * request is complete, answered at once or later, freed in MHD's completed callback.
 *
 * Thread: the loop's.
 * Memory: see http.h.
 */
#ifndef SERVER_CALL_H
#define SERVER_CALL_H

#include <microhttpd.h>

#include "core/base/list.h"
#include "server/door.h"
#include "server/http.h"
#include "server/peer.h"

#define CALL_MAX_HEADERS 16

enum call_state {
    CALL_RECEIVING = 0, /* headers or body */
    CALL_WAITING,       /* dispatched; the handler owes an answer */
    CALL_REPLIED,       /* the whole answer is in `out` */
    CALL_STREAMING,     /* more may come */
    CALL_ENDED,         /* nothing more will come */
    CALL_DEAD,          /* the connection is to be closed */
};

struct http_call {
    struct list link;
    struct http *http;
    struct door *door;
    struct MHD_Connection *mhd;
    struct key *key;       /* held, or NULL */
    struct access *access; /* its side of the log's line, or NULL */
    size_t route; /* n_routes when there is none */
    enum call_state state;
    bool is_suspended;
    bool is_queued;     /* MHD has the response */
    bool is_head;       /* the answer goes out without its body */
    bool is_owed;       /* counted: the request is complete, the answer is not */
    bool is_discarding; /* the body is of no interest: a refusal waits for its end */
    int status;
    char type[64];
    char id[132];
    char tail[260]; /* cut where no name is that long */
    struct buf body, out;
    size_t out_pos;      /* bytes of out that MHD has */
    uint64_t n_received; /* body bytes so far, kept or not */
    uint64_t n_kept;     /* of them in memory */
    uint64_t n_sent;     /* body bytes of the answer that MHD has */
    uint64_t blocked_us; /* since when `out` has not been empty; 0 = it is */
    size_t n_headers;
    struct {
        char name[32], value[160];
    } headers[CALL_MAX_HEADERS];
    void (*gone)(void *ud);
    void *gone_ud;
    struct peer *peer; /* NULL when it is not watched */
};

struct http_call *call_create(struct door *d, struct MHD_Connection *mhd, const char *method);
void call_destroy(struct http_call *c);

/* Hand the response to MHD; the state is REPLIED or later. */
enum MHD_Result call_queue_response(struct http_call *c);

void call_suspend(struct http_call *c);
void call_resume(struct http_call *c);

/* Tell the handler, if it still cares, and have the connection closed. */
void call_lose(struct http_call *c);

/* in http.c */
const struct http_route *http_route_of(const struct http_call *c); /* or NULL */
void http_forget_bytes(struct http *h, uint64_t n); /* of a body that has found an owner */
bool http_is_draining(const struct http *h);

#endif
