/* server/storage/sqlite_record.h - the records in a page of a table or an index (SQLite's "Database
 * File Format"), read without the pages that point to it.
 *
 * Thread: one at a time.
 * Memory: the longest record.
 */
#ifndef SERVER_STORAGE_SQLITE_RECORD_H
#define SERVER_STORAGE_SQLITE_RECORD_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "server/storage/sqlite_image.h"

#define SQLITE_RECORD_VALUES 40 /* more than any of our tables has columns */

struct sqlite_record {
    int64_t row; /* of a table's record */
    uint32_t n;
    uint64_t kinds[SQLITE_RECORD_VALUES];  /* SQLite's serial types */
    uint32_t places[SQLITE_RECORD_VALUES]; /* in `bytes` */
    struct buf bytes;
};

/* How many records a page has; 0: it is not a page of a table (of_index: of an index). */
uint32_t sqlite_record_count(const unsigned char *page, uint32_t number, bool of_index);

/* Read record i of the page. ERR_FORMAT: not all of its pages are whole, or it is not a record.
 * ERR_NOMEM. Zero the struct first, and release it with sqlite_record_release() at the end. */
int sqlite_record_read(struct sqlite_record *record, const struct sqlite_image *image,
                       const unsigned char *page, uint32_t number, uint32_t i);
void sqlite_record_release(struct sqlite_record *record);

/* Bind value i as parameter `to` of a statement; valid until the record's next use. */
int sqlite_record_bind(const struct sqlite_record *record, uint32_t i, sqlite3_stmt *st, int to);

#endif
