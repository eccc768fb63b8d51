/* server/plan.h - POST /v1/plan: what would happen to a completion if it were asked for now.
 *
 * The body is that of /v1/completions, read and checked in the same way; nothing is computed.
 *
 * {"object":"plan","model":…,"prompts":[{"prompt_tokens":…,"max_tokens":…,"cached_tokens":…,
 *  "blocks":…,"blocks_total":…,"queue_position":…,"predicted_ms":{"start":…,"first_token":…,
 *  "finish":…},"fits":true}]}
 *
 * `blocks` is what prompt and max_tokens need together; predicted_ms is null until the engine has
 * made enough steps to tell. Each prompt is looked at by itself, with the ones before it ahead.
 *
 * Thread: the loop's.
 * Memory: as for an intake.
 */
#ifndef SERVER_PLAN_H
#define SERVER_PLAN_H

struct desk;
struct http_call;

void plan_start(struct desk *d, struct http_call *call);

#endif
