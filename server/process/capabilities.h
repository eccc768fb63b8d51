/* server/process/capabilities.h - root's privileges, given up.
 *
 * Thread: those of the calling thread and of what it creates afterwards.
 * Memory: none.
 */
#ifndef SERVER_PROCESS_CAPABILITIES_H
#define SERVER_PROCESS_CAPABILITIES_H

#include <stdbool.h>

/* Drop all, and never get them back. `still_works` is asked without any of them: whether everything
 * that will be opened later can be. If not, those that open files against their permissions are
 * kept (a container's root reads other users' files so): first for reading, then for all. "none"
 * (there were none), "dropped", "kept-dac_read_search", "kept-dac_override" or "failed". */
const char *capabilities_drop(bool (*still_works)(const void *ud), const void *ud);

#endif
