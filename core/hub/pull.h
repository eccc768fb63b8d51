/* core/hub/pull.h - turns a model of the Hugging Face Hub into a path, fetching missing files.
 *
 * The Hub is asked for the commit of the revision and for its files; those of the model (choice.h)
 * that are not in the cache are fetched (download.h). Offline, or when the Hub cannot be reached,
 * the cache alone is used, with the revision's last known commit.
 *
 * Thread: the one that starts the program, before there are others and before the sandbox; with
 *         is_offline any.
 * Memory: none that stays.
 * Errors: a sentence that begins with the reference.
 */
#ifndef CORE_HUB_PULL_H
#define CORE_HUB_PULL_H

#include <stdbool.h>
#include <stddef.h>

#define HUB_PULL_MAX_PATH 4096

/* `reference`: see hub_reference_is(). `path`: the GGUF file or the folder in the cache.
 * `is_offline`: do not ask the Hub, as with HF_HUB_OFFLINE. */
int hub_pull(const char *reference, bool is_offline, char path[HUB_PULL_MAX_PATH], char *err,
             size_t err_len);

#endif
