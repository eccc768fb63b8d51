/* server/storage/sqlite_recover.c - see sqlite_recover.h.
 *
 * The new database is `main`, the damaged one is attached as `damaged`. One statement copies a
 * range of keys; if that fails because of damage, one statement copies each half. PRAGMA
 * writable_schema lets SQLite read a file that is shorter than it should be, and tables whose
 * neighbour's definition is damaged.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/sqlite_recover.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/base/replace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Most failed statements in one pass over a range: the rows of a damaged page cause fewer. */
#define MAX_FAILURES 1000
#define MAX_PATH 4096

struct recovery {
    const char *path;
    const struct sqlite_form *form;
    sqlite3 *db;
    sqlite3_stmt *copy;
    uint32_t n_failures;
    bool is_unique;
    bool is_bad;     /* a row of the current table was not saved */
    bool is_unknown; /* rows are lost that no index names */
};

static const char begin[] = "PRAGMA journal_mode=MEMORY;"
                            "PRAGMA synchronous=OFF;"
                            "PRAGMA secure_delete=ON;"
                            "PRAGMA temp_store=MEMORY;"
                            "PRAGMA writable_schema=ON;"
                            "CREATE TEMP TABLE lost(what,id,PRIMARY KEY(what,id)) WITHOUT ROWID;"
                            "CREATE TEMP TABLE damage(is_unknown);"
                            "%s";

static const char copy[] = "INSERT OR IGNORE INTO main.%w(%s,hash,%s) SELECT %s,row_hash(%s),%s"
                           " FROM damaged.%w WHERE %s BETWEEN ?1 AND ?2 AND %s%s) LIMIT ?3";

/* ---- rows ---- */

/* Copy the rows of a range of keys. The limit ends a range of one key before the next row, which
 * may be unreadable, is read. */
static int copy_range(struct recovery *r, int64_t low, int64_t high, bool is_up)
{
    const int64_t middle = low + (high - low) / 2;
    int rc;

    if (r->n_failures > MAX_FAILURES)
        return SQLITE_OK;
    sqlite3_bind_int64(r->copy, 1, low);
    sqlite3_bind_int64(r->copy, 2, high);
    sqlite3_bind_int64(r->copy, 3, r->is_unique ? high - low + 1 : -1);
    (void)sqlite3_step(r->copy);
    rc = sqlite3_reset(r->copy);
    if (rc == SQLITE_OK || !sqlite_file_is_damage(r->db))
        return rc;
    r->is_bad = true;
    r->n_failures++;
    if (low == high)
        return SQLITE_OK;
    rc = copy_range(r, is_up ? low : middle + 1, is_up ? middle : high, is_up);
    return rc != SQLITE_OK ? rc
                           : copy_range(r, is_up ? middle + 1 : low, is_up ? high : middle, is_up);
}

/* Prepare the statement that copies a range. `is_good` says which rows: "row_whole(hash,", or
 * "row_begins(" for a file of the version before, whose rows get their hash here. */
static int prepare_copy(struct recovery *r, const struct sqlite_table *t, const char *is_good)
{
    char *sql = sqlite3_mprintf(copy, t->name, t->columns, t->key, t->columns, t->columns, t->key,
                                t->name, t->key, is_good, t->columns);
    const int rc = sql != NULL ? sqlite3_prepare_v2(r->db, sql, -1, &r->copy, NULL) : SQLITE_NOMEM;

    sqlite3_free(sql);
    return rc;
}

/* True: rows may be missing from the copy although no statement failed, since SQLite finds a fault
 * in the damaged table, or since it has another number of rows. */
static bool lacks_rows(struct recovery *r, const struct sqlite_table *t)
{
    int64_t n = 0;

    return sqlite_file_run(r->db, &n,
                           "SELECT (SELECT count(*) FROM damaged.%w NOT INDEXED)-"
                           "(SELECT count(*) FROM main.%w)",
                           t->name, t->name) != SQLITE_OK ||
           n != 0 ||
           sqlite_file_run(r->db, &n,
                           "SELECT integrity_check<>'ok' FROM pragma_integrity_check(%Q,'damaged')",
                           t->name) != SQLITE_OK ||
           n != 0;
}

/* Copy all rows, range by range, each twice as long as all before it: where the end of the table is
 * damaged every larger key fails. */
