/* core/hub/cached.c - see cached.h and hub_search.h.
 *
 * The cache has the last known commit of each revision; its files are listed and chosen from as
 * those of the Hub's listing are.
 */
#include "core/hub/cached.h"

#include "core/base/err.h"
#include "core/base/log.h"
#include "core/hub/cache.h"
#include "core/hub/choice.h"
#include "core/hub/hub_impl.h"
#include "core/hub/hub_search.h"

#include <string.h>

int hub_search_begin(struct hub_search *s, const char *reference, char *err, size_t err_len)
{
    const int rc = hub_reference_parse(&s->reference, reference, err, err_len);

    return rc == 0 ? hub_place_init(&s->place, err, err_len) : rc;
}

int hub_search_choose(struct hub_search *s)
{
    hub_listing_sort(&s->listing);
    return hub_choose(&s->listing, s->reference.want, &s->first, s->err, sizeof(s->err));
}

/* Choose among cached files. Where the reference leaves the file open, the Hub's full listing might
 * have given another one. */
static int choose_cached(struct hub_search *s)
{
    const int rc = hub_search_choose(s);
    char quoted[300];

    if (rc == 0 && s->reference.want[0] == '\0' && s->first[0] != '\0')
        log_warn("hub", "event=chosen-of-the-cache file=%s",
                 log_quote(quoted, sizeof(quoted), s->first));
    return rc;
}

int hub_search_cache(struct hub_search *s)
{
    int rc = hub_cache_commit(&s->place, &s->reference, s->commit);

    hub_listing_release(&s->listing);
    if (rc == 0)
        rc = hub_cache_list(&s->listing, &s->place, s->reference.repo, s->commit, s->err,
                            sizeof(s->err));
    if (rc == ERR_NOENT || (rc == 0 && s->listing.n == 0))
        return hub_fail(ERR_NOENT, s->err, sizeof(s->err),
                        "it is not in the cache (%.300s), and offline the Hub is not asked: "
                        "download it with `quire pull`",
                        s->place.cache);
    return rc == 0 ? choose_cached(s) : rc;
}

int hub_search_end(struct hub_search *s, int rc, const char *reference, char path[HUB_MAX_FOUND],
                   char *err, size_t err_len)
{
    _Static_assert(HUB_MAX_LOCAL <= HUB_MAX_FOUND, "paths of the cache have room");

    if (rc == 0)
        hub_cache_path(path, &s->place, s->reference.repo, HUB_SNAPSHOTS, s->commit, s->first);
    else
        hub_fail(rc, err, err_len, "%.200s: %s", reference, s->err);
    hub_listing_release(&s->listing);
    explicit_bzero(s->place.token, sizeof(s->place.token));
    return rc;
}

int hub_cached(const char *reference, char path[HUB_MAX_FOUND], char *err, size_t err_len)
{
    struct hub_search s = {0};
    int rc = hub_search_begin(&s, reference, err, err_len);

    if (rc < 0)
        return rc;
    rc = hub_search_cache(&s);
    return hub_search_end(&s, rc, reference, path, err, err_len);
}
