/* server/process/capabilities.h - gives up root's privileges.
 *
 * Thread: it affects the calling thread and threads that it creates afterwards.
 * Memory: none.
 */
#ifndef SERVER_PROCESS_CAPABILITIES_H
#define SERVER_PROCESS_CAPABILITIES_H

#include <stdbool.h>

/* Drop all capabilities permanently. `still_works` is called without any capability, and returns
 * true if all files that will be opened later can be opened. If not, the capabilities that open
 * files against their permissions are kept (a container's root needs them for other users' files):
 * first the one for reading, then both. "none" (there were none), "dropped",
 * "kept-dac_read_search", "kept-dac_override" or "failed". */
const char *capabilities_drop(bool (*still_works)(const void *ud), const void *ud);

#endif
