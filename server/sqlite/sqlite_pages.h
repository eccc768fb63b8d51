/* server/sqlite/sqlite_pages.h - pages of a database that say whether they are what was written.
 *
 * SQLite has no checksums of pages. So each page has eight reserved bytes at its end, XXH3 of the
 * others, of the page's number and of whose database it is. A VFS over the system's own one writes
 * them with each page of the file and checks them when the page is read: one that does not fit is
 * SQLITE_IOERR_DATA, never other bytes. The log of changes (FILE-wal) goes by unseen: SQLite has
 * checksums for it, which it looks at when it opens the file.
 *
 * Only these programs keep the bytes right: another one may read such a database, but what it
 * writes does not fit any more.
 *
 * Thread: sqlite_pages_open() the main thread's; else the database's.
 * Memory: the VFS once, for the process; a page for each file.
 * Errors: as SQLite's.
 */
#ifndef SERVER_SQLITE_SQLITE_PAGES_H
#define SERVER_SQLITE_SQLITE_PAGES_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define SQLITE_PAGES_SIZE 4096u
#define SQLITE_PAGES_RESERVED 8u
#define SQLITE_PAGES_USABLE (SQLITE_PAGES_SIZE - SQLITE_PAGES_RESERVED)

/* Of a whole page; `id` is the database's application_id, pages are numbered from 1 on. */
void sqlite_pages_seal(unsigned char *page, uint32_t number, uint32_t id);
bool sqlite_pages_fit(const unsigned char *page, uint32_t number, uint32_t id);

/* A result code; *out is a database to be closed, or NULL. The file is there. With is_checked the
 * pages of a new one have checksums, and those of another are known to have them. */
int sqlite_pages_open(sqlite3 **out, const char *path, uint32_t id, bool is_checked);

/* Did the last call fail because something is not what was written? */
bool sqlite_pages_is_damage(sqlite3 *db);

#endif
