/* server/process/sandbox_probe.h - for tests: tries what the sandbox forbids.
 *
 * Debug build only. QUIRE_DEBUG_FORBIDDEN lists attempts separated by commas: read:PATH,
 * write:PATH, make:PATH, remove:PATH, link:PATH, folder:PATH, chmod:PATH, socket, exec, fork,
 * ptrace, memfd, setuid, mmap_exec, mprotect_exec, limit, kill_parent, ring, unknown. Each becomes
 * a line of the log: event=probe where=... attempt=... result=ok or the errno's name. With
 * QUIRE_DEBUG_FORBIDDEN_IN only the named thread tries.
 *
 * Thread: the one that calls it.
 * Memory: none.
 */
#ifndef SERVER_PROCESS_SANDBOX_PROBE_H
#define SERVER_PROCESS_SANDBOX_PROBE_H

/* Try on this thread; `where` names it. */
void sandbox_probe(const char *where);

/* Try on a thread made by this one. */
void sandbox_probe_on_new_thread(const char *where);

#endif
