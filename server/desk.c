/* server/desk.c - see desk.h. */
#include "server/desk.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/completion.h"
#include "server/http.h"
#include "server/tempo.h"

#include <assert.h>
#include <stdio.h>

#define EVENTS_AT_ONCE 64 /* copied out of the queue under its lock in one go */

struct slot {
    uint64_t id; /* of the request that has the slot; 0 = free */
    struct completion *owner;
    uint32_t choice;
    uint32_t next_free;
};

struct desk_private {
    struct tempo tempo;
    uint64_t n_posted; /* ever: ids ascend with it */
    uint32_t n_slots, first_free;
    struct event events[EVENTS_AT_ONCE];
    struct slot slots[];
};

static void init_slots(struct desk_private *p, uint32_t n)
{
    p->n_slots = n;
    for (uint32_t i = 0; i < n; i++)
        p->slots[i].next_free = i + 1;
}

int desk_create(struct desk **out, const struct server_options *options, uv_loop_t *loop,
                struct metrics *metrics)
{
    const uint32_t n = options->max_outstanding;
    struct desk *d = mem_calloc(1, sizeof(*d));

    *out = NULL;
    if (d == NULL)
        return ERR_NOMEM;
    d->priv = mem_calloc(1, sizeof(*d->priv) + n * sizeof(struct slot));
    if (d->priv == NULL) {
        mem_free(d);
        return ERR_NOMEM;
    }
    init_slots(d->priv, n);
    tempo_start(&d->priv->tempo, clock_us());
    d->opt = options;
    d->loop = loop;
    d->metrics = metrics;
    buf_init(&d->scratch, (size_t)1 << 20); /* one token's text */
    buf_init(&d->frame, HTTP_MAX_REPLY);
    *out = d;
    return 0;
}

void desk_attach(struct desk *d, struct queue *q)
{
    d->queue = q;
}

void desk_destroy(struct desk **desk)
{
    struct desk *d = desk != NULL ? *desk : NULL;

    if (d == NULL)
        return;
    buf_release(&d->scratch);
    buf_release(&d->frame);
    mem_free(d->priv);
    mem_free(d);
    *desk = NULL;
}

/* ids are n_posted * n_slots + slot: unique, ascending, and the slot is found by a division. */
static struct slot *find_slot(struct desk_private *p, uint64_t id)
{
    struct slot *s = &p->slots[id % p->n_slots];

    return s->id == id ? s : NULL;
}

static void give_slot(struct desk_private *p, struct slot *s)
{
    s->id = 0;
    s->owner = NULL;
    s->next_free = p->first_free;
    p->first_free = (uint32_t)(s - p->slots);
}

static void take_event(struct desk *d, const struct event *e)
{
    struct slot *s = find_slot(d->priv, e->request);
    struct completion *owner;

    if (s == NULL)
        return;
    owner = s->owner;
    if (e->kind == EVENT_END) {
        give_slot(d->priv, s);
        tempo_end(&d->priv->tempo, clock_us());
    }
    completion_event(owner, s->choice, e);
}

void desk_take_events(struct desk *d)
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

void desk_close(struct desk *d, bool now)
{
    d->is_draining = true;
    d->is_stopping = d->is_stopping || now;
    if (d->queue != NULL)
        queue_close(d->queue, now);
}

int desk_check_room(struct desk *d, uint32_t n, struct api_error *e)
{
    if (d->is_draining || d->queue == NULL)
        return api_error_set(e, 503, NULL, NULL, "the server is shutting down");
    if (n > d->priv->n_slots)
        return api_error_set(e, 400, "n", NULL,
                             "%u choices are more than the queue can ever hold (%u)", n,
                             d->priv->n_slots);
    if (queue_n_outstanding(d->queue) + n <= d->priv->n_slots)
        return 0;
    return api_error_set(e, 429, NULL, "queue_full", "the queue is full (%u requests)",
                         d->priv->n_slots);
}

/* While draining nothing comes back before the last request has ended. */
void desk_set_retry_headers(struct desk *d, struct http_call *call, int status, uint32_t n)
{
    const bool is_full = status == 429;
    char text[16];
    uint32_t ms;

    if (!is_full && status != 503)
        return;
    if (!is_full && d->queue != NULL)
        n = queue_n_outstanding(d->queue);
    ms = n > 0 ? tempo_wait_ms(&d->priv->tempo, n, clock_us()) : TEMPO_MIN_WAIT_MS;
    snprintf(text, sizeof(text), "%u", (ms + 999) / 1000);
    http_call_set_header(call, "Retry-After", text);
    snprintf(text, sizeof(text), "%u", ms);
    http_call_set_header(call, "retry-after-ms", text);
    http_call_set_header(call, "x-should-retry", "true");
}

uint32_t desk_position(struct desk *d, enum priority p)
{
    const uint32_t outstanding = queue_n_outstanding(d->queue);
    struct engine_stats s;
    uint32_t known, ahead = 0;

    queue_get_stats(d->queue, &s);
    known = s.n_running + s.n_preempted;
    for (int i = 0; i < PRIORITY_COUNT; i++) {
        known += s.n_waiting[i];
        if (i >= (int)p)
            ahead += s.n_waiting[i];
    }
    if (outstanding > known) /* posted, and not yet seen by the engine */
        ahead += outstanding - known;
    if (ahead == 0 && s.n_running < d->opt->max_sequences)
        return 0;
    return s.n_running + ahead < d->opt->max_sequences ? 0 : ahead + 1;
}

uint64_t desk_post(struct desk *d, struct request *r, struct completion *owner, uint32_t choice)
{
    struct desk_private *p = d->priv;
    struct slot *s;
    int rc;

    assert(p->first_free < p->n_slots);
    s = &p->slots[p->first_free];
    r->id = ++p->n_posted * p->n_slots + p->first_free;
    p->first_free = s->next_free;
    s->id = r->id;
    s->owner = owner;
    s->choice = choice;
    const uint64_t id = r->id; /* once posted, the request is the engine's */
    rc = queue_post(d->queue, r);
    assert(rc == 0); /* there was room, and only this thread posts or closes */
    (void)rc;
    return id;
}

void desk_cancel(struct desk *d, uint64_t id)
{
    if (find_slot(d->priv, id) != NULL)
        queue_cancel(d->queue, id);
}
