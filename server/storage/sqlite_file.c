/* server/storage/sqlite_file.c - see sqlite_file.h.
 *
 * The hash of a row is XXH3 of the types and values, each with the hash of those before as its
 * seed; the triggers and views are TEMP, so that other programs can read the file. A bit in
 * user_version records damage that was found while others were served. In a recovery the new
 * database is `main`, the damaged one is attached as `damaged`; PRAGMA writable_schema lets SQLite
 * read a file that is shorter than it should be, and tables whose neighbour's definition is
 * damaged.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/sqlite_file.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/replace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
/* Keys that fail one after the other before more than one is left out at once. */
#define MAX_FAILURES 64
#define MAX_KEY (INT64_C(1) << 62)
#define MAX_PATH 4096
#define MAX_SQL 8192

struct opening {
    const char *path;
    const struct sqlite_form *form;
    sqlite3 *db;
    int rc;          /* SQLITE_OK, or the first error: nothing runs after it */
    const char *why; /* the error's reason; NULL: SQLite's text for it */
    char other_version[100];
    bool is_ours;    /* by the first page */
    bool is_old;     /* the file has the previous version: no hashes */
    bool is_damaged; /* and of this form */
    struct sqlite_loss loss;
};

static const char modes[] = "PRAGMA journal_mode=WAL;"
                            "PRAGMA synchronous=%d;"
                            "PRAGMA temp_store=MEMORY;"
                            "PRAGMA secure_delete=ON;"
                            "PRAGMA foreign_keys=ON;"
                            "PRAGMA cell_size_check=ON;"
                            "PRAGMA cache_size=-4096;"
                            "PRAGMA journal_size_limit=4194304;";

/* Errors of SQLite's that are not ERR_IO. SQLITE_FORMAT: the file is not for this build. */
static const int errors[SQLITE_NOTADB + 1] = {
    [SQLITE_BUSY] = ERR_BUSY,      [SQLITE_FULL] = ERR_AGAIN,    [SQLITE_NOMEM] = ERR_NOMEM,
    [SQLITE_FORMAT] = ERR_FORMAT,  [SQLITE_ERROR] = ERR_FORMAT,  [SQLITE_NOTADB] = ERR_FORMAT,
    [SQLITE_CORRUPT] = ERR_FORMAT, [SQLITE_TOOBIG] = ERR_FORMAT,
};

/* ---- statements and functions ---- */

static int keep_number(void *number, int n, char **values, char **names)
{
    (void)n, (void)names;
    *(int64_t *)number = values[0] != NULL ? strtoll(values[0], NULL, 10) : 0;
    return 0;
}

/* Run statements, unless there is an error. Returns the last number that they return, or 0. */
__attribute__((format(printf, 2, 3))) static int64_t run(struct opening *o, const char *format, ...)
{
    char sql[MAX_SQL];
    int64_t number = 0;
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(sql, sizeof(sql), format, ap);
    va_end(ap);
    if (o->rc == SQLITE_OK)
        o->rc = n < MAX_SQL ? sqlite3_exec(o->db, sql, keep_number, &number, NULL) : SQLITE_NOMEM;
    if (o->rc == SQLITE_IOERR && sqlite3_extended_errcode(o->db) == SQLITE_IOERR_WRITE)
        o->rc = SQLITE_FULL;
    return number;
}

/* Set an error, unless there is one. */
static void fail(struct opening *o, int rc, const char *why)
{
    if (o->rc == SQLITE_OK) {
        o->rc = rc;
        o->why = why;
    }
}

static void fail_by_system(struct opening *o)
{
    const bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;

    fail(o, is_full ? SQLITE_FULL : SQLITE_CANTOPEN, strerror(errno));
}

static bool is_damage(int code)
{
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_TOOBIG;
}

/* Go on after a failure because of damage, or because a table is not there. */
static bool pass_damage(struct opening *o)
{
    const bool has_failed = o->rc == SQLITE_ERROR || is_damage(o->rc);

    if (has_failed)
        o->rc = SQLITE_OK;
    return has_failed;
}

