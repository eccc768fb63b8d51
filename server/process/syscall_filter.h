/* server/process/syscall_filter.h - the system calls that a serving process makes, and no others.
 *
 * A seccomp filter with a list of what is allowed, for all threads of the process, those that exist
 * and those to come. What a server has no use for and an intruder would begin with (another
 * program, tracing, mounts, kernel modules, BPF, ...) ends the process at once with SIGSYS.
 * Everything else that is not in the list fails with EPERM, and is counted and logged: a library of
 * another version that tries something new must not end the service. Memory that is executable
 * cannot be made, new processes neither; limits can be read only; new sockets cannot be opened,
 * unless the server is told to connect to another one (kv_store).
 *
 * Thread: syscall_filter_install() the main thread. A thread that blocks SIGSYS is ended where
 * another one gets EPERM: do not block it.
 * Memory: none that stays.
 */
#ifndef SERVER_PROCESS_SYSCALL_FILTER_H
#define SERVER_PROCESS_SYSCALL_FILTER_H

#include <stdbool.h>
#include <stdint.h>

/* connects: new sockets of TCP can be opened and connected all the same; to which ports is
 * Landlock's business. 0; ERR_UNSUPPORTED: built without libseccomp, or the kernel refuses.
 * no_new_privs must be set. */
int syscall_filter_install(bool connects);

/* Calls that were refused with EPERM. */
uint64_t syscall_filter_n_refused(void);

#endif
