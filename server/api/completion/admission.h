/* server/api/completion/admission.h - decides whether a call may begin. One function returns yes,
 * or the refusal with its reason and Retry-After. It is called twice: before the body is parsed, to
 * find out whether there is room for one request; and for the parsed requests, which are checked in
 * this order: room in the engine's queue for all of them, the limit of their tenant, those of their
 * key, and `deadline_ms` against the forecast. After a yes the requests must be posted before
 * anything else changes the queue or a limit. server/auth/auth.h has checked the head of a call
 * (its key, its pages, requests per minute) before the body was read.
 *
 * A deadline's forecast is for all of max_tokens; for a chat without max_tokens, for its first
 * token. Only the engine knows how much of a prompt is cached: when the answer depends on that, it
 * is ADMISSION_PROBE, and the engine must be asked.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_API_COMPLETION_ADMISSION_H
#define SERVER_API_COMPLETION_ADMISSION_H

#include <stdint.h>

#include "server/api/refusal.h"

struct api_call;
struct engine_client;
struct event_probe;

enum admission {
    ADMISSION_YES = 0,
    ADMISSION_PROBE, /* the decision depends on the number of cached tokens: ask the engine */
    ADMISSION_NO,    /* *why is filled */
};

enum admission_for {
    ADMISSION_FOR_WORK,
    ADMISSION_FOR_DRY_RUNS, /* dry runs: they have queue slots of their own, and no other limits */
};

/* Return how many tokens of prompt i need not be computed, if `cached` of them are cached: these,
 * or in whole blocks those that a prompt before it in the call computes. */
uint32_t admission_known_tokens(const struct api_call *api, uint32_t i, uint32_t cached);

/* `api` is NULL before the body is parsed; `found` has the engine's answer for each prompt, or is
 * NULL if it was not asked. Sets the tenant of the requests. */
enum admission admission_decide(struct engine_client *engine, struct api_call *api,
                                enum admission_for what, const struct event_probe *found,
                                struct refusal *why);

#endif
