/* server/api/engine_client.c - see engine_client.h. */
#include "server/api/engine_client.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/api/completion_rate.h"
#include "server/auth/tenants.h"
#include "server/http/http.h"
#include "server/http/retry_after.h"

#include <assert.h>
#include <stdio.h>

#define EVENTS_AT_ONCE 64 /* copied out of the queue under its lock in one go */
/* Posts that are remembered: the engine's statistics lag behind by what came during one step. */
#define RECENT 256

struct slot {
    uint64_t id; /* of the request that has the slot; 0 = free */
    struct engine_caller *client;
    uint32_t part, tenant;
    bool is_dry;
    uint32_t next_free;
};

struct post {
    enum priority priority;
    uint32_t n_prompt;
};

struct engine_client_private {
    struct completion_rate completion_rate;
    uint64_t n_posted; /* ever: ids ascend with it */
    uint64_t n_recent; /* posts that were no dry runs, ever */
    struct post recent[RECENT];
    uint32_t max_requests; /* the rest of the slots is for dry runs */
    uint32_t n_open, n_dry; /* requests and dry runs whose end has not been handed on */
    uint32_t n_slots, first_free;
    struct event events[EVENTS_AT_ONCE];
    struct slot slots[];
};

static void init_slots(struct engine_client_private *p, uint32_t n)
{
    p->n_slots = n;
    for (uint32_t i = 0; i < n; i++)
        p->slots[i].next_free = i + 1;
}

int engine_client_create(struct engine_client **out, const struct engine_client_options *o)
{
    const uint32_t n = o->model->max_outstanding + SERVER_DRY_RUNS;
    struct engine_client *d = mem_calloc(1, sizeof(*d));

    *out = NULL;
    if (d == NULL)
        return ERR_NOMEM;
    d->priv = mem_calloc(1, sizeof(*d->priv) + n * sizeof(struct slot));
    if (d->priv == NULL) {
        engine_client_destroy(&d);
        return ERR_NOMEM;
    }
    init_slots(d->priv, n);
    d->priv->max_requests = o->model->max_outstanding;
    completion_rate_start(&d->priv->completion_rate, clock_us());
    d->server = o->server;
    d->model = o->model;
    d->loop = o->loop;
    d->metrics = o->metrics;
    d->tenants = o->tenants;
    d->text_pool = o->text_pool;
    d->constraint_pool = o->constraint_pool;
    d->memory = o->memory;
    buf_init(&d->scratch, (size_t)1 << 20); /* one token's text */
    buf_init(&d->frame, HTTP_MAX_REPLY);
    *out = d;
    return 0;
}

void engine_client_attach(struct engine_client *d, struct queue *q)
{
    d->queue = q;
}

void engine_client_destroy(struct engine_client **engine)
{
    struct engine_client *d = engine != NULL ? *engine : NULL;

    if (d == NULL)
        return;
    buf_release(&d->scratch);
    buf_release(&d->frame);
    mem_free(d->priv);
    mem_free(d);
    *engine = NULL;
}

/* ids are n_posted * n_slots + slot: unique, ascending, and the slot is found by a division. */
static struct slot *find_slot(struct engine_client_private *p, uint64_t id)
{
    struct slot *s = &p->slots[id % p->n_slots];

    return s->id == id ? s : NULL;
}

static void give_slot(struct engine_client_private *p, struct slot *s)
{
    s->id = 0;
    s->client = NULL;
    s->next_free = p->first_free;
    p->first_free = (uint32_t)(s - p->slots);
}

static void take_event(struct engine_client *d, const struct event *e)
{
    struct slot *s = find_slot(d->priv, e->request);
    struct engine_caller *client;

    if (s == NULL)
        return;
    client = s->client;
    if (e->kind == EVENT_END) {
        give_slot(d->priv, s);
        if (s->is_dry) {
            d->priv->n_dry--;
        } else {
            d->priv->n_open--;
            tenants_end(d->tenants, s->tenant);
            completion_rate_end(&d->priv->completion_rate, clock_us());
        }
    }
    client->event(client, s->part, e);
}

