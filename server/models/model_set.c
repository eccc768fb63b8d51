/* server/models/model_set.c - see model_set.h.
 *
 * model_set_pump() does all the work: it expires waiting calls, asks model_choose() for a step and
 * takes it until there is none, starts calls of models that are ready, and sets the timer to the
 * next time at which something may change. It is called after each job, operator's request and end
 * of a request, always on the I/O thread. A callback that may run inside another call's end only
 * arms the timer with 0 ms, so that the pump never runs nested.
 */
#include "server/models/model_set_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/adapters/adapter_set.h"
#include "server/api/engine_client.h"
#include "server/api/refusal.h"
#include "server/http/retry_after.h"
#include "server/models/model_refusal.h"
#include "server/process/loop_guard.h"

/* Interval of the checks for expired calls and for a model's last use while calls or unloads
 * wait. */
#define TICK_MS 50
/* Assumed time of a load before the first one was measured. */
#define LOAD_MS 1000u

static void on_idle_timer(uv_timer_t *timer)
{
    LOOP_CALLBACK(timer->loop, "model_set.timer");
    model_set_pump(timer->data);
}

/* True: the end of a model's last request can allow a step, because a call, an unload or an idle
 * time waits for it. */
static bool is_watched(const struct model_set *s)
{
    for (uint32_t i = 0; i < s->opt.n; i++) {
        const struct model_life *l = &s->opt.models[i].life;

        if (l->waits.n > 0 || l->wants_unload || l->idle_us != UINT64_MAX)
            return true;
    }
    return false;
}

/* Called by the engine client when its last job has ended, perhaps while a call is being ended: the
 * timer runs the pump afterwards. */
static void on_idle(void *ud)
{
    struct model_set *s = ud;

    if (!s->has_timer || s->is_closed || !is_watched(s))
        return;
    s->is_stale = true;
    uv_timer_start(&s->timer, on_idle_timer, 0, 0);
}

void model_set_watch(struct model_set *s, uint32_t i)
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
        model_set_watch(s, i);
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

/* ---- what model_choice.h sees of a model ---- */

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

/* ---- steps ---- */

static void begin_look(struct model_set *s, struct served_model *h)
{
    struct model_set_job *j = model_set_job_of(s, h);

    h->life.is_looked_at = true;
    j->look.files = h->life.state == MODEL_FAILED && !h->life.wants_load ? h->life.files : 0;
    model_set_begin_job(s, h, MODEL_JOB_LOOK);
}

static void begin_load(struct model_set *s, struct served_model *h)
{
    char id[280];

    h->life.state = MODEL_LOADING;
    h->life.wants_unload = false;
    h->life.begin_us = clock_us();
    log_info("models", "event=loading model=%s waiting=%u", log_quote(id, sizeof(id), h->model.id),
             h->life.waits.n);
    model_set_begin_job(s, h, MODEL_JOB_LOAD);
}

static void begin_unload(struct model_set *s, struct served_model *h)
{
    char id[280];

    log_info("models", "event=unloading model=%s reason=%s", log_quote(id, sizeof(id), h->model.id),
             h->life.wants_unload ? "asked" : "room_or_idle");
    h->life.state = MODEL_UNLOADING;
    h->life.is_held = false;
    adapter_set_close(h->model.adapters);
    served_model_detach(h);
    model_set_begin_job(s, h, MODEL_JOB_UNLOAD);
}

static void refuse_large(struct model_set *s, struct served_model *h)
{
    struct refusal why;

    model_refusal_too_large(&why, h, &s->opt.memory);
    h->life.wants_load = h->life.is_known = false;
    model_waits_refuse(&h->life.waits, &why);
}

/* Let the held models accept calls again, except model `but`. */
static void let_go(struct model_set *s, const struct served_model *but)
{
    for (uint32_t i = 0; i < s->opt.n; i++) {
        struct served_model *h = &s->opt.models[i];

        if (!h->life.is_held || h == but)
            continue;
        h->life.is_held = false;
        if (model_set_is_served(h))
            model_waits_start(&h->life.waits);
    }
}

/* Take a step. True: the caller asks model_choose() again at once. */
static bool take_step(struct model_set *s, struct model_choice c)
{
    struct served_model *h = &s->opt.models[c.i];

    /* Held models accept calls again, except one that this step holds or unloads. A look changes no
     * hold. */
    if (c.step != MODEL_STEP_LOOK)
        let_go(s, c.step == MODEL_STEP_HOLD || c.step == MODEL_STEP_UNLOAD ? h : NULL);
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

/* Start calls of models that are ready, in several turns of the loop if they are many. True: some
 * still wait. */
static bool start_calls(struct model_set *s)
{
    bool has_more = false;

    for (uint32_t i = 0; i < s->opt.n; i++) {
        struct served_model *h = &s->opt.models[i];

        if (!model_set_is_served(h))
            continue;
        model_waits_start(&h->life.waits);
        has_more = has_more || h->life.waits.n > 0;
    }
    return has_more;
}

/* Set the timer: every TICK_MS while calls or unloads wait, else to the next idle time, else
 * off. */
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
        uv_timer_start(&s->timer, on_idle_timer, ms, 0);
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
    if (start_calls(s))
        s->is_stale = true;
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
    return s->jobs[i].is_running && s->jobs[i].kind != MODEL_JOB_LOOK;
}

void model_set_stop(struct model_set *s)
{
    if (s->has_timer && !uv_is_closing((uv_handle_t *)&s->timer))
        uv_close((uv_handle_t *)&s->timer, NULL);
    s->has_timer = false;
}