/* ---- rows ---- */

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

/* Every row has a hash, so another value in its place, or none, is damage. */
static void row_whole(sqlite3_context *ctx, int n, sqlite3_value **values)
{
    sqlite3_result_int(ctx, 1);
    if (sqlite3_value_type(values[0]) == SQLITE_INTEGER &&
        sqlite3_value_int64(values[0]) == hash_values(n - 1, values + 1))
        return;
    sqlite3_result_error(ctx, "a row is damaged", -1);
    sqlite3_result_error_code(ctx, SQLITE_CORRUPT);
}

/* ---- files ---- */

/* Rename FILE with one ending to FILE with another one. NULL: remove it. */
static int change_end(const struct opening *o, const char *from, const char *to)
{
    char old[MAX_PATH], new[MAX_PATH];

    snprintf(old, sizeof(old), "%s%s", o->path, from);
    snprintf(new, sizeof(new), "%s%s", o->path, to != NULL ? to : "");
    return to != NULL ? rename_file(old, new) : unlink(old);
}

/* True: the first page has the definition of the form's first table, and is not a text file. */
static bool is_ours(const struct sqlite_form *form, int fd)
{
    const char *table = form->schema + strlen("CREATE TABLE IF NOT EXISTS ");
    char page[4096];
    const ssize_t n = read(fd, page, sizeof(page));

    return n > 0 && memchr(page, '\0', (size_t)n) != NULL &&
           memmem(page, (size_t)n, table, strcspn(table, ",")) != NULL;
}

/* Close the connection, and open FILE with an ending, readable only by its owner. The triggers and
 * views that are in it do not run, and closing it does not change it, since it may be refused. */
