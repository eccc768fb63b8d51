/* server/server_reload.c - reads keys and settings again after SIGHUP; see server.h.
 *
 * The files are read on other threads (keys on one of libuv's, settings on the models' pool), and
 * the results are applied on the I/O thread. A signal that comes during a read sets a flag, and the
 * file is read once more afterwards: the last content always wins. struct server_reload, from the
 * command, knows what the settings mean.
 */
#include "server/server_impl.h"

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/auth/api_keys.h"
#include "server/storage/usage_ledger.h"

#include <stdio.h>

void server_log_reload(const char *what, int rc, const char *err)
{
    char quoted[400];

    if (rc < 0)
        log_error("server", "event=reload_failed what=%s kept=old reason=%s", what,
                  log_quote(quoted, sizeof(quoted), err));
    else
        log_info("server", "event=reloaded what=%s", what);
}

/* ---- keys ---- */

/* Sums of the tokens of all owners from a day on, so that the ledger's rows are read once for each
 * period, not once for each key. */
struct recall {
    const struct usage_ledger *ledger;
    struct recall_sums {
        int32_t day;
        uint64_t *of; /* [owner], or NULL */
    } sums[2];
};

static const uint64_t *sums_since(struct recall *r, int32_t day)
{
    struct recall_sums *s = r->sums;

    if (s->of != NULL && s->day != day)
        s++;
    if (s->of == NULL || s->day != day) {
        mem_free(s->of);
        *s = (struct recall_sums){day, usage_ledger_sums(r->ledger, day)};
    }
    return s->of;
}

static uint64_t spent_since(void *ud, const char *key, int32_t day)
{
    struct recall *r = ud;
    const uint32_t owner = usage_ledger_find(r->ledger, key);
    const uint64_t *sums = owner != USAGE_NO_OWNER ? sums_since(r, day) : NULL;

    return sums != NULL ? sums[owner] : 0;
}

void server_recall_keys(struct server *s)
{
    struct recall r = {.ledger = s->usage};

    keys_recall(s->keys, spent_since, &r, (int64_t)clock_unix_s());
    mem_free(r.sums[0].of);
    mem_free(r.sums[1].of);
}

static void on_keys_work(uv_work_t *work)
{
    struct server *s = work->data;

    s->keys_rc = keys_read(&s->fresh_keys, s->keys, s->keys_err, sizeof(s->keys_err));
}

static void after_keys_work(uv_work_t *work, int status)
{
    LOOP_CALLBACK(work->loop, "server.keys");
    struct server *s = work->data;

    s->is_reading_keys = false;
    if (status < 0) /* UV_ECANCELED, which does not occur: the work is never cancelled */
        return;
    if (s->keys_rc == 0)
        s->keys_rc = keys_take(s->keys, &s->fresh_keys, clock_us(), s->keys_err,
                               sizeof(s->keys_err));
    if (s->keys_rc == 0)
        server_recall_keys(s);
    server_log_reload("keys", s->keys_rc, s->keys_err);
    if (s->reads_keys_again)
        server_reload_keys(s);
}

void server_reload_keys(struct server *s)
{
    s->reads_keys_again = s->is_reading_keys;
    if (s->is_reading_keys)
        return;
    s->keys_work.data = s;
    s->is_reading_keys = uv_queue_work(&s->loop, &s->keys_work, on_keys_work, after_keys_work) == 0;
}

/* ---- settings ---- */

static void on_reload_work(struct worker_job *job)
{
    struct server *s = list_entry(job, struct server, reload);

    s->reload_rc = s->opt.reload.read(s->opt.reload.ud, s->reload_err, sizeof(s->reload_err));
}

static void after_reload_work(struct worker_job *job)
{
    struct server *s = list_entry(job, struct server, reload);
    char quoted[600];

    s->is_reloading = false;
    if (s->reload_rc < 0) {
        log_error("server", "event=reload_failed what=settings kept=old reason=%s",
                  log_quote(quoted, sizeof(quoted), s->reload_err));
    } else if (!s->is_draining) {
        s->opt.reload.apply(s->opt.reload.ud);
        log_info("server", "event=reloaded what=settings");
    }
    if (s->reloads_again)
        server_begin_reload(s);
}

void server_begin_reload(struct server *s)
{
    if (s->opt.reload.read == NULL || s->auth.is_loading || s->is_draining)
        return;
    s->reloads_again = s->is_reloading;
    if (s->is_reloading)
        return;
    if (s->opt.reload.begin(s->opt.reload.ud) < 0) {
        server_log_reload("settings", ERR_NOMEM, "out of memory");
        return;
    }
    s->is_reloading = true;
    s->reload.work = on_reload_work;
    s->reload.done = after_reload_work;
    s->reload.name = "server.reload";
    worker_pool_post(s->model_pool, &s->reload); /* the pool has room: at most one job for each
                                                  * model */
}

/* ---- what has changed ---- */

int server_add_model(struct server *s, const struct server_model *model, char *err,
                     size_t err_len)
{
    struct served_model *h = &s->models[s->opt.n_models];
    int rc;

    if (s->opt.n_models == SERVER_MAX_MODELS)
        return snprintf(err, err_len, "there are too many models"), ERR_LIMIT;
    rc = served_model_open(h, &s->shared, model, err, err_len);
    if (rc < 0) {
        served_model_close(h);
        return rc;
    }
    s->opt.n_models++;
    model_set_add(&s->set, h);
    return 0;
}

void server_change_model(struct server *s, uint32_t i, const struct server_model *model,
                         bool reloads)
{
    struct served_model *h = &s->models[i];

    h->model.share = model->share;
    h->model.load = model->load;
    h->model.idle_unload_us = model->idle_unload_us;
    h->model.is_pinned = model->is_pinned;
    h->model.max_queue_ms = model->max_queue_ms;
    h->model.request_timeout_s = model->request_timeout_s;
    model_set_change(&s->set, h, reloads);
}

void server_remove_model(struct server *s, uint32_t i)
{
    model_set_remove(&s->set, &s->models[i]);
}

void server_set_memory_limit(struct server *s, uint64_t bytes)
{
    s->set.opt.memory.limit = bytes;
}

void server_settle(struct server *s)
{
    model_set_pump(&s->set);
}

void server_set_before(struct server *s, uint32_t i, const struct server_model *model)
{
    s->models[i].model = *model;
    s->models[i].life.idle_us = model->idle_unload_us;
}
