/* server/model_set.c - see model_set.h. */
#include "server/model_set.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/adapters/adapter_set.h"
#include "server/api/engine_client.h"
#include "server/api/refusal.h"
#include "server/http/http_call.h"
#include "server/http/retry_after.h"
#include "server/model_refusal.h"
#include "server/process/worker_pool.h"

#include <inttypes.h>
#include <stdio.h>

/* How often it is asked whose time is over, and whether the last use of a model has ended. */
#define TICK_MS 50
/* A file that could not be loaded is looked at again after this. */
#define LOOK_AGAIN_US 1000000u
/* What a load takes that nothing is known of. */
#define LOAD_MS 1000u

enum job_kind { JOB_LOOK = 0, JOB_LOAD, JOB_UNLOAD };

struct model_set_job {
    struct worker_job job;
    struct model_set *set;
    uint32_t i;
    enum job_kind kind;
    bool is_running;
    int rc;
    struct server_look look;
    char err[400];
};

static struct model_set_job *job_of(struct model_set *s, const struct served_model *h)
{
    return &s->jobs[h - s->opt.models];
}

static void on_timer(uv_timer_t *timer)
{
    model_set_pump(timer->data);
}

/* Does it matter when a model has nothing to do? */
static bool is_watched(const struct model_set *s)
{
    for (uint32_t i = 0; i < s->opt.n; i++) {
        const struct model_life *l = &s->opt.models[i].life;

        if (l->waits.n > 0 || l->wants_unload || l->idle_us != UINT64_MAX)
            return true;
    }
    return false;
}

/* The last job of a model has ended, perhaps in the middle of a call's end: look at it afterwards. */
static void on_idle(void *ud)
{
    struct model_set *s = ud;

    if (!s->has_timer || s->is_closed || !is_watched(s))
        return;
    s->is_stale = true;
    uv_timer_start(&s->timer, on_timer, 0, 0);
}

static void watch(struct model_set *s, uint32_t i)
{
    s->jobs[i].set = s;
    s->jobs[i].i = i;
    s->opt.models[i].engine->idle = on_idle;
    s->opt.models[i].engine->idle_ud = s;
}

int model_set_open(struct model_set *s, const struct model_set_options *options)
{
    *s = (struct model_set){.opt = *options};
    s->jobs = mem_calloc(SERVER_MAX_MODELS, sizeof(*s->jobs));
    if (s->jobs == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < options->n; i++)
        watch(s, i);
    uv_timer_init(options->loop, &s->timer); /* cannot fail */
    s->timer.data = s;
    s->has_timer = true;
    return 0;
}

void model_set_close(struct model_set *s)
{
    mem_free(s->jobs);
    s->jobs = NULL;
}

/* ---- what is known of a model ---- */

/* llama-server's words; one that failed is unloaded there. */
static const char *state_name(const struct served_model *h)
{
    static const char *const names[] = {[MODEL_UNLOADED] = "unloaded",
                                        [MODEL_LOADING] = "loading",
                                        [MODEL_READY] = "loaded",
                                        [MODEL_UNLOADING] = "unloading",
                                        [MODEL_FAILED] = "unloaded"};

    return names[h->life.state];
}

/* As if it were idle from now on, if it is not. */
static int64_t leaves_at(const struct served_model *h)
{
    const uint64_t now = clock_us();
    uint64_t since = h->engine->used_us > h->life.ready_us ? h->engine->used_us : h->life.ready_us;

    if (h->life.idle_us == UINT64_MAX || h->model.is_pinned || h->model.stays)
        return 0;
    if (h->engine->n_jobs > 0)
        since = now;
    return (int64_t)clock_unix_s() +
           ((int64_t)(since + h->life.idle_us) - (int64_t)now) / 1000000;
}

void model_set_tell(struct served_model *h)
{
    h->model.state = state_name(h);
    h->model.failure = h->life.state == MODEL_FAILED ? h->life.reason : NULL;
    h->model.leaves_at = h->life.state == MODEL_READY ? leaves_at(h) : 0;
}

uint32_t model_set_wait_ms(const struct model_set *s, const struct served_model *h)
{
    const uint32_t i = (uint32_t)(h - s->opt.models);
    const uint32_t done = h->life.state == MODEL_LOADING && s->opt.loader->permille != NULL
                              ? s->opt.loader->permille(s->opt.loader->ud, i)
                              : 0;
    const uint64_t usual = h->life.load_us > 0 ? h->life.load_us / 1000 : LOAD_MS;
    const uint64_t spent = (clock_us() - h->life.begin_us) / 1000;

    if (done > 0 && done <= 1000)
        return retry_after_bound(spent * (1000 - done) / done);
    return retry_after_bound(usual);
}

