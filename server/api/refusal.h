/* server/api/refusal.h - the reason why a call is refused, and when its client may come again.
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
    bool is_final;         /* another try would not help: x-should-retry says so */
};

/* Count the refusal, and answer the call; NULL: its client has gone. A 429 or 503 without
 * Retry-After gets the one that the engine's load gives to n requests. */
void refusal_send(struct refusal *r, struct engine_client *engine, struct http_call *call,
                  uint32_t n);

/* Answer with an error of work that had begun. It is not counted here; a 429 or 503 gets the
 * Retry-After of one request. */
void refusal_reply_error(struct engine_client *engine, struct http_call *call,
                         const struct api_error *e);

/* Set the error of a call whose time is over: all of it, or that until its first step. */
void refusal_say_timeout(struct api_error *e);
void refusal_say_queue_timeout(struct api_error *e);

/* Count and answer a call for which there is no memory. */
void refusal_send_no_memory(struct engine_client *engine, struct http_call *call);

#endif
