/* server/batches/batch_store.c - the database of batch_store.h, its statements and pages.
 *
 * All SQL is in batch_sql.inc and prepared once; rows leave as JSON made by SQLite itself. If the
 * disk is full at the start the database stays closed, and every statement answers a 503 until
 * batch_store_try_open() succeeds. batch_store_records.c has what computes batches,
 * batch_store_files.c the bytes. A build without SQLite has batch_store_none.c in their place.
 */
#ifdef QUIRE_SQLITE
#include "core/base/hex.h"
#include "server/batches/batch_store_impl.h"

#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/storage/sqlite_bind.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const texts[] = {
#define SQL(name, text) text,
#include "server/batches/batch_sql.inc"
#undef SQL
};

static const struct sqlite_table tables[] = {
    {"file", 8, false, "INSERT OR IGNORE INTO file SELECT ?9,?2,?3,?4,?5,?6,?7,?8"},
    {"batch", 29, false, "INSERT OR IGNORE INTO batch SELECT ?30,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,"
                         "?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23,?24,?25,?26,?27,?28,?29"},
    {"batch_usage", 5, false, "INSERT OR IGNORE INTO batch_usage SELECT ?6,?2,?3,?4,?5"},
};

/* Note ids that only the index still knows; lost files are found in the folder. */
static const char enter_lost[] =
    "INSERT OR IGNORE INTO lost SELECT 'batch',?2 WHERE ?1=2 AND length(?2)=30"
    " AND substr(?2,1,6)='batch_' AND NOT EXISTS(SELECT 1 FROM batch WHERE id=?2)";

static const struct sqlite_form form = {
    .what = "batches",
    .application_id = 0x51554942, /* "QUIB" */
    .version = 1,
    .schema =
        "CREATE TABLE IF NOT EXISTS file(n INTEGER PRIMARY KEY AUTOINCREMENT,"
        " id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, purpose TEXT NOT NULL,"
        " filename TEXT NOT NULL, bytes INTEGER NOT NULL, created INTEGER NOT NULL,"
        " expires INTEGER NOT NULL);"
        "CREATE INDEX IF NOT EXISTS file_owner ON file(owner,n);"
        "CREATE INDEX IF NOT EXISTS file_expires ON file(expires);"
        "CREATE TABLE IF NOT EXISTS batch(n INTEGER PRIMARY KEY AUTOINCREMENT,"
        " id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, key TEXT NOT NULL,"
        " endpoint TEXT NOT NULL, input TEXT NOT NULL, window TEXT NOT NULL, metadata TEXT,"
        " status TEXT NOT NULL, ended INTEGER NOT NULL DEFAULT 0,"
        " ending INTEGER NOT NULL DEFAULT 0, errors TEXT, created INTEGER NOT NULL,"
        " in_progress INTEGER, expires INTEGER NOT NULL, finalizing INTEGER, completed INTEGER,"
        " failed INTEGER, expired INTEGER, cancelling INTEGER, cancelled INTEGER,"
        " n_lines INTEGER NOT NULL DEFAULT 0, n_completed INTEGER NOT NULL DEFAULT 0,"
        " n_failed INTEGER NOT NULL DEFAULT 0, output TEXT NOT NULL, failures TEXT NOT NULL,"
        " output_end INTEGER NOT NULL DEFAULT 0, failures_end INTEGER NOT NULL DEFAULT 0,"
        " seed INTEGER NOT NULL);"
        "CREATE TABLE IF NOT EXISTS batch_usage(n INTEGER PRIMARY KEY,"
        " n_input INTEGER NOT NULL, n_cached INTEGER NOT NULL, n_output INTEGER NOT NULL,"
        " n_reasoning INTEGER NOT NULL);"
        "CREATE INDEX IF NOT EXISTS batch_owner ON batch(owner,n);"
        "CREATE INDEX IF NOT EXISTS batch_open ON batch(ended,n);"
        "CREATE INDEX IF NOT EXISTS batch_input ON batch(input,ended);",
    .is_durable = true,
    .tables = tables,
    .n_tables = 3,
    .enter_lost = enter_lost,
};

/* ---- statements ---- */