static uint64_t wanted_us(const struct served_model *h)
{
    const uint64_t waits = model_waits_since_us(&h->life.waits);

    if (!h->life.wants_load || (waits > 0 && waits < h->life.asked_us))
        return waits;
    return h->life.asked_us;
}

static struct model_view view_of(const struct served_model *h)
{
    const struct model_life *l = &h->life;

    return (struct model_view){
        .state = l->state,
        .is_busy = l->state == MODEL_READY && !served_model_is_idle(h),
        .is_pinned = h->model.is_pinned || h->model.stays,
        .wants_unload = l->wants_unload,
        .is_known = l->is_known,
        .is_looked_at = l->is_looked_at,
        .bytes = l->bytes,
        .wanted_us = wanted_us(h),
        .used_us = h->engine->used_us,
        .ready_us = l->ready_us,
        .load_us = l->load_us,
        .idle_us = l->idle_us,
    };
}

/* ---- the pool's work ---- */

static void on_work(struct worker_job *job)
{
    struct model_set_job *j = list_entry(job, struct model_set_job, job);
    const struct server_loader *l = j->set->opt.loader;

    switch (j->kind) {
    case JOB_LOOK:
        j->rc = l->look(l->ud, j->i, j->look.files, &j->look, j->err, sizeof(j->err));
        break;
    case JOB_LOAD:
        j->rc = l->load(l->ud, j->i, j->err, sizeof(j->err));
        break;
    case JOB_UNLOAD:
        l->unload(l->ud, j->i);
        break;
    }
}

static void fail(struct served_model *h, const char *reason)
{
    struct refusal why;
    char quoted[440], id[280];

    snprintf(h->life.reason, sizeof(h->life.reason), "%s", reason);
    h->life.state = MODEL_FAILED;
    h->life.is_known = h->life.wants_load = false;
    h->life.n_failures++;
    log_error("models", "event=load_failed model=%s reason=%s",
              log_quote(id, sizeof(id), h->model.id), log_quote(quoted, sizeof(quoted), reason));
    model_refusal_failed(&why, h);
    model_waits_refuse(&h->life.waits, &why);
}

/* A file that failed is the same as before, or a new one is worth a try. */
static void after_look(struct served_model *h, const struct model_set_job *j)
{
    struct model_life *l = &h->life;
    struct refusal why;

    l->is_looked_at = false;
    l->looked_us = clock_us();
    if (l->state == MODEL_FAILED && j->look.files == l->files && !l->wants_load) {
        model_refusal_failed(&why, h);
        model_waits_refuse(&l->waits, &why);
        return;
    }
    l->files = j->look.files;
    l->bytes = j->look.bytes;
    if (j->rc < 0) {
        fail(h, j->err);
        return;
    }
    l->state = MODEL_UNLOADED;
    l->is_known = true;
}

static void after_load(struct model_set *s, struct served_model *h, const struct model_set_job *j)
{
    const struct server_loader *loader = s->opt.loader;

    h->life.load_us = clock_us() - h->life.begin_us;
    if (j->rc < 0)
        fail(h, j->err);
    else
        loader->loaded(loader->ud, j->i);
}

static void after_unload(struct served_model *h)
{
    char id[280];

    h->life.state = MODEL_UNLOADED;
    h->life.wants_unload = h->life.is_known = false;
    h->life.n_unloads++;
    log_info("models", "event=unloaded model=%s", log_quote(id, sizeof(id), h->model.id));
}

static void want(struct served_model *h)
{
    if (!h->life.wants_load)
        h->life.asked_us = clock_us();
    h->life.wants_load = true;
}

/* New settings come into force while nothing uses the model, and no thread works on it. */
static void take_change(struct model_set *s, struct served_model *h)
{
    struct model_life *l = &h->life;
    const bool is_away = l->state == MODEL_UNLOADED || l->state == MODEL_FAILED;

    if (!l->has_change || !is_away || job_of(s, h)->is_running)
        return;
    s->opt.loader->unloaded(s->opt.loader->ud, (uint32_t)(h - s->opt.models));
    l->has_change = l->is_known = false;
    l->state = MODEL_UNLOADED;
    if (l->comes_back)
        want(h);
    l->comes_back = false;
}

