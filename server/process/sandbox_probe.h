/* server/process/sandbox_probe.h - for tests: attempts forbidden operations. Debug builds only.
 * QUIRE_DEBUG_FORBIDDEN lists attempts separated by commas: read:PATH, write:PATH, make:PATH,
 * remove:PATH, link:PATH, folder:PATH, chmod:PATH, socket, exec, fork, ptrace, memfd, setuid,
 * mmap_exec, mprotect_exec, limit, kill_parent, ring, unknown. Each becomes a line of the log:
 * event=probe where=... attempt=... result=ok or the errno's name. With QUIRE_DEBUG_FORBIDDEN_IN
 * only the named thread tries.
 *
 * Thread: the one that calls it.
 * Memory: none.
 */
#ifndef SERVER_PROCESS_SANDBOX_PROBE_H
#define SERVER_PROCESS_SANDBOX_PROBE_H

/* Make the attempts on this thread; `where`: its name for the log. */
void sandbox_probe(const char *where);

/* Make the attempts on a thread that this one creates. */
void sandbox_probe_on_new_thread(const char *where);

#endif
