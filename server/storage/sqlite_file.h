/* server/storage/sqlite_file.h - opens one of our SQLite databases: checks it, creates it if it
 * does not exist, and salvages it if it is damaged.
 *
 * It is in WAL mode with an exclusive lock, so that there is no file of shared memory; temporary
 * tables stay in memory; the log of changes (FILE-wal) stays open to the end and is cut short
 * there. Its pages have checksums (sqlite_pages.h), if a build that writes them has made it; a file
 * without them is used as it is.
 *
 * Damage is found when the file is opened, up to SQLITE_FILE_CHECKED bytes: all pages are read, and
 * indexes are compared with their tables. In a larger file it is found by the call that reads it:
 * that call fails, and the next opening treats the file as damaged. Then sqlite_salvage.h makes a
 * new file of all that can be read, and the damaged one is kept beside it (FILE.damaged,
 * FILE.damaged-wal; only the last one). The log says what was lost, and so does struct sqlite_loss;
 * a process that finishes what another one has begun (sqlite_place.h) knows only that something may
 * be lost. sqlite_image.h describes damage to the log of changes.
 *
 * Thread: the main thread's, before others use the database; sqlite_file_fail() the database's.
 * Memory: SQLite's; while a damaged file is read, its longest row and the names of lost ones.
 * Errors: a sentence that names the file.
 */
#ifndef SERVER_STORAGE_SQLITE_FILE_H
#define SERVER_STORAGE_SQLITE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqlite3;

#define SQLITE_FILE_CHECKED (INT64_C(256) << 20)

struct sqlite_table { /* a table whose rows are salvaged */
    const char *name;
    uint32_t n_columns;
    bool is_index;      /* WITHOUT ROWID; no index may have that many columns */
    const char *insert; /* a statement: ?1 and so on are the columns, then comes the rowid */
};

struct sqlite_form {         /* of a database */
    const char *what;        /* its contents: "kept responses" */
    const char *schema;      /* statements that create what does not exist */
    uint32_t application_id; /* shown by `file` and sqlite3 */
    uint32_t version;        /* of the schema, from 1 on; other versions are refused */
    bool is_durable;         /* each change is on the disk when it ends (synchronous=FULL) */
    /* For a damaged file: tables are told apart by their number of columns. */
    const struct sqlite_table *tables; /* [n_tables] */
    uint32_t n_tables;
    /* Enter into the table lost(what,id) a record that an index has and no table; run for each
     * index record of at most four columns: ?1 is their number, ?2 to ?5 are the columns. NULL: no
     * index has names. */
    const char *enter_lost;
    /* Statements that delete rows which cannot stay after a loss, and enter them into `lost`. The
     * table damage(n_pages) has the number of lost pages. NULL: nothing to do. */
    const char *settle;
};

struct sqlite_loss {
    bool is_salvaged; /* it is a new file of salvaged rows */
    uint64_t n_rows;  /* lost, as far as is known */
};

/* ERR_BUSY: another process has it. ERR_FORMAT: another kind of database, or a newer one.
 * ERR_AGAIN: the disk is full, or takes no writes now (a quota, a limit of the process). ERR_IO,
 * ERR_NOMEM. On failure *out may be a database to be closed, or NULL. */
int sqlite_file_open(struct sqlite3 **out, const char *path, const struct sqlite_form *form,
                     struct sqlite_loss *loss, char *err, size_t err_len);

/* Why the last call failed: SQLite's message, or that the file is damaged. In that case the file is
 * marked for the next opening, and the transaction under way is rolled back. */
const char *sqlite_file_fail(struct sqlite3 *db);

#endif