void engine_client_take_events(struct engine_client *d)
{
    size_t n;

    if (d->queue == NULL)
        return;
    do {
        n = queue_take_events(d->queue, d->priv->events, EVENTS_AT_ONCE);
        for (size_t i = 0; i < n; i++)
            take_event(d, &d->priv->events[i]);
    } while (n == EVENTS_AT_ONCE);
}

void engine_client_close(struct engine_client *d, bool now)
{
    d->is_draining = true;
    d->is_stopping = d->is_stopping || now;
    if (d->queue != NULL)
        queue_close(d->queue, now);
}

/* ---- room ---- */

static int check_open(struct engine_client *d, struct api_error *e)
{
    if (d->is_draining)
        return api_error_set(e, 503, NULL, NULL, "the server is shutting down");
    if (d->queue == NULL)
        return api_error_set(e, 503, NULL, NULL, "the server is starting");
    return 0;
}

int engine_client_check_room(struct engine_client *d, uint32_t n, struct api_error *e)
{
    const uint32_t max = d->priv->max_requests;

    if (check_open(d, e) < 0)
        return ERR_CANCELED;
    if (n > max)
        return api_error_set(e, 400, "n", NULL,
                             "%u choices are more than the queue can ever hold (%u)", n, max);
    if (d->priv->n_open + n <= max)
        return 0;
    return api_error_set(e, 429, NULL, "queue_full", "the queue is full (%u requests)", max);
}

int engine_client_check_dry_room(struct engine_client *d, uint32_t n, struct api_error *e)
{
    if (check_open(d, e) < 0)
        return ERR_CANCELED;
    if (d->priv->n_dry + n <= SERVER_DRY_RUNS)
        return 0;
    return api_error_set(e, 429, NULL, "queue_full", "too many plans are asked for at the moment");
}

/* ---- when ---- */

/* The next end makes room for one request; for further ones the pace of the last half minute must
 * do, as it must while nothing is known of the engine's. */
static uint32_t wait_ms(struct engine_client *d, uint32_t n)
{
    struct engine_stats s;
    uint64_t ms;

    if (n == 0 || d->queue == NULL)
        return RETRY_AFTER_MIN_MS;
    queue_get_stats(d->queue, &s);
    ms = forecast_room_us(&s) / 1000;
    if (ms == 0)
        return completion_rate_wait_ms(&d->priv->completion_rate, n, clock_us());
    if (n > 1)
        ms += completion_rate_wait_ms(&d->priv->completion_rate, n - 1, clock_us());
    return retry_after_bound(ms);
}

/* While draining nothing comes back before the last request has ended. */
void engine_client_set_retry_headers(struct engine_client *d, struct http_call *call, int status,
                                     uint32_t n)
{
    if (status == 503)
        n = d->priv->n_open;
    if (status == 429 || status == 503)
        retry_after_set(call, wait_ms(d, n));
}

/* Posts that the statistics do not know of yet: the last so many. */
static uint32_t n_unseen(const struct engine_client *d, const struct engine_stats *s)
{
    const uint32_t all = d->priv->n_open;
    uint32_t known = s->n_running + s->n_preempted;

    for (int i = 0; i < PRIORITY_COUNT; i++)
        known += s->n_waiting[i];
    return all > known ? all - known : 0;
}

struct crowd { /* what goes first, of the unseen */
    uint32_t n;
    uint64_t n_tokens; /* of their prompts */
};

static struct crowd unseen_ahead(const struct engine_client *d, const struct engine_stats *s,
                                 enum priority p)
{
    const struct engine_client_private *priv = d->priv;
    const uint32_t n = n_unseen(d, s);
    struct crowd crowd = {0};

    for (uint32_t i = 1; i <= n && i <= RECENT && i <= priv->n_recent; i++) {
        const struct post *post = &priv->recent[(priv->n_recent - i) % RECENT];

        if (post->priority < p)
            continue;
        crowd.n++;
        crowd.n_tokens += post->n_prompt;
    }
    if (n > RECENT) /* older than what is remembered: count them all */
        crowd.n += n - RECENT;
    return crowd;
}

