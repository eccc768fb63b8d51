/* server/storage/sqlite_image.h - a database that SQLite does not have open, as pages: those of its
 * file, replaced by newer copies in the log of changes (FILE-wal).
 *
 * SQLite reads the log up to the first piece that is not whole, and ignores the rest. That is right
 * when a process or a machine ended during a write. If the log was damaged, whole changes are lost
 * that way, and older pages may replace newer ones that the file has already. An image tells the
 * two apart, because each piece of the log can be checked with the one before it: after a damaged
 * piece there are whole ones, to the end of a change, and either each change was on the disk when
 * it ended (is_durable), or the file has some of those pages, which it gets only once the log is on
 * the disk. Such an image uses more of the log than SQLite would, and pages whose newest copy is
 * damaged count as missing. Whole pieces after a damaged one that are not used are counted (n_cut):
 * they are the last changes, which are lost.
 *
 * Thread: one at a time.
 * Memory: 4 bytes for each page of the database, 12 for each of the log.
 * Errors: ERR_BUSY: another process has the file. ERR_IO with errno, ERR_NOMEM.
 */
#ifndef SERVER_STORAGE_SQLITE_IMAGE_H
#define SERVER_STORAGE_SQLITE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite_image {
    int fd, log_fd; /* -1 = closed, or no log */
    uint32_t id;
    uint32_t n_pages;
    bool is_empty;   /* the file has no bytes */
    bool is_ours;    /* some page of it has our checksum (sqlite_pages.h) */
    bool is_damaged; /* the first page's checksum is wrong, or more of the log is used than SQLite
                      * would */
    bool is_unsure;  /* any page may have a newer copy, which is damaged */
    uint32_t n_cut;  /* pieces of the log that are lost */
    uint32_t *places; /* [n_pages + 1]: 0: in the file; else the piece of the log, from 1 on, or
                       * UINT32_MAX: no copy is whole */
};

/* Open and lock the file: no other process has it until it is closed. */
int sqlite_image_open(struct sqlite_image *image, const char *path, uint32_t id, bool is_durable);
void sqlite_image_close(struct sqlite_image *image);

/* Read page 1 to n_pages. False: it is not as it was written. */
bool sqlite_image_read(const struct sqlite_image *image, uint32_t number, unsigned char *page);

#endif