sqlite3_stmt *batch_store_bind(struct batch_store *s, enum batch_statement which,
                               const char *types, ...)
{
    va_list ap;

    if (s->db == NULL)
        return NULL; /* batch_store_step() returns the error */
    va_start(ap, types);
    sqlite_bind(s->statements[which], types, ap);
    va_end(ap);
    return s->statements[which];
}

int batch_store_step(struct batch_store *s, sqlite3_stmt *st, struct api_error *e)
{
    const int rc = s->db != NULL ? sqlite3_step(st) : SQLITE_FULL;
    char quoted[300];
    const char *why;
    int code;

    if (s->db == NULL) {
        api_error_set(e, 503, NULL, "batch_dir",
                      "files and batches cannot be read or written now: the disk is full");
        return ERR_IO;
    }
    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE) {
        sqlite3_reset(st);
        return 0;
    }
    code = sqlite3_extended_errcode(s->db);
    sqlite3_reset(st);
    why = sqlite_file_fail(s->db);
    log_error("batches", "event=database_failed code=%d reason=%s", code,
              log_quote(quoted, sizeof(quoted), why));
    api_error_set(e, rc == SQLITE_NOMEM ? 500 : 503, NULL, "batch_dir",
                  "files and batches cannot be read or written now: %s", why);
    return rc == SQLITE_NOMEM ? ERR_NOMEM : ERR_IO;
}

int batch_store_run(struct batch_store *s, enum batch_statement which, struct api_error *e)
{
    return batch_store_step(s, batch_store_bind(s, which, ""), e);
}

int batch_store_end_change(struct batch_store *s, int rc, struct api_error *e)
{
    struct api_error ignored = {0};

    if (rc >= 0)
        rc = batch_store_run(s, SQL_COMMIT, e);
    if (rc < 0 && s->db != NULL && sqlite3_get_autocommit(s->db) == 0)
        (void)batch_store_run(s, SQL_ROLLBACK, &ignored);
    batch_store_show_counts(s);
    return rc < 0 ? rc : 0;
}

void batch_store_show_counts(struct batch_store *s)
{
    struct api_error ignored = {0};
    sqlite3_stmt *st = batch_store_bind(s, SQL_COUNT, "");

    if (batch_store_step(s, st, &ignored) == 1) {
        atomic_store_explicit(&s->n_files, (uint64_t)sqlite3_column_int64(st, 0),
                              memory_order_relaxed);
        atomic_store_explicit(&s->bytes, (uint64_t)sqlite3_column_int64(st, 1),
                              memory_order_relaxed);
    }
    sqlite3_reset(st);
}

struct batch_store_counts batch_store_counts(const struct batch_store *s)
{
    if (s == NULL)
        return (struct batch_store_counts){0};
    return (struct batch_store_counts){atomic_load_explicit(&s->n_files, memory_order_relaxed),
                                       atomic_load_explicit(&s->bytes, memory_order_relaxed) +
                                           atomic_load_explicit(&s->uploading,
                                                                memory_order_relaxed),
                                       s->loss.n_rows};
}

int64_t batch_store_now(void)
{
    return (int64_t)time(NULL);
}

int64_t batch_store_keep_until(const struct batch_store *s)
{
    return batch_store_now() + (int64_t)s->max_days * BATCH_STORE_DAY_S;
}

void batch_store_random_id(const char *prefix, char out[BATCH_STORE_ID])
{
    unsigned char random[12] = {0};
    char digits[2 * sizeof(random) + 1];

    (void)!getrandom(random, sizeof(random), 0);
    hex_write(digits, random, sizeof(random));
    snprintf(out, BATCH_STORE_ID, "%s%s", prefix, digits);
}

void batch_store_path(const struct batch_store *s, const char *id, char out[BATCH_STORE_PATH])
{
    snprintf(out, BATCH_STORE_PATH, "%s/%s", s->folder, id);
}

/* ---- life ---- */

/* Remove uploads that were cut off by the end of a process. */
static void remove_parts(const struct batch_store *s)
{
    DIR *dir = opendir(s->folder);
    const struct dirent *it;

    while (dir != NULL && (it = readdir(dir)) != NULL) {
        const size_t n = strlen(it->d_name);

        if (n > sizeof(BATCH_STORE_PART) && strncmp(it->d_name, "file-", 5) == 0 &&
            strcmp(it->d_name + n - (sizeof(BATCH_STORE_PART) - 1), BATCH_STORE_PART) == 0)
            unlinkat(dirfd(dir), it->d_name, 0);
    }
    if (dir != NULL)
        closedir(dir);
}

