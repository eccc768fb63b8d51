/* server/storage/sqlite_place.h - puts a salvaged database in the place of the damaged one.
 *
 * This takes several renames, and the process or the machine may end between any two. So the
 * complete file first becomes FILE.saved, which is one change; as long as it exists, FILE and
 * FILE-wal are of the damaged database, or do not exist. The next process that opens FILE continues
 * where the last one has ended: no file is overwritten twice, and none is missing at the end.
 *
 * Thread: any; of several processes one at a time, by a lock of FILE.saved.
 * Memory: none.
 * Errors: ERR_IO with errno; ERR_BUSY: another process does this now.
 */
#ifndef SERVER_STORAGE_SQLITE_PLACE_H
#define SERVER_STORAGE_SQLITE_PLACE_H

/* Rename new_path, which no process has open and which is in the same folder, to PATH; the old file
 * becomes PATH.damaged and PATH.damaged-wal, which replace older ones. Returns 0 once it is on the
 * disk. */
int sqlite_place_take(const char *path, const char *new_path);
/* Finish what an earlier process has begun. 1: it was finished; 0: there was nothing. */
int sqlite_place_finish(const char *path);

#endif
