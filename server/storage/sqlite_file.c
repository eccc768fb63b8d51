/* server/storage/sqlite_file.c - see sqlite_file.h.
 *
 * An opening first looks at the raw pages (sqlite_image.h), without SQLite, and salvages a file
 * that is visibly damaged; then SQLite opens it, and small files get an integrity check. If that
 * finds damage, the file is closed, salvaged and opened once more. A mark in user_version records
 * damage that was found while others were served. Another process may still hold the file: attempts
 * are repeated for BUSY_MS.
 */
#ifdef QUIRE_SQLITE
#include "server/storage/sqlite_file.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "server/storage/sqlite_image.h"
#include "server/storage/sqlite_pages.h"
#include "server/storage/sqlite_place.h"
#include "server/storage/sqlite_salvage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Time for which a server that ends may still hold the file. */
#define BUSY_MS 2000
#define BUSY_STEP_MS 20
/* Bit in user_version: a damaged page was read. */
#define DAMAGED 0x40000000

/* Run before anything is read, so that no file of shared memory is made. */
static const char exclusive[] = "PRAGMA locking_mode=EXCLUSIVE";

static const char modes[] = "PRAGMA journal_mode=WAL;"
                            "PRAGMA synchronous=NORMAL;"
                            "PRAGMA temp_store=MEMORY;"
                            "PRAGMA secure_delete=ON;"
                            "PRAGMA foreign_keys=ON;"
                            "PRAGMA cell_size_check=ON;"
                            "PRAGMA cache_size=-4096;"
                            "PRAGMA journal_size_limit=4194304;";

enum state { /* of a file */
    PLAIN = 0, /* its pages have no checksums */
    CHECKED,
    DAMAGED_ONE,
};

/* Whether the error means that there is no room now. */
static bool is_full(int errnum)
{
    return errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;
}

static int say_database(sqlite3 *db, const char *path, char *err, size_t err_len)
{
    const int rc = sqlite3_errcode(db);

    if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
        snprintf(err, err_len, "'%s' is in use by another process", path);
        return ERR_BUSY;
    }
    snprintf(err, err_len, "'%s' cannot be used: %s", path, sqlite3_errmsg(db));
    if (rc == SQLITE_FULL || sqlite3_extended_errcode(db) == SQLITE_IOERR_WRITE)
        return ERR_AGAIN;
    return rc == SQLITE_NOTADB || rc == SQLITE_CORRUPT ? ERR_FORMAT : ERR_IO;
}

/* The number that a statement returns; -1: it failed. */
static int64_t pragma_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t n = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

/* Check that an existing file is empty, or a database of ours in this version. */
static int check_database(sqlite3 *db, const char *path, const struct sqlite_form *form,
                          enum state *state, char *err, size_t err_len)
{
    const int64_t n = pragma_number(db, "SELECT count(*) FROM sqlite_schema");
    const int64_t id = n < 0 ? -1 : pragma_number(db, "PRAGMA application_id");
    const int64_t version = n < 0 ? -1 : pragma_number(db, "PRAGMA user_version");

    if (n < 0)
        return say_database(db, path, err, err_len);
    if (n == 0 && id == 0)
        return 0;
    if (id != form->application_id) {
        snprintf(err, err_len, "'%s' is a database of another program", path);
        return ERR_FORMAT;
    }
    if (*state == CHECKED && (version & DAMAGED) != 0)
        *state = DAMAGED_ONE;
    if ((version & ~(int64_t)DAMAGED) == form->version)
        return 0;
    snprintf(err, err_len, "'%s' has version %d of %s, and this build reads %u", path, (int)version,
             form->what, form->version);
    return ERR_FORMAT;
}

