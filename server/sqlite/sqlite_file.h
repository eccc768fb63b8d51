/* server/sqlite/sqlite_file.h - an SQLite database of ours: opened, checked, and made if it is not
 * there.
 *
 * It is in WAL mode with an exclusive lock, so that there is no file of shared memory; temporary
 * tables stay in memory; the log of changes (FILE-wal) stays open to the end and is cut short
 * there.
 *
 * Thread: the main thread's, before others use the database.
 * Memory: SQLite's.
 * Errors: a sentence that names the file.
 */
#ifndef SERVER_SQLITE_SQLITE_FILE_H
#define SERVER_SQLITE_SQLITE_FILE_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

struct sqlite_form {         /* of a database */
    const char *what;        /* is in it: "kept responses" */
    const char *schema;      /* statements that make what is not there */
    uint32_t application_id; /* what `file` and sqlite3 call so */
    uint32_t version;        /* of the schema, from 1 on: another one is refused */
};

/* ERR_BUSY: another process has it. ERR_FORMAT: it is no such database, or a newer one. ERR_IO. On
 * failure *out may be a database to be closed, or NULL. */
int sqlite_file_open(sqlite3 **out, const char *path, const struct sqlite_form *form, char *err,
                     size_t err_len);

#endif
