/* server/storage/usage_keeper.h - saves the ledger in a file, an SQLite database (sql_store.h), as
 * it changes: a request's use is in the file within USAGE_SAVE_MS of its end, or, if the file
 * cannot be written, when it can be again. The file is locked for this process.
 *
 * Thread: the loop's; the file is written on the storage thread.
 * Memory: room for USAGE_SAVE_ROWS rows.
 */
#ifndef SERVER_STORAGE_USAGE_KEEPER_H
#define SERVER_STORAGE_USAGE_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define USAGE_SAVE_MS 1000
#define USAGE_SAVE_ROWS 1024 /* most rows in one transaction */

struct usage_keeper; /* NULL: nothing is saved */
struct usage_ledger;
struct worker_pool;

/* Open the file, and read the rows of the latest days into the empty ledger. ERR_UNSUPPORTED: this
 * build has no SQLite; ERR_BUSY: another process has the file; ERR_FORMAT: it is another kind of
 * database; ERR_IO, ERR_NOMEM. The timer is the loop's, and rows are written by jobs of
 * `storage`. */
int usage_keeper_open(struct usage_keeper **out, uv_loop_t *loop, struct worker_pool *storage,
                      struct usage_ledger *ledger, const char *path, char *err, size_t err_len);

/* True: all rows are saved and no job runs, or the last try has failed. Otherwise start saving. */
bool usage_keeper_is_saved(struct usage_keeper *k);
/* Rows that a damaged file has lost. */
uint64_t usage_keeper_n_lost(const struct usage_keeper *k);

/* Close the timer; usage_keeper_close() follows when the loop and the storage thread have ended. k
 * may be NULL. */
void usage_keeper_stop(struct usage_keeper *k);
void usage_keeper_close(struct usage_keeper **k);

#endif
