/* server/storage/request_restorer.h - restarts the requests of an earlier process.
 *
 * Each becomes a local call (http/local_call.h) with its old body, in the order of arrival; the
 * call's context is its struct saved_request, and it is answered as soon as it runs. A call that
 * gets 429 or 503 is tried again after 0.2 to 5 seconds. A request that is refused
 * is started once more without its tokens, which takes longer and has the same result. If that
 * fails it is lost, as is a request that this model would answer with other tokens (409); the log
 * has the reason.
 *
 * Thread: the loop's.
 * Memory: each request's records, until it runs.
 */
#ifndef SERVER_STORAGE_REQUEST_RESTORER_H
#define SERVER_STORAGE_REQUEST_RESTORER_H

#include <uv.h>

#include "server/http/local_call.h"
#include "server/storage/request_keeper.h"

struct key;
struct request_restorer; /* NULL: requests are not restored */

struct request_restorer_options {
    uv_loop_t *loop;
    struct request_keeper *keeper;
    /* Find the key with which a request was begun; NULL: it no longer exists. Borrowed. */
    struct key *(*find_key)(void *ud, const char *name);
    void *ud;
};

int request_restorer_create(struct request_restorer **out,
                            const struct request_restorer_options *options);
/* Start; called when the server accepts requests. */
void request_restorer_start(struct request_restorer *r, struct local_calls *calls);
/* Start no more requests: the next process restarts the rest. r may be NULL, also below. */
void request_restorer_drain(struct request_restorer *r);
/* Close the loop's handle; the loop must run once more. */
void request_restorer_stop(struct request_restorer *r);
/* Free the restorer; no work that a call has begun may still run. */
void request_restorer_destroy(struct request_restorer **r);

/* True: the owner's request with that id waits to be restarted. */
bool request_restorer_has(const struct request_restorer *r, const char *owner, const char *id);
/* True: a stream of the owner with that id or conversation (one of them is NULL) may appear soon:
 * in this process, or, if this one ends, in the next. */
bool request_restorer_expects(const struct request_restorer *r, const char *owner, const char *id,
                              const char *conversation);

#endif
