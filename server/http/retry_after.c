/* server/http/retry_after.c - see retry_after.h.
 *
 * All refusals after which a retry may succeed set their headers here, so that they are alike. The
 * time is the caller's estimate of its queue, bounded by retry_after_bound(). Called on the I/O
 * thread before the error is sent.
 */
#include "server/http/retry_after.h"

#include "server/http/http_call.h"

#include <stdio.h>

uint32_t retry_after_bound(uint64_t ms)
{
    if (ms < RETRY_AFTER_MIN_MS)
        return RETRY_AFTER_MIN_MS;
    return ms < RETRY_AFTER_MAX_MS ? (uint32_t)ms : RETRY_AFTER_MAX_MS;
}

void retry_after_set(struct http_call *call, uint32_t ms)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", (ms + 999) / 1000);
    http_call_set_header(call, "Retry-After", text);
    snprintf(text, sizeof(text), "%u", ms);
    http_call_set_header(call, "retry-after-ms", text);
    http_call_set_header(call, "x-should-retry", "true");
}
