/* core/hub/pull.h - turns a model of the Hugging Face Hub into a path, fetching missing files.
 *
 * The Hub is asked for the commit of the revision and for its files; those of the model (choice.h)
 * that are not in the cache are fetched (download.h). Offline, or when the Hub cannot be reached,
 * the cache alone is used, with the revision's last known commit.
 *
 * Thread: the one that starts the program, before there are others and before the sandbox.
 * Memory: none that stays.
 * Errors: a sentence that begins with the reference.
 */
#ifndef CORE_HUB_PULL_H
#define CORE_HUB_PULL_H

#include "core/hub/cached.h"

/* Find a model, fetching missing files. With HF_HUB_OFFLINE in the environment it looks only into
 * the cache, like hub_cached(). */
hub_find_fn hub_pull;

#endif
