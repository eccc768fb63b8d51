/* server/storage/sqlite_file.c - see sqlite_file.h.
 *
 * An opening that finds damage closes the file, recovers it and opens it once more. A bit in
 * user_version records damage that was found while others were served. The hash of a row is XXH3 of
 * the types and values, each with the hash of those before as its seed; the triggers and views are
 * TEMP, so that other programs can read the file.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/sqlite_file.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "server/storage/sqlite_recover.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* Milliseconds to wait for the lock, because a server that is ending may still hold the file. */
#define BUSY_MS 2000
/* Bit in user_version: a damaged row or page was read. */
#define DAMAGED 0x40000000

static const char modes[] = "PRAGMA journal_mode=WAL;"
                            "PRAGMA synchronous=%d;"
                            "PRAGMA secure_delete=ON;"
                            "PRAGMA foreign_keys=ON;"
                            "PRAGMA cell_size_check=ON;"
                            "PRAGMA cache_size=-4096;"
                            "PRAGMA journal_size_limit=4194304;";

static const char watch[] =
    "CREATE TEMP VIEW whole_%w AS SELECT *,row_whole(hash,%s) AS is_whole FROM main.%w;"
    "CREATE TEMP TRIGGER %w_insert AFTER INSERT ON main.%w BEGIN"
    " UPDATE %w SET hash=row_hash(%s) WHERE %s; END;"
    "CREATE TEMP TRIGGER %w_check BEFORE UPDATE OF %s ON main.%w BEGIN"
    " SELECT row_whole(hash,%s) FROM %w WHERE %s; END;"
    "CREATE TEMP TRIGGER %w_update AFTER UPDATE OF %s ON main.%w BEGIN"
    " UPDATE %w SET hash=row_hash(%s) WHERE %s; END;";

/* ---- statements and functions ---- */

static int keep_number(void *number, int n, char **values, char **names)
{
    (void)n, (void)names;
    *(int64_t *)number = values[0] != NULL ? strtoll(values[0], NULL, 10) : 0;
    return 0;
}

int sqlite_file_run(sqlite3 *db, int64_t *n, const char *format, ...)
{
    int64_t ignored;
    va_list ap;
    char *sql;
    int rc = SQLITE_NOMEM;

    n = n != NULL ? n : &ignored;
    *n = 0;
    va_start(ap, format);
    sql = sqlite3_vmprintf(format, ap);
    va_end(ap);
    if (sql != NULL)
        rc = sqlite3_exec(db, sql, keep_number, n, NULL);
    sqlite3_free(sql);
    return rc;
}

static int64_t hash_values(int n, sqlite3_value **values)
{
    uint64_t hash = 0;

    for (int i = 0; i < n; i++) {
        const int type = sqlite3_value_type(values[i]);
        const int64_t number = sqlite3_value_int64(values[i]);
        const bool is_number = type == SQLITE_INTEGER;
        const void *bytes = is_number ? &number : sqlite3_value_blob(values[i]);

        hash = XXH3_64bits_withSeed(
            bytes, is_number ? sizeof(number) : (size_t)sqlite3_value_bytes(values[i]),
            hash + (uint64_t)type);
    }
    return (int64_t)hash;
}

static void row_hash(sqlite3_context *ctx, int n, sqlite3_value **values)
{
    sqlite3_result_int64(ctx, hash_values(n, values));
}

/* Every row has a hash, so a value in its place, or none, is damage. */
static void row_whole(sqlite3_context *ctx, int n, sqlite3_value **values)
{
    const bool is_whole = sqlite3_value_type(values[0]) == SQLITE_INTEGER &&
                          sqlite3_value_int64(values[0]) == hash_values(n - 1, values + 1);
    bool *is_bad = sqlite3_user_data(ctx);

    sqlite3_result_int(ctx, is_whole);
    if (is_bad != NULL) {
        *is_bad = *is_bad || !is_whole;
    } else if (!is_whole) {
        sqlite3_result_error(ctx, "a row is damaged", -1);
        sqlite3_result_error_code(ctx, SQLITE_CORRUPT);
    }
}

/* For rows of the version before, which have no hash: a page of zeros is taken for rows of NULLs.
 */
static void row_begins(sqlite3_context *ctx, int n, sqlite3_value **values)
{
    const bool begins = sqlite3_value_type(values[0]) != SQLITE_NULL;
    bool *is_bad = sqlite3_user_data(ctx);

    (void)n;
    *is_bad = *is_bad || !begins;
    sqlite3_result_int(ctx, begins);
}

int sqlite_file_set_up(sqlite3 *db, bool *is_bad)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
    int rc;

    sqlite3_busy_timeout(db, BUSY_MS);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL); /* turn off the triggers of the
                                                                     * file itself */
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    rc = sqlite3_create_function(db, "row_hash", -1, flags, NULL, row_hash, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_create_function(db, "row_whole", -1, flags, is_bad, row_whole, NULL, NULL);
    if (rc == SQLITE_OK && is_bad != NULL)
        rc = sqlite3_create_function(db, "row_begins", -1, flags, is_bad, row_begins, NULL, NULL);
    return rc == SQLITE_OK ? sqlite_file_run(db, NULL, "PRAGMA locking_mode=EXCLUSIVE") : rc;
}

