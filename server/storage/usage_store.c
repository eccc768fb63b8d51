/* server/storage/usage_store.c - see usage_store.h.
 *
 * One table whose key is day and owner; a save replaces whole rows, so that saving a row twice does
 * no harm. All rows of a save are one transaction. The keeper's thread calls after the start.
 */
#include "server/storage/usage_store.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/storage/sql_store.h"

#include <stdio.h>

#define COLUMNS                                                                                    \
    "day,owner,requests,prompt_tokens,computed_tokens,cached_tokens,generated_tokens,compute_us,"  \
    "block_us,cpu_us"

static const struct sqlite_table tables[] = {
    {"usage", 10, true,
     "INSERT OR IGNORE INTO usage(" COLUMNS ")"
     " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)"},
};

enum statement { SQL_LOAD, SQL_SAVE, N_SQL };

static const char *const texts[N_SQL] = {
    /* The latest days, in ascending order. */
    [SQL_LOAD] = "SELECT * FROM (SELECT " COLUMNS " FROM usage ORDER BY day DESC LIMIT ?1)"
                 " ORDER BY day",
    [SQL_SAVE] = "INSERT OR REPLACE INTO usage(" COLUMNS ") VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)",
};

static const struct sql_store_form form = {
    .file.what = "usage",
    .file.application_id = 0x51554955, /* "QUIU" */
    .file.version = 1,
    .file.schema = "CREATE TABLE IF NOT EXISTS usage(day INTEGER NOT NULL, owner TEXT NOT NULL,"
                   " requests INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL,"
                   " computed_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,"
                   " generated_tokens INTEGER NOT NULL, compute_us INTEGER NOT NULL,"
                   " block_us INTEGER NOT NULL, cpu_us INTEGER NOT NULL,"
                   " PRIMARY KEY(day,owner)) WITHOUT ROWID;",
    .file.tables = tables,
    .file.n_tables = 1,
    .statements = texts,
    .n_statements = N_SQL,
    .subject = "the usage",
    .setting = "usage_db",
};

struct usage_store {
    struct sql_store sql;
};

int usage_store_open(struct usage_store **out, const char *path, char *err, size_t err_len)
{
    struct usage_store *s = mem_calloc(1, sizeof(*s));
    int rc;

    *out = NULL;
    if (s == NULL)
        return snprintf(err, err_len, "no memory for the usage"), ERR_NOMEM;
    rc = sql_store_open(&s->sql, &form, path, err, err_len);
    if (rc < 0)
        usage_store_close(&s);
    *out = s;
    return rc;
}

void usage_store_close(struct usage_store **store)
{
    struct usage_store *s = store != NULL ? *store : NULL;

    if (s == NULL)
        return;
    sql_store_close(&s->sql);
    mem_free(s);
    *store = NULL;
}

uint64_t usage_store_n_lost(const struct usage_store *s)
{
    return s->sql.loss.n_rows;
}

/* ---- rows ---- */

static uint64_t amount(const struct usage_store *s, int column)
{
    return (uint64_t)sql_store_int(&s->sql, SQL_LOAD, column);
}

int usage_store_load(struct usage_store *s, struct usage_ledger *l, struct api_error *e)
{
    int rc = sql_store_run(&s->sql, SQL_LOAD, e, "i", (int64_t)USAGE_MAX_ROWS);

    for (; rc == 1; rc = sql_store_next(&s->sql, SQL_LOAD, e)) {
        const struct usage_amounts a = {.requests = amount(s, 2),
                                        .prompt_tokens = amount(s, 3),
                                        .engine.computed_tokens = amount(s, 4),
                                        .engine.cached_tokens = amount(s, 5),
                                        .engine.generated_tokens = amount(s, 6),
                                        .engine.compute_us = amount(s, 7),
                                        .engine.block_us = amount(s, 8),
                                        .cpu_us = amount(s, 9)};

        usage_ledger_restore(l, sql_store_text(&s->sql, SQL_LOAD, 1), (int32_t)amount(s, 0), &a);
    }
    return rc;
}

static int save_row(struct usage_store *s, const struct usage_saved *row, struct api_error *e)
{
    const struct usage_amounts *a = &row->row.amounts;
    const struct usage *u = &a->engine;

    return sql_store_run(&s->sql, SQL_SAVE, e, "itiiiiiiii", (int64_t)row->row.day, row->owner,
                         (int64_t)a->requests, (int64_t)a->prompt_tokens,
                         (int64_t)u->computed_tokens, (int64_t)u->cached_tokens,
                         (int64_t)u->generated_tokens, (int64_t)u->compute_us, (int64_t)u->block_us,
                         (int64_t)a->cpu_us);
}

int usage_store_save(struct usage_store *s, const struct usage_saved *rows, uint32_t n,
                     struct api_error *e)
{
    int rc = sql_store_begin(&s->sql, e);

    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = save_row(s, &rows[i], e);
    return sql_store_end(&s->sql, rc, e);
}
