/* server/batches/batch_store.c - the database of batch_store.h, and its pages.
 *
 * All SQL is in batch_sql.inc; sql_store.h runs it; rows leave as JSON made by SQLite itself. If
 * the disk is full at the start the database stays closed, and every statement answers a 503 until
 * batch_store_try_open() succeeds. batch_store_records.c has the functions for batches,
 * batch_store_files.c those for the files' bytes.
 */
#include "server/batches/batch_store_impl.h"

#include "core/base/err.h"
#include "core/base/hex.h"
#include "core/base/log.h"
#include "core/base/mem.h"

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

/* Lost files are found in the folder (batch_store_mend.c). */
static const struct sqlite_table tables[] = {
    {.name = "file",
     .columns = "id,n,owner,purpose,filename,bytes,created,expires",
     .row = "rowid=new.rowid",
     .key = "rowid",
     .lost = "SELECT 'file',id FROM file WHERE 0"},
    {.name = "batch",
     .columns = "id,n,owner,key,endpoint,input,window,metadata,status,ended,ending,errors,created,"
                "in_progress,expires,finalizing,completed,failed,expired,cancelling,cancelled,"
                "n_lines,n_completed,n_failed,output,failures,output_end,failures_end,seed",
     .row = "rowid=new.rowid",
     .key = "rowid",
     .lost = "SELECT 'batch',id FROM damaged.batch d INDEXED BY sqlite_autoindex_batch_1"
             " WHERE NOT EXISTS(SELECT 1 FROM batch WHERE id=d.id OR n=d.n)"},
    {.name = "batch_usage",
     .columns = "n_input,n,n_cached,n_output,n_reasoning",
     .row = "rowid=new.rowid",
     .key = "rowid"},
};

static const struct sql_store_form form = {
    .file.what = "batches",
    .file.application_id = 0x51554942, /* "QUIB" */
    .file.version = 2,
    .file.schema =
        "CREATE TABLE IF NOT EXISTS file(n INTEGER PRIMARY KEY AUTOINCREMENT,"
        " id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, purpose TEXT NOT NULL,"
        " filename TEXT NOT NULL, bytes INTEGER NOT NULL, created INTEGER NOT NULL,"
        " expires INTEGER NOT NULL, hash INTEGER);"
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
        " seed INTEGER NOT NULL, hash INTEGER);"
        "CREATE TABLE IF NOT EXISTS batch_usage(n INTEGER PRIMARY KEY,"
        " n_input INTEGER NOT NULL, n_cached INTEGER NOT NULL, n_output INTEGER NOT NULL,"
        " n_reasoning INTEGER NOT NULL, hash INTEGER);"
        "CREATE INDEX IF NOT EXISTS batch_owner ON batch(owner,n);"
        "CREATE INDEX IF NOT EXISTS batch_open ON batch(ended,n);"
        "CREATE INDEX IF NOT EXISTS batch_input ON batch(input,ended);",
    .file.is_durable = true,
    .file.tables = tables,
    .file.n_tables = 3,
    .statements = texts,
    .n_statements = N_BATCH_SQL,
    .subject = "files and batches",
    .setting = "batch_dir",
    .log = "batches",
};

/* ---- statements ---- */

int batch_store_end_change(struct batch_store *s, int rc, struct api_error *e)
{
    rc = sql_store_end(&s->sql, rc, e);
    batch_store_show_counts(s);
    return rc;
}

void batch_store_show_counts(struct batch_store *s)
{
    struct api_error ignored = {0};

    if (sql_store_run(&s->sql, SQL_COUNT, &ignored, "") == 1) {
        atomic_store_explicit(&s->n_files, (uint64_t)sql_store_int(&s->sql, SQL_COUNT, 0),
                              memory_order_relaxed);
        atomic_store_explicit(&s->bytes, (uint64_t)sql_store_int(&s->sql, SQL_COUNT, 1),
                              memory_order_relaxed);
    }
    sql_store_reset(&s->sql, SQL_COUNT);
}

