/* server/process/startup.h - what a process should be given and may not have been: descriptors 0 to
 * 2, and signals whose default is to end it.
 *
 * Thread: the main thread, before there are others.
 * Memory: none that stays.
 */
#ifndef SERVER_PROCESS_STARTUP_H
#define SERVER_PROCESS_STARTUP_H

#include <stddef.h>

/* Open /dev/null as each of the descriptors 0 to 2 that is closed: otherwise the first sockets and
 * files get these numbers, and what is printed goes to a client or into a file. First thing in
 * main(), for all commands. */
void startup_open_standard_fds(void);

/* For a server: ignore the signals that would end it without being meant to (a reader that closed
 * its pipe, a timer, limits on the size of files, what an operator sends by mistake), and those
 * that it handles later, until it does. As process 1 of a container it inherits orphans: the kernel
 * reaps them. TERM and INT keep their default until the server takes them over. */
void startup_ignore_signals(void);

/* libuv aborts when it cannot have the descriptors of its event loop or the threads of its pool:
 * try both beforehand, all at once, and give them back. A limit on memory, threads or descriptors
 * (ulimit, a control group) then ends in a sentence. Before the loop is made; single-threaded, so
 * that nothing takes in between what was there. ERR_LIMIT. */
int startup_try_descriptors(unsigned n, char *err, size_t err_len);
int startup_try_threads(unsigned n, char *err, size_t err_len);

#endif
