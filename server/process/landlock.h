/* server/process/landlock.h - which files and ports the process may still reach, by the kernel's
 * Landlock (no library has it yet, so these are the bare system calls).
 *
 * A ruleset lists folders and files with what may be done in them; everything else is refused with
 * EACCES from then on, and so is every TCP connection and bind. What is open already stays usable.
 * It binds the calling thread and those that it creates afterwards, never those that exist.
 *
 * Thread: one; landlock_restrict() before others are created.
 * Memory: a descriptor.
 * Source: Linux, Documentation/userspace-api/landlock.rst.
 */
#ifndef SERVER_PROCESS_LANDLOCK_H
#define SERVER_PROCESS_LANDLOCK_H

#include <stdint.h>

/* What may be done with a file, or with everything below a folder. */
enum landlock_access {
    LANDLOCK_READ = 1 << 0,   /* files, and the lists of folders */
    LANDLOCK_APPEND = 1 << 1, /* write to files and make them */
    LANDLOCK_CHANGE = 1 << 2, /* that, and cut them short, rename and remove them */
    LANDLOCK_REMOVE = 1 << 3, /* remove files */
};

struct landlock {
    int fd;
    int abi; /* version of what the kernel has: 0 = nothing */
};

/* Begin a ruleset that refuses everything. abi is 0, fd -1 when the kernel has no Landlock. */
void landlock_begin(struct landlock *l);

/* Allow `access` (of enum landlock_access) at a path, and below it if it is a folder. What is not
 * there is left out: opening it fails in any case. */
void landlock_allow(const struct landlock *l, const char *path, unsigned access);

/* Allow TCP connections to a port. */
void landlock_connect(const struct landlock *l, uint16_t port);

/* From now on. 0, or ERR_UNSUPPORTED. The ruleset is closed in any case. */
int landlock_restrict(struct landlock *l);

#endif
