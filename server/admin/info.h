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

struct engine_client;
struct http_call;
struct server_model;

/* A step that takes longer is a wedged engine: no step that is planned comes near. */
#define INFO_WEDGED_US 60000000u

/* Remembers the step that was seen under way. Zero is the start. */
struct info_watchdog {
    uint64_t last_step_us; /* of the statistics then */
    uint64_t since_us;     /* when that step was first seen; 0 = none was */
};

/* That the process answers. */
void info_live(struct http_call *call);
/* A job of a parsing pool ends within its budget of steps (core/base/budget.h), a transfer of the
 * swap file or a write of the journal when its disk answers: after so long they hang. */
#define INFO_STUCK_PARSE_US 10000000u
#define INFO_STUCK_DISK_US 60000000u

/* Has something that began at begin_us (0: nothing has) been going on for longer? */
bool info_is_stuck(uint64_t begin_us, uint64_t most_us);

/* Why a model's engine cannot be used now, or NULL. */
const char *info_trouble(struct engine_client *engine, struct info_watchdog *w);
/* Whether requests are taken, in llama-server's shape; `trouble`: why not, or NULL. */
void info_health(struct http_call *call, const char *trouble);
void info_version(struct http_call *call);
/* GET /props, as llama-server has it. */
void info_props(const struct server_model *m, struct http_call *call);
/* POST /props: where it is taken it changes nothing, as in llama-server; else a 501. */
void info_post_props(bool is_taken, struct http_call *call);
void info_openapi(struct http_call *call);
void info_models(struct http_call *call, const struct server_model *const *models, uint32_t n);
/* The model, or its adapter of that name. */
void info_model(struct http_call *call, const struct server_model *m, const char *name);
/* What /metrics says of the engine client's model, with a copy of its engine's statistics as they
 * are now: zeros before there is an engine. */
void info_fill_metrics(struct engine_client *engine, struct metrics_model *out);
void info_release_metrics(struct metrics_model *m);
/* An empty text for metrics_render(), with its limit; and the answer with it. */
void info_begin_metrics(struct buf *text);
void info_reply_metrics(struct http_call *call, struct buf *text /* takes */);

/* Has the engine been inside one and the same step for too long? What counts is the time since it
 * was first seen there, because before a step the engine may have slept. */
bool info_is_wedged(struct info_watchdog *w, const struct engine_stats *s, uint64_t now_us);

#endif
