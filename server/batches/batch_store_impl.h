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
#include "server/storage/sqlite_file.h"

#define BATCH_STORE_DAY_S 86400
#define BATCH_STORE_PART ".part" /* the end of a file's name during its upload */

enum batch_statement {
#define SQL(name, text) SQL_##name,
#include "server/batches/batch_sql.inc"
#undef SQL
    N_BATCH_SQL
};

struct batch_store {
    sqlite3 *db; /* NULL: the disk was full when it should have been opened */
    sqlite3_stmt *statements[N_BATCH_SQL];
    char folder[BATCH_STORE_PATH - BATCH_STORE_ID - 8]; /* short enough that a path with an id
                                                         * fits */
    uint64_t max_bytes;
    uint32_t max_days;
    struct sqlite_loss loss; /* at the opening */
    _Atomic uint64_t n_files, bytes; /* as of the last change that has ended */
    _Atomic uint64_t uploading;      /* bytes of uploads, which have no row yet */
};

/* Bind the parameters of a statement (sqlite_bind.h). */
sqlite3_stmt *batch_store_bind(struct batch_store *s, enum batch_statement which,
                               const char *types, ...);
/* Take one step: 1 with a row, 0 without, or the ERR_* of the database. */
int batch_store_step(struct batch_store *s, sqlite3_stmt *st, struct api_error *e);
int batch_store_run(struct batch_store *s, enum batch_statement which, struct api_error *e);
/* Commit the change if rc is not negative, else roll it back. */
int batch_store_end_change(struct batch_store *s, int rc, struct api_error *e);
void batch_store_show_counts(struct batch_store *s);

/* After damage: make rows and files agree, and log what is lost. */
int batch_store_mend(struct batch_store *s, struct api_error *e);

int64_t batch_store_now(void);
/* The time until which a file made now is kept. */
int64_t batch_store_keep_until(const struct batch_store *s);
void batch_store_random_id(const char *prefix, char out[BATCH_STORE_ID]);
void batch_store_path(const struct batch_store *s, const char *id, char out[BATCH_STORE_PATH]);
/* Find a row with SQL_GET or SQL_GET_FILE: its object (out NULL: not wanted), and its number. */
int batch_store_find(struct batch_store *s, enum batch_statement which,
                     const struct batch_name *name, struct buf *out, int64_t *n,
                     struct api_error *e);
int batch_store_check_out(const struct buf *out, struct api_error *e);
int batch_store_not_found(struct api_error *e, const char *what, const char *id);

#endif
