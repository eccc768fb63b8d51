/* server/storage/slot_folder.h - the folder of saved slots: checks its limits, and removes files
 * that a process has not finished.
 *
 * Several servers may share one folder. A process that creates a file or sweeps holds the folder's
 * lock, and a file that is being written has a lock of its own, so that no sweep removes it.
 *
 * Thread: any; every call may wait for a disk, and for other processes that hold the lock.
 * Memory: none between calls.
 */
#ifndef SERVER_STORAGE_SLOT_FOLDER_H
#define SERVER_STORAGE_SLOT_FOLDER_H

#include <stdint.h>

#include "server/http/error.h"

#define SLOT_FOLDER_PART ".slot-" /* begins the name of a file that is being written */

struct slot_limits { /* 0: no limit */
    uint64_t max_bytes;
    uint32_t max_files;
};

/* Open and lock the folder; closing the descriptor unlocks it. -1 with errno. */
int slot_folder_lock(const char *path);

/* Check that a file of `bytes` bytes, which replaces the one called `replaces`, fits into the
 * limits; the caller holds the lock. ERR_LIMIT, ERR_IO. */
int slot_folder_check_room(int folder, const struct slot_limits *limits, uint64_t bytes,
                           const char *replaces, struct api_error *e);

/* Remove unfinished files of processes that have ended. */
void slot_folder_sweep(const char *path);

#endif
