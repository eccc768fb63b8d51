/* server/storage/sqlite_file.c - see sqlite_file.h.
 *
 * The hash of a row is XXH3 of the types and values, each with the hash of those before as its
 * seed; the triggers and views are TEMP, so that other programs can read the file. WAL mode with an
 * exclusive lock needs no file of shared memory. In a recovery the new database is `main`, and the
 * damaged one is attached as `damaged`, so that no other process opens it before it has its new
 * name; PRAGMA writable_schema lets SQLite read a file that is shorter than it should be, and
 * tables whose neighbour's definition is damaged.
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
#define MAX_CHECKED (INT64_C(256) << 20) /* bytes: an opening checks no larger file */
#define DAMAGED 0x40000000               /* bit in user_version: damage was read */
/* Keys that fail one after the other before more than one is left out at once. */
#define MAX_FAILURES 64
#define MAX_KEY (INT64_C(1) << 62)
#define MAX_LOGGED 1000 /* lost rows */
#define MAX_TEXT 8192   /* bytes of statements, or of a path */

struct opening {
    const char *path;
    const struct sqlite_form *form;
    struct sqlite_loss *loss;
    sqlite3 *db;
    int rc;           /* SQLITE_OK, or the first error: nothing runs after it */
    const char *why;  /* the error's reason; NULL: SQLite's text for it */
    uint32_t version; /* of the file */
    bool is_ours;     /* by the first page */
    bool is_old;      /* the file has the previous version: no hashes */
    bool is_damaged;  /* and of this form */
};

static const char modes[] =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=%d; PRAGMA temp_store=MEMORY;"
    "PRAGMA secure_delete=ON; PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON;"
    "PRAGMA cache_size=-4096; PRAGMA journal_size_limit=4194304;";

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
    char sql[MAX_TEXT];
    int64_t number = 0;
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(sql, sizeof(sql), format, ap);
    va_end(ap);
    if (o->rc == SQLITE_OK)
        o->rc = n < MAX_TEXT ? sqlite3_exec(o->db, sql, keep_number, &number, NULL) : SQLITE_NOMEM;
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

/* row_hash(values...), and row_whole(hash,values...) with user data: 1, or an error. Every row has
 * a hash, so another value in its place, or none, is damage. */
static void row_hash(sqlite3_context *ctx, int n, sqlite3_value **values)
{
    const bool is_check = sqlite3_user_data(ctx) != NULL;
    uint64_t hash = 0;

    for (int i = is_check; i < n; i++) {
        const int type = sqlite3_value_type(values[i]);
        const int64_t number = sqlite3_value_int64(values[i]);
        const bool is_number = type == SQLITE_INTEGER;
        const void *bytes = is_number ? &number : sqlite3_value_blob(values[i]);
        const int n_bytes = is_number ? (int)sizeof(number) : sqlite3_value_bytes(values[i]);

        hash = XXH3_64bits_withSeed(bytes, (size_t)n_bytes, hash + (uint64_t)type);
    }
    if (!is_check)
        return sqlite3_result_int64(ctx, (int64_t)hash);
    sqlite3_result_int(ctx, 1);
    if (sqlite3_value_type(values[0]) != SQLITE_INTEGER ||
        (uint64_t)sqlite3_value_int64(values[0]) != hash)
        sqlite3_result_error_code(ctx, SQLITE_CORRUPT);
}

/* ---- files ---- */

