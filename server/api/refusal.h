/* server/api/refusal.h - the reason for which a call is refused, and when its client may retry.
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
    enum rejection reason; /* the reason that is counted */
    uint32_t retry_ms;     /* Retry-After; 0: not set */
    bool is_final;         /* a retry would not help: the answer has x-should-retry: false */
};

/* Count the refusal, and answer the call (NULL: its client has disconnected). A 429 or 503 without
 * Retry-After gets the one for n requests that follows from the engine's load. */
void refusal_send(struct refusal *r, struct engine_client *engine, struct http_call *call,
                  uint32_t n);

/* Answer with an error of a call that had begun. It is not counted as a refusal; a 429 or 503 gets
 * the Retry-After of one request. */
void refusal_reply_error(struct engine_client *engine, struct http_call *call,
                         const struct api_error *e);

/* Set the error of a call whose time is over: its whole time, or the time until its first step. */
void refusal_say_timeout(struct api_error *e);
void refusal_say_queue_timeout(struct api_error *e);

/* Count and answer a call for which there is no memory. */
void refusal_send_no_memory(struct engine_client *engine, struct http_call *call);

#endif
