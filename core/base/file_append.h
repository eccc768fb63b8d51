/* core/base/file_append.h - opens a file that lines are appended to.
 *
 * Settings name these files, and they may be in a folder that others can write to: a symbolic link
 * there could lead to any file that the program may change. So a link is not followed.
 *
 * Thread: any.
 * Memory: none.
 */
#ifndef CORE_BASE_FILE_APPEND_H
#define CORE_BASE_FILE_APPEND_H

#include <sys/types.h>

/* Open a file to append, never through a symbolic link as the last part of the path; it is created
 * with `mode` if it is missing. A FIFO without a reader is an error (ENXIO), not a wait. Returns
 * the descriptor, or -1 with errno. */
int file_append_open(const char *path, mode_t mode);

/* Return the sentence for the errno of an open() with O_NOFOLLOW. */
const char *file_append_error(int errnum);

#endif
