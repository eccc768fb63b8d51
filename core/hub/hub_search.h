/* core/hub/hub_search.h - the search for one model of the Hub: its commit and its files.
 *
 * Thread: one at a time.
 * Memory: the listing of a repository.
 * Errors: a sentence in `err`, to which hub_search_end() adds the reference.
 */
#ifndef CORE_HUB_HUB_SEARCH_H
#define CORE_HUB_HUB_SEARCH_H

#include "core/hub/cached.h"
#include "core/hub/listing.h"
#include "core/hub/place.h"
#include "core/hub/reference.h"

#define HUB_MAX_SENTENCE 1024

struct hub_search {
    struct hub_reference reference;
    struct hub_place place;
    struct hub_listing listing;
    char commit[41];
    const char *first; /* the model's first file, borrowed from the listing; "": it is a folder */
    char err[HUB_MAX_SENTENCE];
};

/* Parse the reference and find the cache. On failure `err` (of err_len bytes) has a sentence. */
int hub_search_begin(struct hub_search *s, const char *reference, char *err, size_t err_len);
/* Choose the files of the model in the listing. */
int hub_search_choose(struct hub_search *s);
/* List the cached files of the last known commit, and choose. ERR_NOENT: they are not there. */
int hub_search_cache(struct hub_search *s);
/* Write the path of the model, or if rc is negative the sentence, and release the search. */
int hub_search_end(struct hub_search *s, int rc, const char *reference, char path[HUB_MAX_FOUND],
                   char *err, size_t err_len);

#endif
