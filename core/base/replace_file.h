/* core/base/replace_file.h - replaces files so that they are whole or not there, even after a power
 * failure.
 *
 * A new file is written under a name of its own beside the file that it replaces. When it is
 * complete, replace_file() syncs its bytes to the disk, renames it, and syncs the folder before it
 * returns. Everything else in this program that renames calls it, but for engine_io/store_folder.c.
 *
 * Thread: any; waits for the disk.
 * Memory: none.
 * Errors: ERR_IO, with errno.
 */
#ifndef CORE_BASE_REPLACE_FILE_H
#define CORE_BASE_REPLACE_FILE_H

/* Rename the complete file `fd`, whose name is `part`, to `path`. If this fails the caller removes
 * `part`. Both are in one folder, or in two of one file system. */
int replace_file(int fd, const char *part, const char *path);

/* Like replace_file(), for a file whose bytes are on the disk already. */
int rename_file(const char *from, const char *to);

/* Sync the folder that `path` is in: the name of a file that was made, linked or renamed there is
 * on the disk when this returns 0. A folder that may not be read, or whose file system cannot do
 * this, is not waited for: the system writes it at some time. */
int sync_folder_of(const char *path);

#endif
