/* server/models/model_waits.h - calls that wait until their model is loaded.
 *
 * A call waits with its body, which is not parsed yet, since that takes the model's tokenizer.
 * Calls continue in the order of arrival, and their times count from the arrival. A call is
 * answered with an error when `deadline_ms` or `max_queue_ms` of its body, or the settings'
 * request_timeout or max_queue_ms are over, and dropped when its client disconnects.
 *
 * Thread: the loop's.
 * Memory: one small allocation for each call; the bodies stay with the calls, which count them.
 */
#ifndef SERVER_MODELS_MODEL_WAITS_H
#define SERVER_MODELS_MODEL_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"

struct body_scan;
struct engine_client;
struct http_call;
struct refusal;
struct wire_format;

/* Takes over a call whose model is ready: completion_start(). */
typedef void model_waits_start_fn(struct engine_client *engine, struct http_call *call,
                                  const struct wire_format *wire_format,
                                  const struct body_scan *scan);

struct model_waits {
    struct engine_client *engine;
    model_waits_start_fn *start;
    struct list list;
    uint32_t n, max;
};

void model_waits_init(struct model_waits *w, struct engine_client *engine, uint32_t max,
                      model_waits_start_fn *start);

/* Add a call, unless `max` wait already. ERR_LIMIT, ERR_NOMEM: the caller still owns it. */
int model_waits_add(struct model_waits *w, struct http_call *call,
                    const struct wire_format *wire_format, const struct body_scan *scan);
/* Return the time at which the first waiting call arrived; 0: none waits. */
uint64_t model_waits_since_us(const struct model_waits *w);

/* Called when the model is ready: start waiting calls until the callback's 5 ms are used up
 * (loop_guard.h). The others wait for the next call of this function. */
void model_waits_start(struct model_waits *w);
/* Refuse all waiting calls. */
void model_waits_refuse(struct model_waits *w, const struct refusal *why);
/* Refuse the calls whose time is over, until the callback's 5 ms are used up. */
void model_waits_expire(struct model_waits *w, uint64_t now_us);

#endif
