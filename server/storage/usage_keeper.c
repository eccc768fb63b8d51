/* server/storage/usage_keeper.c - see usage_keeper.h.
 *
 * The file is one table whose key is day and owner. One job at a time, on the storage thread,
 * replaces the rows that have changed, so that saving a row twice does no harm; all rows of a job
 * are one transaction. A row counts as saved when the job takes its copy; if the job fails,
 * usage_ledger_give_back() marks the rows again. The ledger's callback starts a one-shot timer, so
 * that an idle server does nothing.
 */
#include "server/storage/usage_keeper.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/process/loop_guard.h"
#include "server/process/worker_pool.h"
#include "server/storage/sql_store.h"
#include "server/storage/usage_ledger.h"

#include <stdio.h>

#define RETRY_MS 2000 /* milliseconds of a pause after a failure */

#define COLUMNS                                                                                    \
    "day,owner,requests,prompt_tokens,computed_tokens,cached_tokens,generated_tokens,compute_us,"  \
    "block_us,cpu_us"

static const struct sqlite_table tables[] = {
    {.name = "usage", .columns = COLUMNS, .row = "day=new.day AND owner=new.owner", .key = "day"},
};

enum statement { SQL_LOAD, SQL_SAVE, N_SQL };

static const char *const texts[N_SQL] = {
    /* The latest days, in ascending order. */
    [SQL_LOAD] =
        "SELECT * FROM (SELECT " COLUMNS ",is_whole FROM whole_usage ORDER BY day DESC LIMIT ?1)"
        " ORDER BY day",
    [SQL_SAVE] = "INSERT OR REPLACE INTO usage(" COLUMNS ") VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)",
};

static const struct sql_store_form form = {
    .file.what = "usage",
    .file.application_id = 0x51554955, /* "QUIU" */
    .file.version = 2,
    .file.schema = "CREATE TABLE IF NOT EXISTS usage(day INTEGER NOT NULL, owner TEXT NOT NULL,"
                   " requests INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL,"
                   " computed_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,"
                   " generated_tokens INTEGER NOT NULL, compute_us INTEGER NOT NULL,"
                   " block_us INTEGER NOT NULL, cpu_us INTEGER NOT NULL, hash INTEGER,"
                   " PRIMARY KEY(day,owner)) WITHOUT ROWID;",
    .file.tables = tables,
    .file.n_tables = 1,
    .statements = texts,
    .n_statements = N_SQL,
    .subject = "the usage",
    .setting = "usage_db",
};

struct usage_keeper {
    struct usage_ledger *ledger;
    struct sql_store sql;
    struct worker_pool *storage;
    struct worker_job job;
    bool has_job; /* `job` is posted */
    uv_timer_t timer;
    bool has_failed;
    int rc; /* result of the job */
    struct api_error error;
    uint32_t n;
    struct usage_row taken[USAGE_SAVE_ROWS];          /* [n] the rows that the job saves */
    char owners[USAGE_SAVE_ROWS][USAGE_MAX_NAME + 1]; /* their owners' names */
};

/* ---- the file ---- */

static uint64_t amount(const struct usage_keeper *k, int column)
{
    return (uint64_t)sql_store_int(&k->sql, SQL_LOAD, column);
}

/* Add the rows of the file, at most USAGE_MAX_ROWS of the latest days, to the ledger. */
static int load_usage(struct usage_keeper *k, struct api_error *e)
{
    int rc = sql_store_run(&k->sql, SQL_LOAD, e, "i", (int64_t)USAGE_MAX_ROWS);

    for (; rc == 1; rc = sql_store_next(&k->sql, SQL_LOAD, e)) {
        const struct usage_amounts a = {.requests = amount(k, 2),
                                        .prompt_tokens = amount(k, 3),
                                        .engine.computed_tokens = amount(k, 4),
                                        .engine.cached_tokens = amount(k, 5),
                                        .engine.generated_tokens = amount(k, 6),
                                        .engine.compute_us = amount(k, 7),
                                        .engine.block_us = amount(k, 8),
                                        .cpu_us = amount(k, 9)};

        usage_ledger_restore(k->ledger, sql_store_text(&k->sql, SQL_LOAD, 1), (int32_t)amount(k, 0),
                             &a);
    }
    return rc;
}

