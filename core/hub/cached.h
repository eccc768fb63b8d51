/* core/hub/cached.h - finds a model of the Hugging Face Hub in the cache of this machine.
 *
 * Nothing here makes a connection: a running server, whose sandbox allows none, looks for models
 * with hub_cached() when it reads its settings again.
 *
 * Thread: any.
 * Memory: none that stays.
 * Errors: a sentence that begins with the reference.
 */
#ifndef CORE_HUB_CACHED_H
#define CORE_HUB_CACHED_H

#include <stddef.h>

#define HUB_MAX_FOUND 4096 /* bytes of a path, with the NUL */

/* Type of hub_cached() and hub_pull(): turns a reference (hub_reference_is()) into the path of a
 * GGUF file or a folder in the cache; hub_pull() also fetches missing files. */
typedef int hub_find_fn(const char *reference, char path[HUB_MAX_FOUND], char *err, size_t err_len);

hub_find_fn hub_cached;

#endif