static void connect_to(struct opening *o, const char *end, int flags)
{
    static const int off[] = {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
                              SQLITE_DBCONFIG_TRUSTED_SCHEMA};
    const int kind = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
    char path[MAX_PATH];
    int fd;

    sqlite3_close(o->db);
    o->db = NULL;
    o->rc = SQLITE_OK;
    snprintf(path, sizeof(path), "%s%s", o->path, end);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags, 0600);
    if (fd < 0)
        return fail_by_system(o);
    o->is_ours = is_ours(o->form, fd);
    close(fd);
    o->rc = sqlite3_open_v2(path, &o->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (o->rc != SQLITE_OK)
        return;
    sqlite3_busy_timeout(o->db, BUSY_MS);
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
        sqlite3_db_config(o->db, off[i], 0, NULL);
    sqlite3_db_config(o->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    o->rc = sqlite3_create_function(o->db, "row_hash", -1, kind, NULL, row_hash, NULL, NULL);
    if (o->rc == SQLITE_OK)
        o->rc = sqlite3_create_function(o->db, "row_whole", -1, kind, NULL, row_whole, NULL, NULL);
    run(o, "PRAGMA locking_mode=EXCLUSIVE");
}

/* ---- recovery ---- */

/* Copy the rows of a table in ranges of keys: each is twice as long as the one before or, after a
 * failure because of damage, half as long, down to one key, which is left out. Behind a damaged end
 * all keys fail, so more and more are left out at once; those before the next key that does not
 * fail are then tried one by one. The limit ends a range before the next row, which may be
 * unreadable, is read. */
static void copy_rows(struct opening *o, const struct sqlite_table *t, const char *order)
{
    const bool is_unique = strcmp(t->key, "rowid") == 0;
    int64_t low = 0, n = 1, step = 1;
    uint32_t n_failures = 0;

    while (o->rc == SQLITE_OK && low < MAX_KEY) {
        run(o,
            "INSERT OR IGNORE INTO main.%1$s(%2$s,hash,%3$s) SELECT %2$s,row_hash(%2$s),%3$s"
            " FROM damaged.%1$s WHERE %3$s BETWEEN %4$" PRId64 " AND %5$" PRId64
            " AND (%6$s row_hash(%2$s)) ORDER BY %3$s %7$s LIMIT %8$" PRId64,
            t->name, t->columns, t->key, low, low + n - 1, o->is_old ? "1 OR" : "hash=", order,
            is_unique ? n : -1);
        if (is_damage(o->rc)) {
            o->rc = SQLITE_OK;
            o->is_damaged = true;
            step = n > 1 ? 0 : INT64_C(1) << n_failures++ / MAX_FAILURES;
            low += step;
            n = n > 1 ? n / 2 : 1;
        } else {
            low += step > 1 ? 1 - step : n;
            n = step > 1 || n == MAX_KEY ? n : 2 * n;
            step = 1;
            n_failures = 0;
        }
    }
}

/* Copy a table, and enter its lost rows into `lost`. If no index can name them, compare the numbers
 * of rows or, without any index, let SQLite look for faults too. */
static void copy_table(struct opening *o, const struct sqlite_table *t)
{
    copy_rows(o, t, "ASC");
    if (o->is_damaged) /* a page that is another one's copy ends a range early */
        copy_rows(o, t, "DESC");
    if (pass_damage(o) && !o->is_damaged) { /* an older file may lack the table */
        if (run(o, "SELECT count(*) FROM damaged.sqlite_schema WHERE name='%s'", t->name) > 0)
            fail(o, SQLITE_FORMAT, "its tables are others");
        return;
    }
    if (t->lost != NULL)
        run(o, "INSERT OR IGNORE INTO lost %s", t->lost);
    if (t->lost == NULL || pass_damage(o) || !o->is_damaged)
        o->loss.is_unknown |=
            run(o,
                "SELECT (SELECT count(*) FROM damaged.%1$s NOT INDEXED)<>"
                "(SELECT count(*) FROM main.%1$s) OR (%2$d AND (SELECT integrity_check<>'ok'"
                " FROM pragma_integrity_check('%1$s','damaged')))",
                t->name, t->lost == NULL) != 0;
    o->loss.is_unknown |= pass_damage(o);
}

static int log_lost_row(void *opening, int n, char **values, char **names)
{
    const struct opening *o = opening;
    const char *what = values[0]; /* a word of the form's */
    char path[300], id[300];

    (void)n, (void)names;
    log_error("database", "event=row_lost file=%s table=%s id=%s",
              log_quote(path, sizeof(path), o->path), what, log_quote(id, sizeof(id), values[1]));
    return 0;
}

/* Complete `lost`, and log the loss. */
static void settle_loss(struct opening *o)
{
    const struct sqlite_form *f = o->form;
    const bool is_unknown = o->loss.is_unknown;
    int64_t n_saved = 0, n_lost;
    char path[300];

    run(o, "CREATE TEMP TABLE damage AS SELECT %d AS is_unknown;%s", is_unknown,
        f->settle != NULL ? f->settle : "");
    n_lost = run(o, "SELECT count(*) FROM lost");
    for (uint32_t i = 0; i < f->n_tables; i++)
        n_saved += run(o, "SELECT count(*) FROM main.%s", f->tables[i].name);
    if (o->rc == SQLITE_OK)
        o->rc = sqlite3_exec(o->db, "SELECT what,id FROM lost LIMIT 1000", log_lost_row, o, NULL);
    if (o->rc != SQLITE_OK)
        return;
    o->loss.is_recovered = true;
    o->loss.n_rows = n_lost == 0 && is_unknown ? 1 : (uint64_t)n_lost;
    log_error("database",
              "event=database_%s file=%s saved=%" PRId64 " lost=%" PRId64 " more_lost=%s",
              n_saved == 0 && is_unknown ? "lost" : "saved", log_quote(path, sizeof(path), o->path),
              n_saved, n_lost, is_unknown ? "unknown" : "none");
}

/* Copy FILE into the new database, which is then on the disk; the log of FILE is written into it,
 * since it will not be beside it. If SQLite cannot open FILE at all, all tables are absent. */
static void copy_database(struct opening *o)
{
    const struct sqlite_form *f = o->form;
    char *attach = sqlite3_mprintf("ATTACH %Q AS damaged;PRAGMA damaged.user_version", o->path);

    run(o,
        "PRAGMA journal_mode=MEMORY;PRAGMA synchronous=OFF;PRAGMA temp_store=MEMORY;"
        "PRAGMA secure_delete=ON;PRAGMA writable_schema=ON;%s"
        "CREATE TEMP TABLE lost(what,id,PRIMARY KEY(what,id)) WITHOUT ROWID",
        f->schema);
    if (o->rc == SQLITE_OK)
        o->rc = attach != NULL ? sqlite3_exec(o->db, attach, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(attach);
    (void)pass_damage(o);
    for (uint32_t i = 0; i < f->n_tables; i++)
        copy_table(o, &f->tables[i]);
    if (o->is_damaged || o->loss.is_unknown || run(o, "SELECT count(*) FROM lost") > 0)
        settle_loss(o);
    run(o, "PRAGMA synchronous=FULL;PRAGMA application_id=%u;PRAGMA user_version=%u",
        f->application_id, f->version);
    run(o, "PRAGMA damaged.wal_checkpoint(FULL)");
    (void)pass_damage(o);
}

/* Put the new file in FILE's place. FILE is FILE.recovering meanwhile: if the process ends, the
 * next opening renames that to FILE, and begins again. */
static void place_files(struct opening *o)
{
    const bool is_kept = o->loss.is_recovered;
    int is_moved = 0; /* has another process recovered it meanwhile? */

    (void)sqlite3_file_control(o->db, "damaged", SQLITE_FCNTL_HAS_MOVED, &is_moved);
    if (is_moved)
        fail(o, SQLITE_BUSY, NULL);
    else if (change_end(o, "", ".recovering") < 0 ||
             (change_end(o, "-wal", is_kept ? ".damaged-wal" : NULL) < 0 && errno != ENOENT) ||
             change_end(o, ".new", "") < 0 ||
             change_end(o, ".recovering", is_kept ? ".damaged" : NULL) < 0)
        fail_by_system(o);
}

/* Copy FILE into a new file, and put that in its place. */
static void recover(struct opening *o)
{
    char path[300];

    log_write(o->is_damaged ? LOG_ERROR : LOG_INFO, "database", "event=database_%s file=%s",
              o->is_damaged ? "damaged" : "rewritten", log_quote(path, sizeof(path), o->path));
    connect_to(o, ".new", O_TRUNC);
    if (o->rc == SQLITE_OK)
        copy_database(o);
    if (o->rc == SQLITE_OK)
        place_files(o);
    if (o->rc != SQLITE_OK) {
        (void)change_end(o, ".recovering", "");
        (void)change_end(o, ".new", NULL);
    }
}

/* ---- opening ---- */

/* Let SQLite check the file, unless it is too large, and read all rows that have a hash. */
static void check_content(struct opening *o)
{
    const struct sqlite_form *f = o->form;

    if (run(o, "SELECT page_count*page_size FROM pragma_page_count,pragma_page_size") >
        SQLITE_FILE_CHECKED)
        return;
    if (run(o, "SELECT integrity_check<>'ok' FROM pragma_integrity_check(1)") != 0)
        o->rc = SQLITE_CORRUPT;
    for (uint32_t i = 0; !o->is_old && i < f->n_tables; i++)
        run(o, "SELECT count(row_whole(hash,%s)) FROM %s", f->tables[i].columns, f->tables[i].name);
}

/* Open FILE, and check that it is empty, or a database of this form in a version that this build
 * reads. */
static void open_database(struct opening *o)
{
    const struct sqlite_form *f = o->form;
    int64_t id, mark, n_tables;
    uint32_t version;
    bool has_id;

    o->is_damaged = false;
    connect_to(o, "", 0);
    id = run(o, "PRAGMA application_id");
    mark = run(o, "PRAGMA user_version");
    n_tables = run(o, "SELECT count(*) FROM sqlite_schema");
    if (o->rc == SQLITE_OK && id == 0 && n_tables == 0)
        return;
    version = (uint32_t)mark & ~(uint32_t)DAMAGED;
    o->is_old = version + 1 == f->version;
    snprintf(o->other_version, sizeof(o->other_version),
             "it has version %u, and this build reads %u", version, f->version);
    has_id = id == f->application_id;
    if (!has_id && !o->is_ours)
        return fail(o, SQLITE_FORMAT, "it is a database of another program");
    if (has_id && version != f->version && !o->is_old)
        fail(o, SQLITE_FORMAT, o->other_version);
    if (!has_id || n_tables == 0 || (mark & DAMAGED) != 0)
        fail(o, SQLITE_CORRUPT, NULL);
    check_content(o);
    o->is_damaged = is_damage(o->rc);
}

/* Nothing is written to a file that has its tables, so that it can be opened on a full disk. */
static void complete_database(struct opening *o)
{
    const struct sqlite_form *f = o->form;
    int on = 1;

    sqlite3_file_control(o->db, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
    run(o, modes, f->is_durable ? 2 : 1);
    if (run(o, "SELECT count(*) FROM sqlite_schema") == 0)
        run(o, "BEGIN IMMEDIATE;%sPRAGMA application_id=%u;PRAGMA user_version=%u;COMMIT",
            f->schema, f->application_id, f->version);
    for (uint32_t i = 0; i < f->n_tables; i++)
        run(o,
            "CREATE TEMP VIEW whole_%1$s AS SELECT *,row_whole(hash,%2$s) AS is_whole"
            " FROM main.%1$s;"
            "CREATE TEMP TRIGGER %1$s_insert AFTER INSERT ON main.%1$s BEGIN"
            " UPDATE %1$s SET hash=row_hash(%2$s) WHERE %3$s; END;"
            "CREATE TEMP TRIGGER %1$s_check BEFORE UPDATE OF %2$s ON main.%1$s BEGIN"
            " SELECT row_whole(hash,%2$s) FROM %1$s WHERE %3$s; END;"
            "CREATE TEMP TRIGGER %1$s_update AFTER UPDATE OF %2$s ON main.%1$s BEGIN"
            " UPDATE %1$s SET hash=row_hash(%2$s) WHERE %3$s; END;",
            f->tables[i].name, f->tables[i].columns, f->tables[i].row);
    sqlite3_db_config(o->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
}

int sqlite_file_open(sqlite3 **out, const char *path, const struct sqlite_form *form,
                     struct sqlite_loss *loss, char *err, size_t err_len)
{
    struct opening o = {.path = path, .form = form};
    int rc;

    (void)change_end(&o, ".recovering", "");
    open_database(&o);
    if (o.is_damaged || (o.rc == SQLITE_OK && o.is_old)) {
        recover(&o);
        if (o.rc == SQLITE_OK)
            open_database(&o);
    }
    if (o.rc == SQLITE_OK)
        complete_database(&o);
    *loss = o.loss;
    rc = o.rc == SQLITE_OK || errors[o.rc] < 0 ? errors[o.rc] : ERR_IO;
    if (rc < 0) {
        snprintf(err, err_len, "'%s' %s %s: %s%s%s", path,
                 rc == ERR_FORMAT ? "is not a database of" : "cannot be used for", form->what,
                 o.is_damaged ? "it is damaged, and no new file can take its place: " : "",
                 rc == ERR_BUSY  ? "it is in use by another process"
                 : o.why != NULL ? o.why
                                 : sqlite3_errstr(o.rc),
                 rc == ERR_FORMAT ? "; move it away to begin with an empty one" : "");
        sqlite3_close(o.db);
    }
    *out = rc == 0 ? o.db : NULL;
    return rc;
}

/* ---- later ---- */

const char *sqlite_file_fail(sqlite3 *db, bool *is_damaged)
{
    struct opening o = {.db = db};

    if (!is_damage(sqlite3_errcode(db)))
        return sqlite3_errmsg(db);
    *is_damaged = true;
    (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    run(&o, "PRAGMA user_version=%d", (int)run(&o, "PRAGMA user_version") | DAMAGED);
    return "the file is damaged: what can be saved is when the server starts again";
}
#endif
