/* server/process/landlock.h - limits the files and ports that the process may reach, by the
 * kernel's Landlock (by system calls, because no library supports it yet).
 *
 * A ruleset lists folders and files with the allowed operations; all others are refused with EACCES
 * from then on, as are TCP connections and binds. Open files stay usable. The ruleset restricts the
 * calling thread and threads that it creates afterwards, never existing ones.
 *
 * Thread: one; landlock_restrict() before others are created.
 * Memory: a descriptor.
 * Source: Linux, Documentation/userspace-api/landlock.rst.
 */
#ifndef SERVER_PROCESS_LANDLOCK_H
#define SERVER_PROCESS_LANDLOCK_H

#include <stdint.h>

/* Rights to a file, or to everything below a folder. */
enum landlock_access {
    LANDLOCK_READ = 1 << 0,   /* read files, and list folders */
    LANDLOCK_APPEND = 1 << 1, /* write to files and create them */
    LANDLOCK_CHANGE = 1 << 2, /* as APPEND, and truncate, rename and remove them */
    LANDLOCK_REMOVE = 1 << 3, /* remove files */
};

struct landlock {
    int fd;
    int abi; /* version of the kernel's Landlock: 0 = none */
};

/* Begin a ruleset that refuses everything. abi is 0, fd -1 when the kernel has no Landlock. */
void landlock_begin(struct landlock *l);

/* Allow `access` (of enum landlock_access) at a path, and below it if it is a folder. A path that
 * does not exist is left out: opening it fails in any case. */
void landlock_allow(const struct landlock *l, const char *path, unsigned access);

/* Allow TCP connections to a port. */
void landlock_connect(const struct landlock *l, uint16_t port);

/* Put the ruleset in force and close it, also on failure. 0, or ERR_UNSUPPORTED. */
int landlock_restrict(struct landlock *l);

#endif
