/* server/api/admission.h - may a call begin? One function says yes, or why not and when to come
 * again.
 *
 * It is asked twice: before the body is parsed, whether there is room for one request; and of the
 * parsed requests, in this order: room in the engine's queue for all of them, the limit of their
 * tenant, those of their key, and `deadline_ms` against the forecast. Nothing may come between a
 * yes and the posts. What the head of a call decides (which key, which pages, requests per minute),
 * server/auth/auth.h has decided before the body was read.
 *
 * A deadline's forecast is for all of max_tokens; for a chat that names no length, for its first
 * token. How much of a prompt is cached is known only to the engine: when that decides the matter,
 * the answer is that it must be asked.
 *
 * Thread: the loop's.
 * Memory: none.
 */
#ifndef SERVER_API_ADMISSION_H
#define SERVER_API_ADMISSION_H

#include "server/api/refusal.h"

struct api_call;
struct engine_client;
struct event_probe;

enum admission {
    ADMISSION_YES = 0,
    ADMISSION_PROBE, /* yes or no depends on what is cached */
    ADMISSION_NO,    /* *why is filled */
};

enum admission_for {
    ADMISSION_FOR_WORK,
    ADMISSION_FOR_DRY_RUNS, /* they have room of their own, and no other limits */
};

/* `api` is NULL before the body is parsed; `found` has the engine's answer for each prompt, or is
 * NULL where it was not asked. The requests get their tenant here. */
enum admission admission_decide(struct engine_client *engine, struct api_call *api,
                                enum admission_for what, const struct event_probe *found,
                                struct refusal *why);

#endif
