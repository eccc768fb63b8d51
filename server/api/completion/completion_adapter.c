/* server/api/completion/completion_adapter.c - the state ADAPTER of a completion: it takes the
 * adapter that its body names, and waits without a thread while the adapter is read from its file.
 *
 * The waiting completions of an engine client are a list. A timer runs while there are any and ends
 * those whose deadline, timeout or queue time is over, because their requests are not posted yet.
 */
#include "server/api/completion/completion_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "server/adapters/adapter_set.h"
#include "server/api/refusal.h"
#include "server/api/response/response_writer.h"
#include "server/process/loop_guard.h"

#include <string.h>

/* Interval at which the timer checks for completions whose time is over. */
#define EXPIRY_TICK_MS 100

/* ---- times ---- */

static bool is_past(uint64_t us, uint64_t now)
{
    return us > 0 && us <= now;
}

/* True: the time is over, and request.error is set as for a timeout in the engine. */
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

    while (!loop_guard_is_due(timer->loop) && (api = find_expired(engine)) != NULL)
        completion_stop_adapter(completion_of_api(api));
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

void completion_stop_adapter(struct completion *c)
{
    if (!adapter_wait_cancel(&c->api.adapter_wait))
        return;
    end_waiting(&c->api);
    completion_advance(c, COMPLETION_SAVE);
}

static enum rejection reason_of(const struct api_error *e)
{
    if (e->status == 503)
        return REJECTION_DRAINING;
    if (e->status != 429)
        return REJECTION_INVALID;
    return strcmp(e->code, "queue_full") == 0 ? REJECTION_QUEUE_FULL : REJECTION_MEMORY;
}

/* Give the requests the adapter; if it is NULL, set request.error to *e. */
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
    completion_advance(completion_of_api(api), COMPLETION_SAVE);
}

void completion_take_adapter(struct completion *c)
{
    struct api_call *api = &c->api;
    const char *name = api->request.params.adapter.name;
    struct adapter *a = NULL;
    struct api_error e = {0};

    if (name[0] != '\0' && api->request.wire_format->answer == NULL) {
        api->adapter_wait.done = on_adapter;
        begin_waiting(api); /* first, because on_adapter() may be called immediately */
        if (adapter_set_take(api->engine->model->adapters, name, &api->adapter_wait, &a, &e) ==
            ERR_AGAIN)
            return;
        end_waiting(api);
        settle_adapter(api, a, &e);
    }
    completion_advance(c, COMPLETION_SAVE);
}
