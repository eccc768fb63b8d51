/* core/base/file_io.h - reads and writes as many bytes as were asked for.
 *
 * A system call may read or write less than it is asked, and a signal may interrupt it: these
 * functions continue until all is done, the file ends, or an error occurs.
 *
 * Thread: any; they wait for the disk.
 * Memory: file_read_stream() grows its buffer; the others take none.
 * Errors: ERR_IO, with errno.
 */
#ifndef CORE_BASE_FILE_IO_H
#define CORE_BASE_FILE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct buf;

#define FILE_POSITION (-1) /* value of `at`: use the descriptor's own position, which advances */

/* Read n bytes. Returns the number of bytes read, fewer than n at the file's end, or ERR_IO. */
int64_t file_read(int fd, void *bytes, size_t n, int64_t at);

/* Write all n bytes. ERR_IO; errno is ENOSPC if a write() writes nothing. */
int file_write(int fd, const void *bytes, size_t n, int64_t at);

/* Append everything up to the stream's end. ERR_IO, ERR_NOMEM. */
int file_read_stream(FILE *in, struct buf *out);

#endif
