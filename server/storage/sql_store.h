/* server/storage/sql_store.h - the database of one store, with its statements: prepared when it is
 * opened, then run and read by number.
 *
 * Responses, batches and usage are stores. A store has its SQL in a table of texts and numbers the
 * statements by an enum. sql_store_run() binds a statement and takes the first step. While that has
 * a row, its columns can be read, until the next step, sql_store_reset() or the next run; a reader
 * that stops before the last row resets the statement, which otherwise keeps a read transaction
 * open.
 *
 * A failed step reports an error that names the store's contents and setting. Damage (a row or page
 * differs from what was written) marks the file for the next opening, which recovers it
 * (sqlite_file.h).
 * A store that is not open fails each run, as on a full disk.
 *
 * In a build without SQLite (sql_store_none.c) the opening fails, and no store exists.
 *
 * Thread: any, one call at a time. Every call may wait for a disk.
 * Memory: the caller's struct, SQLite's cache of 4 MiB and statements. Bound texts are borrowed
 *         until the statement is run again or reset; texts of a row are valid until the statement's
 *         next step.
 * Errors: opening fails with a sentence; a step fills *e with a 503, or a 500 without memory, and
 *         returns ERR_IO or ERR_NOMEM.
 */
#ifndef SERVER_STORAGE_SQL_STORE_H
#define SERVER_STORAGE_SQL_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/http/error.h"
#include "server/storage/sqlite_file.h"

#define SQL_STORE_MAX 32     /* statements of a store */
#define SQL_STORE_MAX_ID 128 /* most bytes of an id in sql_store_list(), with the NUL */

struct sql_store_form { /* constant */
    struct sqlite_form file;
    const char *const *statements; /* [n_statements] SQL, up to SQL_STORE_MAX */
    uint32_t n_statements;
    const char *subject; /* contents, for error messages: "kept responses" */
    const char *setting; /* setting, the `code` of errors: "responses_db" */
    const char *log;     /* module of the log lines for failures; NULL: the caller logs */
};

struct sql_store {
    const struct sql_store_form *form;
    struct sqlite3 *db; /* NULL: it is not open */
    struct sqlite3_stmt *statements[SQL_STORE_MAX];
    struct sqlite_loss loss; /* rows that were lost when the file was opened */
    bool is_damaged;         /* a damaged row or page was read since the opening */
    bool is_full;            /* the last failure was a full disk */
};

/* Open or create the file, and prepare the statements. Returns as sqlite_file_open();
 * ERR_UNSUPPORTED: this build has no SQLite. On failure the store is closed. */
int sql_store_open(struct sql_store *s, const struct sql_store_form *form, const char *path,
                   char *err, size_t err_len);
/* Close the store, which may be closed already or zero. `loss` and `is_damaged` keep their
 * values. */
void sql_store_close(struct sql_store *s);

/* Bind the parameters, a letter of `types` each, and take a step: t a text (const char *; NULL is
 * SQL's), b the bytes of a const struct buf *, i an int64_t. 1 with a row, 0 without, or negative.
 */
int sql_store_run(struct sql_store *s, uint32_t which, struct api_error *e, const char *types, ...);
/* Take the next step of a statement that has a row. Returns as sql_store_run(). */
int sql_store_next(struct sql_store *s, uint32_t which, struct api_error *e);
void sql_store_reset(struct sql_store *s, uint32_t which);
/* Count the rows that the last INSERT, UPDATE or DELETE has changed. */
int64_t sql_store_n_changed(const struct sql_store *s);

/* ---- a row's columns, from 0 on; 0 and "" where there is no row, or NULL in it ---- */

int64_t sql_store_int(const struct sql_store *s, uint32_t which, int column);
const char *sql_store_text(const struct sql_store *s, uint32_t which, int column);
void sql_store_add(const struct sql_store *s, uint32_t which, int column, struct buf *out);

/* Write OpenAI's list of the rows that a statement has from its present step on (`rc` is that
 * step's result): column 0 is an id, column 1 the object. A row beyond `limit` is only reported, as
 * has_more. 0, or negative. */
int sql_store_list(struct sql_store *s, uint32_t which, int rc, uint32_t limit, struct buf *out,
                   struct api_error *e);

/* ---- changes: transactions that write ---- */

int sql_store_begin(struct sql_store *s, struct api_error *e);
/* Commit if rc is not negative, else roll back. Returns 0, or rc if that is negative, or the error
 * of the commit. */
int sql_store_end(struct sql_store *s, int rc, struct api_error *e);

#endif
