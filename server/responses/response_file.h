/* server/responses/response_file.h - the SQLite database of response_store.h: opened, checked, and
 * made if it is not there.
 *
 * It is in WAL mode with an exclusive lock, so that there is no file of shared memory; temporary
 * tables stay in memory; the log of changes (FILE-wal) stays open to the end and is cut short
 * there.
 *
 * Thread: the main thread's, before others use the database.
 * Memory: SQLite's.
 * Errors: a sentence that names the file.
 */
#ifndef SERVER_RESPONSES_RESPONSE_FILE_H
#define SERVER_RESPONSES_RESPONSE_FILE_H

#include <sqlite3.h>
#include <stddef.h>

/* ERR_BUSY: another process has it. ERR_FORMAT: it is no such database, or a newer one. ERR_IO. On
 * failure *out may be a database to be closed, or NULL. */
int response_file_open(sqlite3 **out, const char *path, char *err, size_t err_len);

#endif
