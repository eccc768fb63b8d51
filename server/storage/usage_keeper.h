/* server/storage/usage_keeper.h - saves the ledger in a file, an SQLite database (sql_store.h), as
 * it changes: a request's use is in the file within USAGE_SAVE_MS of its end, or, if the file
 * cannot be written, when it can be again. The file is locked for this process.
 *
 * Thread: the loop's; the file is written on a thread of the keeper's own.
 * Memory: the thread, and room for USAGE_SAVE_ROWS rows.
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

/* Open the file, and read the rows of the latest days into the empty ledger. ERR_UNSUPPORTED: this
 * build has no SQLite; ERR_BUSY: another process has the file; ERR_FORMAT: it is another kind of
 * database; ERR_IO, ERR_NOMEM. usage_keeper_start() makes the thread. */
int usage_keeper_open(struct usage_keeper **out, uv_loop_t *loop, struct usage_ledger *ledger,
                      const char *path, char *err, size_t err_len);
int usage_keeper_start(struct usage_keeper *k); /* ERR_INTERNAL */

/* True: all rows are saved and no job runs, or the last try has failed. Otherwise start saving. */
bool usage_keeper_is_saved(struct usage_keeper *k);
/* Return the clock_us() at which the running job began; 0: none runs. */
uint64_t usage_keeper_oldest_us(struct usage_keeper *k);
/* Rows that a damaged file has lost. */
uint64_t usage_keeper_n_lost(const struct usage_keeper *k);

/* Stop the thread as worker_pool_stop() does; usage_keeper_close() follows after the loop has
 * ended. k may be NULL. */
void usage_keeper_stop(struct usage_keeper *k);
void usage_keeper_close(struct usage_keeper **k);

#endif
