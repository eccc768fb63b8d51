/* server/storage/sql_store.c - see sql_store.h.
 *
 * Texts are bound without a copy. A statement is reset before it is bound, which ends a row that a
 * caller has not read to the end. A build without SQLite has sql_store_none.c in its place.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/sql_store.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/json/json.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- life ---- */

static int prepare_statements(struct sql_store *s, const char *path, char *err, size_t err_len)
{
    assert(s->form->n_statements <= SQL_STORE_MAX);
    for (uint32_t i = 0; i < s->form->n_statements; i++)
        if (sqlite3_prepare_v3(s->db, s->form->statements[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &s->statements[i], NULL) != SQLITE_OK) {
            snprintf(err, err_len, "'%.200s' is not a database of %s: %s", path, s->form->file.what,
                     sqlite3_errmsg(s->db));
            return ERR_FORMAT;
        }
    return 0;
}

int sql_store_open(struct sql_store *s, const struct sql_store_form *form, const char *path,
                   char *err, size_t err_len)
{
    int rc;

    *s = (struct sql_store){.form = form};
    rc = sqlite_file_open(&s->db, path, &form->file, &s->loss, err, err_len);
    if (rc == 0)
        rc = prepare_statements(s, path, err, err_len);
    if (rc < 0)
        sql_store_close(s);
    return rc;
}

void sql_store_close(struct sql_store *s)
{
    for (uint32_t i = 0; i < SQL_STORE_MAX; i++) {
        sqlite3_finalize(s->statements[i]);
        s->statements[i] = NULL;
    }
    sqlite3_close(s->db);
    s->db = NULL;
}

/* ---- steps ---- */

/* Report the reason for which a call of SQLite has failed. */
static int fail_sql(struct sql_store *s, int rc, struct api_error *e)
{
    const int code = s->db != NULL ? sqlite3_extended_errcode(s->db) : SQLITE_FULL;
    const char *why = "the disk is full";
    char quoted[300];

    s->is_full = rc == SQLITE_FULL;
    if (s->db != NULL) {
        why = sqlite_file_fail(s->db, &s->is_damaged);
        if (s->form->log != NULL)
            log_error(s->form->log, "event=database_failed code=%d reason=%s", code,
                      log_quote(quoted, sizeof(quoted), why));
    }
    api_error_set(e, rc == SQLITE_NOMEM ? 500 : 503, NULL, s->form->setting,
                  "%s cannot be read or written now: %s", s->form->subject, why);
    return rc == SQLITE_NOMEM ? ERR_NOMEM : ERR_IO;
}

int sql_store_next(struct sql_store *s, uint32_t which, struct api_error *e)
{
    sqlite3_stmt *st = s->statements[which];
    const int rc = s->db != NULL ? sqlite3_step(st) : SQLITE_FULL;

    if (rc == SQLITE_ROW)
        return 1;
    sqlite3_reset(st);
    return rc == SQLITE_DONE ? 0 : fail_sql(s, rc, e);
}

static void bind_parameters(sqlite3_stmt *st, const char *types, va_list ap)
{
    for (int i = 1; types[i - 1] != '\0'; i++) {
        if (types[i - 1] == 'i') {
            sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
        } else if (types[i - 1] == 't') {
            sqlite3_bind_text(st, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
        } else {
            const struct buf *b = va_arg(ap, const struct buf *);

            sqlite3_bind_text64(st, i, b->data != NULL ? b->data : "", b->len, SQLITE_STATIC,
                                SQLITE_UTF8);
        }
    }
}

int sql_store_run(struct sql_store *s, uint32_t which, struct api_error *e, const char *types, ...)
{
    va_list ap;

    sql_store_reset(s, which);
    va_start(ap, types);
    if (s->db != NULL)
        bind_parameters(s->statements[which], types, ap);
    va_end(ap);
    return sql_store_next(s, which, e);
}

void sql_store_reset(struct sql_store *s, uint32_t which)
{
    sqlite3_reset(s->statements[which]);
    if (s->statements[which] != NULL)
        sqlite3_clear_bindings(s->statements[which]);
}

int64_t sql_store_n_changed(const struct sql_store *s)
{
    return s->db != NULL ? sqlite3_changes(s->db) : 0;
}

/* ---- a row ---- */

int64_t sql_store_int(const struct sql_store *s, uint32_t which, int column)
{
    sqlite3_stmt *st = s->statements[which];

    return column < sqlite3_data_count(st) ? sqlite3_column_int64(st, column) : 0;
}

const char *sql_store_text(const struct sql_store *s, uint32_t which, int column)
{
    sqlite3_stmt *st = s->statements[which];
    const char *text = NULL;

    if (column < sqlite3_data_count(st))
        text = (const char *)sqlite3_column_text(st, column);
    return text != NULL ? text : "";
}

void sql_store_add(const struct sql_store *s, uint32_t which, int column, struct buf *out)
{
    const char *text = sql_store_text(s, which, column);

    if (text[0] != '\0')
        buf_add(out, text, (size_t)sqlite3_column_bytes(s->statements[which], column));
}

static void add_ends(struct buf *out, char ends[2][SQL_STORE_MAX_ID], uint32_t n)
{
    static const char *const names[] = {"first_id", "last_id"};

    for (int i = 0; i < 2; i++) {
        buf_printf(out, ",\"%s\":", names[i]);
        if (n > 0)
            json_add_cstring(out, ends[i]);
        else
            buf_add_str(out, "null");
    }
}

int sql_store_list(struct sql_store *s, uint32_t which, int rc, uint32_t limit, struct buf *out,
                   struct api_error *e)
{
    char ends[2][SQL_STORE_MAX_ID];
    uint32_t n = 0;

    buf_add_str(out, "{\"object\":\"list\",\"data\":[");
    for (; rc == 1 && n < limit; rc = sql_store_next(s, which, e)) {
        if (n > 0)
            buf_add_char(out, ',');
        sql_store_add(s, which, 1, out);
        for (int i = n > 0; i < 2; i++)
            snprintf(ends[i], sizeof(ends[i]), "%s", sql_store_text(s, which, 0));
        n++;
    }
    sql_store_reset(s, which);
    if (rc < 0)
        return rc;
    buf_add_char(out, ']');
    add_ends(out, ends, n);
    buf_printf(out, ",\"has_more\":%s}", rc == 1 ? "true" : "false");
    return 0;
}

/* ---- changes ---- */

static int exec_sql(struct sql_store *s, const char *sql, struct api_error *e)
{
    const int rc = s->db != NULL ? sqlite3_exec(s->db, sql, NULL, NULL, NULL) : SQLITE_FULL;

    return rc == SQLITE_OK ? 0 : fail_sql(s, rc, e);
}

int sql_store_begin(struct sql_store *s, struct api_error *e)
{
    return exec_sql(s, "BEGIN IMMEDIATE", e);
}

int sql_store_end(struct sql_store *s, int rc, struct api_error *e)
{
    struct api_error ignored = {0};

    if (rc >= 0)
        rc = exec_sql(s, "COMMIT", e);
    if (rc < 0 && s->db != NULL && sqlite3_get_autocommit(s->db) == 0)
        (void)exec_sql(s, "ROLLBACK", &ignored);
    return rc < 0 ? rc : 0;
}
#endif
