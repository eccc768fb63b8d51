/* server/storage/usage_keeper.h - saves the ledger in a file, an SQLite database (sql_store.h), as
 * it changes: within USAGE_SAVE_MS of a request's end its use is in the file, or, if that cannot be
 * written, as soon as it can again. The file is locked for this process.
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
#define USAGE_SAVE_ROWS 1024 /* in one transaction */

struct usage_keeper; /* NULL: nothing is saved */
struct usage_ledger;

/* Open the file, and read the rows of the latest days into the empty ledger. ERR_UNSUPPORTED: this
 * build has no SQLite; ERR_BUSY: another process has the file; ERR_FORMAT: it is another kind of
 * database; ERR_IO, ERR_NOMEM. usage_keeper_start() makes the thread. */
int usage_keeper_open(struct usage_keeper **out, uv_loop_t *loop, struct usage_ledger *ledger,
                      const char *path, char *err, size_t err_len);
int usage_keeper_start(struct usage_keeper *k); /* ERR_INTERNAL */

/* Whether everything is saved and no job runs, or the last try has failed. If not, saving begins
 * now. */
bool usage_keeper_is_saved(struct usage_keeper *k);
/* When the running job began, clock_us(); 0: none runs. */
uint64_t usage_keeper_oldest_us(struct usage_keeper *k);
/* Rows that a damaged file has lost. */
uint64_t usage_keeper_n_lost(const struct usage_keeper *k);

/* As worker_pool_stop(), and then, after the loop, close. NULL is allowed. */
void usage_keeper_stop(struct usage_keeper *k);
void usage_keeper_close(struct usage_keeper **k);

#endif
