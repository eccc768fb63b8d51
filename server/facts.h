/* server/facts.h - the answers that need no engine: health, readiness, models, version, metrics.
 *
 * Thread: the loop's; each is answered within its handler.
 * Memory: the reply only.
 */
#ifndef SERVER_FACTS_H
#define SERVER_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/metrics.h"

struct desk;
struct http_call;

/* A step that takes longer is a wedged engine: no step that is planned comes near. */
#define FACTS_WEDGED_US 60000000u

void facts_health(struct http_call *call);
void facts_ready(struct desk *d, struct http_call *call);
void facts_version(struct http_call *call);
void facts_models(struct desk *d, struct http_call *call);
void facts_model(struct desk *d, struct http_call *call); /* the name is the call's tail */
/* `scene` lacks the engine's statistics and the model; they are filled in here. */
void facts_metrics(struct desk *d, struct http_call *call, struct metrics_scene *scene);

/* Is the engine inside a step that began too long ago? */
bool facts_is_wedged(const struct engine_stats *s, uint64_t now_us);

#endif
