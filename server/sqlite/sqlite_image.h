/* server/sqlite/sqlite_image.h - a database that no SQLite has open, as pages: those of its file,
 * and in their place those that the log of changes (FILE-wal) has anew.
 *
 * SQLite reads the log up to the first thing in it that is not whole, and forgets what lies behind.
 * That is right where a process or a machine ended while it wrote. Where a log was damaged, it
 * loses whole changes, and older pages may take the place of newer ones that the file has already.
 * Each piece of the log can be checked by what stands before it, so an image tells one from the
 * other: behind a damaged piece lie whole ones, to the end of a change, and either each change was
 * on the disk when it had an end (is_durable), or the file has some of those pages, which it gets
 * only once the log is on the disk. Such an image is taken further than SQLite would go, and pages
 * whose newest copy is damaged are none. Whole pieces behind a damaged one that are not taken are
 * counted (n_cut): the last changes, which are lost.
 *
 * Thread: one at a time.
 * Memory: 4 bytes for each page of the database, 12 for each of the log.
 * Errors: ERR_BUSY: another process has the file. ERR_IO with errno, ERR_NOMEM.
 */
#ifndef SERVER_SQLITE_SQLITE_IMAGE_H
#define SERVER_SQLITE_SQLITE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite_image {
    int fd, log_fd; /* -1 = closed, or there is none */
    uint32_t id;
    uint32_t n_pages;
    bool is_empty;   /* the file has no bytes */
    bool is_ours;    /* some page of it fits (sqlite_pages.h) */
    bool is_damaged; /* the first page does not fit, or the log is to be taken further */
    bool is_unsure;  /* any page may have a newer copy, which is damaged */
    uint32_t n_cut;  /* pieces of the log */
    uint32_t *places; /* [n_pages + 1]: 0 in the file; else which piece of the log, from 1 on, or
                       * UINT32_MAX: none is whole */
};

/* Nobody else has the file until it is closed. */
int sqlite_image_open(struct sqlite_image *image, const char *path, uint32_t id, bool is_durable);
void sqlite_image_close(struct sqlite_image *image);

/* Page 1 to n_pages. False: it is not what was written. */
bool sqlite_image_read(const struct sqlite_image *image, uint32_t number, unsigned char *page);

#endif
