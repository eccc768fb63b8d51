/* server/api/engine_client.c - see engine_client.h. */
#include "server/api/engine_client_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "scheduler/prefix_fetch.h"
#include "server/auth/tenants.h"
#include "server/http/http_call.h"
#include "server/process/loop_guard.h"

#include <assert.h>
#include <string.h>

static void init_slots(struct engine_client_private *p, uint32_t n)
{
    p->n_slots = n;
    for (uint32_t i = 0; i < n; i++)
        p->slots[i].next_free = i + 1;
}

int engine_client_create(struct engine_client **out, const struct engine_shared *shared,
                         const struct server_model *model, struct metrics *metrics,
                         struct slots *slots)
{
    const uint32_t n = model->max_outstanding + SERVER_DRY_RUNS;
    struct engine_client *engine = mem_calloc(1, sizeof(*engine));

    *out = NULL;
    if (engine == NULL)
        return ERR_NOMEM;
    engine->priv = mem_calloc(1, sizeof(*engine->priv) + n * sizeof(struct engine_slot));
    if (engine->priv == NULL) {
        engine_client_destroy(&engine);
        return ERR_NOMEM;
    }
    init_slots(engine->priv, n);
    engine->priv->max_requests = model->max_outstanding;
    completion_rate_start(&engine->priv->completion_rate, clock_us());
    engine->shared = shared;
    engine->model = model;
    engine->metrics = metrics;
    engine->slots = slots;
    buf_init(&engine->scratch, (size_t)1 << 20); /* one token's text */
    buf_init(&engine->frame, HTTP_MAX_REPLY);
    buf_init(&engine->numbered, HTTP_MAX_REPLY);
    list_init(&engine->adapter_waits);
    engine->expiry.data = engine;
    uv_timer_init(shared->loop, &engine->expiry); /* cannot fail */
    *out = engine;
    return 0;
}

void engine_client_attach(struct engine_client *engine, struct queue *q)
{
    engine->queue = q;
}

void engine_client_detach(struct engine_client *engine)
{
    assert(engine->n_jobs == 0 && engine->priv->n_open == 0 && engine->priv->n_dry == 0);
    engine->queue = NULL;
}

void engine_client_begin_job(struct engine_client *engine)
{
    engine->n_jobs++;
}

void engine_client_end_job(struct engine_client *engine)
{
    engine->used_us = clock_us();
    if (--engine->n_jobs == 0 && engine->idle != NULL)
        engine->idle(engine->idle_ud);
}

void engine_client_destroy(struct engine_client **engine)
{
    if (engine == NULL || *engine == NULL)
        return;
    buf_release(&(*engine)->scratch);
    buf_release(&(*engine)->frame);
    buf_release(&(*engine)->numbered);
    hash_index_release(&(*engine)->completions);
    mem_free((*engine)->priv);
    mem_free(*engine);
    *engine = NULL;
}

/* ids are n_posted * n_slots + slot: unique, ascending, and the slot is found by a division. */
static struct engine_slot *find_slot(struct engine_client_private *p, uint64_t id)
{
    struct engine_slot *s = &p->slots[id % p->n_slots];

    return s->id == id ? s : NULL;
}

static void give_slot(struct engine_client_private *p, struct engine_slot *s)
{
    s->id = 0;
    s->client = NULL;
    s->next_free = p->first_free;
    p->first_free = (uint32_t)(s - p->slots);
}

static void take_event(struct engine_client *engine, const struct event *e)
{
    struct engine_slot *s = find_slot(engine->priv, e->request);
    struct engine_caller *client;

    if (s == NULL)
        return;
    client = s->client;
    if (e->kind == EVENT_END) {
        give_slot(engine->priv, s);
        if (s->is_dry) {
            engine->priv->n_dry--;
        } else {
            engine->priv->n_open--;
            tenants_end(engine->shared->tenants, s->tenant);
            completion_rate_end(&engine->priv->completion_rate, clock_us());
        }
    }
    client->event(client, s->part, e);
}

bool engine_client_take_events(struct engine_client *engine)
{
    struct engine_client_private *p = engine->priv;

    if (engine->queue == NULL)
        return false;
    for (;;) {
        while (p->next_event < p->n_events) {
            take_event(engine, &p->events[p->next_event++]);
            if (loop_guard_is_due(engine->shared->loop))
                return true;
        }
        p->next_event = 0;
        p->n_events = queue_take_events(engine->queue, p->events, ENGINE_EVENTS_AT_ONCE);
        if (p->n_events == 0)
            return false;
    }
}

