/* core/base/sync_folder.h - a file's new name, to the disk.
 *
 * Thread: any; waits for the disk.
 * Memory: none.
 */
#ifndef CORE_BASE_SYNC_FOLDER_H
#define CORE_BASE_SYNC_FOLDER_H

/* Sync the folder that `path` is in: a rename is on the disk when its folder is. If that may not be
 * read, the system writes the name when it likes. */
void sync_folder_of(const char *path);

#endif