/* Read every page, and compare what pages say of each other. */
static int check_pages(sqlite3 *db, const char *path, enum state *state, char *err, size_t err_len)
{
    sqlite3_stmt *st = NULL;
    const int64_t bytes = pragma_number(db, "SELECT page_count*page_size FROM pragma_page_count,"
                                            "pragma_page_size");
    int rc;

    if (*state != CHECKED || bytes > SQLITE_FILE_CHECKED)
        return 0;
    rc = sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(st, 0), "ok") != 0)
        *state = DAMAGED_ONE;
    rc = rc == SQLITE_ROW ? 0 : say_database(db, path, err, err_len);
    sqlite3_finalize(st);
    return rc;
}

/* Create the file, readable only by its owner. 1: it did not exist. */
static int make_database(const char *path, char *err, size_t err_len)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool is_new = fd >= 0;

    if (fd < 0)
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0) {
        const int rc = is_full(errno) ? ERR_AGAIN : ERR_IO;

        snprintf(err, err_len, "'%s' cannot be opened: %s", path, strerror(errno));
        return rc;
    }
    close(fd);
    return is_new;
}

/* Create the tables in a transaction of its own, which takes the lock. A file that exists is not
 * written to, so that it opens on a full disk too. */
static int make_tables(sqlite3 *db, const struct sqlite_form *form)
{
    const bool is_made = pragma_number(db, "PRAGMA application_id") == form->application_id &&
                         pragma_number(db, "PRAGMA user_version") == form->version;
    char *ids = is_made ? sqlite3_mprintf("COMMIT")
                        : sqlite3_mprintf("PRAGMA application_id=%u;PRAGMA user_version=%u;COMMIT",
                                          form->application_id, form->version);
    int rc = ids != NULL ? sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) : SQLITE_NOMEM;

    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, form->schema, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, ids, NULL, NULL, NULL);
    sqlite3_free(ids);
    return rc;
}

/* ---- a file that may be damaged ---- */

struct attempt { /* an attempt to use a file that another process may hold */
    const char *path;
    const struct sqlite_form *form;
    struct sqlite_image *image;
};

static int try_image(const struct attempt *a)
{
    return sqlite_image_open(a->image, a->path, a->form->application_id, a->form->is_durable);
}

static int try_place(const struct attempt *a)
{
    return sqlite_place_finish(a->path);
}

static int try_for_a_while(int (*try)(const struct attempt *a), const struct attempt *a, char *err,
                           size_t err_len)
{
    const struct timespec pause = {0, BUSY_STEP_MS * 1000000};
    const char *path = a->path;
    int rc = ERR_BUSY;

    for (int ms = 0; ms <= BUSY_MS && rc == ERR_BUSY; ms += BUSY_STEP_MS) {
        if (ms > 0)
            nanosleep(&pause, NULL);
        rc = try(a);
    }
    if (rc == ERR_BUSY)
        snprintf(err, err_len, "'%s' is in use by another process", path);
    else if (rc < 0)
        snprintf(err, err_len, "'%s' cannot be used: %s", path,
                 rc == ERR_IO ? strerror(errno) : err_text(rc));
    return rc;
}

/* Log changes that are lost: SQLite does not take them from the log, and nothing else can. */
static void tell_cut(const struct sqlite_image *image, const char *path, struct sqlite_loss *loss)
{
    char quoted[300];

    if (!image->is_ours || image->n_cut == 0)
        return;
    log_error("database", "event=changes_lost file=%s pages=%u reason=%s",
              log_quote(quoted, sizeof(quoted), path), image->n_cut,
              "\"the log of changes is damaged\"");
    loss->n_rows++;
}

/* Look at the pages before SQLite opens the file, or after it has found damage (is_damaged);
 * salvage a damaged file. */
static int look_at_database(const char *path, const struct sqlite_form *form, bool is_damaged,
                            enum state *state, struct sqlite_loss *loss, char *err, size_t err_len)
{
    struct sqlite_image image;
    const struct attempt a = {path, form, &image};
    int rc = try_for_a_while(try_image, &a, err, err_len);

