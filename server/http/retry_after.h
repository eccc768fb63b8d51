/* server/http/retry_after.h - the headers that tell a refused client when to retry.
 *
 * Retry-After in seconds, rounded up (RFC 9110, section 10.2.3); retry-after-ms and x-should-retry
 * are read by the clients of OpenAI and Anthropic.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_HTTP_RETRY_AFTER_H
#define SERVER_HTTP_RETRY_AFTER_H

#include <stdint.h>

struct http_call;

#define RETRY_AFTER_MIN_MS 50u
/* The longest time that a client is told to wait: an estimate of a later time would be too
 * uncertain. */
#define RETRY_AFTER_MAX_MS 60000u

/* Return `ms`, raised or lowered into the limits of Retry-After. */
uint32_t retry_after_bound(uint64_t ms);

/* Set the headers of an answer that has not been sent yet. */
void retry_after_set(struct http_call *call, uint32_t ms);

#endif
