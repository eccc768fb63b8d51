/* server/models/model_set_calls.c - takes calls, operators' requests and changed settings; see
 * model_set_impl.h.
 *
 * A call that finds its model ready starts at once. Otherwise it is refused if waiting cannot help
 * (is_hopeless()), or put into the model's queue. Loads, unloads and changed settings are flags in
 * struct model_life; model_set_pump() turns the flags into steps.
 */
#include "server/models/model_set_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "server/api/completion/completion.h"
#include "server/api/engine_client.h"
#include "server/api/refusal.h"
#include "server/http/http_call.h"
#include "server/http/retry_after.h"
#include "server/models/model_refusal.h"

/* Microseconds after which the file of a model that failed is looked at again. */
#define LOOK_AGAIN_US 1000000u

/* ---- a model's state for pages ---- */

/* Return the state in llama-server's words, where a model that failed is "unloaded". */
static const char *state_name(const struct served_model *h)
{
    static const char *const names[] = {[MODEL_UNLOADED] = "unloaded",
                                        [MODEL_LOADING] = "loading",
                                        [MODEL_READY] = "loaded",
                                        [MODEL_UNLOADING] = "unloading",
                                        [MODEL_FAILED] = "unloaded"};

    return names[h->life.state];
}

/* Return the Unix seconds at which the model will be unloaded; a busy model counts as idle from now
 * on. 0: never. */
static int64_t leaves_at(const struct served_model *h)
{
    const uint64_t now = clock_us();
    uint64_t since = h->engine->used_us > h->life.ready_us ? h->engine->used_us : h->life.ready_us;

    if (h->life.idle_us == UINT64_MAX || h->model.is_pinned || h->model.stays)
        return 0;
    if (h->engine->n_jobs > 0)
        since = now;
    return (int64_t)clock_unix_s() + ((int64_t)(since + h->life.idle_us) - (int64_t)now) / 1000000;
}

void model_set_tell(struct served_model *h)
{
    h->model.state = state_name(h);
    h->model.failure = h->life.state == MODEL_FAILED ? h->life.reason : NULL;
    h->model.leaves_at = h->life.state == MODEL_READY ? leaves_at(h) : 0;
}

/* ---- calls ---- */

bool model_set_is_served(const struct served_model *h)
{
    return h->life.state == MODEL_READY && !h->life.is_held && !h->life.wants_unload;
}

/* True: a call may wait for the model; it always may for a load that an operator has requested. */
static bool may_wait(const struct served_model *h)
{
    return h->model.load != SERVER_LOAD_NEVER || h->life.wants_load ||
           h->life.state == MODEL_LOADING || h->life.is_held;
}

/* True: the call is to be refused at once, for the reason *why; false: it may wait. */
static bool is_hopeless(const struct model_set *s, const struct served_model *h,
                        struct refusal *why)
{
    const struct model_life *l = &h->life;

    if (s->is_closed)
        model_refusal_stopping(why);
    else if (!may_wait(h))
        model_refusal_not_loaded(why, h);
    else if (l->state == MODEL_FAILED && !l->is_looked_at && !l->wants_load &&
             clock_us() - l->looked_us < LOOK_AGAIN_US)
        model_refusal_failed(why, h);
    else if (l->waits.n >= l->waits.max)
        model_refusal_full(why, h, model_set_wait_ms(s, h));
    else
        return false;
    return true;
}

void model_set_start(struct model_set *s, struct served_model *h, struct http_call *call,
                     const struct wire_format *wire_format, const struct body_scan *scan)
{
    struct refusal why;

    if (model_set_is_served(h)) {
        completion_start(h->engine, call, wire_format, scan);
        return;
    }
    if (is_hopeless(s, h, &why)) {
        refusal_send(&why, h->engine, call, 1);
        return;
    }
    if (model_waits_add(&h->life.waits, call, wire_format, scan) < 0) {
        refusal_send_no_memory(h->engine, call);
        return;
    }
    model_set_pump(s);
}

bool model_set_check_ready(struct model_set *s, struct served_model *h, struct http_call *call)
{
    struct api_error e;

    if (h->life.state == MODEL_READY)
        return true;
    api_error_set(&e, 503, "model", "model_not_loaded", "the model '%.100s' is %s", h->model.id,
                  h->life.state == MODEL_FAILED ? "not loaded, because loading its file failed"
                                                : state_name(h));
    if (h->life.state == MODEL_LOADING)
        retry_after_set(call, model_set_wait_ms(s, h));
    http_call_reply_error(call, &e);
    return false;
}

int model_set_load(struct model_set *s, struct served_model *h, struct api_error *e)
{
    struct model_life *l = &h->life;

    if (s->is_closed)
        return api_error_set(e, 503, NULL, NULL, "the server is shutting down");
    if (l->state == MODEL_READY && l->wants_unload && !l->has_change && !l->is_gone) {
        l->wants_unload = false; /* it has not been unloaded yet */
        model_set_pump(s);
        return 0;
    }
    if ((l->state == MODEL_READY && !l->wants_unload) || l->state == MODEL_LOADING)
        return api_error_set(e, 400, "model", NULL, "the model '%.100s' is already loaded",
                             h->model.id);
    model_set_want(h);
    l->idle_us = h->model.idle_unload_us;
    model_set_pump(s);
    return 0;
}

int model_set_unload(struct model_set *s, struct served_model *h, struct api_error *e)
{
    struct model_life *l = &h->life;

    if (h->model.stays)
        return api_error_set(e, 400, "model", NULL,
                             "the model '%.100s' publishes KV events, so it cannot be unloaded",
                             h->model.id);
    if (l->state != MODEL_READY && l->state != MODEL_LOADING)
        return api_error_set(e, 400, "model", NULL, "the model '%.100s' is not loaded",
                             h->model.id);
    l->wants_unload = true;
    model_set_pump(s);
    return 0;
}

/* ---- settings that change ---- */

void model_set_add(struct model_set *s, struct served_model *h)
{
    model_set_watch(s, s->opt.n++);
    if (h->model.load == SERVER_LOAD_START)
        model_set_want(h);
}

void model_set_change(struct model_set *s, struct served_model *h, bool reloads)
{
    struct model_life *l = &h->life;
    const bool is_there = l->state == MODEL_READY || l->state == MODEL_LOADING;

    l->is_gone = false;
    l->idle_us = h->model.idle_unload_us;
    if (!reloads)
        return;
    l->has_change = true;
    l->comes_back = is_there || l->comes_back || h->model.load == SERVER_LOAD_START;
    l->wants_unload = l->wants_unload || is_there;
    model_set_take_change(s, h);
}

void model_set_remove(struct model_set *s, struct served_model *h)
{
    struct refusal why = {.reason = REJECTION_INVALID, .is_final = true};

    h->life.is_gone = true;
    h->life.wants_load = h->life.comes_back = false;
    h->life.wants_unload = h->life.state == MODEL_READY || h->life.state == MODEL_LOADING;
    api_error_no_model(&why.error, h->model.id);
    model_waits_refuse(&h->life.waits, &why);
    (void)s;
}
