/* server/batches/batch_store_impl.h - what the files of batch_store.h share: the statements and
 * their steps. For builds with SQLite.
 *
 * Thread: the store's.
 * Memory: none of its own.
 */
#ifndef SERVER_BATCHES_BATCH_STORE_IMPL_H
#define SERVER_BATCHES_BATCH_STORE_IMPL_H

#include <sqlite3.h>
#include <stdatomic.h>

#include "server/batches/batch_store.h"
#include "server/sqlite/sqlite_file.h"

#define BATCH_STORE_DAY_S 86400
#define BATCH_STORE_PART ".part" /* the end of a file's name while it is uploaded */

enum batch_statement {
#define SQL(name, text) SQL_##name,
#include "server/batches/batch_sql.inc"
#undef SQL
    N_BATCH_SQL
};

struct batch_store {
    sqlite3 *db; /* NULL: the disk was full when it was to be opened */
    sqlite3_stmt *statements[N_BATCH_SQL];
    char folder[BATCH_STORE_PATH - BATCH_STORE_ID - 8]; /* with an id it is a path */
    uint64_t max_bytes;
    uint32_t max_days;
    struct sqlite_loss loss; /* at the opening */
    _Atomic uint64_t n_files, bytes; /* since the last change that has ended */
    _Atomic uint64_t uploading;      /* bytes that have no row yet */
};

/* A statement with its parameters (sqlite_bind.h). */
sqlite3_stmt *batch_store_bind(struct batch_store *s, enum batch_statement which,
                               const char *types, ...);
/* 1 with a row, 0 without, or the ERR_* of the database. */
int batch_store_step(struct batch_store *s, sqlite3_stmt *st, struct api_error *e);
int batch_store_run(struct batch_store *s, enum batch_statement which, struct api_error *e);
/* What was begun holds if rc is not negative, else nothing of it. */
int batch_store_end_change(struct batch_store *s, int rc, struct api_error *e);
void batch_store_show_counts(struct batch_store *s);

/* After the database was damaged: make rows and files agree, and name what is lost. */
int batch_store_mend(struct batch_store *s, struct api_error *e);

int64_t batch_store_now(void);
/* How long a file that is made now stays. */
int64_t batch_store_keep_until(const struct batch_store *s);
void batch_store_random_id(const char *prefix, char out[BATCH_STORE_ID]);
void batch_store_path(const struct batch_store *s, const char *id, char out[BATCH_STORE_PATH]);
/* The object of SQL_GET or SQL_GET_FILE (out NULL: it is not wanted), and its number. */
int batch_store_find(struct batch_store *s, enum batch_statement which,
                     const struct batch_name *name, struct buf *out, int64_t *n,
                     struct api_error *e);
int batch_store_check_out(const struct buf *out, struct api_error *e);
int batch_store_not_found(struct api_error *e, const char *what, const char *id);

#endif
