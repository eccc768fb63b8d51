/* server/batches/batch_store_impl.h - shared by the files of batch_store.h. Thread: the store's.
 * Memory: as batch_store.h says.
 */
#ifndef SERVER_BATCHES_BATCH_STORE_IMPL_H
#define SERVER_BATCHES_BATCH_STORE_IMPL_H

#include <stdatomic.h>

#include "server/batches/batch_store.h"
#include "server/storage/sql_store.h"

#define BATCH_STORE_DAY_S 86400
#define BATCH_STORE_PART ".part" /* the end of a file's name during its upload */

enum batch_statement {
#define SQL(name, text) SQL_##name,
#include "server/batches/batch_sql.inc"
#undef SQL
    N_BATCH_SQL
};

struct batch_store {
    struct sql_store sql; /* closed if the disk was full when it was to be opened */
    char folder[BATCH_STORE_PATH - BATCH_STORE_ID - 8]; /* short enough that a path with an id
                                                         * fits */
    uint64_t max_bytes;
    uint32_t max_days;
    _Atomic uint64_t n_lost;         /* rows and files that were lost when the database was
                                      * opened */
    _Atomic uint64_t n_files, bytes; /* values after the last committed change */
    _Atomic uint64_t uploading;      /* bytes of uploads, which have no row yet */
};

/* Commit the change if rc is not negative, else roll it back. */
int batch_store_end_change(struct batch_store *s, int rc, struct api_error *e);
void batch_store_show_counts(struct batch_store *s);

/* After damage: make rows and files agree, and log lost ones. */
int batch_store_mend(struct batch_store *s, struct api_error *e);

int64_t batch_store_now(void);
/* Return the time until which a file made now is kept. */
int64_t batch_store_keep_until(const struct batch_store *s);
void batch_store_random_id(const char *prefix, char out[BATCH_STORE_ID]);
void batch_store_path(const struct batch_store *s, const char *id, char out[BATCH_STORE_PATH]);
/* Find a row with SQL_GET or SQL_GET_FILE; append its object to `out`, unless that is NULL, and set
 * its number. */
int batch_store_find(struct batch_store *s, enum batch_statement which,
                     const struct batch_name *name, struct buf *out, int64_t *n,
                     struct api_error *e);
int batch_store_check_out(const struct buf *out, struct api_error *e);
int batch_store_not_found(struct api_error *e, const char *what, const char *id);

#endif