struct batch_store_counts batch_store_counts(const struct batch_store *s)
{
    if (s == NULL)
        return (struct batch_store_counts){0};
    return (struct batch_store_counts){
        atomic_load_explicit(&s->n_files, memory_order_relaxed),
        atomic_load_explicit(&s->bytes, memory_order_relaxed) +
            atomic_load_explicit(&s->uploading, memory_order_relaxed),
        s->n_lost};
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

static int check_folder(struct batch_store *s, const char *folder, char *err, size_t err_len)
{
    struct stat st;

    if (strlen(folder) >= sizeof(s->folder))
        return snprintf(err, err_len, "batch_dir: the path is too long"), ERR_LIMIT;
    snprintf(s->folder, sizeof(s->folder), "%s", folder);
    if (stat(folder, &st) == 0 && S_ISDIR(st.st_mode) && access(folder, R_OK | W_OK | X_OK) == 0)
        return 0;
    snprintf(err, err_len, "batch_dir '%.200s' is not a folder that can be read and written",
             folder);
    return ERR_IO;
}

/* Open the database. ERR_AGAIN: the disk is full. */
static int open_batches(struct batch_store *s, char *err, size_t err_len)
{
    char path[BATCH_STORE_PATH];
    struct api_error e = {0};
    int rc;

    batch_store_path(s, "batches.db", path);
    rc = sql_store_open(&s->sql, &form, path, err, err_len);
    s->n_lost = s->sql.loss.n_rows;
    if (rc == 0 && (s->sql.loss.is_recovered || s->n_lost > 0))
        rc = batch_store_mend(s, &e);
    if (rc == 0)
        rc = batch_store_sweep(s, UINT32_MAX, &e);
    if (rc < 0 && e.status != 0) {
        snprintf(err, err_len, "'%.200s': %s", path, e.message);
        rc = s->sql.is_full ? ERR_AGAIN : rc;
    }
    if (rc < 0) {
        sql_store_close(&s->sql);
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
        rc = open_batches(s, err, err_len);
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

    if (s != NULL && s->sql.db == NULL && open_batches(s, err, sizeof(err)) == 0)
        log_info("batches", "event=disk_has_room");
}

void batch_store_close(struct batch_store **store)
{
    struct batch_store *s = store != NULL ? *store : NULL;

    if (s == NULL)
        return;
    sql_store_close(&s->sql);
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

int batch_store_find(struct batch_store *s, enum batch_statement which,
                     const struct batch_name *name, struct buf *out, int64_t *n,
                     struct api_error *e)
{
    const int rc = sql_store_run(&s->sql, which, e, which == SQL_GET ? "tt" : "tti", name->id,
                                 name->owner, batch_store_now());

    if (rc == 0)
        return batch_store_not_found(e, which == SQL_GET ? "batch" : "file", name->id);
    if (rc < 0)
        return rc;
    if (out != NULL)
        sql_store_add(&s->sql, which, 0, out);
    *n = sql_store_int(&s->sql, which, 1);
    sql_store_reset(&s->sql, which);
    return out != NULL ? batch_store_check_out(out, e) : 0;
}

/* Find the row number after which a page begins. */
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
        api_error_set(e, 400, "after", NULL, "'after' must be the id of an element of this list");
    return rc;
}

static int list(struct batch_store *s, enum batch_statement one, enum batch_statement all,
                const char *owner, const struct batch_page *page, struct buf *out,
                struct api_error *e)
{
    int64_t place;
    int rc = find_place(s, one, owner, page, &place, e);

    if (rc < 0)
        return rc;
    rc = sql_store_run(&s->sql, all, e, "tiiti", owner, place, batch_store_now(), page->purpose,
                       (int64_t)page->limit + 1);
    rc = sql_store_list(&s->sql, all, rc, page->limit, out, e);
    return rc < 0 ? rc : batch_store_check_out(out, e);
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
