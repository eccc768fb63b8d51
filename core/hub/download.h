/* core/hub/download.h - fetches one file of a repository into the cache and checks it.
 *
 * The bytes go to blobs/HASH.incomplete, from where an earlier download stopped. A cut is tried
 * again from there, as long as bytes come. A complete file is checked by its size and hash, and
 * only then becomes the blob; one with another hash is removed.
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

/* Return the bytes that are still missing: 0 if snapshots/COMMIT/PATH or the blob is complete. */
uint64_t hub_download_missing(const struct hub_asker *k, const char *commit,
                              const struct hub_file *f);

/* Fetch the file; afterwards snapshots/COMMIT/PATH is complete. */
int hub_download(const struct hub_asker *k, const char *commit, const struct hub_file *f, char *err,
                 size_t err_len);

/* Write the URL "ENDPOINT/MIDDLE/REVISION/PATH", escaped. ERR_LIMIT: it is too long. */
int hub_url(char *url, size_t size, const char *endpoint, const char *middle, const char *revision,
            const char *path);

#endif
