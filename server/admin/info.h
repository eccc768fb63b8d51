/* server/admin/info.h - the answers that need no engine: health, readiness, models, version,
 * metrics.
 *
 * Thread: the loop's; each is answered within its handler.
 * Memory: the reply only.
 */
#ifndef SERVER_ADMIN_INFO_H
#define SERVER_ADMIN_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "server/metrics/metrics.h"

struct buf;
struct engine_client;
struct http_call;
struct server_model;

/* Microseconds after which a step counts as hung: no planned step takes nearly as long. */
#define INFO_WEDGED_US 60000000u

/* The running step that was seen last. Zero at the start. */
struct info_watchdog {
    uint64_t last_step_us; /* last_step_us of the statistics at that time */
    uint64_t since_us;     /* time at which that step was first seen; 0: none was */
};

/* Answer that the process is alive. */
void info_live(struct http_call *call);
/* Microseconds after which work counts as hung. A job of a parsing pool ends within its budget of
 * steps (core/base/budget.h); a transfer of the swap file or a write of the journal ends when the
 * disk answers. */
#define INFO_STUCK_PARSE_US 10000000u
#define INFO_STUCK_DISK_US 60000000u

/* True: work that began at begin_us has taken longer than most_us. begin_us 0: no work runs,
 * false. */
bool info_is_stuck(uint64_t begin_us, uint64_t most_us);

/* Return the reason for which a model's engine cannot be used now, or NULL. */
const char *info_trouble(struct engine_client *engine, struct info_watchdog *w);
/* Answer GET /health in llama-server's format. trouble: reason for which requests are not accepted;
 * NULL: they are. */
void info_health(struct http_call *call, const char *trouble);
void info_version(struct http_call *call);
/* Answer GET /props like llama-server. */
void info_props(const struct server_model *m, struct http_call *call);
/* Answer POST /props: if the settings allow it, it changes nothing, as in llama-server; else
 * 501. */
void info_post_props(bool is_taken, struct http_call *call);
void info_openapi(struct http_call *call);
/* Answer GET /v1/models: OpenAI's list `data`, and TypeSafe's `models` in the same order. */
void info_models(struct http_call *call, const struct server_model *const *models, uint32_t n);
/* Append the member `capabilities`: what the model can be asked for, under Ollama's names and
 * "decisions". Of a model that is not loaded, only its kind is known. */
void info_add_capabilities(struct buf *b, const struct server_model *m);
/* Answer with the model, or with its adapter of that name. */
void info_model(struct http_call *call, const struct server_model *m, const char *name);
/* Fill the metrics of the engine client's model, with a copy of the engine's current statistics:
 * zeros before there is an engine. */
void info_fill_metrics(struct engine_client *engine, struct metrics_model *out);
void info_release_metrics(struct metrics_model *m);
/* Begin an empty text for metrics_render(), with its limit; answer with a rendered text. */
void info_begin_metrics(struct buf *text);
void info_reply_metrics(struct http_call *call, struct buf *text /* takes */);

/* True: the engine has been in the same step for too long. The time counts from when the step was
 * first seen here, because before a step the engine may have slept. */
bool info_is_wedged(struct info_watchdog *w, const struct engine_stats *s, uint64_t now_us);

#endif
