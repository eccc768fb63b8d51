/* server/models/model_refusal.c - see model_refusal.h.
 *
 * Each function fills a struct refusal: the error for the client, the reason that the metrics
 * count, and either Retry-After or is_final: a retry cannot help.
 */
#include "server/models/model_refusal.h"

#include <inttypes.h>

/* Assumed milliseconds until a new process serves. */
#define STOPPING_MS 1000u

/* Begin a refusal without Retry-After, because a retry would not help. */
static void begin_refusal(struct refusal *why)
{
    *why = (struct refusal){.reason = REJECTION_MODEL, .is_final = true};
}

void model_refusal_failed(struct refusal *why, const struct served_model *h)
{
    begin_refusal(why);
    api_error_set(&why->error, 503, "model", "model_load_failed",
                  "the model '%.60s' cannot be loaded: %.180s", h->model.id, h->life.reason);
}

void model_refusal_not_loaded(struct refusal *why, const struct served_model *h)
{
    begin_refusal(why);
    api_error_set(&why->error, 503, "model", "model_not_loaded",
                  "the model '%.100s' is not loaded; POST /models/load loads it", h->model.id);
}

void model_refusal_too_large(struct refusal *why, const struct served_model *h,
                             const struct model_memory *memory)
{
    begin_refusal(why);
    api_error_set(&why->error, 503, "model", "model_too_large",
                  "the model '%.60s' needs %" PRIu64 " MiB, but memory_limit (%" PRIu64
                  " MiB) leaves less beside the process (%" PRIu64
                  " MiB) and the models that stay loaded: raise memory_limit",
                  h->model.id, h->life.bytes >> 20, memory->limit >> 20, memory->base >> 20);
}

void model_refusal_stopping(struct refusal *why)
{
    *why = (struct refusal){.reason = REJECTION_DRAINING, .retry_ms = STOPPING_MS};
    api_error_set(&why->error, 503, NULL, NULL, "the server is shutting down");
}

void model_refusal_full(struct refusal *why, const struct served_model *h, uint32_t wait_ms)
{
    *why = (struct refusal){.reason = REJECTION_QUEUE_FULL, .retry_ms = wait_ms};
    api_error_set(&why->error, 429, NULL, "queue_full",
                  "the queue of the model '%.100s' is full: %u requests wait until it is loaded; "
                  "retry later, or raise queue_limit",
                  h->model.id, h->life.waits.max);
}