/* ---- opening ---- */

struct opening {
    const char *path;
    const struct sqlite_form *form;
    sqlite3 *db;
    int64_t id, version; /* application_id and user_version */
    bool is_damaged;     /* and ours */
    char *err;
    size_t err_len;
};

/* True: the first page has the definition of the form's first table, and is not a text file. */
static bool is_ours(const struct opening *o)
{
    const char *table = o->form->schema + strlen("CREATE TABLE IF NOT EXISTS ");
    char page[4096];
    const int fd = open(o->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = fd >= 0 ? read(fd, page, sizeof(page)) : 0;

    if (fd >= 0)
        close(fd);
    return n > 0 && memchr(page, '\0', (size_t)n) != NULL &&
           memmem(page, (size_t)n, table, strcspn(table, ",")) != NULL;
}

static int say_damaged(struct opening *o)
{
    o->is_damaged = true;
    snprintf(o->err, o->err_len, "'%s' is damaged", o->path);
    return ERR_FORMAT;
}

/* Write the error of the last statement. */
static int say_database(struct opening *o)
{
    const int rc = sqlite3_errcode(o->db);

    if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
        snprintf(o->err, o->err_len, "'%s' is in use by another process", o->path);
        return ERR_BUSY;
    }
    if (sqlite_file_is_damage(o->db) && (o->id == o->form->application_id || is_ours(o)))
        return say_damaged(o);
    if (rc == SQLITE_ERROR || rc == SQLITE_NOTADB)
        snprintf(o->err, o->err_len,
                 "'%s' is not a database of %s: %s; move it away to begin with an empty one",
                 o->path, o->form->what, sqlite3_errmsg(o->db));
    else
        snprintf(o->err, o->err_len, "'%s' cannot be used: %s", o->path, sqlite3_errmsg(o->db));
    if (rc == SQLITE_FULL || sqlite3_extended_errcode(o->db) == SQLITE_IOERR_WRITE)
        return ERR_AGAIN;
    return rc == SQLITE_ERROR || rc == SQLITE_NOTADB || rc == SQLITE_CORRUPT ? ERR_FORMAT : ERR_IO;
}

/* Check that the file is empty, or a database of this form in a version that this build reads. */
static int check_database(struct opening *o)
{
    const struct sqlite_form *f = o->form;
    int64_t n, version;

    if (sqlite_file_run(o->db, &o->id, "PRAGMA application_id") != SQLITE_OK ||
        sqlite_file_run(o->db, &o->version, "PRAGMA user_version") != SQLITE_OK ||
        sqlite_file_run(o->db, &n, "SELECT count(*) FROM sqlite_schema") != SQLITE_OK)
        return say_database(o);
    version = o->version & ~(int64_t)DAMAGED;
    if (n == 0 && o->id == 0)
        return 0;
    if (o->id != f->application_id && is_ours(o))
        return say_damaged(o);
    if (o->id != f->application_id)
        snprintf(o->err, o->err_len, "'%s' is a database of another program", o->path);
    else if (version != f->version && version + 1 != f->version)
        snprintf(o->err, o->err_len, "'%s' has version %d of %s, and this build reads %u", o->path,
                 (int)version, f->what, f->version);
    else
        return n == 0 || version != o->version ? say_damaged(o) : 0;
    return ERR_FORMAT;
}

/* Let SQLite check the file, unless it is too large, and read all rows that have a hash. */
static int check_content(struct opening *o)
{
    const struct sqlite_form *f = o->form;
    int64_t n;

    if (sqlite_file_run(o->db, &n,
                        "SELECT page_count*page_size FROM pragma_page_count,"
                        "pragma_page_size") != SQLITE_OK)
        return say_database(o);
    if (n > SQLITE_FILE_CHECKED)
        return 0;
    if (sqlite_file_run(o->db, &n, "SELECT integrity_check<>'ok' FROM pragma_integrity_check(1)") !=
        SQLITE_OK)
        return say_database(o);
    for (uint32_t i = 0; n == 0 && o->version == f->version && i < f->n_tables; i++)
        if (sqlite_file_run(o->db, &n, "SELECT min(row_whole(hash,%s))=0 FROM %w",
                            f->tables[i].columns, f->tables[i].name) != SQLITE_OK)
            return say_database(o);
    return n != 0 ? say_damaged(o) : 0;
}

/* Create the tables, or add hashes to those of the version before, in one transaction, which takes
 * the lock. A file
 * of this version is not changed, so that it can be opened on a full disk. */
