/* server/storage/slot_folder.h - the folder of saved slots: its limits, and the files that a
 * process left when it ended in the middle of writing.
 *
 * Several servers may share one folder. A process that creates a file or sweeps holds the folder's
 * lock, and a file that is being written has a lock of its own, so that no sweep removes it.
 *
 * Thread: any; every call may wait for a disk, and for other processes that hold the lock.
 * Memory: none that stays.
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

/* Open and lock the folder until it is closed; or -1 with errno. */
int slot_folder_lock(const char *path);

/* Whether a file of `bytes` bytes fits, which replaces the one called `replaces`; the caller holds
 * the lock. ERR_LIMIT, ERR_IO. */
int slot_folder_check_room(int folder, const struct slot_limits *limits, uint64_t bytes,
                           const char *replaces, struct api_error *e);

/* Remove unfinished files of processes that have ended. */
void slot_folder_sweep(const char *path);

#endif
