/* core/hub/listing.h - the files of a repository at one commit: name, size, hash.
 *
 * Filled from pages of /api/models/OWNER/NAME/tree/COMMIT?recursive=true, or from the snapshot of
 * the cache. The pages are not trusted: a path that is not allowed in the cache makes the whole
 * listing fail, and so do sizes, counts and hashes beyond their limits.
 *
 * Thread: one owner.
 * Memory: grows with the entries, HUB_MAX_FILES at most; hub_listing_release() frees it.
 * Errors: ERR_FORMAT, ERR_LIMIT, ERR_NOMEM with a sentence that shows the path.
 * Source: huggingface_hub, hf_api.py: RepoFile (path, size, oid, lfs.oid, lfs.size).
 */
#ifndef CORE_HUB_LISTING_H
#define CORE_HUB_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hub/hub_impl.h"

#define HUB_MAX_FILES 50000
#define HUB_MAX_FILE_BYTES ((uint64_t)1 << 44)

struct hub_file {
    char *path;
    uint64_t size;
    char hash[HUB_HASH_TEXT]; /* SHA-256 (64 digits), git's SHA-1 of a blob (40), or "": unknown */
    bool is_chosen;           /* choice.h */
};

struct hub_listing {
    struct hub_file *files;
    size_t n, room;
};

/* Add the entries of a page: a JSON list. */
int hub_listing_add_page(struct hub_listing *l, const char *json, size_t n, char *err,
                         size_t err_len);
/* Add a file; the path is checked and copied. */
int hub_listing_add(struct hub_listing *l, const char *path, uint64_t size, const char *hash,
                    char *err, size_t err_len);
/* Sort by path, so that the choice does not depend on the order of the pages. */
void hub_listing_sort(struct hub_listing *l);
/* Return the file of that path, or NULL. */
struct hub_file *hub_listing_find(const struct hub_listing *l, const char *path);
void hub_listing_release(struct hub_listing *l);

#endif