static int prepare_batch_statements(struct batch_store *s)
{
    if (sqlite3_exec(s->db, "PRAGMA synchronous=FULL", NULL, NULL, NULL) != SQLITE_OK)
        return ERR_IO;
    for (int i = 0; i < N_BATCH_SQL; i++)
        if (sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[i],
                               NULL) != SQLITE_OK)
            return ERR_FORMAT;
    return 0;
}

static int check_folder(struct batch_store *s, const char *folder, char *err, size_t err_len)
{
    struct stat st;

    if (strlen(folder) >= sizeof(s->folder))
        return snprintf(err, err_len, "batch_dir: the path is too long"), ERR_LIMIT;
    snprintf(s->folder, sizeof(s->folder), "%s", folder);
    if (stat(folder, &st) == 0 && S_ISDIR(st.st_mode) && access(folder, R_OK | W_OK | X_OK) == 0)
        return 0;
    snprintf(err, err_len, "batch_dir '%.200s' is no folder that can be read and written", folder);
    return ERR_IO;
}

static void close_database(struct batch_store *s)
{
    for (int i = 0; i < N_BATCH_SQL; i++) {
        sqlite3_finalize(s->statements[i]);
        s->statements[i] = NULL;
    }
    sqlite3_close(s->db);
    s->db = NULL;
}

/* ERR_AGAIN: the disk is full. */
static int open_database(struct batch_store *s, char *err, size_t err_len)
{
    char path[BATCH_STORE_PATH];
    struct api_error e = {0};
    int rc;

    batch_store_path(s, "batches.db", path);
    rc = sqlite_file_open(&s->db, path, &form, &s->loss, err, err_len);
    if (rc == 0 && prepare_batch_statements(s) < 0) {
        snprintf(err, err_len, "'%.200s' is no database of batches: %s", path,
                 sqlite3_errmsg(s->db));
        rc = ERR_FORMAT;
    }
    if (rc == 0 && (s->loss.is_salvaged || s->loss.n_rows > 0))
        rc = batch_store_mend(s, &e);
    if (rc == 0)
        rc = batch_store_sweep(s, &e);
    if (rc < 0 && e.status != 0) {
        snprintf(err, err_len, "'%.200s': %s", path, e.message);
        rc = sqlite3_errcode(s->db) == SQLITE_FULL ? ERR_AGAIN : rc;
    }
    if (rc < 0) {
        close_database(s);
        return rc;
    }
    remove_parts(s);
    batch_store_show_counts(s);
    return 0;
}

int batch_store_open(struct batch_store **out, const struct batch_store_options *options, char *err,
                     size_t err_len)
{
    struct batch_store *s = mem_calloc(1, sizeof(*s));
    char quoted[400];
    int rc;

    *out = NULL;
    if (s == NULL)
        return snprintf(err, err_len, "no memory for batches"), ERR_NOMEM;
    s->max_bytes = options->max_bytes;
    s->max_days = options->max_days;
    rc = check_folder(s, options->folder, err, err_len);
    if (rc == 0)
        rc = open_database(s, err, err_len);
    if (rc == ERR_AGAIN) {
        log_error("batches", "event=disk_full reason=%s batches=wait",
                  log_quote(quoted, sizeof(quoted), err));
        rc = 0;
    }
    if (rc < 0)
        batch_store_close(&s);
    *out = s;
    return rc;
}

void batch_store_try_open(struct batch_store *s)
{
    char err[400];

    if (s != NULL && s->db == NULL && open_database(s, err, sizeof(err)) == 0)
        log_info("batches", "event=disk_has_room");
}

void batch_store_close(struct batch_store **store)
{
    struct batch_store *s = store != NULL ? *store : NULL;

    if (s == NULL)
        return;
    close_database(s);
    mem_free(s);
    *store = NULL;
}

/* ---- pages ---- */

int batch_store_not_found(struct api_error *e, const char *what, const char *id)
{
    api_error_set(e, 404, NULL, NULL, "there is no %s '%.100s' here", what, id);
    return ERR_NOENT;
}

