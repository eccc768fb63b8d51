/* core/hub/download.h - one file of a repository, fetched into the cache and checked.
 *
 * The bytes go to blobs/HASH.incomplete, from where an earlier download stopped. A cut is tried
 * again from there, as long as bytes come. What is whole is checked by its size and hash, and only
 * then becomes the blob; what has another hash is removed.
 *
 * Thread: one owner; processes share a download by the lock (cache.h).
 * Memory: one buffer.
 * Errors: ERR_* with a sentence that names the file.
 */
#ifndef CORE_HUB_DOWNLOAD_H
#define CORE_HUB_DOWNLOAD_H

#include <stddef.h>
#include <stdint.h>

struct hub_asker;
struct hub_file;

/* Bytes that are still to come: 0 when snapshots/COMMIT/PATH or the blob is whole. */
uint64_t hub_download_missing(const struct hub_asker *k, const char *commit,
                              const struct hub_file *f);

/* Afterwards snapshots/COMMIT/PATH is whole. */
int hub_download(const struct hub_asker *k, const char *commit, const struct hub_file *f, char *err,
                 size_t err_len);

/* "ENDPOINT/MIDDLE/REVISION/PATH" with what URLs do not take escaped. ERR_LIMIT: it is too long. */
int hub_url(char *url, size_t size, const char *endpoint, const char *middle, const char *revision,
            const char *path);

#endif
