/* server/process/capabilities.h - gives up root's privileges.
 *
 * Thread: those of the calling thread and of threads that it creates afterwards.
 * Memory: none.
 */
#ifndef SERVER_PROCESS_CAPABILITIES_H
#define SERVER_PROCESS_CAPABILITIES_H

#include <stdbool.h>

/* Drop all capabilities for good. `still_works` is called without any of them and says whether all
 * files that will be opened later can be. If not, the capabilities that open files against their
 * permissions are kept (a container's root needs them for other users' files): first for reading,
 * then for all. "none" (there were none), "dropped", "kept-dac_read_search", "kept-dac_override" or
 * "failed". */
const char *capabilities_drop(bool (*still_works)(const void *ud), const void *ud);

#endif
