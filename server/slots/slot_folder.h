/* server/slots/slot_folder.h - the folder of saved slots: how much may be in it, and what a process
 * that ended in the middle of writing has left there.
 *
 * Several servers may have one folder. Whoever begins a file or sweeps has the folder's lock, and a
 * file that is being written has one of its own, so that nobody takes it for a left one.
 *
 * Thread: any; every call may wait for a disk, and for others that have the folder.
 * Memory: none that stays.
 */
#ifndef SERVER_SLOTS_SLOT_FOLDER_H
#define SERVER_SLOTS_SLOT_FOLDER_H

#include <stdint.h>

#include "server/http/error.h"

#define SLOT_FOLDER_PART ".slot-" /* begins the name of a file that is being written */

struct slot_limits { /* 0: none */
    uint64_t max_bytes;
    uint32_t max_files;
};

/* The folder, locked until it is closed, or -1 with errno. */
int slot_folder_lock(const char *path);

/* May a file of so many bytes come in, which takes the place of the one called `replaces`? With
 * the lock. ERR_LIMIT, ERR_IO. */
int slot_folder_check_room(int folder, const struct slot_limits *limits, uint64_t bytes,
                           const char *replaces, struct api_error *e);

/* Remove what was being written by processes that are gone. */
void slot_folder_sweep(const char *path);

#endif
