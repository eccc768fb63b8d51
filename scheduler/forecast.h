/* scheduler/forecast.h - predicts when a new request would start and finish, from the published
 * statistics.
 *
 * Used for Retry-After, the times beside X-Queue-Position, POST /v1/plan and the refusal of
 * deadlines that cannot be met. Pure arithmetic on one engine_stats: the tokens ahead of the
 * request, the rows that fit into a step beside the running sequences, and the blocks that must
 * become free, times the cost model's time of a step.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef SCHEDULER_FORECAST_H
#define SCHEDULER_FORECAST_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/queue.h"

struct forecast_ask {
    uint32_t n_prompt, n_cached; /* n_cached: prompt tokens already computed */
    uint32_t max_tokens;
    uint32_t max_known, n_recomputed; /* context shift: tokens of a full context; tokens that a
                                       * shift recomputes */
    uint64_t n_shifts;                /* context shifts of the request; 0: none */
    enum priority priority;
    uint64_t tokens_ahead;       /* prompt tokens that were posted and are not in the statistics
                                  * yet */
    uint32_t max_batch_tokens, prefill_chunk, max_sequences;
};

struct forecast {
    bool is_known;      /* false: the engine has not made enough steps for a forecast */
    uint64_t start_us;  /* until its first step */
    uint64_t first_us;  /* until its first token */
    uint64_t finish_us; /* until max_tokens tokens are generated */
};

struct forecast forecast_make(const struct engine_stats *s, const struct forecast_ask *ask);

/* Microseconds until a full queue takes one more request: the time to the next end of a request. */
uint64_t forecast_room_us(const struct engine_stats *s);

#endif