static void after_work(struct worker_job *job)
{
    struct model_set_job *j = list_entry(job, struct model_set_job, job);
    struct model_set *s = j->set;
    struct served_model *h = &s->opt.models[j->i];

    j->is_running = false;
    s->n_running--;
    switch (j->kind) {
    case JOB_LOOK:
        after_look(h, j);
        break;
    case JOB_LOAD:
        after_load(s, h, j);
        break;
    case JOB_UNLOAD:
        after_unload(h);
        break;
    }
    take_change(s, h);
    model_set_pump(s);
}

static void begin(struct model_set *s, struct served_model *h, enum job_kind kind)
{
    struct model_set_job *j = job_of(s, h);

    j->kind = kind;
    j->rc = 0;
    j->job.work = on_work;
    j->job.done = after_work;
    j->job.owner = kind == JOB_LOOK ? 0 : 1;
    j->is_running = true;
    s->n_running++;
    worker_pool_post(s->opt.pool, &j->job); /* there is room for a job of each model */
}

/* ---- steps ---- */

static void begin_look(struct model_set *s, struct served_model *h)
{
    struct model_set_job *j = job_of(s, h);

    h->life.is_looked_at = true;
    j->look.files = h->life.state == MODEL_FAILED && !h->life.wants_load ? h->life.files : 0;
    begin(s, h, JOB_LOOK);
}

static void begin_load(struct model_set *s, struct served_model *h)
{
    char id[280];

    h->life.state = MODEL_LOADING;
    h->life.wants_unload = false;
    h->life.begin_us = clock_us();
    log_info("models", "event=loading model=%s waiting=%u",
             log_quote(id, sizeof(id), h->model.id), h->life.waits.n);
    begin(s, h, JOB_LOAD);
}

static void begin_unload(struct model_set *s, struct served_model *h)
{
    char id[280];

    log_info("models", "event=unloading model=%s reason=%s",
             log_quote(id, sizeof(id), h->model.id), h->life.wants_unload ? "asked" : "room_or_idle");
    h->life.state = MODEL_UNLOADING;
    adapter_set_close(h->model.adapters);
    served_model_detach(h);
    begin(s, h, JOB_UNLOAD);
}

static void refuse_large(struct model_set *s, struct served_model *h)
{
    struct refusal why;

    model_refusal_too_large(&why, h, &s->opt.memory);
    h->life.wants_load = h->life.is_known = false;
    model_waits_refuse(&h->life.waits, &why);
}

/* Those that were held go on, but for the one that is to be. */
static void let_go(struct model_set *s, const struct served_model *but)
{
    for (uint32_t i = 0; i < s->opt.n; i++) {
        struct served_model *h = &s->opt.models[i];

        if (!h->life.is_held || h == but)
            continue;
        h->life.is_held = false;
        if (h->life.state == MODEL_READY && !h->life.wants_unload)
            model_waits_start(&h->life.waits);
    }
}

/* False: nothing follows from it at once. */
static bool take_step(struct model_set *s, struct model_choice c)
{
    struct served_model *h = &s->opt.models[c.i];

    let_go(s, c.step == MODEL_STEP_HOLD ? h : NULL);
    switch (c.step) {
    case MODEL_STEP_NONE:
        return false;
    case MODEL_STEP_LOOK:
        begin_look(s, h);
        return true;
    case MODEL_STEP_LOAD:
        begin_load(s, h);
        return true;
    case MODEL_STEP_UNLOAD:
        begin_unload(s, h);
        return true;
    case MODEL_STEP_HOLD:
        h->life.is_held = true;
        return false;
    case MODEL_STEP_REFUSE:
        refuse_large(s, h);
        return true;
    }
    return false;
}

static void fill_views(const struct model_set *s, struct model_view *v)
{
    for (uint32_t i = 0; i < s->opt.n; i++)
        v[i] = view_of(&s->opt.models[i]);
}

static bool needs_ticks(const struct model_set *s)
{
    for (uint32_t i = 0; i < s->opt.n; i++)
        if (s->opt.models[i].life.waits.n > 0 || s->opt.models[i].life.wants_unload)
            return true;
    return false;
}