    if (rc < 0)
        return rc;
    *state = image.is_ours || image.is_empty ? CHECKED : PLAIN;
    if (image.is_ours && (is_damaged || image.is_damaged))
        rc = sqlite_salvage(&image, path, form, loss, err, err_len);
    if (rc == 0 && !is_damaged)
        tell_cut(&image, path, loss);
    sqlite_image_close(&image);
    return rc;
}

/* Open with SQLite. *state changes from CHECKED to DAMAGED_ONE when something is not as it was
 * written. */
static int open_whole(sqlite3 **out, const char *path, const struct sqlite_form *form,
                      enum state *state, char *err, size_t err_len)
{
    const bool is_checked = *state == CHECKED;
    int rc, on = 1;

    if (sqlite_pages_open(out, path, form->application_id, is_checked) != SQLITE_OK ||
        sqlite3_exec(*out, exclusive, NULL, NULL, NULL) != SQLITE_OK)
        return *out != NULL ? say_database(*out, path, err, err_len)
                            : (snprintf(err, err_len, "no memory for '%s'", path), ERR_NOMEM);
    sqlite3_busy_timeout(*out, BUSY_MS);
    sqlite3_db_config(*out, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(*out, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(*out, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    rc = check_database(*out, path, form, state, err, err_len);
    if (rc == 0)
        sqlite3_file_control(*out, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
    if (rc == 0 && (sqlite3_exec(*out, modes, NULL, NULL, NULL) != SQLITE_OK ||
                    make_tables(*out, form) != SQLITE_OK))
        rc = say_database(*out, path, err, err_len);
    if (rc == 0)
        rc = check_pages(*out, path, state, err, err_len);
    if (rc < 0 && is_checked && sqlite_pages_is_damage(*out))
        *state = DAMAGED_ONE;
    return rc;
}

/* Finish what another process began: it may have ended before its new file had the database's
 * name. */
static int finish_place(const char *path, struct sqlite_loss *loss, char *err, size_t err_len)
{
    const struct attempt a = {.path = path};
    const int rc = try_for_a_while(try_place, &a, err, err_len);
    char quoted[300];

    if (rc == 1) {
        loss->is_salvaged = true;
        log_warn("database", "event=database_saved_before file=%s",
                 log_quote(quoted, sizeof(quoted), path));
    }
    return rc;
}

int sqlite_file_open(sqlite3 **out, const char *path, const struct sqlite_form *form,
                     struct sqlite_loss *loss, char *err, size_t err_len)
{
    enum state state = CHECKED;
    int rc;

    *out = NULL;
    *loss = (struct sqlite_loss){0};
    rc = finish_place(path, loss, err, err_len);
    if (rc >= 0)
        rc = make_database(path, err, err_len);
    if (rc == 0)
        rc = look_at_database(path, form, false, &state, loss, err, err_len);
    if (rc >= 0)
        rc = open_whole(out, path, form, &state, err, err_len);
    if (state != DAMAGED_ONE)
        return rc;
    sqlite3_close(*out);
    *out = NULL;
    rc = look_at_database(path, form, true, &state, loss, err, err_len);
    return rc < 0 ? rc : open_whole(out, path, form, &state, err, err_len);
}

/* Mark the file as damaged for the next opening; a transaction under way is rolled back. */
static void write_mark(sqlite3 *db)
{
    int reserved = -1; /* asks for the present number */
    char mark[60];

    if (sqlite3_get_autocommit(db) == 0)
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved) != SQLITE_OK ||
        reserved != SQLITE_PAGES_RESERVED)
        return;
    snprintf(mark, sizeof(mark), "PRAGMA user_version=%" PRId64,
             pragma_number(db, "PRAGMA user_version") | DAMAGED);
    (void)sqlite3_exec(db, mark, NULL, NULL, NULL);
}

const char *sqlite_file_fail(sqlite3 *db)
{
    if (!sqlite_pages_is_damage(db))
        return sqlite3_errmsg(db);
    write_mark(db);
    return "a page of the file is damaged: what can be saved is when the server starts again";
}
#endif