/* A request that the engine keeps waiting waits for memory or a slot: slots are free only when none
 * does. */
static uint32_t position(const struct engine_client *d, const struct engine_stats *s,
                         uint32_t n_waiting, uint32_t n_coming)
{
    const uint32_t max = d->model->max_sequences;
    uint32_t places = 0;

    if (n_waiting == 0 && s->n_running < max)
        places = max - s->n_running;
    return n_coming < places ? 0 : n_waiting + n_coming - places + 1;
}

uint32_t engine_client_position(struct engine_client *d, enum priority p)
{
    struct engine_stats s;
    uint32_t n_waiting;

    queue_get_stats(d->queue, &s);
    n_waiting = s.n_preempted;
    for (int i = (int)p; i < PRIORITY_COUNT; i++)
        n_waiting += s.n_waiting[i];
    return position(d, &s, n_waiting, unseen_ahead(d, &s, p).n);
}

uint32_t engine_client_position_behind(struct engine_client *d, uint32_t n_ahead, uint32_t n_more)
{
    struct engine_stats s;

    queue_get_stats(d->queue, &s);
    return position(d, &s, n_ahead, n_more);
}

static struct forecast_ask ask_for(const struct engine_client *d, const struct request *r,
                                   uint32_t n_cached)
{
    return (struct forecast_ask){
        .n_prompt = r->n_prompt,
        .n_cached = n_cached,
        .max_tokens = r->max_tokens,
        .priority = r->priority,
        .max_batch_tokens = d->model->max_batch_tokens,
        .prefill_chunk = d->model->prefill_chunk,
        .max_sequences = d->model->max_sequences,
    };
}

struct forecast engine_client_forecast(struct engine_client *d, const struct request *r,
                                       uint32_t n_cached, uint64_t ahead)
{
    struct forecast_ask ask = ask_for(d, r, n_cached);
    struct engine_stats s;

    queue_get_stats(d->queue, &s);
    ask.tokens_ahead = unseen_ahead(d, &s, r->priority).n_tokens + ahead;
    return forecast_make(&s, &ask);
}

struct forecast engine_client_forecast_idle(struct engine_client *d, const struct request *r,
                                            uint32_t n_cached)
{
    const struct forecast_ask ask = ask_for(d, r, n_cached);
    struct engine_stats s, idle = {0};

    queue_get_stats(d->queue, &s);
    idle.blocks_total = idle.blocks_free = s.blocks_total;
    idle.block_bytes = s.block_bytes;
    idle.costs = s.costs;
    idle.target_us = s.target_us;
    return forecast_make(&idle, &ask);
}

/* ---- posting ---- */

static struct slot *take_slot(struct engine_client_private *p, struct request *r)
{
    struct slot *s;

    assert(p->first_free < p->n_slots);
    s = &p->slots[p->first_free];
    r->id = ++p->n_posted * p->n_slots + p->first_free;
    p->first_free = s->next_free;
    s->id = r->id;
    s->is_dry = r->is_dry_run;
    s->tenant = r->tenant;
    return s;
}

uint64_t engine_client_post(struct engine_client *d, struct request *r,
                            struct engine_caller *client, uint32_t part)
{
    struct engine_client_private *p = d->priv;
    struct slot *s = take_slot(p, r);
    const uint64_t id = r->id; /* once posted, the request is the engine's */
    int rc;

    s->client = client;
    s->part = part;
    if (r->is_dry_run) {
        p->n_dry++;
    } else {
        p->n_open++;
        tenants_begin(d->tenants, r->tenant);
        p->recent[p->n_recent++ % RECENT] = (struct post){r->priority, r->n_prompt};
    }
    rc = queue_post(d->queue, r);
    assert(rc == 0); /* there was room, and only this thread posts or closes */
    (void)rc;
    return id;
}

void engine_client_cancel(struct engine_client *d, uint64_t id)
{
    if (find_slot(d->priv, id) != NULL)
        queue_cancel(d->queue, id);
}

const char *engine_client_request_id(struct engine_client *d, uint64_t id)
{
    const struct slot *s = find_slot(d->priv, id);

    return s != NULL ? s->client->request_id : NULL;
}
