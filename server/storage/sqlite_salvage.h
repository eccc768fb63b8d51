/* server/storage/sqlite_salvage.h - copies all that can be read of a damaged database into a new
 * one.
 *
 * Each whole page is read by itself: the rows of a table do not need the pages that led to them,
 * nor the schema. Rows come out as they went in or not at all. Index records of missing rows tell
 * which rows those were; the log names them (event=row_lost), and how many pages were damaged
 * (event=database_damaged, event=database_saved).
 *
 * The new file replaces the damaged one when it is complete and on the disk (sqlite_place.h). Until
 * then nothing has changed, and a process that ends before that starts again.
 *
 * Thread: one at a time.
 * Memory: the longest row, and the names of lost rows.
 * Errors: a sentence that names the file.
 */
#ifndef SERVER_STORAGE_SQLITE_SALVAGE_H
#define SERVER_STORAGE_SQLITE_SALVAGE_H

#include "server/storage/sqlite_file.h"
#include "server/storage/sqlite_image.h"

/* The image stays open, so that no other process has the damaged file. It is kept as PATH.damaged,
 * with its log. Losses are added to *loss. ERR_IO, ERR_NOMEM. */
int sqlite_salvage(const struct sqlite_image *image, const char *path,
                   const struct sqlite_form *form, struct sqlite_loss *loss, char *err,
                   size_t err_len);

#endif
