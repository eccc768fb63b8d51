/* server/process/startup.h - opens descriptors 0 to 2 if the process was started without them, and
 * ignores signals whose default would end it.
 *
 * Thread: the main thread, before there are others.
 * Memory: none that stays.
 */
#ifndef SERVER_PROCESS_STARTUP_H
#define SERVER_PROCESS_STARTUP_H

#include <stddef.h>

/* Open /dev/null as each of the descriptors 0 to 2 that is closed: otherwise the first sockets and
 * files get these numbers, and printed text goes to a client or into a file. Called first in
 * main(), for all commands. */
void startup_open_standard_fds(void);

/* For a server: ignore the signals that would end it by accident (a reader that closed its pipe, a
 * timer, limits on the size of files, an operator's mistake), and those for which it sets handlers
 * later. As process 1 of a container it inherits orphans: the kernel reaps them. TERM and INT keep
 * their default until the server takes them over. */
void startup_ignore_signals(void);

/* Try the descriptors of libuv's event loop, and the threads of its pool, all at once, and release
 * them: libuv aborts when it cannot have them. So a limit on memory, threads or descriptors
 * (ulimit, a control group) becomes an error with a sentence. Called while there is one thread,
 * right before the loop is made, so that the loop gets the same descriptors and memory.
 * ERR_LIMIT. */
int startup_try_descriptors(unsigned n, char *err, size_t err_len);
int startup_try_threads(unsigned n, char *err, size_t err_len);

#endif
