/* server/requests/request_restorer.h - requests of an earlier process begin again.
 *
 * Each is a local call (http/local_call.h) with the body that it had, in the order in which they
 * had come; the call's context is its struct saved_request, and it is answered as soon as it runs.
 * One that is turned away for now (429, 503) comes again, after 0.2 to 5 seconds. One that is
 * refused begins once more without its tokens, which takes longer and comes to the same; then it is
 * lost, as is one that this model would answer with other tokens (409), and the log says why.
 *
 * Thread: the loop's.
 * Memory: of each what it was, until it runs.
 */
#ifndef SERVER_REQUESTS_REQUEST_RESTORER_H
#define SERVER_REQUESTS_REQUEST_RESTORER_H

#include <uv.h>

#include "server/http/local_call.h"
#include "server/requests/request_keeper.h"

struct key;
struct request_restorer; /* NULL: there is no earlier process */

struct request_restorer_options {
    uv_loop_t *loop;
    struct request_keeper *keeper;
    /* Of a request that was begun with the key of that name; NULL: it is gone. Borrowed. */
    struct key *(*find_key)(void *ud, const char *name);
    void *ud;
};

int request_restorer_create(struct request_restorer **out,
                            const struct request_restorer_options *options);
/* Requests are taken. */
void request_restorer_start(struct request_restorer *r, struct local_calls *calls);
/* Nothing more begins: what is left is the next process's. NULL is allowed, as in the next ones. */
void request_restorer_drain(struct request_restorer *r);
/* Give back the loop's handle; the loop must run once more. */
void request_restorer_stop(struct request_restorer *r);
/* Nothing runs any more that a call has begun. */
void request_restorer_destroy(struct request_restorer **r);

/* Does the owner's request of that id wait to begin again? */
bool request_restorer_has(const struct request_restorer *r, const char *owner, const char *id);
/* May there soon be a stream of that id, or conversation (the other one NULL), of the owner's? In
 * this process, or, when this one comes to its end, in the next. */
bool request_restorer_expects(const struct request_restorer *r, const char *owner, const char *id,
                              const char *conversation);

#endif