int batch_store_check_out(const struct buf *out, struct api_error *e)
{
    return out->err < 0 ? api_error_no_memory(e) : 0;
}

static void add_column(struct buf *out, sqlite3_stmt *st, int i)
{
    const char *text = (const char *)sqlite3_column_text(st, i);

    if (text != NULL)
        buf_add(out, text, (size_t)sqlite3_column_bytes(st, i));
}

int batch_store_find(struct batch_store *s, enum batch_statement which,
                     const struct batch_name *name, struct buf *out, int64_t *n,
                     struct api_error *e)
{
    sqlite3_stmt *st =
        which == SQL_GET
            ? batch_store_bind(s, which, "tt", name->id, name->owner)
            : batch_store_bind(s, which, "tti", name->id, name->owner, batch_store_now());
    const int rc = batch_store_step(s, st, e);

    if (rc == 0)
        return batch_store_not_found(e, which == SQL_GET ? "batch" : "file", name->id);
    if (rc < 0)
        return rc;
    if (out != NULL)
        add_column(out, st, 0);
    *n = sqlite3_column_int64(st, 1);
    sqlite3_reset(st);
    return out != NULL ? batch_store_check_out(out, e) : 0;
}

static void add_ends(struct buf *out, char ends[2][BATCH_STORE_ID], uint32_t n)
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

/* The row number after which a page begins. */
static int find_place(struct batch_store *s, enum batch_statement one, const char *owner,
                      const struct batch_page *page, int64_t *place, struct api_error *e)
{
    const struct batch_name name = {owner, page->after};
    int rc;

    *place = page->is_ascending ? -1 : INT64_MAX;
    if (page->after == NULL)
        return 0;
    rc = batch_store_find(s, one, &name, NULL, place, e);
    if (rc == ERR_NOENT)
        api_error_set(e, 400, "after", NULL, "'after' must be the id of one of these");
    return rc;
}

static int list(struct batch_store *s, enum batch_statement one, enum batch_statement all,
                const char *owner, const struct batch_page *page, struct buf *out,
                struct api_error *e)
{
    char ends[2][BATCH_STORE_ID];
    int64_t place;
    sqlite3_stmt *st;
    uint32_t n = 0;
    int rc = find_place(s, one, owner, page, &place, e);

    if (rc < 0)
        return rc;
    buf_add_str(out, "{\"object\":\"list\",\"data\":[");
    st = batch_store_bind(s, all, "tiiti", owner, place, batch_store_now(), page->purpose,
                          (int64_t)page->limit + 1);
    while ((rc = batch_store_step(s, st, e)) == 1 && n < page->limit) {
        if (n > 0)
            buf_add_char(out, ',');
        add_column(out, st, 1);
        for (int i = n > 0; i < 2; i++)
            snprintf(ends[i], sizeof(ends[i]), "%s", (const char *)sqlite3_column_text(st, 0));
        n++;
    }
    sqlite3_reset(st);
    if (rc < 0)
        return rc;
    buf_add_char(out, ']');
    add_ends(out, ends, n);
    buf_printf(out, ",\"has_more\":%s}", rc == 1 ? "true" : "false");
    return batch_store_check_out(out, e);
}

int batch_store_get(struct batch_store *s, const struct batch_name *name, struct buf *out,
                    struct api_error *e)
{
    int64_t n;

    return batch_store_find(s, SQL_GET, name, out, &n, e);
}

int batch_store_list(struct batch_store *s, const char *owner, const struct batch_page *page,
                     struct buf *out, struct api_error *e)
{
    return list(s, SQL_GET, page->is_ascending ? SQL_LIST_UP : SQL_LIST_DOWN, owner, page, out, e);
}

int batch_store_get_file(struct batch_store *s, const struct batch_name *name, struct buf *out,
                         struct api_error *e)
{
    int64_t n;

    return batch_store_find(s, SQL_GET_FILE, name, out, &n, e);
}

int batch_store_list_files(struct batch_store *s, const char *owner, const struct batch_page *page,
                           struct buf *out, struct api_error *e)
{
    return list(s, SQL_GET_FILE, page->is_ascending ? SQL_FILES_UP : SQL_FILES_DOWN, owner, page,
                out, e);
}
#endif