static int copy_table(struct recovery *r, const struct sqlite_table *t)
{
    int rc = SQLITE_OK;

    r->is_unique = strcmp(t->key, "rowid") == 0;
    r->is_bad = prepare_copy(r, t, "row_whole(hash,") != SQLITE_OK &&
                prepare_copy(r, t, "row_begins(") != SQLITE_OK;
    for (int64_t low = 0, high = 0; r->copy != NULL && rc == SQLITE_OK && high < INT64_MAX / 2;
         low = high + 1, high += low) {
        r->n_failures = 0;
        rc = copy_range(r, low, high, true);
        if (rc == SQLITE_OK && r->n_failures > MAX_FAILURES) {
            r->n_failures = 0;
            rc = copy_range(r, low, high, false);
        }
    }
    sqlite3_finalize(r->copy);
    r->copy = NULL;
    if (rc == SQLITE_OK && t->lost == NULL)
        r->is_unknown = r->is_unknown || r->is_bad || lacks_rows(r, t);
    else if (rc == SQLITE_OK &&
             sqlite_file_run(r->db, NULL, "INSERT OR IGNORE INTO lost %s", t->lost) != SQLITE_OK)
        r->is_unknown = r->is_unknown || r->is_bad;
    return rc;
}

static int save_rows(struct recovery *r)
{
    char quoted[2][300];
    int64_t n = 0;
    int rc = sqlite_file_run(r->db, NULL, "ATTACH %Q AS damaged", r->path);

    if (rc == SQLITE_OK)
        rc = sqlite_file_run(r->db, NULL, "PRAGMA damaged.user_version"); /* to take the lock */
    r->is_unknown = rc == SQLITE_ERROR || sqlite_file_is_damage(r->db);
    if (r->is_unknown) { /* SQLite cannot open the file at all */
        log_error("database", "event=database_lost file=%s lost=%s",
                  log_quote(quoted[0], sizeof(quoted[0]), r->path),
                  log_quote(quoted[1], sizeof(quoted[1]), r->form->what));
        return SQLITE_OK;
    }
    for (uint32_t i = 0; rc == SQLITE_OK && i < r->form->n_tables; i++)
        rc = copy_table(r, &r->form->tables[i]);
    if (rc == SQLITE_OK)
        rc = sqlite_file_run(r->db, NULL, "INSERT INTO damage VALUES(%d);%s", r->is_unknown,
                             r->form->settle != NULL ? r->form->settle : "");
    if (rc == SQLITE_OK)
        rc = sqlite_file_run(r->db, &n,
                             "SELECT integrity_check<>'ok' FROM pragma_integrity_check(1,'main')");
    if (rc != SQLITE_OK || n != 0)
        return rc != SQLITE_OK ? rc : SQLITE_INTERNAL;
    rc = sqlite_file_run(r->db, NULL, "PRAGMA damaged.wal_checkpoint(FULL)");
    return sqlite_file_is_damage(r->db) ? SQLITE_OK : rc;
}

/* ---- what is lost ---- */

static int tell_lost(void *recovery, int n, char **values, char **names)
{
    const struct recovery *r = recovery;
    const char *what = values[0]; /* a word of the form's */
    char quoted[2][300];

    (void)n, (void)names;
    log_error("database", "event=row_lost file=%s table=%s id=%s",
              log_quote(quoted[0], sizeof(quoted[0]), r->path), what,
              log_quote(quoted[1], sizeof(quoted[1]), values[1] != NULL ? values[1] : ""));
    return 0;
}