static int make_tables(struct opening *o)
{
    const struct sqlite_form *f = o->form;
    int rc = sqlite_file_run(o->db, NULL, "BEGIN IMMEDIATE");

    if (o->version == f->version)
        return rc != SQLITE_OK ? rc : sqlite_file_run(o->db, NULL, "COMMIT");
    for (uint32_t i = 0; (rc == SQLITE_OK || rc == SQLITE_ERROR) && i < f->n_tables; i++)
        rc = sqlite_file_run(o->db, NULL, "ALTER TABLE %w ADD COLUMN hash INTEGER",
                             f->tables[i].name); /* SQLITE_ERROR: the table does not exist yet */
    if (rc == SQLITE_OK || rc == SQLITE_ERROR)
        rc = sqlite_file_run(o->db, NULL, "%sPRAGMA application_id=%u;PRAGMA user_version=%u",
                             f->schema, f->application_id, f->version);
    for (uint32_t i = 0; rc == SQLITE_OK && i < f->n_tables; i++)
        rc = sqlite_file_run(o->db, NULL, "UPDATE %w SET hash=row_hash(%s)", f->tables[i].name,
                             f->tables[i].columns);
    return rc == SQLITE_OK ? sqlite_file_run(o->db, NULL, "COMMIT") : rc;
}

/* Builds of the version before keep checksums in 8 reserved bytes of each page, and would take the
 * file for a damaged one. With 9 bytes they refuse it by its version. SQLite cannot have fewer. If
 * there is no room for a copy, the file stays as it is. */
static void change_reserved_bytes(struct opening *o)
{
    int reserved = -1, more = 9;
    char quoted[300];

    (void)sqlite3_file_control(o->db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
    if (reserved != more - 1)
        return;
    log_info("database", "event=database_rewritten file=%s version=%u",
             log_quote(quoted, sizeof(quoted), o->path), o->form->version);
    (void)sqlite3_file_control(o->db, "main", SQLITE_FCNTL_RESERVE_BYTES, &more);
    (void)sqlite_file_run(o->db, NULL, "VACUUM;PRAGMA wal_checkpoint(TRUNCATE)");
}

static int make_database(struct opening *o)
{
    int rc, on = 1;

    sqlite3_file_control(o->db, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
    rc = sqlite_file_run(o->db, NULL, modes, o->form->is_durable ? 2 : 1);
    if (rc == SQLITE_OK)
        rc = make_tables(o);
    if (rc == SQLITE_OK) {
        change_reserved_bytes(o);
        rc = sqlite_file_run(o->db, NULL, "PRAGMA temp_store=MEMORY");
    }
    for (uint32_t i = 0; rc == SQLITE_OK && i < o->form->n_tables; i++) {
        const struct sqlite_table *t = &o->form->tables[i];

        rc = sqlite_file_run(o->db, NULL, watch, t->name, t->columns, t->name, t->name, t->name,
                             t->name, t->columns, t->row, t->name, t->columns, t->name, t->columns,
                             t->name, t->row, t->name, t->columns, t->name, t->name, t->columns,
                             t->row);
    }
    return rc == SQLITE_OK ? 0 : say_database(o);
}

static int open_database(struct opening *o)
{
    int rc = sqlite3_open_v2(o->path, &o->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

    if (o->db == NULL)
        return snprintf(o->err, o->err_len, "no memory for '%s'", o->path), ERR_NOMEM;
    if (rc == SQLITE_OK)
        rc = sqlite_file_set_up(o->db, NULL);
    sqlite3_db_config(o->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL); /* it may be refused */
    rc = rc == SQLITE_OK ? check_database(o) : say_database(o);
    if (rc == 0)
        rc = check_content(o);
    if (rc == 0)
        sqlite3_db_config(o->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    return rc == 0 ? make_database(o) : rc;
}

/* Create the file, readable only by its owner. */
static int make_file(struct opening *o)
{
    const int fd = open(o->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    const bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;

    if (fd >= 0)
        return close(fd);
    snprintf(o->err, o->err_len, "'%s' cannot be opened: %s", o->path, strerror(errno));
    return is_full ? ERR_AGAIN : ERR_IO;
}

int sqlite_file_open(sqlite3 **out, const char *path, const struct sqlite_form *form,
                     struct sqlite_loss *loss, char *err, size_t err_len)
{
    struct opening o = {.path = path, .form = form, .err = err, .err_len = err_len};
    int rc;

    *loss = (struct sqlite_loss){0};
    rc = sqlite_recover_finish(path, loss, err, err_len);
    if (rc == 0)
        rc = make_file(&o);
    if (rc == 0)
        rc = open_database(&o);
    if (o.is_damaged) {
        sqlite3_close(o.db);
        o.db = NULL;
        rc = sqlite_recover(path, form, loss, err, err_len);
        if (rc == 0)
            rc = open_database(&o);
    }
    *out = o.db;
    return rc;
}

/* ---- later ---- */

bool sqlite_file_is_damage(sqlite3 *db)
{
    const int code = sqlite3_errcode(db);

    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_TOOBIG;
}

const char *sqlite_file_fail(sqlite3 *db)
{
    int64_t n;

    if (!sqlite_file_is_damage(db))
        return sqlite3_errmsg(db);
    if (sqlite3_get_autocommit(db) == 0)
        (void)sqlite_file_run(db, NULL, "ROLLBACK");
    if (sqlite_file_run(db, &n, "PRAGMA user_version") == SQLITE_OK)
        (void)sqlite_file_run(db, NULL, "PRAGMA user_version=%d", (int)n | DAMAGED);
    return "the file is damaged: what can be saved is when the server starts again";
}
#endif
