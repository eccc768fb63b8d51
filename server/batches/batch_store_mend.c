/* server/batches/batch_store_mend.c - repairs batch_store.h after its database was damaged.
 *
 * It runs once, at the opening, after sqlite_salvage.h has saved the rows that can be read. In this
 * order: files that batches name get a row again if their bytes exist; rows without bytes are
 * deleted; bytes without a row are logged and left alone.
 */
#ifdef QUIRE_SQLITE
#include "server/batches/batch_store_impl.h"

#include "core/base/err.h"
#include "core/base/log.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files that batches name and that have no row. */
static const char unknown_sql[] =
    "SELECT input,owner,'batch',id||'_input.jsonl',created FROM batch"
    " WHERE NOT EXISTS(SELECT 1 FROM file f WHERE f.id=input)"
    " UNION SELECT output,owner,'batch_output',id||'_output.jsonl',created FROM batch"
    " WHERE ended AND output_end>0 AND NOT EXISTS(SELECT 1 FROM file f WHERE f.id=output)"
    " UNION SELECT failures,owner,'batch_output',id||'_error.jsonl',created FROM batch"
    " WHERE ended AND failures_end>0 AND NOT EXISTS(SELECT 1 FROM file f WHERE f.id=failures)";
/* Sorted, so that all rows were read before the first one is deleted. */
static const char files_sql[] = "SELECT id FROM file ORDER BY filename,id";
static const char is_known_sql[] = "SELECT 1 FROM file WHERE id=?1 UNION ALL SELECT 1 FROM batch"
                                   " WHERE ended=0 AND (output=?1 OR failures=?1) LIMIT 1";

static const char *column_text(sqlite3_stmt *st, int i)
{
    const char *text = (const char *)sqlite3_column_text(st, i);

    return text != NULL ? text : "";
}

/* The size of the file, or -1: it does not exist. */
static int64_t bytes_of(const struct batch_store *s, const char *id)
{
    char path[BATCH_STORE_PATH];
    struct stat st;

    batch_store_path(s, id, path);
    return strchr(id, '/') == NULL && lstat(path, &st) == 0 && S_ISREG(st.st_mode)
               ? (int64_t)st.st_size
               : -1;
}

static void name_lost(struct batch_store *s, const char *id, const char *reason)
{
    char quoted[200];

    log_error("batches", "event=file_lost id=%s reason=%s",
              log_quote(quoted, sizeof(quoted), id), reason);
    s->loss.n_rows++;
}

/* ---- rows ---- */

static int restore(struct batch_store *s, sqlite3_stmt *file, struct api_error *e)
{
    const char *id = column_text(file, 0);
    const int64_t bytes = bytes_of(s, id), created = sqlite3_column_int64(file, 4);
    char quoted[200];
    int rc;

    if (bytes < 0)
        return 0; /* it was deleted, or its batch will report that it is missing */
    rc = batch_store_step(s,
                          batch_store_bind(s, SQL_ADD_FILE, "ttttiii", id, column_text(file, 1),
                                           column_text(file, 2), column_text(file, 3), bytes,
                                           created,
                                           created + (int64_t)s->max_days * BATCH_STORE_DAY_S),
                          e);
    if (rc < 0)
        return rc;
    log_warn("batches", "event=file_restored id=%s", log_quote(quoted, sizeof(quoted), id));
    return 0;
}

static int drop_empty(struct batch_store *s, sqlite3_stmt *file, struct api_error *e)
{
    const char *id = column_text(file, 0);

    if (bytes_of(s, id) >= 0)
        return 0;
    name_lost(s, id, "\"its bytes are gone\"");
    return batch_store_step(s, batch_store_bind(s, SQL_DROP_FILE, "t", id), e);
}

static int each(struct batch_store *s, const char *sql,
                int (*act)(struct batch_store *s, sqlite3_stmt *file, struct api_error *e),
                struct api_error *e)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) == SQLITE_OK ? 1 : ERR_IO;

    if (rc < 0)
        api_error_set(e, 503, NULL, "batch_dir", "%s", sqlite3_errmsg(s->db));
    while (rc > 0 && (rc = batch_store_step(s, st, e)) == 1) {
        rc = act(s, st, e);
        rc = rc < 0 ? rc : 1;
    }
    sqlite3_finalize(st);
    return rc;
}

/* ---- the folder ---- */

static bool is_known_file(struct batch_store *s, const char *id)
{
    sqlite3_stmt *st = NULL;
    bool is = true;

    if (sqlite3_prepare_v2(s->db, is_known_sql, -1, &st, NULL) == SQLITE_OK) {
        sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
        is = sqlite3_step(st) != SQLITE_DONE;
    }
    sqlite3_finalize(st);
    return is;
}

/* Log the bytes without a row; they may be of value to their owner, and stay. */
static void name_unknown(struct batch_store *s)
{
    DIR *dir = opendir(s->folder);
    const struct dirent *it;

    while (dir != NULL && (it = readdir(dir)) != NULL)
        if (strncmp(it->d_name, "file-", 5) == 0 && strchr(it->d_name, '.') == NULL &&
            !is_known_file(s, it->d_name))
            name_lost(s, it->d_name, "\"no row of the database has it\"");
    if (dir != NULL)
        closedir(dir);
}

int batch_store_mend(struct batch_store *s, struct api_error *e)
{
    int rc = each(s, unknown_sql, restore, e);

    if (rc == 0)
        rc = each(s, files_sql, drop_empty, e);
    if (rc == 0)
        name_unknown(s);
    return rc;
}
#endif
