/* server/storage/usage_store.c - see usage_store.h.
 *
 * One table whose key is day and owner; a save replaces whole rows, so that saving a row twice does
 * no harm. All rows of a save are one transaction. The keeper's thread calls after the start. A
 * build without SQLite has usage_store_none.c in its place.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/usage_store.h"

#include "core/base/err.h"
#include "core/base/mem.h"
#include "server/storage/sqlite_file.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS                                                                                    \
    "day,owner,requests,prompt_tokens,computed_tokens,cached_tokens,generated_tokens,compute_us,"  \
    "block_us,cpu_us"

static const struct sqlite_table tables[] = {
    {"usage", 10, true, "INSERT OR IGNORE INTO usage(" COLUMNS ")"
                        " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)"},
};

static const struct sqlite_form form = {
    .what = "usage",
    .application_id = 0x51554955, /* "QUIU" */
    .version = 1,
    .schema = "CREATE TABLE IF NOT EXISTS usage(day INTEGER NOT NULL, owner TEXT NOT NULL,"
              " requests INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL,"
              " computed_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,"
              " generated_tokens INTEGER NOT NULL, compute_us INTEGER NOT NULL,"
              " block_us INTEGER NOT NULL, cpu_us INTEGER NOT NULL,"
              " PRIMARY KEY(day,owner)) WITHOUT ROWID;",
    .tables = tables,
    .n_tables = 1,
};

/* The latest days, in ascending order. */
static const char load_sql[] = "SELECT * FROM (SELECT " COLUMNS " FROM usage"
                               " ORDER BY day DESC LIMIT ?1) ORDER BY day";
static const char save_sql[] = "INSERT OR REPLACE INTO usage(" COLUMNS ")"
                               " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)";

struct usage_store {
    sqlite3 *db;
    sqlite3_stmt *save;
    struct sqlite_loss loss; /* at the opening */
};

static int say_usage(struct usage_store *s, char *err, size_t err_len)
{
    const int rc = sqlite3_errcode(s->db) == SQLITE_NOMEM ? ERR_NOMEM : ERR_IO;

    snprintf(err, err_len, "the usage cannot be read or written: %s", sqlite_file_fail(s->db));
    return rc;
}

int usage_store_open(struct usage_store **out, const char *path, char *err, size_t err_len)
{
    struct usage_store *s = mem_calloc(1, sizeof(*s));
    int rc;

    *out = NULL;
    if (s == NULL)
        return snprintf(err, err_len, "no memory for the usage"), ERR_NOMEM;
    rc = sqlite_file_open(&s->db, path, &form, &s->loss, err, err_len);
    if (rc == 0 && sqlite3_prepare_v2(s->db, save_sql, -1, &s->save, NULL) != SQLITE_OK) {
        snprintf(err, err_len, "'%s' is no database of usage: %s", path, sqlite3_errmsg(s->db));
        rc = ERR_FORMAT;
    }
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
    sqlite3_finalize(s->save);
    sqlite3_close(s->db);
    mem_free(s);
    *store = NULL;
}

uint64_t usage_store_n_lost(const struct usage_store *s)
{
    return s->loss.n_rows;
}

/* ---- rows ---- */

/* Pointers to the amounts, in the order of the columns. */
static void list_amounts(struct usage_amounts *a, uint64_t *list[8])
{
    uint64_t *const all[] = {&a->requests,
                             &a->prompt_tokens,
                             &a->engine.computed_tokens,
                             &a->engine.cached_tokens,
                             &a->engine.generated_tokens,
                             &a->engine.compute_us,
                             &a->engine.block_us,
                             &a->cpu_us};

    memcpy(list, all, sizeof(all));
}

int usage_store_load(struct usage_store *s, struct usage_ledger *l, char *err, size_t err_len)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, load_sql, -1, &st, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int(st, 1, USAGE_MAX_ROWS);
    while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        const char *owner = (const char *)sqlite3_column_text(st, 1);
        struct usage_amounts a;
        uint64_t *list[8];

        list_amounts(&a, list);
        for (int i = 0; i < 8; i++)
            *list[i] = (uint64_t)sqlite3_column_int64(st, i + 2);
        usage_ledger_restore(l, owner != NULL ? owner : "", sqlite3_column_int(st, 0), &a);
        rc = SQLITE_OK;
    }
    if (rc != SQLITE_DONE)
        rc = say_usage(s, err, err_len);
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? 0 : rc;
}

static int save_row(struct usage_store *s, const struct usage_saved *row)
{
    struct usage_amounts a = row->row.amounts;
    uint64_t *list[8];
    int rc;

    list_amounts(&a, list);
    sqlite3_bind_int(s->save, 1, row->row.day);
    sqlite3_bind_text(s->save, 2, row->owner, -1, SQLITE_STATIC);
    for (int i = 0; i < 8; i++)
        sqlite3_bind_int64(s->save, i + 3, (int64_t)*list[i]);
    rc = sqlite3_step(s->save);
    sqlite3_reset(s->save);
    return rc == SQLITE_DONE ? 0 : ERR_IO;
}

int usage_store_save(struct usage_store *s, const struct usage_saved *rows, uint32_t n, char *err,
                     size_t err_len)
{
    int rc = sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK ? 0 : ERR_IO;

    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = save_row(s, &rows[i]);
    if (rc == 0 && sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    rc = say_usage(s, err, err_len);
    if (sqlite3_get_autocommit(s->db) == 0)
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}
#endif
