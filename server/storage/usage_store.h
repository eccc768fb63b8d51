/* server/storage/usage_store.h - the ledger in a file, an SQLite database: one row for each owner
 * and day, with the latest amounts.
 *
 * The file is locked for this process. Saved rows survive any end of the process.
 *
 * Thread: any, one call at a time; every call may wait for a disk, so never the I/O thread's,
 *         except for those before the loop.
 * Memory: SQLite's.
 * Errors: opening fails with a sentence, the other calls with one in *e (sql_store.h). They log
 *         nothing, since a save that fails is repeated every few seconds.
 */
#ifndef SERVER_STORAGE_USAGE_STORE_H
#define SERVER_STORAGE_USAGE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "server/http/error.h"
#include "server/storage/usage_ledger.h"

struct usage_store;

/* ERR_UNSUPPORTED: this build has no SQLite. ERR_BUSY: another process has the file. ERR_FORMAT: it
 * is another kind of database. ERR_IO, ERR_NOMEM. */
int usage_store_open(struct usage_store **out, const char *path, char *err, size_t err_len);
void usage_store_close(struct usage_store **s);
/* Rows that the file has lost, as far as is known (sqlite_file.h). */
uint64_t usage_store_n_lost(const struct usage_store *s);

/* Add the rows of the file, at most USAGE_MAX_ROWS of the latest days, to an empty ledger. */
int usage_store_load(struct usage_store *s, struct usage_ledger *l, struct api_error *e);

struct usage_saved { /* a row with its owner's name */
    struct usage_row row;
    char owner[USAGE_MAX_NAME + 1];
};

/* Save all rows or none; they replace those of the file. */
int usage_store_save(struct usage_store *s, const struct usage_saved *rows, uint32_t n,
                     struct api_error *e);

#endif
