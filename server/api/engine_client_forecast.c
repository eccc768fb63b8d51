/* server/api/engine_client_forecast.c - position in the queue, predicted times, and Retry-After;
 * see engine_client.h. */
#include "server/api/engine_client_impl.h"

#include "core/base/clock.h"
#include "server/http/retry_after.h"

/* Return the milliseconds until n requests have room. The forecast predicts the next end, which
 * makes room for one; for further ones, and without a forecast, the rate of the ends of the last
 * half minute is used. */
static uint32_t wait_ms(struct engine_client *engine, uint32_t n)
{
    struct engine_stats s;
    uint64_t ms;

    if (n == 0 || engine->queue == NULL)
        return RETRY_AFTER_MIN_MS;
    queue_get_stats(engine->queue, &s);
    ms = forecast_room_us(&s) / 1000;
    if (ms == 0)
        return completion_rate_wait_ms(&engine->priv->completion_rate, n, clock_us());
    if (n > 1)
        ms += completion_rate_wait_ms(&engine->priv->completion_rate, n - 1, clock_us());
    return retry_after_bound(ms);
}

/* While the server drains, Retry-After is the time until the last request will have ended. */
uint32_t engine_client_retry_ms(struct engine_client *engine, int status, uint32_t n)
{
    if (status != 429 && status != 503)
        return 0;
    return wait_ms(engine, status == 503 ? engine->priv->n_open : n);
}

/* Count the latest posts that the engine's statistics do not include yet. */
static uint32_t n_unseen(const struct engine_client *engine, const struct engine_stats *s)
{
    const uint32_t all = engine->priv->n_open;
    uint32_t known = s->n_running + s->n_preempted;

    for (int i = 0; i < PRIORITY_COUNT; i++)
        known += s->n_waiting[i];
    return all > known ? all - known : 0;
}

struct ahead { /* the posts not in the statistics that will run first */
    uint32_t n;
    uint64_t n_tokens; /* tokens of their prompts */
};

static struct ahead unseen_ahead(const struct engine_client *engine, const struct engine_stats *s,
                                 enum priority p)
{
    const struct engine_client_private *priv = engine->priv;
    const uint32_t n = n_unseen(engine, s);
    struct ahead ahead = {0};

    for (uint32_t i = 1; i <= n && i <= ENGINE_RECENT && i <= priv->n_recent; i++) {
        const struct engine_post *post = &priv->recent[(priv->n_recent - i) % ENGINE_RECENT];

        if (post->priority < p)
            continue;
        ahead.n++;
        ahead.n_tokens += post->n_prompt;
    }
    if (n > ENGINE_RECENT) /* some are older than the remembered posts: count all */
        ahead.n += n - ENGINE_RECENT;
    return ahead;
}

/* Return the position in the queue. While a request waits in the engine, for memory or a slot, no
 * slot counts as free. */
static uint32_t position(const struct engine_client *engine, const struct engine_stats *s,
                         uint32_t n_waiting, uint32_t n_coming)
{
    const uint32_t max = engine->model->max_sequences;
    uint32_t n_free = 0;

    if (n_waiting == 0 && s->n_running < max)
        n_free = max - s->n_running;
    return n_coming < n_free ? 0 : n_waiting + n_coming - n_free + 1;
}

uint32_t engine_client_position(struct engine_client *engine, enum priority p)
{
    struct engine_stats s;
    uint32_t n_waiting;

    queue_get_stats(engine->queue, &s);
    n_waiting = s.n_preempted;
    for (int i = (int)p; i < PRIORITY_COUNT; i++)
        n_waiting += s.n_waiting[i];
    return position(engine, &s, n_waiting, unseen_ahead(engine, &s, p).n);
}

uint32_t engine_client_position_behind(struct engine_client *engine, uint32_t n_ahead,
                                       uint32_t n_more)
{
    struct engine_stats s;

    queue_get_stats(engine->queue, &s);
    return position(engine, &s, n_ahead, n_more);
}

static struct forecast_ask ask_for(const struct engine_client *engine, const struct request *r,
                                   uint32_t n_cached)
{
    return (struct forecast_ask){
        .n_prompt = request_n_given(r),
        .n_cached = n_cached,
        .max_tokens = r->max_tokens,
        .max_known = r->max_known,
        .n_recomputed = r->max_known - r->n_keep - r->n_discard,
        .n_shifts = request_n_shifts((uint64_t)r->n_prompt + r->max_tokens, r->max_known,
                                     r->n_discard),
        .priority = r->priority,
        .max_batch_tokens = engine->model->max_batch_tokens,
        .prefill_chunk = engine->model->prefill_chunk,
        .max_sequences = engine->model->max_sequences,
    };
}

struct forecast engine_client_forecast(struct engine_client *engine, const struct request *r,
                                       uint32_t n_cached, uint64_t ahead)
{
    struct forecast_ask ask = ask_for(engine, r, n_cached);
    struct engine_stats s;

    queue_get_stats(engine->queue, &s);
    ask.tokens_ahead = unseen_ahead(engine, &s, r->priority).n_tokens + ahead;
    return forecast_make(&s, &ask);
}

struct forecast engine_client_forecast_idle(struct engine_client *engine, const struct request *r,
                                            uint32_t n_cached)
{
    const struct forecast_ask ask = ask_for(engine, r, n_cached);
    struct engine_stats s, idle = {0};

    queue_get_stats(engine->queue, &s);
    idle.blocks_total = idle.blocks_free = s.blocks_total;
    idle.block_bytes = s.block_bytes;
    idle.costs = s.costs;
    idle.target_us = s.target_us;
    return forecast_make(&idle, &ask);
}

uint64_t engine_client_forecast_least_us(struct engine_client *engine)
{
    const struct request r = {.priority = PRIORITY_NORMAL,
                              .n_prompt = 1,
                              .max_tokens = 1,
                              .max_known = 2,
                              .n_discard = 1};
    const struct forecast f = engine_client_forecast(engine, &r, 0, 0);

    return f.is_known ? f.first_us : 0;
}
