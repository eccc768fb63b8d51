/* server/models/model_waits.c - see model_waits.h.
 *
 * The waiting calls of a model are a list in the order of arrival. An entry leaves it in one of
 * four ways: its model is ready, it is refused, its time is over, or its client has disconnected.
 * The entry is freed and its on_gone callback removed before the call continues, since the call may
 * end at once. A long list is processed in several callbacks of the loop (promise P11).
 */
#include "server/models/model_waits.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/api/body_scan.h"
#include "server/api/engine_client.h"
#include "server/api/refusal.h"
#include "server/http/http_call.h"
#include "server/process/loop_guard.h"

struct wait {
    struct list link;
    struct model_waits *owner;
    struct http_call *call;
    const struct wire_format *wire_format;
    struct body_scan scan; /* offsets into the body, which does not move */
    uint64_t arrival_us;
    uint64_t over_us;        /* time at which the call gets a 408 */
    uint64_t queue_until_us; /* time at which the call gets a 429; 0: never */
};

void model_waits_init(struct model_waits *w, struct engine_client *engine, uint32_t max,
                      model_waits_start_fn *start)
{
    *w = (struct model_waits){.engine = engine, .max = max, .start = start};
    list_init(&w->list);
}

static struct wait *first(const struct model_waits *w)
{
    return list_entry(w->list.next, struct wait, link);
}

static void forget_wait(struct wait *v)
{
    v->owner->n--;
    list_unlink(&v->link);
    mem_free(v);
}

static void on_waiting_client_gone(void *ud)
{
    struct wait *v = ud;

    v->owner->engine->metrics->outcomes[OUTCOME_CANCELLED]++;
    forget_wait(v);
}

static uint64_t earlier(uint64_t a_us, uint64_t from_us, uint64_t ms)
{
    const uint64_t b_us = from_us + ms * 1000;

    return ms == 0 || (a_us > 0 && a_us < b_us) ? a_us : b_us;
}

static void set_times(struct wait *v, const struct server_model *m, const struct body_scan *scan)
{
    v->arrival_us = http_call_arrival_us(v->call);
    v->over_us = earlier(0, v->arrival_us, (uint64_t)m->request_timeout_s * 1000);
    v->over_us = earlier(v->over_us, v->arrival_us, scan->deadline_ms);
    v->queue_until_us =
        earlier(0, v->arrival_us, scan->max_queue_ms > 0 ? scan->max_queue_ms : m->max_queue_ms);
}

int model_waits_add(struct model_waits *w, struct http_call *call,
                    const struct wire_format *wire_format, const struct body_scan *scan)
{
    struct wait *v;

    if (w->n >= w->max)
        return ERR_LIMIT;
    v = mem_calloc(1, sizeof(*v));
    if (v == NULL)
        return ERR_NOMEM;
    v->owner = w;
    v->call = call;
    v->wire_format = wire_format;
    v->scan = *scan;
    set_times(v, w->engine->model, scan);
    list_push_back(&w->list, &v->link);
    w->n++;
    http_call_on_gone(call, on_waiting_client_gone, v);
    return 0;
}

uint64_t model_waits_since_us(const struct model_waits *w)
{
    return w->n > 0 ? first(w)->arrival_us : 0;
}

void model_waits_start(struct model_waits *w)
{
    while (w->n > 0 && !loop_guard_is_due(w->engine->shared->loop)) { /* starting adds none */
        struct wait *v = first(w);
        struct http_call *call = v->call;
        const struct wire_format *wire_format = v->wire_format;
        const struct body_scan scan = v->scan;

        forget_wait(v);
        http_call_on_gone(call, NULL, NULL);
        w->start(w->engine, call, wire_format, &scan);
    }
}

static void refuse_wait(struct wait *v, struct refusal why)
{
    struct engine_client *engine = v->owner->engine;
    struct http_call *call = v->call;

    forget_wait(v);
    http_call_on_gone(call, NULL, NULL);
    refusal_send(&why, engine, call, 1);
}

void model_waits_refuse(struct model_waits *w, const struct refusal *why)
{
    while (w->n > 0)
        refuse_wait(first(w), *why);
}

static bool has_expired(const struct wait *v, uint64_t now_us, struct refusal *why)
{
    *why = (struct refusal){0};
    if (v->over_us <= now_us) {
        refusal_say_timeout(&why->error);
        why->reason = REJECTION_DEADLINE;
        why->is_final = true;
        return true;
    }
    if (v->queue_until_us == 0 || v->queue_until_us > now_us)
        return false;
    refusal_say_queue_timeout(&why->error);
    why->reason = REJECTION_QUEUE_TIMEOUT;
    return true;
}

void model_waits_expire(struct model_waits *w, uint64_t now_us)
{
    struct refusal why;

    list_each(it, &w->list)
    {
        struct wait *v = list_entry(it, struct wait, link);

        if (!has_expired(v, now_us, &why))
            continue;
        if (loop_guard_is_due(w->engine->shared->loop))
            return;
        refuse_wait(v, why);
    }
}