/* While calls wait their times are looked at; else there is no work before the next idle time. */
static void rearm(struct model_set *s, const struct model_view *v)
{
    const uint64_t now = clock_us(), next = model_choice_next_us(v, s->opt.n, now);
    uint64_t ms = next == UINT64_MAX ? UINT64_MAX : next <= now ? 1 : (next - now + 999) / 1000;

    if (needs_ticks(s) && ms > TICK_MS)
        ms = TICK_MS;
    if (s->is_stale)
        ms = 0;
    if (ms == UINT64_MAX)
        uv_timer_stop(&s->timer);
    else
        uv_timer_start(&s->timer, on_timer, ms, 0);
}

void model_set_pump(struct model_set *s)
{
    struct model_view views[SERVER_MAX_MODELS];
    struct model_choice c;

    if (s->is_closed)
        return;
    s->is_stale = false;
    for (uint32_t i = 0; i < s->opt.n; i++)
        model_waits_expire(&s->opt.models[i].life.waits, clock_us());
    do {
        fill_views(s, views);
        c = model_choose(views, s->opt.n, &s->opt.memory, clock_us());
    } while (take_step(s, c));
    rearm(s, views);
}

void model_set_ready(struct model_set *s, struct served_model *h)
{
    struct model_life *l = &h->life;
    char id[280];

    l->state = MODEL_READY;
    l->ready_us = clock_us();
    l->wants_load = l->is_held = false;
    l->reason[0] = '\0';
    l->load_us = h->model.load_us;
    l->bytes = h->model.bytes;
    l->all_load_us += l->load_us;
    l->n_loads++;
    log_info("models", "event=loaded model=%s ms=%.1f waiting=%u",
             log_quote(id, sizeof(id), h->model.id), (double)l->load_us / 1e3, l->waits.n);
    model_waits_start(&l->waits);
    (void)s;
}

/* ---- calls ---- */

static bool is_served(const struct served_model *h)
{
    return h->life.state == MODEL_READY && !h->life.is_held && !h->life.wants_unload;
}

/* A load that the operator has asked for is waited for in any case. */
static bool may_wait(const struct served_model *h)
{
    return h->model.load != SERVER_LOAD_NEVER || h->life.wants_load ||
           h->life.state == MODEL_LOADING || h->life.is_held;
}

/* Why the call need not wait; false: it may. */
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
                     const struct model_work *work, const struct body_scan *scan)
{
    struct refusal why;

    if (is_served(h)) {
        work->start(h->engine, call, work->wire_format, scan);
        return;
    }
    if (is_hopeless(s, h, &why)) {
        refusal_send(&why, h->engine, call, 1);
        return;
    }
    if (model_waits_add(&h->life.waits, call, work, scan) < 0) {
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
                  h->life.state == MODEL_FAILED ? "not loaded: its file cannot be"
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
    if ((l->state == MODEL_READY && !l->wants_unload) || l->state == MODEL_LOADING)
        return api_error_set(e, 400, "model", NULL, "the model '%.100s' is loaded already",
                             h->model.id);
    want(h);
    l->idle_us = h->model.idle_unload_us;
    model_set_pump(s);
    return 0;
}

int model_set_unload(struct model_set *s, struct served_model *h, struct api_error *e)
{
    struct model_life *l = &h->life;

    if (h->model.stays)
        return api_error_set(e, 400, "model", NULL,
                             "the model '%.100s' publishes KV events, and stays", h->model.id);
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
    watch(s, s->opt.n++);
    if (h->model.load == SERVER_LOAD_START)
        want(h);
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
    take_change(s, h);
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

/* ---- the end ---- */

void model_set_drain(struct model_set *s)
{
    struct refusal why;

    s->is_closed = true;
    for (uint32_t i = 0; i < s->opt.n; i++) {
        model_refusal_stopping(&why);
        model_waits_refuse(&s->opt.models[i].life.waits, &why);
    }
    if (s->has_timer)
        uv_timer_stop(&s->timer);
}

bool model_set_is_working(const struct model_set *s)
{
    return s->n_running > 0;
}

bool model_set_is_changing(const struct model_set *s, uint32_t i)
{
    return s->jobs[i].is_running && s->jobs[i].kind != JOB_LOOK;
}

void model_set_stop(struct model_set *s)
{
    if (s->has_timer && !uv_is_closing((uv_handle_t *)&s->timer))
        uv_close((uv_handle_t *)&s->timer, NULL);
    s->has_timer = false;
}
