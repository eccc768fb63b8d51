/* server/completion.h - POST /v1/completions, from the body to the last byte.
 *
 * body -> JSON -> params -> tokens -> requests: a pure function of the body, done on the loop for
 * short bodies and by uv_queue_work() for long ones. Then all requests are posted or none. Events
 * come back through the desk until every choice has ended; a completion outlives its client until
 * then, because the engine still owes its ends.
 *
 * Thread: the loop's, except the preparation.
 * Memory: bounded by max_body, by 128 choices of at most max_context tokens, and by http.h's
 *         limits on what waits to be sent.
 */
#ifndef SERVER_COMPLETION_H
#define SERVER_COMPLETION_H

#include <stdint.h>

#include "scheduler/queue.h"

struct completion;
struct desk;
struct http_call;

/* The body of the call is complete: answer it, now or later. */
void completion_start(struct desk *d, struct http_call *call);

/* From the desk: an event of a choice. After the last EVENT_END the completion is freed. */
void completion_event(struct completion *c, uint32_t choice, const struct event *e);

#endif
