/* server/responses/response_file.c - see response_file.h. */
#ifdef QUIRE_SQLITE
#include "server/responses/response_file.h"

#include "core/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* "QUIR": what `file` and sqlite3 call an application id. */
#define APPLICATION_ID 0x51554952
#define VERSION 1
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

/* Its own transaction takes the lock, and makes what has to be written when the file is new. */
static const char schema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS response(n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " owner TEXT NOT NULL, previous TEXT, created INTEGER NOT NULL, is_open INTEGER NOT NULL,"
    " is_background INTEGER NOT NULL, body TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS response_created ON response(created);"
    "CREATE TABLE IF NOT EXISTS item(response INTEGER NOT NULL REFERENCES response(n)"
    " ON DELETE CASCADE, n INTEGER NOT NULL, is_output INTEGER NOT NULL, id TEXT NOT NULL,"
    " owner TEXT NOT NULL, body TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS item_response ON item(response,is_output,n);"
    "CREATE INDEX IF NOT EXISTS item_id ON item(id);"
    "PRAGMA application_id=1364543826;"
    "PRAGMA user_version=1;"
    "COMMIT;";
_Static_assert(APPLICATION_ID == 1364543826 && VERSION == 1, "as the schema says");

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
static int check(sqlite3 *db, const char *path, char *err, size_t err_len)
{
    const int64_t n = number_of(db, "SELECT count(*) FROM sqlite_schema");
    const int64_t id = number_of(db, "PRAGMA application_id");
    const int64_t version = number_of(db, "PRAGMA user_version");

    if (n < 0)
        return say(db, path, err, err_len);
    if (n == 0 && id == 0)
        return 0;
    if (id != APPLICATION_ID) {
        snprintf(err, err_len, "'%s' is a database of another program", path);
        return ERR_FORMAT;
    }
    if (version == VERSION)
        return 0;
    snprintf(err, err_len, "'%s' has version %d of kept responses, and this build reads %d", path,
             (int)version, VERSION);
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

int response_file_open(sqlite3 **out, const char *path, char *err, size_t err_len)
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
    rc = check(*out, path, err, err_len);
    if (rc < 0)
        return rc;
    sqlite3_file_control(*out, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
    if (sqlite3_exec(*out, modes, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(*out, schema, NULL, NULL, NULL) != SQLITE_OK)
        return say(*out, path, err, err_len);
    return 0;
}
#endif
