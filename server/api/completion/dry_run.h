/* server/api/completion/dry_run.h - POST /v1/plan: predicts what would happen to a completion, or
 * an embedding, that came at this moment.
 *
 * The body is that of /v1/completions or, if it has `input` and no `prompt`, that of
 * /v1/embeddings, read and checked in the same way; nothing is computed.
 *
 * {"object":"plan","model":…,"prompts":[{"prompt_tokens":…,"max_tokens":…,"cached_tokens":…,
 *  "blocks":…,"blocks_total":…,"queue_position":…,"predicted_ms":{"start":…,"first_token":…,
 *  "finish":…},"context_shifts":…,"fits":true}]}
 *
 * `blocks` is the number of blocks that prompt and max_tokens need together, with context shift at
 * most those of a full context; predicted_ms is null until the engine has made enough steps. Each
 * prompt's forecast assumes that the prompts before it run first. An embedding has no tokens:
 * max_tokens is 0, and first_token null.
 *
 * Thread: the loop's.
 * Memory: as for an API call.
 */
#ifndef SERVER_API_COMPLETION_DRY_RUN_H
#define SERVER_API_COMPLETION_DRY_RUN_H

struct completion;
struct wire_format;

extern const struct wire_format wire_dry_run;

/* Run the state RUN of a dry run: answer the call from the completion's probe, and end it. */
void dry_run_answer(struct completion *c);

#endif
