/* server/sqlite/sqlite_file.h - an SQLite database of ours: opened, checked, made if it is not
 * there, and what can be saved of it saved if it is damaged.
 *
 * It is in WAL mode with an exclusive lock, so that there is no file of shared memory; temporary
 * tables stay in memory; the log of changes (FILE-wal) stays open to the end and is cut short
 * there. Its pages have checksums (sqlite_pages.h), if it was made by a build that writes them:
 * another one is read as it is.
 *
 * Damage is found when the file is opened, up to SQLITE_FILE_CHECKED bytes: all pages are read, and
 * what indexes and tables say of each other is compared. In a larger one it is found by who reads
 * it: that call fails, and the next opening does not take the file for whole. Then
 * sqlite_salvage.h makes a new one of what can be read, with the damaged one beside it
 * (FILE.damaged, FILE.damaged-wal; one: the last). The log says what was lost, and so does struct
 * sqlite_loss; a process that finishes what another one has begun (sqlite_place.h) knows only that
 * something may be. Of a damaged log of changes see sqlite_image.h.
 *
 * Thread: the main thread's, before others use the database; sqlite_file_fail() the database's.
 * Memory: SQLite's; while a damaged file is read, its longest row and the names of lost ones.
 * Errors: a sentence that names the file.
 */
#ifndef SERVER_SQLITE_SQLITE_FILE_H
#define SERVER_SQLITE_SQLITE_FILE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SQLITE_FILE_CHECKED (INT64_C(256) << 20)

struct sqlite_table { /* one whose rows are saved */
    const char *name;
    uint32_t n_columns;
    bool is_index;      /* WITHOUT ROWID: no index has so many columns */
    const char *insert; /* a statement: ?1 and so on are the columns, then comes the rowid */
};

struct sqlite_form {         /* of a database */
    const char *what;        /* is in it: "kept responses" */
    const char *schema;      /* statements that make what is not there */
    uint32_t application_id; /* what `file` and sqlite3 call so */
    uint32_t version;        /* of the schema, from 1 on: another one is refused */
    bool is_durable;         /* each change is on the disk when it has an end (synchronous=FULL) */
    /* For a damaged file: the rows are told apart by how many columns they have. */
    const struct sqlite_table *tables; /* [n_tables] */
    uint32_t n_tables;
    /* Enter into the table lost(what,id) what an index has and no table: for each of its records
     * of at most four columns; ?1 is how many, ?2 to ?5 are they. NULL: no index has names. */
    const char *enter_lost;
    /* Statements that make of the rows what may be there; what they delete they enter into `lost`.
     * The table damage(n_pages) has how many pages were lost. NULL: nothing is to be done. */
    const char *settle;
};

struct sqlite_loss {
    bool is_salvaged; /* it is a new file, of what could be saved */
    uint64_t n_rows;  /* lost, as far as they are known */
};

/* ERR_BUSY: another process has it. ERR_FORMAT: it is no such database, or a newer one. ERR_AGAIN:
 * the disk is full, or takes no writes now (a quota, a limit of the process). ERR_IO, ERR_NOMEM. On
 * failure *out may be a database to be closed, or NULL. */
int sqlite_file_open(sqlite3 **out, const char *path, const struct sqlite_form *form,
                     struct sqlite_loss *loss, char *err, size_t err_len);

/* Why the last call failed: SQLite's words, or that the file is damaged. Then that is written down
 * for the next opening, and a change that is under way has been given up. */
const char *sqlite_file_fail(sqlite3 *db);

#endif