static int tell_loss(struct recovery *r, struct sqlite_loss *loss)
{
    int64_t n_saved = 0, n_lost, n;
    char quoted[300];
    int rc = sqlite3_exec(r->db, "SELECT what,id FROM lost LIMIT 1000", tell_lost, r, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite_file_run(r->db, &n_lost, "SELECT count(*) FROM lost");
    for (uint32_t i = 0; rc == SQLITE_OK && i < r->form->n_tables; i++, n_saved += n)
        rc = sqlite_file_run(r->db, &n, "SELECT count(*) FROM main.%w", r->form->tables[i].name);
    if (rc != SQLITE_OK)
        return rc;
    *loss = (struct sqlite_loss){true, r->is_unknown,
                                 n_lost == 0 && r->is_unknown ? 1 : (uint64_t)n_lost};
    log_error("database",
              "event=database_saved file=%s saved=%" PRId64 " lost=%" PRId64 " more_lost=%s",
              log_quote(quoted, sizeof(quoted), r->path), n_saved, n_lost,
              r->is_unknown ? "unknown" : "none");
    return SQLITE_OK;
}

/* ---- files ---- */

/* Rename FILE with one suffix to FILE with another one. */
static int change_end(const char *path, const char *from, const char *to)
{
    char old[MAX_PATH], new[MAX_PATH];

    snprintf(old, sizeof(old), "%s%s", path, from);
    snprintf(new, sizeof(new), "%s%s", path, to);
    return rename_file(old, new);
}

/* Let SQLite sync the new file, by a last change to it, and rename it to FILE. After each renaming
 * FILE is the damaged file or the new one, or the new one is FILE.saved. ERR_IO with errno. */
static int place_files(const struct recovery *r)
{
    int rc, is_moved = 0; /* has another process recovered it meanwhile? */

    (void)sqlite3_file_control(r->db, "damaged", SQLITE_FCNTL_HAS_MOVED, &is_moved);
    rc = is_moved ? SQLITE_BUSY
                  : sqlite_file_run(r->db, NULL,
                                    "PRAGMA main.synchronous=FULL;"
                                    "PRAGMA main.application_id=%u;"
                                    "PRAGMA main.user_version=%u",
                                    r->form->application_id, r->form->version);
    if (rc == SQLITE_OK &&
        (change_end(r->path, ".new", ".saved") < 0 ||
         (change_end(r->path, "-wal", ".damaged-wal") < 0 && errno != ENOENT) ||
         change_end(r->path, "", ".damaged") < 0 || change_end(r->path, ".saved", "") < 0))
        rc = ERR_IO;
    return rc;
}

int sqlite_recover_finish(const char *path, struct sqlite_loss *loss, char *err, size_t err_len)
{
    char quoted[300];

    if (access(path, F_OK) == 0)
        return 0;
    if (change_end(path, ".saved", "") < 0) {
        snprintf(err, err_len, "'%s.saved' cannot be renamed: %s", path, strerror(errno));
        return errno == ENOENT ? 0 : ERR_IO;
    }
    *loss = (struct sqlite_loss){.is_recovered = true, .is_unknown = true};
    log_warn("database", "event=database_saved_before file=%s",
             log_quote(quoted, sizeof(quoted), path));
    return 0;
}

static int begin_recovery(struct recovery *r, const char *new_path)
{
    const int fd = open(new_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int rc;

    if (fd < 0 || close(fd) < 0)
        return SQLITE_CANTOPEN;
    rc = sqlite3_open_v2(new_path, &r->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    rc = sqlite_file_set_up(r->db, &r->is_bad);
    return rc == SQLITE_OK ? sqlite_file_run(r->db, NULL, begin, r->form->schema) : rc;
}

int sqlite_recover(const char *path, const struct sqlite_form *form, struct sqlite_loss *loss,
                   char *err, size_t err_len)
{
    struct recovery r = {.path = path, .form = form};
    char new_path[MAX_PATH], quoted[300];
    int rc;

    snprintf(new_path, sizeof(new_path), "%s.new", path);
    log_error("database", "event=database_damaged file=%s",
              log_quote(quoted, sizeof(quoted), path));
    rc = begin_recovery(&r, new_path);
    if (rc == SQLITE_OK)
        rc = save_rows(&r);
    if (rc == SQLITE_OK)
        rc = tell_loss(&r, loss);
    if (rc == SQLITE_OK)
        rc = place_files(&r);
    if (rc == SQLITE_BUSY)
        snprintf(err, err_len, "'%s' is in use by another process", path);
    else if (rc != SQLITE_OK)
        snprintf(err, err_len, "'%s' is damaged, and a new file cannot take its place: %s", path,
                 rc < 0 ? strerror(errno) : sqlite3_errstr(rc));
    sqlite3_close(r.db);
    if (rc == SQLITE_OK)
        return 0;
    unlink(new_path);
    return rc == SQLITE_BUSY ? ERR_BUSY : rc == SQLITE_NOMEM ? ERR_NOMEM : ERR_IO;
}
#endif
