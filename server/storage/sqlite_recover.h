/* server/storage/sqlite_recover.h - copies all rows that can be read of a damaged database into a
 * new one.
 *
 * SQLite reads the damaged file; where it cannot, the rows before and behind are copied. Rows come
 * out as they were written or not at all, those without a hash as SQLite reads them. If SQLite
 * cannot open the file at all, everything is lost (event=database_lost). The log names the rows
 * that an index still has (event=row_lost), and says if there may be more (event=database_saved
 * more_lost=unknown).
 *
 * The new file takes the damaged one's place, which becomes FILE.damaged, with FILE.damaged-wal;
 * only the last one is kept. If the process ends before, there is still the damaged file, with all
 * that was in its log, or the new one as FILE.saved, which the next opening takes.
 *
 * Thread: one at a time.
 * Memory: SQLite's, and the names of lost rows.
 * Errors: a sentence that names the file.
 */
#ifndef SERVER_STORAGE_SQLITE_RECOVER_H
#define SERVER_STORAGE_SQLITE_RECOVER_H

#include "server/storage/sqlite_file.h"

/* No connection of this process may have the file open. ERR_BUSY: one of another process has.
 * ERR_IO, ERR_NOMEM. */
int sqlite_recover(const char *path, const struct sqlite_form *form, struct sqlite_loss *loss,
                   char *err, size_t err_len);

/* Take the new file if a process before ended in between. ERR_IO. */
int sqlite_recover_finish(const char *path, struct sqlite_loss *loss, char *err, size_t err_len);

#endif
