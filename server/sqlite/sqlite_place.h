/* server/sqlite/sqlite_place.h - a database that was made anew takes the place of a damaged one.
 *
 * That is several changes of names, and the process or the machine may end between any two. So the
 * complete file first becomes FILE.saved, which is one change; as long as there is one, FILE and
 * FILE-wal are of the damaged database, or there are none. Whoever opens FILE next begins where the
 * last one has ended: no name is taken twice, and none is missing at the end.
 *
 * Thread: any; of several processes one at a time, by a lock of FILE.saved.
 * Memory: none.
 * Errors: ERR_IO with errno; ERR_BUSY: another process is at it.
 */
#ifndef SERVER_SQLITE_SQLITE_PLACE_H
#define SERVER_SQLITE_SQLITE_PLACE_H

/* The file new_path, which nobody has open and which is in the same folder, becomes PATH; what was
 * there is PATH.damaged and PATH.damaged-wal, in the place of older ones. Returns 0 once it is on
 * the disk. */
int sqlite_place_take(const char *path, const char *new_path);
/* What an earlier process has begun is finished. 1: it was; 0: there was nothing. */
int sqlite_place_finish(const char *path);

#endif
