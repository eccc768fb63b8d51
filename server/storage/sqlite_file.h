/* server/storage/sqlite_file.h - opens an SQLite database of the server: creates it if it does not
 * exist, converts one of the previous version, and recovers a damaged one.
 *
 * Each row has a hash of its other values in its last column, `hash`, which triggers of the
 * connection write: no statement names it. The view whole_TABLE has the columns of TABLE and
 * `is_whole`: selecting that of a row which does not match its hash is SQLITE_CORRUPT, and so is an
 * UPDATE of such a row. is_whole must be a column of the result: in a WHERE clause SQLite would
 * replace columns by the constants with which they are compared.
 *
 * An opening checks pages, indexes and rows of a file up to 256 MiB. In a larger file the call that
 * reads a damaged page or row fails, and the next opening recovers the file: all rows that can be
 * read and match their hashes are copied into FILE.new, which replaces FILE; the latest damaged
 * file is kept as FILE.damaged, with FILE.damaged-wal. The log names the lost rows that an index
 * still has (event=row_lost), and reports if there may be more (event=database_saved
 * more_lost=unknown) or if nothing was saved (event=database_lost). A file of the previous version,
 * which had no hashes, is copied in the same way and then removed. Of a damaged FILE-wal SQLite
 * uses the part before the damage; the changes after it are lost without a report.
 *
 * Thread: the main thread, before others use the database; then the database's thread.
 * Memory: SQLite's.
 * Errors: a sentence that names the file; or SQLite's result codes.
 */
#ifndef SERVER_STORAGE_SQLITE_FILE_H
#define SERVER_STORAGE_SQLITE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqlite3;

struct sqlite_table {
    const char *name;
    const char *columns; /* all columns but the hash */
    const char *row;     /* condition that selects the row `new` in a trigger: "rowid=new.rowid" */
    const char *key;     /* "rowid", or an integer column that orders the rows */
    /* After damage: a SELECT of what,id for each entry that an index of the database `damaged` has
     * and no recovered row. NULL: no index names rows. */
    const char *lost;
};

struct sqlite_form {         /* describes a database */
    const char *what;        /* its contents: "kept responses" */
    const char *schema;      /* statements such as "CREATE TABLE IF NOT EXISTS ...;" */
    uint32_t application_id; /* shown by `file` and sqlite3 */
    uint32_t version;        /* of the schema, >= 2; this and the previous version are opened */
    bool is_durable;         /* each change is on the disk when it ends (synchronous=FULL) */
    const struct sqlite_table *tables; /* [n_tables] */
    uint32_t n_tables;
    /* After damage: statements that delete recovered rows which cannot stay, and enter them into
     * lost(what,id). damage(is_unknown) is 1 if rows are lost that no index names. NULL: none. */
    const char *settle;
};

struct sqlite_loss {
    bool is_recovered; /* the file is a new one with recovered rows */
    bool is_unknown;   /* more rows may be lost than n_rows */
    uint64_t n_rows;   /* rows known to be lost */
};

/* Open the database. ERR_BUSY: another process has it. ERR_FORMAT: it is another kind of database,
 * or of another version. ERR_AGAIN: the disk is full, or writing is not possible now (a quota, a
 * limit of the process). ERR_IO, ERR_NOMEM. On failure *out is NULL. */
int sqlite_file_open(struct sqlite3 **out, const char *path, const struct sqlite_form *form,
                     struct sqlite_loss *loss, char *err, size_t err_len);

/* Return the reason for which the last call failed: SQLite's message, or that the file is damaged.
 * A damaged file is marked for the next opening, the current transaction is rolled back, and
 * *is_damaged is set. */
const char *sqlite_file_fail(struct sqlite3 *db, bool *is_damaged);

#endif
