/* server/process/sandbox.h - gives up rights of the process after it has opened its files and
 * sockets.
 *
 * In this order: new privileges (no_new_privs), memory that is written and then executed (MDWE),
 * capabilities, files and ports beyond a list (landlock.h), system calls beyond a list
 * (syscall_filter.h). By then sockets are bound, the journal and the log are open, keys and
 * certificates have been read once; models are loaded afterwards, within the sandbox. New
 * privileges and rings of io_uring are given up before that (sandbox_begin()): a loop of libuv
 * makes a ring, and sockets are bound by a loop.
 *
 * All but the filter restrict the calling thread and threads that it creates, so the sandbox is
 * entered while there is one thread: before those of the pools, the log, the signals, libuv, the
 * engines. More than one thread is reported, and is an error when strict.
 *
 * A sanitizer's build needs more (it traces itself, reads /proc): there `auto` means off.
 *
 * Thread: the main thread, once.
 * Memory: none afterwards. Errors: a sentence; only when strict.
 */
#ifndef SERVER_PROCESS_SANDBOX_H
#define SERVER_PROCESS_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/process/landlock.h"

enum sandbox_mode { SANDBOX_AUTO = 0, SANDBOX_STRICT, SANDBOX_OFF };

/* The paths that stay allowed. Every path may be "" or not exist. */
struct sandbox_paths;
int sandbox_paths_create(struct sandbox_paths **out); /* with the paths that every server reads */
void sandbox_paths_destroy(struct sandbox_paths **paths);
/* Allow reading a file, and the target of a link; or a folder with everything in it, and the
 * targets of its links. */
void sandbox_read(struct sandbox_paths *p, const char *path);
/* Allow reading a file that may be replaced, as renewed certificates are: allow its folder, and the
 * folder of a link's target. For a file directly in / allow only the file. */
void sandbox_read_replaced(struct sandbox_paths *p, const char *path);
/* Allow `access` (of enum landlock_access) to the folder of a file. */
void sandbox_allow_folder_of(struct sandbox_paths *p, const char *path, unsigned access);
void sandbox_allow(struct sandbox_paths *p, const char *path, unsigned access);

/* Allow TCP connections to this port. */
void sandbox_connect(struct sandbox_paths *p, uint16_t port);

struct sandbox_state { /* the rights that were given up; zero: none */
    bool is_on;
    int landlock_abi; /* 0 = none */
    bool has_filter, has_mdwe, has_no_new_privs, refuses_rings;
    const char *capabilities; /* result of capabilities_drop() */
    const char *why_not;      /* if !is_on: the reason, one word */
};

/* Begin the sandbox, before the first loop of libuv is made; set `state`, which sandbox_enter()
 * completes. */
void sandbox_begin(enum sandbox_mode mode, struct sandbox_state *state);

/* True if the calling thread is the only one. Waits up to two seconds for threads that were joined:
 * the kernel wakes pthread_join() before it removes a thread from /proc/self/task. */
bool sandbox_has_one_thread(void);

/* Enter the sandbox. ERR_UNSUPPORTED: mode is strict, and a part of it is not possible. */
int sandbox_enter(enum sandbox_mode mode, const struct sandbox_paths *paths,
                  struct sandbox_state *state, char *err, size_t err_len);

/* Log the state in one line. */
void sandbox_log(const struct sandbox_state *state);

#endif
