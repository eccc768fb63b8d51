/* server/api/refusal.c - see refusal.h.
 *
 * A refused call is counted and answered in one place, so that no reason is counted twice. Its
 * Retry-After is computed from the engine's load at this moment, unless the caller knows a better
 * one.
 */
#include "server/api/refusal.h"

#include "server/api/engine_client.h"
#include "server/http/http_call.h"
#include "server/http/retry_after.h"

void refusal_send(struct refusal *r, struct engine_client *engine, struct http_call *call,
                  uint32_t n)
{
    engine->metrics->outcomes[OUTCOME_REJECTED]++;
    engine->metrics->rejections[r->reason]++;
    if (call == NULL)
        return;
    if (r->retry_ms == 0 && !r->is_final)
        r->retry_ms = engine_client_retry_ms(engine, r->error.status, n);
    if (r->retry_ms > 0)
        retry_after_set(call, r->retry_ms);
    if (r->is_final)
        http_call_set_header(call, "x-should-retry", "false");
    http_call_reply_error(call, &r->error);
}

void refusal_reply_error(struct engine_client *engine, struct http_call *call,
                         const struct api_error *e)
{
    const uint32_t retry_ms = engine_client_retry_ms(engine, e->status, 1);

    if (retry_ms > 0)
        retry_after_set(call, retry_ms);
    http_call_reply_error(call, e);
}

void refusal_say_timeout(struct api_error *e)
{
    api_error_set(e, 408, NULL, "deadline_exceeded",
                  "the request timed out: its deadline has passed");
}

void refusal_say_queue_timeout(struct api_error *e)
{
    api_error_set(e, 429, NULL, "queue_timeout",
                  "the request waited for its first step for longer than max_queue_ms");
}

void refusal_send_no_memory(struct engine_client *engine, struct http_call *call)
{
    struct api_error e;

    engine->metrics->outcomes[OUTCOME_REJECTED]++;
    api_error_no_memory(&e);
    http_call_reply_error(call, &e);
}
