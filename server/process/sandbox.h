/* server/process/sandbox.h - what the process gives up once everything is open.
 *
 * In this order: new privileges (no_new_privs), memory that is written and then executed (MDWE),
 * capabilities, files and ports beyond a list (landlock.h), system calls beyond a list
 * (syscall_filter.h). Sockets are bound, the journal and the log are open, keys and certificates
 * were read once by then; models are loaded afterwards, and so by a process that can do nothing
 * else. New privileges and rings of io_uring are given up before that (sandbox_begin()): a loop of
 * libuv makes a ring, and sockets are bound by a loop.
 *
 * All but the filter bind the calling thread and what it creates, so it is entered while there is
 * one thread: before those of the pools, the log, the signals, libuv, the engines. With more than
 * one thread it says so, which is an error when strict.
 *
 * A sanitizer's build does things of its own (it traces itself, reads /proc): there `auto` is off.
 *
 * Thread: the main thread, once.
 * Memory: none that stays.
 * Errors: a sentence; only when strict.
 */
#ifndef SERVER_PROCESS_SANDBOX_H
#define SERVER_PROCESS_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/process/landlock.h"

enum sandbox_mode { SANDBOX_AUTO = 0, SANDBOX_STRICT, SANDBOX_OFF };

/* What stays allowed. Every path may be "" or not there. */
struct sandbox_paths;
int sandbox_paths_create(struct sandbox_paths **out); /* with what every server reads */
void sandbox_paths_destroy(struct sandbox_paths **paths);
/* One file, where a link leads; a folder with all that is in it, also where its links lead. */
void sandbox_read(struct sandbox_paths *p, const char *path);
/* A file of which another one may take the place: its folder, and that of the file that a link
 * leads to (as certificates are renewed). Of a file directly in / only itself. */
void sandbox_read_replaced(struct sandbox_paths *p, const char *path);
/* The folder of a file, with `access` (of enum landlock_access). */
void sandbox_allow_folder_of(struct sandbox_paths *p, const char *path, unsigned access);
void sandbox_allow(struct sandbox_paths *p, const char *path, unsigned access);

/* TCP connections to this port. */
void sandbox_connect(struct sandbox_paths *p, uint16_t port);

struct sandbox_state { /* what was done; zero: nothing */
    bool is_on;
    int landlock_abi; /* 0 = none */
    bool has_filter, has_mdwe, has_no_new_privs, refuses_rings;
    const char *capabilities; /* "none", "dropped", or which were needed and kept */
    const char *why_not;      /* is_on false: the reason, a word */
};

/* Before the first loop of libuv is made; sets `state`, which sandbox_enter() goes on with. */
void sandbox_begin(enum sandbox_mode mode, struct sandbox_state *state);

/* ERR_UNSUPPORTED: strict, and something is missing. */
int sandbox_enter(enum sandbox_mode mode, const struct sandbox_paths *paths,
                  struct sandbox_state *state, char *err, size_t err_len);

/* One line of the log. */
void sandbox_log(const struct sandbox_state *state);

#endif
