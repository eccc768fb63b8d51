/* server/models/model_set_jobs.c - the jobs of a model on pool threads; see model_set_impl.h.
 *
 * Each model has one job struct, and at most one job of it runs. on_model_work() runs on a pool
 * thread and calls only the loader's callbacks; it touches nothing but its job. after_model_work()
 * runs on the I/O thread, writes the result into struct model_life and pumps the set. In the pool,
 * looks and loads belong to different owners, so that a look need not wait for a load.
 */
#include "server/models/model_set_impl.h"

#include "core/base/clock.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "server/models/model_refusal.h"

#include <stdio.h>

struct model_set_job *model_set_job_of(struct model_set *s, const struct served_model *h)
{
    return &s->jobs[h - s->opt.models];
}

/* ---- a thread's work ---- */

static void on_model_work(struct worker_job *job)
{
    struct model_set_job *j = list_entry(job, struct model_set_job, job);
    const struct server_loader *l = j->set->opt.loader;

    switch (j->kind) {
    case MODEL_JOB_LOOK:
        j->rc = l->look(l->ud, j->i, j->look.files, &j->look, j->err, sizeof(j->err));
        break;
    case MODEL_JOB_LOAD:
        j->rc = l->load(l->ud, j->i, j->err, sizeof(j->err));
        break;
    case MODEL_JOB_UNLOAD:
        l->unload(l->ud, j->i);
        break;
    }
}

static void fail_load(struct served_model *h, const char *reason)
{
    struct refusal why;
    char quoted[440], id[280];

    snprintf(h->life.reason, sizeof(h->life.reason), "%s", reason);
    h->life.state = MODEL_FAILED;
    h->life.is_known = h->life.wants_load = h->life.wants_unload = false;
    h->life.n_failures++;
    log_error("models", "event=load_failed model=%s reason=%s",
              log_quote(id, sizeof(id), h->model.id), log_quote(quoted, sizeof(quoted), reason));
    model_refusal_failed(&why, h);
    model_waits_refuse(&h->life.waits, &why);
}

/* Take the result of a look: a model that failed and whose file has not changed stays failed, any
 * other may be loaded. */
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
        fail_load(h, j->err);
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
        fail_load(h, j->err);
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

void model_set_want(struct served_model *h)
{
    if (!h->life.wants_load)
        h->life.asked_us = clock_us();
    h->life.wants_load = true;
}

void model_set_take_change(struct model_set *s, struct served_model *h)
{
    struct model_life *l = &h->life;
    const bool is_away = l->state == MODEL_UNLOADED || l->state == MODEL_FAILED;

    if (!l->has_change || !is_away || model_set_job_of(s, h)->is_running)
        return;
    s->opt.loader->unloaded(s->opt.loader->ud, (uint32_t)(h - s->opt.models));
    l->has_change = l->is_known = false;
    l->state = MODEL_UNLOADED;
    if (l->comes_back)
        model_set_want(h);
    l->comes_back = false;
}

static void after_model_work(struct worker_job *job)
{
    struct model_set_job *j = list_entry(job, struct model_set_job, job);
    struct model_set *s = j->set;
    struct served_model *h = &s->opt.models[j->i];

    j->is_running = false;
    s->n_running--;
    switch (j->kind) {
    case MODEL_JOB_LOOK:
        after_look(h, j);
        break;
    case MODEL_JOB_LOAD:
        after_load(s, h, j);
        break;
    case MODEL_JOB_UNLOAD:
        after_unload(h);
        break;
    }
    model_set_take_change(s, h);
    model_set_pump(s);
}

void model_set_begin_job(struct model_set *s, struct served_model *h, enum model_job_kind kind)
{
    struct model_set_job *j = model_set_job_of(s, h);

    j->kind = kind;
    j->rc = 0;
    j->job.work = on_model_work;
    j->job.done = after_model_work;
    j->job.name = "model_set";
    j->job.owner = kind == MODEL_JOB_LOOK ? 0 : 1;
    j->is_running = true;
    s->n_running++;
    worker_pool_post(s->opt.pool, &j->job); /* the pool has room for a job of each model */
}
