/* server/storage/sqlite_recover.h - copies all rows that can be read of a damaged database into a
 * new one.
 *
 * SQLite reads the damaged file; where it cannot, the rows before and after are copied. Rows with a
 * hash are copied as they were written or not at all, those without one as SQLite reads them. If
 * SQLite cannot open the file at all, everything is lost (event=database_lost). The log names the
 * lost rows that an index still has (event=row_lost), and reports if there may be more
 * (event=database_saved more_lost=unknown).
 *
 * The new file replaces the damaged one, which becomes FILE.damaged, with FILE.damaged-wal; only
 * the latest one is kept. If the process ends before, there is still the damaged file, with all
 * that was in its log, or the new one as FILE.saved, which the next opening takes.
 *
 * Thread: one at a time.
 * Memory: SQLite's, and the names of lost rows.
 * Errors: a sentence that names the file.
 */
#ifndef SERVER_STORAGE_SQLITE_RECOVER_H
#define SERVER_STORAGE_SQLITE_RECOVER_H

#include "server/storage/sqlite_file.h"

/* Recover the file; no connection of this process may have it open. ERR_BUSY: another process has
 * it open. ERR_IO, ERR_NOMEM. */
int sqlite_recover(const char *path, const struct sqlite_form *form, struct sqlite_loss *loss,
                   char *err, size_t err_len);

/* Complete a recovery that an earlier process has not finished: rename FILE.saved to FILE.
 * ERR_IO. */
int sqlite_recover_finish(const char *path, struct sqlite_loss *loss, char *err, size_t err_len);

#endif
