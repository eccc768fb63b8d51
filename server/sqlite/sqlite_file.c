/* server/sqlite/sqlite_file.c - see sqlite_file.h. */
#ifdef QUIRE_SQLITE
#include "server/sqlite/sqlite_file.h"

#include "core/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How long a server that ends may still have the file. */
#define BUSY_MS 2000

/* In this order: the journal's mode holds with the lock that is asked for before. */
static const char modes[] = "PRAGMA locking_mode=EXCLUSIVE;"
                            "PRAGMA journal_mode=WAL;"
                            "PRAGMA synchronous=NORMAL;"
                            "PRAGMA temp_store=MEMORY;"
                            "PRAGMA secure_delete=ON;"
                            "PRAGMA foreign_keys=ON;"
                            "PRAGMA cell_size_check=ON;"
                            "PRAGMA cache_size=-4096;"
                            "PRAGMA journal_size_limit=4194304;";

static int say(sqlite3 *db, const char *path, char *err, size_t err_len)
{
    const int rc = sqlite3_errcode(db);

    if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
        snprintf(err, err_len, "'%s' is in use by another process", path);
        return ERR_BUSY;
    }
    snprintf(err, err_len, "'%s' cannot be used: %s", path, sqlite3_errmsg(db));
    return rc == SQLITE_NOTADB || rc == SQLITE_CORRUPT ? ERR_FORMAT : ERR_IO;
}

/* The number that a statement asks for; -1: it cannot. */
static int64_t number_of(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t n = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

/* A file that is there must be empty, or one of ours. */
static int check(sqlite3 *db, const char *path, const struct sqlite_form *form, char *err,
                 size_t err_len)
{
    const int64_t n = number_of(db, "SELECT count(*) FROM sqlite_schema");
    const int64_t id = number_of(db, "PRAGMA application_id");
    const int64_t version = number_of(db, "PRAGMA user_version");

    if (n < 0)
        return say(db, path, err, err_len);
    if (n == 0 && id == 0)
        return 0;
    if (id != form->application_id) {
        snprintf(err, err_len, "'%s' is a database of another program", path);
        return ERR_FORMAT;
    }
    if (version == form->version)
        return 0;
    snprintf(err, err_len, "'%s' has version %d of %s, and this build reads %u", path, (int)version,
             form->what, form->version);
    return ERR_FORMAT;
}

/* Only its owner reads it. */
static int make(const char *path, char *err, size_t err_len)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);

    if (fd < 0) {
        snprintf(err, err_len, "'%s' cannot be opened: %s", path, strerror(errno));
        return ERR_IO;
    }
    close(fd);
    return 0;
}

/* A transaction of its own takes the lock, and makes what is to be written when the file is new. */
static int make_tables(sqlite3 *db, const struct sqlite_form *form)
{
    char *ids = sqlite3_mprintf("PRAGMA application_id=%u;PRAGMA user_version=%u;COMMIT",
                                form->application_id, form->version);
    int rc = ids != NULL ? sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) : SQLITE_NOMEM;

    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, form->schema, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, ids, NULL, NULL, NULL);
    sqlite3_free(ids);
    return rc;
}

int sqlite_file_open(sqlite3 **out, const char *path, const struct sqlite_form *form, char *err,
                     size_t err_len)
{
    int rc = make(path, err, err_len), on = 1;

    *out = NULL;
    if (rc < 0)
        return rc;
    if (sqlite3_open_v2(path, out, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return say(*out, path, err, err_len);
    sqlite3_busy_timeout(*out, BUSY_MS);
    sqlite3_db_config(*out, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(*out, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(*out, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    rc = check(*out, path, form, err, err_len);
    if (rc < 0)
        return rc;
    sqlite3_file_control(*out, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
    if (sqlite3_exec(*out, modes, NULL, NULL, NULL) != SQLITE_OK ||
        make_tables(*out, form) != SQLITE_OK)
        return say(*out, path, err, err_len);
    return 0;
}
#endif