/* Rename FILE with one ending to FILE with another one. NULL: remove it. */
static int change_end(const struct opening *o, const char *from, const char *to)
{
    char old[MAX_TEXT], new[MAX_TEXT];

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
    char path[MAX_TEXT];
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
    for (int is_check = 0; o->rc == SQLITE_OK && is_check < 2; is_check++)
        o->rc = sqlite3_create_function(o->db, is_check ? "row_whole" : "row_hash", -1,
                                        SQLITE_UTF8 | SQLITE_DETERMINISTIC, is_check ? o->db : NULL,
                                        row_hash, NULL, NULL);
    if (o->rc != SQLITE_OK)
        return;
    sqlite3_db_config(o->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(o->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(o->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    run(o, "PRAGMA busy_timeout=%d; PRAGMA trusted_schema=OFF; PRAGMA locking_mode=EXCLUSIVE",
        BUSY_MS);
}

/* ---- opening ---- */

/* Let SQLite check the file, unless it is too large, and read all rows that have a hash. */
static void check_content(struct opening *o)
{
    const struct sqlite_form *f = o->form;

    if (run(o, "SELECT page_count*page_size FROM pragma_page_count,pragma_page_size") > MAX_CHECKED)
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

    connect_to(o, "", 0);
    id = run(o, "PRAGMA application_id");
    mark = run(o, "PRAGMA user_version");
    n_tables = run(o, "SELECT count(*) FROM sqlite_schema");
    if (o->rc == SQLITE_OK && id == 0 && n_tables == 0)
        return;
    o->version = (uint32_t)mark & ~(uint32_t)DAMAGED;
    o->is_old = o->version + 1 == f->version;
    if (id != f->application_id && !o->is_ours)
        return fail(o, SQLITE_FORMAT, "it is a database of another program");
    if (id == f->application_id && o->version != f->version && !o->is_old)
        fail(o, SQLITE_FORMAT, NULL);
    if (id != f->application_id || n_tables == 0 || (mark & DAMAGED) != 0)
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

/* ---- recovery ---- */

/* Copy the rows of a table in ranges of keys: each is twice as long as the one before or, after a
 * failure because of damage, half as long, down to one key, which is left out. Behind a damaged end
 * all keys fail, so more and more are left out at once; those before the next key that does not
 * fail are then tried one by one. The limit ends a range before the next row, which may be
 * unreadable, is read. */
static void copy_rows(struct opening *o, const struct sqlite_table *t, const char *order)
{
    int64_t low = 0, n = 1, step = 1;

    for (uint32_t n_failures = 0; o->rc == SQLITE_OK && low < MAX_KEY;) {
        run(o,
            "INSERT OR IGNORE INTO main.%1$s(%2$s,hash,%3$s) SELECT %2$s,row_hash(%2$s),%3$s"
            " FROM damaged.%1$s WHERE %3$s BETWEEN %4$" PRId64 " AND %5$" PRId64
            " AND (%6$s row_hash(%2$s)) ORDER BY %3$s %7$s LIMIT %8$" PRId64,
            t->name, t->columns, t->key, low, low + n - 1, o->is_old ? "1 OR" : "hash=", order,
            strcmp(t->key, "rowid") == 0 ? n : -1);
        if (!is_damage(o->rc)) {
            low += step > 1 ? 1 - step : n;
            n = step > 1 || n == MAX_KEY ? n : 2 * n;
            step = 1;
            n_failures = 0;
            continue;
        }
        o->rc = SQLITE_OK;
        o->is_damaged = true;
        if (n == 1)
            low += step = INT64_C(1) << n_failures++ / MAX_FAILURES;
        n = n > 1 ? n / 2 : 1;
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
        o->loss->is_unknown |=
            run(o,
                "SELECT (SELECT count(*) FROM damaged.%1$s NOT INDEXED)<>"
                "(SELECT count(*) FROM main.%1$s) OR (%2$d AND (SELECT integrity_check<>'ok'"
                " FROM pragma_integrity_check('%1$s','damaged')))",
                t->name, t->lost == NULL) != 0;
    o->loss->is_unknown |= pass_damage(o);
}

static int log_lost_row(void *opening, int n, char **values, char **names)
{
    const struct opening *o = opening;
    const char *what = values[0]; /* a word of the form's */
    char path[300], id[300];

    (void)n, (void)names;
    if (o->loss->n_rows++ < MAX_LOGGED)
        log_error("database", "event=row_lost file=%s table=%s id=%s",
                  log_quote(path, sizeof(path), o->path), what,
                  log_quote(id, sizeof(id), values[1]));
    return 0;
}

/* Complete `lost`, and log the loss. */
static void settle_loss(struct opening *o)
{
    const struct sqlite_form *f = o->form;
    struct sqlite_loss *l = o->loss;
    int64_t n_saved = 0;
    char path[300];

    run(o, "CREATE TEMP TABLE damage AS SELECT %d AS is_unknown;%s", l->is_unknown,
        f->settle != NULL ? f->settle : "");
    for (uint32_t i = 0; i < f->n_tables; i++)
        n_saved += run(o, "SELECT count(*) FROM main.%s", f->tables[i].name);
    if (o->rc == SQLITE_OK)
        o->rc = sqlite3_exec(o->db, "SELECT what,id FROM lost", log_lost_row, o, NULL);
    if (o->rc != SQLITE_OK)
        return;
    log_error(
        "database", "event=database_%s file=%s saved=%" PRId64 " lost=%" PRIu64 " more_lost=%s",
        n_saved == 0 && l->is_unknown ? "lost" : "saved", log_quote(path, sizeof(path), o->path),
        n_saved, l->n_rows, l->is_unknown ? "unknown" : "none");
    l->is_recovered = true;
    l->n_rows += l->n_rows == 0 && l->is_unknown;
}

/* Copy FILE into the new database, which is then on the disk; the log of FILE is written into it,
 * since it will not be beside it. If SQLite cannot open FILE at all, all tables are absent. */
static void copy_database(struct opening *o)
{
    const struct sqlite_form *f = o->form;
    char attach[2 * MAX_TEXT]; /* with quotes in the path */

    sqlite3_snprintf(sizeof(attach), attach, "ATTACH %Q AS damaged", o->path);
    run(o,
        "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF; PRAGMA temp_store=MEMORY;"
        "PRAGMA secure_delete=ON; PRAGMA writable_schema=ON;%s"
        "CREATE TEMP TABLE lost(what,id,PRIMARY KEY(what,id)) WITHOUT ROWID;"
        "%s; PRAGMA damaged.user_version",
        f->schema, attach);
    (void)pass_damage(o);
    for (uint32_t i = 0; i < f->n_tables; i++)
        copy_table(o, &f->tables[i]);
    if (o->is_damaged || o->loss->is_unknown || run(o, "SELECT count(*) FROM lost") > 0)
        settle_loss(o);
    run(o, "PRAGMA synchronous=FULL; PRAGMA application_id=%u; PRAGMA user_version=%u",
        f->application_id, f->version);
    run(o, "PRAGMA damaged.wal_checkpoint(FULL)");
    (void)pass_damage(o);
}

/* Copy FILE into a new file, and put that in its place. FILE is FILE.recovering meanwhile: if the
 * process ends, the next opening renames that to FILE, and begins again. */
static void recover(struct opening *o)
{
    char path[300];

    log_write(o->is_damaged ? LOG_ERROR : LOG_INFO, "database", "event=database_%s file=%s",
              o->is_damaged ? "damaged" : "rewritten", log_quote(path, sizeof(path), o->path));
    connect_to(o, ".new", O_TRUNC);
    if (o->rc == SQLITE_OK)
        copy_database(o);
    if (o->rc == SQLITE_OK &&
        (change_end(o, "", ".recovering") < 0 ||
         (change_end(o, "-wal", o->loss->is_recovered ? ".damaged-wal" : NULL) < 0 &&
          errno != ENOENT) ||
         change_end(o, ".new", "") < 0 ||
         change_end(o, ".recovering", o->loss->is_recovered ? ".damaged" : NULL) < 0))
        fail_by_system(o);
    if (o->rc == SQLITE_OK)
        return open_database(o);
    (void)change_end(o, ".recovering", "");
    (void)change_end(o, ".new", NULL);
}

/* ---- calls ---- */

/* Write the sentence for the error, whose code is rc. */
static void explain(const struct opening *o, int rc, char *err, size_t err_len)
{
    char version[100];

    snprintf(version, sizeof(version), "it has version %u, and this build reads %u", o->version,
             o->form->version);
    snprintf(err, err_len, "'%s' %s %s: %s%s%s", o->path,
             rc == ERR_FORMAT ? "is not a database of" : "cannot be used for", o->form->what,
             o->is_damaged ? "it is damaged, and no new file can take its place: " : "",
             o->why != NULL           ? o->why
             : o->rc == SQLITE_FORMAT ? version
             : o->rc == SQLITE_BUSY   ? "it is in use by another process"
                                      : sqlite3_errstr(o->rc),
             rc == ERR_FORMAT ? "; move it away to begin with an empty one" : "");
}

int sqlite_file_open(sqlite3 **out, const char *path, const struct sqlite_form *form,
                     struct sqlite_loss *loss, char *err, size_t err_len)
{
    struct opening o = {.path = path, .form = form, .loss = loss};
    int rc;

    *loss = (struct sqlite_loss){0};
    (void)change_end(&o, ".recovering", "");
    open_database(&o);
    if (o.is_damaged || (o.rc == SQLITE_OK && o.is_old))
        recover(&o);
    if (o.rc == SQLITE_OK)
        complete_database(&o);
    rc = o.rc == SQLITE_OK || errors[o.rc] < 0 ? errors[o.rc] : ERR_IO;
    if (rc < 0) {
        explain(&o, rc, err, err_len);
        sqlite3_close(o.db);
    }
    *out = rc == 0 ? o.db : NULL;
    return rc;
}

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
