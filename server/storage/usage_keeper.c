/* server/storage/usage_keeper.c - see usage_keeper.h.
 *
 * One job at a time, on a thread of its own, saves the rows that have changed. A row counts as
 * saved when the job takes its copy; if the job fails, usage_ledger_give_back() marks the rows
 * again. The ledger's callback starts a one-shot timer, so that an idle server does nothing.
 */
#include "server/storage/usage_keeper.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/process/loop_guard.h"
#include "server/process/worker_pool.h"
#include "server/storage/usage_store.h"

#include <stdio.h>

#define RETRY_MS 2000 /* pause after a failure */

struct usage_keeper {
    struct usage_ledger *ledger;
    struct usage_store *store;
    struct worker_pool *pool;
    struct worker_job job;
    uv_timer_t timer;
    bool is_running, has_failed;
    int rc; /* of the job */
    struct api_error error;
    uint32_t n;
    struct usage_row taken[USAGE_SAVE_ROWS];   /* [n] the rows that the job saves, for the ledger */
    struct usage_saved saved[USAGE_SAVE_ROWS]; /* the same rows, for the file */
};

/* ---- the job ---- */

static void on_usage_keeper_work(struct worker_job *job)
{
    struct usage_keeper *k = list_entry(job, struct usage_keeper, job);

    k->rc = usage_store_save(k->store, k->saved, k->n, &k->error);
}

static void wait_for(struct usage_keeper *k, uint64_t ms);

static void on_usage_keeper_done(struct worker_job *job)
{
    struct usage_keeper *k = list_entry(job, struct usage_keeper, job);
    char quoted[400];

    k->is_running = false;
    if (k->rc < 0)
        usage_ledger_give_back(k->ledger, k->taken, k->n);
    if (k->rc < 0 && !k->has_failed)
        log_error("usage", "event=not-saved reason=%s",
                  log_quote(quoted, sizeof(quoted), k->error.message));
    if (k->rc == 0 && k->has_failed)
        log_info("usage", "event=saved-again");
    k->has_failed = k->rc < 0;
    if (usage_ledger_has_unsaved(k->ledger))
        wait_for(k, k->has_failed ? RETRY_MS : USAGE_SAVE_MS);
}

static void save(struct usage_keeper *k)
{
    if (k->is_running)
        return;
    k->n = usage_ledger_take_unsaved(k->ledger, k->taken, USAGE_SAVE_ROWS);
    if (k->n == 0)
        return;
    for (uint32_t i = 0; i < k->n; i++) {
        k->saved[i].row = k->taken[i];
        snprintf(k->saved[i].owner, sizeof(k->saved[i].owner), "%s",
                 usage_ledger_name(k->ledger, k->taken[i].owner));
    }
    k->job.work = on_usage_keeper_work;
    k->job.done = on_usage_keeper_done;
    k->job.name = "usage_keeper";
    k->is_running = true;
    (void)worker_pool_post(k->pool, &k->job); /* the only job of the pool: there is room */
}

/* ---- the timer ---- */

static void on_usage_timer(uv_timer_t *timer)
{
    LOOP_CALLBACK(timer->loop, "usage_keeper.timer");
    save(timer->data);
}

static void wait_for(struct usage_keeper *k, uint64_t ms)
{
    if (!k->is_running && !uv_is_closing((uv_handle_t *)&k->timer) &&
        !uv_is_active((uv_handle_t *)&k->timer))
        uv_timer_start(&k->timer, on_usage_timer, ms, 0);
}

static void on_change(void *ud)
{
    struct usage_keeper *k = ud;

    wait_for(k, USAGE_SAVE_MS);
}

bool usage_keeper_is_saved(struct usage_keeper *k)
{
    if (k == NULL || k->has_failed)
        return k == NULL || !k->is_running;
    save(k);
    return !k->is_running;
}

uint64_t usage_keeper_oldest_us(struct usage_keeper *k)
{
    return k != NULL ? worker_pool_stats(k->pool).oldest_us : 0;
}

uint64_t usage_keeper_n_lost(const struct usage_keeper *k)
{
    return k != NULL ? usage_store_n_lost(k->store) : 0;
}

/* ---- life ---- */

int usage_keeper_open(struct usage_keeper **out, uv_loop_t *loop, struct usage_ledger *ledger,
                      const char *path, char *err, size_t err_len)
{
    const struct worker_pool_options pool = {.loop = loop, .max_waiting = 1};
    struct usage_keeper *k = mem_calloc(1, sizeof(*k));
    int rc;

    *out = NULL;
    if (k == NULL)
        return snprintf(err, err_len, "no memory for the usage"), ERR_NOMEM;
    k->ledger = ledger;
    uv_timer_init(loop, &k->timer);
    k->timer.data = k;
    *out = k;
    rc = usage_store_open(&k->store, path, err, err_len);
    if (rc == 0) {
        rc = usage_store_load(k->store, ledger, &k->error);
        if (rc < 0)
            snprintf(err, err_len, "'%.200s': %s", path, k->error.message);
    }
    if (rc == 0) {
        rc = worker_pool_create(&k->pool, &pool);
        if (rc < 0)
            snprintf(err, err_len, "the thread of the usage cannot be set up");
    }
    if (rc == 0)
        usage_ledger_on_change(ledger, on_change, k);
    return rc;
}

int usage_keeper_start(struct usage_keeper *k)
{
    return worker_pool_start(k->pool, 1);
}

void usage_keeper_stop(struct usage_keeper *k)
{
    if (k == NULL)
        return;
    if (!uv_is_closing((uv_handle_t *)&k->timer))
        uv_close((uv_handle_t *)&k->timer, NULL);
    worker_pool_stop(k->pool);
}

void usage_keeper_close(struct usage_keeper **keeper)
{
    struct usage_keeper *k = keeper != NULL ? *keeper : NULL;

    if (k == NULL)
        return;
    usage_ledger_on_change(k->ledger, NULL, NULL);
    worker_pool_destroy(&k->pool);
    usage_store_close(&k->store);
    mem_free(k);
    *keeper = NULL;
}
