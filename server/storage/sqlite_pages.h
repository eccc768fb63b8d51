/* server/storage/sqlite_pages.h - checksums of a database's pages.
 *
 * SQLite has no checksums of pages. So each page has eight reserved bytes at its end: XXH3 of the
 * other bytes, the page's number and the database's id. A VFS over the system's own one writes them
 * with each page of the file and checks them when the page is read: a page that does not match is
 * SQLITE_IOERR_DATA, never other bytes. The log of changes (FILE-wal) has no such bytes: SQLite has
 * checksums for it, which it checks when it opens the file.
 *
 * Only these programs keep the bytes right: another one may read such a database, but pages that it
 * writes do not match any more.
 *
 * Thread: sqlite_pages_open() the main thread's; else the database's.
 * Memory: the VFS once, for the process; a page for each file.
 * Errors: as SQLite's.
 */
#ifndef SERVER_STORAGE_SQLITE_PAGES_H
#define SERVER_STORAGE_SQLITE_PAGES_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define SQLITE_PAGES_SIZE 4096u
#define SQLITE_PAGES_RESERVED 8u
#define SQLITE_PAGES_USABLE (SQLITE_PAGES_SIZE - SQLITE_PAGES_RESERVED)

/* Of a whole page; `id` is the database's application_id, pages are numbered from 1 on. _seal()
 * writes the checksum, _fit() tells whether it matches. */
void sqlite_pages_seal(unsigned char *page, uint32_t number, uint32_t id);
bool sqlite_pages_fit(const unsigned char *page, uint32_t number, uint32_t id);

/* Open an existing file. Returns a result code; *out is a database to be closed, or NULL. With
 * is_checked a new database gets checksums, and an old one is known to have them. */
int sqlite_pages_open(sqlite3 **out, const char *path, uint32_t id, bool is_checked);

/* Whether the last call failed because something is not as it was written. */
bool sqlite_pages_is_damage(sqlite3 *db);

#endif
