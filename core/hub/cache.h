/* core/hub/cache.h - the Hub's cache on disk, as its own clients keep it, so that all share one.
 *
 *     CACHE/models--OWNER--NAME/refs/REVISION          the commit that it was last
 *                               blobs/HASH             the bytes of a file
 *                               snapshots/COMMIT/PATH  a relative link to its blob
 *     CACHE/.locks/models--OWNER--NAME/HASH.lock       flock(2): one process fetches the blob
 *
 * An incomplete blob is blobs/HASH.incomplete, and the process that holds the lock continues it.
 *
 * Thread: any; processes keep each other out by the lock.
 * Memory: paths on the stack.
 * Errors: ERR_IO and others with a sentence that names the path and what the system said.
 * Source: huggingface_hub, file_download.py.
 */
#ifndef CORE_HUB_CACHE_H
#define CORE_HUB_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hub/place.h"
#include "core/hub/reference.h"

struct hub_listing;

#define HUB_MAX_LOCAL (HUB_MAX_FOLDER + HUB_MAX_REPO + HUB_MAX_PATH + 128)

enum hub_part { HUB_FOLDER, HUB_REFS, HUB_BLOBS, HUB_SNAPSHOTS, HUB_LOCKS };

/* Write the path of a part of the cache and, below it, of the two names with slashes between
 * (either may be ""). */
void hub_cache_path(char path[HUB_MAX_LOCAL], const struct hub_place *p, const char *repo,
                    enum hub_part part, const char *name, const char *below);

/* Read the commit that a revision had when it was last fetched. ERR_NOENT without a sentence. */
int hub_cache_commit(const struct hub_place *p, const struct hub_reference *r, char commit[41]);
/* Store the commit of a revision, for offline use. */
int hub_cache_set_commit(const struct hub_place *p, const struct hub_reference *r,
                         const char *commit, char *err, size_t err_len);

/* Add the files of a snapshot, without hashes; links whose blob is gone are left out. */
int hub_cache_list(struct hub_listing *l, const struct hub_place *p, const char *repo,
                   const char *commit, char *err, size_t err_len);

/* True: the file is there, with its full size. */
bool hub_cache_has(const char *path, uint64_t size);

/* Make the folders above this path. */
int hub_cache_make_folders(const char *path, char *err, size_t err_len);

/* Make snapshots/COMMIT/PATH a link to the blob. */
int hub_cache_link(const struct hub_place *p, const char *repo, const char *commit,
                   const char *path, const char *hash, char *err, size_t err_len);

/* Wait for the lock of a blob, with a log line when another process has it. Returns a descriptor,
 * to be closed; or ERR_*, ERR_CANCELED: a signal came. */
int hub_cache_lock(const struct hub_place *p, const char *repo, const char *hash, char *err,
                   size_t err_len);

/* Check that the disk has room for so many bytes: else ERR_LIMIT with a sentence. */
int hub_cache_check_room(const struct hub_place *p, uint64_t bytes, char *err, size_t err_len);

/* Write the sentence "PATH: cannot VERB: (errno's text)"; returns err_from_errno(). */
int hub_cache_fail(const char *path, const char *verb, char *err, size_t err_len);

#endif
