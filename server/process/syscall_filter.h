/* server/process/syscall_filter.h - allows the system calls that a serving process makes, and no
 * others.
 *
 * A seccomp filter with a list of allowed calls, for all threads of the process, present and future
 * ones. Every other call is refused in one of three ways:
 *
 * - The process ends with SIGSYS on calls that a server never makes and an intruder would make
 *   first: another program, tracing, mounts, kernel modules, BPF, ...
 * - The call fails with EPERM, is counted and logged, if it would change something outside of the
 *   process: memory that is executable cannot be made, limits can be read only, files cannot be
 *   given other rights, new sockets cannot be opened, unless the server is told to connect to
 *   another one (kv_store).
 * - The call fails with ENOSYS, as on a kernel that does not have it, in all other cases. Libraries
 *   try newer calls than those of the list (clone3, io_uring_setup, ...), and have a fallback for
 *   ENOSYS. No signal is sent, because a thread may block all signals (ZeroMQ's do, and the C
 *   library's while they start), and the signal would end it.
 *
 * A ring of io_uring opens files and sockets without any filter. The event loop of libuv makes a
 * ring when it is created, which is before the filter, and aborts when it cannot use it later: so
 * rings are refused before the filter is installed.
 *
 * Thread: the main thread. A thread that blocks SIGSYS is ended where another one gets EPERM.
 * Memory: none that stays.
 */
#ifndef SERVER_PROCESS_SYSCALL_FILTER_H
#define SERVER_PROCESS_SYSCALL_FILTER_H

#include <stdbool.h>
#include <stdint.h>

/* Make io_uring_setup() fail with ENOSYS from now on. Called before the first loop of libuv is
 * made. 0, or ERR_UNSUPPORTED as below. */
int syscall_filter_refuse_rings(void);

/* Install the filter. connects: new TCP sockets can be opened and connected; Landlock decides to
 * which ports. 0; ERR_UNSUPPORTED: built without libseccomp, or the kernel refuses. no_new_privs
 * must be set. */
int syscall_filter_install(bool connects);

/* Count the calls that were refused with EPERM. */
uint64_t syscall_filter_n_refused(void);

#endif