void engine_client_close(struct engine_client *engine, bool now)
{
    engine->is_draining = true;
    engine->is_stopping = engine->is_stopping || now;
    if (engine->queue != NULL)
        queue_close(engine->queue, now);
}

/* ---- room ---- */

static int check_open(struct engine_client *engine, struct api_error *e)
{
    if (engine->is_draining)
        return api_error_set(e, 503, NULL, NULL, "the server is shutting down");
    if (engine->queue == NULL)
        return api_error_set(e, 503, NULL, NULL, "the server is starting");
    return 0;
}

int engine_client_check_room(struct engine_client *engine, uint32_t n, struct api_error *e)
{
    const uint32_t max = engine->priv->max_requests;

    if (check_open(engine, e) < 0)
        return ERR_CANCELED;
    if (n > max)
        return api_error_set(e, 400, "n", NULL,
                             "%u choices are more than the queue can ever hold (%u)", n, max);
    if (engine->priv->n_open + n <= max)
        return 0;
    return api_error_set(e, 429, NULL, "queue_full", "the queue is full (%u requests)", max);
}

uint32_t engine_client_room(const struct engine_client *engine)
{
    return engine->priv->max_requests - engine->priv->n_open;
}

int engine_client_check_dry_room(struct engine_client *engine, uint32_t n, struct api_error *e)
{
    if (check_open(engine, e) < 0)
        return ERR_CANCELED;
    if (n > SERVER_DRY_RUNS)
        return api_error_set(e, 400, NULL, NULL,
                             "a plan can have at most %d prompts, got %u: send fewer texts, "
                             "questions or permutations",
                             SERVER_DRY_RUNS, n);
    if (engine->priv->n_dry + n <= SERVER_DRY_RUNS)
        return 0;
    return api_error_set(e, 429, NULL, "queue_full",
                         "too many plans are being computed: try again later");
}

/* ---- posting ---- */

static struct engine_slot *take_slot(struct engine_client_private *p, struct request *r)
{
    struct engine_slot *s;

    assert(p->first_free < p->n_slots);
    s = &p->slots[p->first_free];
    r->id = ++p->n_posted * p->n_slots + p->first_free;
    p->first_free = s->next_free;
    s->id = r->id;
    s->is_dry = r->is_dry_run;
    s->tenant = r->tenant;
    return s;
}

uint64_t engine_client_register(struct engine_client *engine, struct request *r,
                                struct engine_caller *client, uint32_t part)
{
    struct engine_client_private *p = engine->priv;
    struct engine_slot *s = take_slot(p, r);

    s->client = client;
    s->part = part;
    if (r->is_dry_run) {
        p->n_dry++;
    } else {
        p->n_open++;
        tenants_begin(engine->shared->tenants, r->tenant);
        p->recent[p->n_recent++ % ENGINE_RECENT] = (struct engine_post){r->priority, r->n_prompt};
    }
    return r->id;
}

void engine_client_post(struct engine_client *engine, struct request **r, uint32_t n)
{
    struct fetch_prompt *prompts = NULL;
    int rc;

    for (uint32_t i = 0; i < n; i++)
        prefix_fetch_prepare(engine->model->fetch, r[i], &prompts);
    rc = queue_post_all(engine->queue, r, n);
    prefix_fetch_submit(engine->model->fetch, &prompts);
    assert(rc == 0); /* room was checked, and only this thread posts or closes */
    (void)rc;
    memset(r, 0, n * sizeof(struct request *));
}

void engine_client_cancel(struct engine_client *engine, uint64_t id)
{
    if (find_slot(engine->priv, id) != NULL)
        queue_cancel(engine->queue, id);
}

void engine_client_end_thought(struct engine_client *engine, uint64_t id)
{
    if (find_slot(engine->priv, id) != NULL)
        queue_end_thought(engine->queue, id);
}

const char *engine_client_request_id(struct engine_client *engine, uint64_t id)
{
    const struct engine_slot *s = find_slot(engine->priv, id);

    return s != NULL ? s->client->request_id : NULL;
}
