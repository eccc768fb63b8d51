/* core/base/replace_file.h - files that are whole or not there, also after the power has failed.
 *
 * A new file is written under a name of its own beside the one that it is for. When it is complete,
 * replace_file() has its bytes on the disk before they get the name, and the name on the disk
 * before it answers. Nothing else in this program calls rename().
 *
 * Thread: any; waits for the disk.
 * Memory: none.
 * Errors: ERR_IO, with errno.
 */
#ifndef CORE_BASE_REPLACE_FILE_H
#define CORE_BASE_REPLACE_FILE_H

/* The complete file `fd`, which is called `part`, is called `path` from now on. Where this fails
 * the caller removes `part`. Both are in one folder, or in two of one file system. */
int replace_file(int fd, const char *part, const char *path);

/* rename_file() is replace_file() for a file whose bytes are on the disk already. */
int rename_file(const char *from, const char *to);

/* The folder that `path` is in: the name of a file that was made, linked or renamed there is on the
 * disk when this returns 0. A folder that may not be read, or whose file system cannot do this, is
 * none to wait for: the system writes it when it likes. */
int sync_folder_of(const char *path);

#endif