static int save_row(struct usage_keeper *k, uint32_t i)
{
    const struct usage_amounts *a = &k->taken[i].amounts;
    const struct usage *u = &a->engine;

    return sql_store_run(&k->sql, SQL_SAVE, &k->error, "itiiiiiiii", (int64_t)k->taken[i].day,
                         k->owners[i], (int64_t)a->requests, (int64_t)a->prompt_tokens,
                         (int64_t)u->computed_tokens, (int64_t)u->cached_tokens,
                         (int64_t)u->generated_tokens, (int64_t)u->compute_us, (int64_t)u->block_us,
                         (int64_t)a->cpu_us);
}

/* Save all taken rows or none; they replace those of the file. */
static void on_usage_keeper_work(struct worker_job *job)
{
    struct usage_keeper *k = list_entry(job, struct usage_keeper, job);
    int rc = sql_store_begin(&k->sql, &k->error);

    for (uint32_t i = 0; rc == 0 && i < k->n; i++)
        rc = save_row(k, i);
    k->rc = sql_store_end(&k->sql, rc, &k->error);
}

/* ---- the job ---- */

static void wait_for(struct usage_keeper *k, uint64_t ms);

static void on_usage_keeper_done(struct worker_job *job)
{
    struct usage_keeper *k = list_entry(job, struct usage_keeper, job);
    char quoted[400];

    k->has_job = false;
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
    if (k->has_job)
        return;
    k->n = usage_ledger_take_unsaved(k->ledger, k->taken, USAGE_SAVE_ROWS);
    if (k->n == 0)
        return;
    for (uint32_t i = 0; i < k->n; i++)
        snprintf(k->owners[i], sizeof(k->owners[i]), "%s",
                 usage_ledger_name(k->ledger, k->taken[i].owner));
    k->job.work = on_usage_keeper_work;
    k->job.done = on_usage_keeper_done;
    k->job.name = "usage_keeper";
    k->job.subject = "the file of usage";
    k->has_job = true;
    (void)worker_pool_post(k->storage, &k->job); /* the storage thread has no limit of jobs */
}

/* ---- the timer ---- */

static void on_usage_timer(uv_timer_t *timer)
{
    LOOP_CALLBACK(timer->loop, "usage_keeper.timer");
    save(timer->data);
}

static void wait_for(struct usage_keeper *k, uint64_t ms)
{
    if (!k->has_job && !uv_is_closing((uv_handle_t *)&k->timer) &&
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
    if (k == NULL)
        return true;
    if (!k->has_failed)
        save(k);
    return !k->has_job;
}

uint64_t usage_keeper_n_lost(const struct usage_keeper *k)
{
    return k != NULL ? k->sql.loss.n_rows : 0;
}

/* ---- life ---- */

int usage_keeper_open(struct usage_keeper **out, uv_loop_t *loop, struct worker_pool *storage,
                      struct usage_ledger *ledger, const char *path, char *err, size_t err_len)
{
    struct usage_keeper *k = mem_calloc(1, sizeof(*k));
    int rc;

    *out = NULL;
    if (k == NULL)
        return snprintf(err, err_len, "no memory for the usage"), ERR_NOMEM;
    k->ledger = ledger;
    k->storage = storage;
    uv_timer_init(loop, &k->timer);
    k->timer.data = k;
    *out = k;
    rc = sql_store_open(&k->sql, &form, path, err, err_len);
    if (rc == 0) {
        rc = load_usage(k, &k->error);
        if (rc < 0)
            snprintf(err, err_len, "'%.200s': %s", path, k->error.message);
    }
    if (rc == 0)
        usage_ledger_on_change(ledger, on_change, k);
    return rc;
}

void usage_keeper_stop(struct usage_keeper *k)
{
    if (k != NULL && !uv_is_closing((uv_handle_t *)&k->timer))
        uv_close((uv_handle_t *)&k->timer, NULL);
}

void usage_keeper_close(struct usage_keeper **keeper)
{
    struct usage_keeper *k = keeper != NULL ? *keeper : NULL;

    if (k == NULL)
        return;
    usage_ledger_on_change(k->ledger, NULL, NULL);
    sql_store_close(&k->sql);
    mem_free(k);
    *keeper = NULL;
}
