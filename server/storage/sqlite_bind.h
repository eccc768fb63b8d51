/* server/storage/sqlite_bind.h - binds the parameters of a prepared statement.
 *
 * Thread: the database's.
 * Memory: borrowed until the statement's next use.
 */
#ifndef SERVER_STORAGE_SQLITE_BIND_H
#define SERVER_STORAGE_SQLITE_BIND_H

#include <sqlite3.h>
#include <stdarg.h>

/* Reset the statement and bind its parameters, one letter of `types` each: t text (const char *,
 * NULL is SQL's), b the bytes of a const struct buf *, i an int64_t. */
void sqlite_bind(sqlite3_stmt *st, const char *types, va_list ap);

#endif
