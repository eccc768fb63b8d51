/* server/batches/line_reader.h - reads a file line by line.
 *
 * Thread: any, one at a time; reading may wait for a disk.
 * Memory: the line, at most `max` bytes, and a block that is read ahead.
 */
#ifndef SERVER_BATCHES_LINE_READER_H
#define SERVER_BATCHES_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

struct line_reader { /* zero: nothing is open */
    int fd;          /* borrowed */
    struct buf line; /* the line without its line end */
    uint32_t number; /* number of the line in the file, from 1 */
    uint64_t end;    /* bytes of the file up to the line's end */
    bool is_whole;   /* the line had a line end */
    /* private */
    struct buf block;
    size_t pos;
    uint64_t limit;
};

/* Start at the beginning of the file, and read at most `limit` bytes of it. */
void line_reader_init(struct line_reader *r, int fd, size_t max, uint64_t limit);
void line_reader_release(struct line_reader *r);

/* Read a line: 1, or 0 at the end; ERR_LIMIT: the line is too long, ERR_IO, ERR_NOMEM. */
int line_reader_next(struct line_reader *r);
/* True: the line has only blanks. */
bool line_reader_is_blank(const struct line_reader *r);

#endif
