/* server/api/api_call_adapter.c - a call takes its adapter, and waits where that must be read; see
 * api_call_impl.h. */
#include "server/api/api_call_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "server/adapters/adapter_set.h"
#include "server/api/engine_client.h"
#include "server/api/refusal.h"
#include "server/api/response/response_writer.h"
#include "server/process/loop_guard.h"

#include <string.h>

/* How often it is asked whose time is over. */
#define EXPIRY_TICK_MS 100

/* ---- whose time is over ---- */

static bool is_past(uint64_t us, uint64_t now)
{
    return us > 0 && us <= now;
}

/* With the error that the engine's end of such a request becomes. */
static bool has_expired(struct api_call *api, uint64_t now)
{
    struct api_request *p = &api->request;
    const struct request *r = p->requests[0]; /* all have the same times */

    if (is_past(r->deadline_us, now) || is_past(r->timeout_us, now)) {
        refusal_say_timeout(&p->error);
        p->reason = REJECTION_DEADLINE;
        return true;
    }
    if (!is_past(r->queue_until_us, now))
        return false;
    refusal_say_queue_timeout(&p->error);
    p->reason = REJECTION_QUEUE_TIMEOUT;
    return true;
}

static struct api_call *find_expired(struct engine_client *engine)
{
    const uint64_t now = clock_us();

    list_each(it, &engine->adapter_waits)
        if (has_expired(list_entry(it, struct api_call, adapter_link), now))
            return list_entry(it, struct api_call, adapter_link);
    return NULL;
}

static void on_adapter_tick(uv_timer_t *timer)
{
    LOOP_CALLBACK(timer->loop, "adapter_wait.tick");
    struct engine_client *engine = timer->data;
    struct api_call *api;

    while (!loop_guard_is_due(timer->loop) && (api = find_expired(engine)) != NULL) {
        api_call_stop_waiting(api);
        api->adapted(api);
    }
}

/* ---- waiting ---- */

static void begin_waiting(struct api_call *api)
{
    struct engine_client *engine = api->engine;

    if (list_is_empty(&engine->adapter_waits))
        uv_timer_start(&engine->expiry, on_adapter_tick, EXPIRY_TICK_MS, EXPIRY_TICK_MS);
    list_push_back(&engine->adapter_waits, &api->adapter_link);
}

static void end_waiting(struct api_call *api)
{
    struct engine_client *engine = api->engine;

    list_unlink(&api->adapter_link);
    if (list_is_empty(&engine->adapter_waits))
        uv_timer_stop(&engine->expiry);
}

bool api_call_stop_waiting(struct api_call *api)
{
    if (!adapter_wait_cancel(&api->adapter_wait))
        return false;
    end_waiting(api);
    return true;
}

static enum rejection reason_of(const struct api_error *e)
{
    if (e->status == 503)
        return REJECTION_DRAINING;
    if (e->status != 429)
        return REJECTION_INVALID;
    return strcmp(e->code, "queue_full") == 0 ? REJECTION_QUEUE_FULL : REJECTION_MEMORY;
}

/* It has come, or *e says why not. */
static void settle_adapter(struct api_call *api, struct adapter *a, const struct api_error *e)
{
    if (a != NULL) {
        api_request_adapt(&api->request, a);
        return;
    }
    api->request.error = *e;
    api->request.reason = reason_of(e);
}

static void on_adapter(struct adapter_wait *w)
{
    struct api_call *api = list_entry(w, struct api_call, adapter_wait);

    end_waiting(api);
    settle_adapter(api, w->adapter, &w->error);
    api->adapted(api);
}

bool api_call_take_adapter(struct api_call *api, void (*adapted)(struct api_call *api))
{
    const struct api_request *p = &api->request;
    const char *name = p->params.adapter.name;
    struct adapter *a = NULL;
    struct api_error e = {0};

    if (name[0] == '\0' || p->wire_format->answer != NULL)
        return true;
    api->adapted = adapted;
    api->adapter_wait.done = on_adapter;
    begin_waiting(api); /* before there is anything to wait for: its end may come at once */
    if (adapter_set_take(api->engine->model->adapters, name, &api->adapter_wait, &a, &e) ==
        ERR_AGAIN)
        return false;
    end_waiting(api);
    settle_adapter(api, a, &e);
    return true;
}
