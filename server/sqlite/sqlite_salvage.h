/* server/sqlite/sqlite_salvage.h - what can be read of a damaged database, in a new one.
 *
 * Each page that is whole is looked at by itself: the rows of a table do not need the pages that
 * led to them, nor the schema. Rows come out as they went in or not at all. What indexes still know
 * of rows that are gone says which they were; the log names them (event=row_lost), and how many
 * pages were damaged (event=database_damaged, event=database_saved).
 *
 * The new file takes the place of the damaged one when it is complete and on the disk
 * (sqlite_place.h). Until then nothing has changed; a process that ends there begins anew.
 *
 * Thread: one at a time.
 * Memory: the longest row, and the names of what is lost.
 * Errors: a sentence that names the file.
 */
#ifndef SERVER_SQLITE_SQLITE_SALVAGE_H
#define SERVER_SQLITE_SQLITE_SALVAGE_H

#include "server/sqlite/sqlite_file.h"
#include "server/sqlite/sqlite_image.h"

/* The image stays open: nobody else has the damaged file. It is kept as PATH.damaged, with its log.
 * What is lost is added to *loss. ERR_IO, ERR_NOMEM. */
int sqlite_salvage(const struct sqlite_image *image, const char *path,
                   const struct sqlite_form *form, struct sqlite_loss *loss, char *err,
                   size_t err_len);

#endif
