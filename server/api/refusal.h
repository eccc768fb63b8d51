/* server/api/refusal.h - why a call is not taken up, and when its client may come again.
 *
 * Thread: the loop's.
 * Memory: plain data.
 */
#ifndef SERVER_API_REFUSAL_H
#define SERVER_API_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "server/http/error.h"
#include "server/metrics/metrics.h"

struct engine_client;
struct http_call;

struct refusal {
    struct api_error error;
    enum rejection reason; /* that is counted */
    uint32_t retry_ms;     /* Retry-After; 0: nothing is said */
    bool is_final;         /* coming again would not help: x-should-retry says so */
};

/* With the Retry-After that the engine's load gives to n requests, where the error is a 429 or 503
 * and none was set. Count it, and answer the call; NULL: its client has gone. */
void refusal_send(struct refusal *r, struct engine_client *engine, struct http_call *call,
                  uint32_t n);

/* Answer with an error of work that had begun: not counted here; a 429 or 503 gets its Retry-After,
 * as for one request. */
void refusal_reply_error(struct engine_client *engine, struct http_call *call,
                         const struct api_error *e);

/* What a call is told whose time is over: altogether, or for coming to its first step. */
void refusal_say_timeout(struct api_error *e);
void refusal_say_queue_timeout(struct api_error *e);

/* There was no memory to begin with a call. */
void refusal_send_no_memory(struct engine_client *engine, struct http_call *call);

#endif
