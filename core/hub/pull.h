/* core/hub/pull.h - a model of the Hugging Face Hub becomes a path: what is missing is fetched.
 *
 * The Hub is asked which commit the revision is and which files that has; those of the model
 * (choice.h) that are not in the cache are fetched (download.h). Offline, or when the Hub cannot be
 * reached, the cache answers alone, with the revision as it was last.
 *
 * Thread: the one that starts the program, before there are others and before the sandbox; with
 * is_offline any.
 * Memory: none that stays.
 * Errors: a sentence that begins with the reference.
 */
#ifndef CORE_HUB_PULL_H
#define CORE_HUB_PULL_H

#include <stdbool.h>
#include <stddef.h>

#define HUB_PULL_MAX_PATH 4096

/* `reference`: hub_reference_is(). `path`: the GGUF file or the folder in the cache.
 * `is_offline`: ask nobody, as with HF_HUB_OFFLINE. */
int hub_pull(const char *reference, bool is_offline, char path[HUB_PULL_MAX_PATH], char *err,
             size_t err_len);

#endif
