/* core/hub/pull.c - see pull.h.
 *
 * Four steps: resolve the revision to a commit, list the commit's files page by page, choose those
 * of the model, fetch the missing ones. Every later request names the commit, so a push to the
 * repository meanwhile cannot mix two versions. If the Hub cannot be reached, the same choice is
 * made among the cached files. The token is wiped at the end.
 */
#include "core/hub/pull.h"

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/hub/ask.h"
#include "core/hub/cache.h"
#include "core/hub/choice.h"
#include "core/hub/download.h"
#include "core/hub/interrupt.h"
#include "core/hub/listing.h"
#include "core/hub/place.h"
#include "core/hub/reference.h"
#include "core/hub/transfer.h"

#include <stdio.h>
#include <string.h>

#define MAX_PAGES 200
#define MAX_ANSWER ((size_t)32 << 20) /* bytes of one page */
#define MAX_SENTENCE 1024

struct pull {
    struct hub_reference reference;
    struct hub_place place;
    struct hub_asker asker;
    struct hub_listing listing;
    char commit[41];
    const char *first; /* borrowed from the listing, or "" */
    char err[MAX_SENTENCE];
};

/* ---- questions to the Hub ---- */

static int take_commit(struct pull *p, const struct buf *body)
{
    const char *why, *sha = NULL;
    cJSON *o = NULL;
    int rc = json_parse(body->data != NULL ? body->data : "", body->len, &o, &why);

    if (rc == 0)
        sha = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "sha"));
    if (sha != NULL && hub_is_commit(sha))
        snprintf(p->commit, sizeof(p->commit), "%s", sha);
    else
        rc = hub_fail(ERR_FORMAT, p->err, sizeof(p->err),
                      "%s does not say which commit '%s' is: it is no Hub", p->place.endpoint,
                      p->reference.revision);
    cJSON_Delete(o);
    return rc;
}

static int ask_commit(struct pull *p, struct buf *body)
{
    char url[HUB_MAX_URL], middle[HUB_MAX_REPO + 32];
    struct hub_answer a;
    int rc;

    snprintf(middle, sizeof(middle), "api/models/%s/revision", p->reference.repo);
    if (hub_url(url, sizeof(url), p->place.endpoint, middle, p->reference.revision, "") < 0)
        return hub_fail(ERR_LIMIT, p->err, sizeof(p->err), "the URL is too long");
    url[strlen(url) - 1] = '\0'; /* no path follows */
    rc = hub_ask(&p->asker, url, body, &a, p->err, sizeof(p->err));
    return rc == 0 ? take_commit(p, body) : rc;
}

/* Take the URL of the next page, which must be the endpoint's too, since it gets the token. */
static int next_page(struct pull *p, const struct hub_answer *a, char url[HUB_MAX_URL])
{
    const char *e = p->place.endpoint;
    const size_t n = strlen(e);

    if (strncmp(a->next, e, n) != 0 || a->next[n] != '/')
        return hub_fail(ERR_FORMAT, p->err, sizeof(p->err),
                        "the next page of the listing is on another host than %s", e);
    snprintf(url, HUB_MAX_URL, "%s", a->next);
    return 0;
}

static int ask_listing(struct pull *p, struct buf *body)
{
    char url[HUB_MAX_URL], middle[HUB_MAX_REPO + 32];
    struct hub_answer a;
    size_t n;
    int rc;

    snprintf(middle, sizeof(middle), "api/models/%s/tree", p->reference.repo);
    if (hub_url(url, sizeof(url) - 32, p->place.endpoint, middle, p->commit, "") < 0)
        return hub_fail(ERR_LIMIT, p->err, sizeof(p->err), "the URL is too long");
    n = strlen(url) - 1;
    snprintf(url + n, sizeof(url) - n, "?recursive=true");
    for (int page = 0; page < MAX_PAGES; page++) {
        rc = hub_ask(&p->asker, url, body, &a, p->err, sizeof(p->err));
        if (rc == 0)
            rc = hub_listing_add_page(&p->listing, body->data != NULL ? body->data : "", body->len,
                                      p->err, sizeof(p->err));
        if (rc < 0 || a.next[0] == '\0')
            return rc;
        rc = next_page(p, &a, url);
        if (rc < 0)
            return rc;
    }
    return hub_fail(ERR_LIMIT, p->err, sizeof(p->err), "the listing has more than %d pages",
                    MAX_PAGES);
}

static int ask_hub(struct pull *p)
{
    struct buf body;
    int rc;

    buf_init(&body, MAX_ANSWER);
    rc = ask_commit(p, &body);
    if (rc == 0)
        rc = ask_listing(p, &body);
    buf_release(&body);
    return rc;
}

/* ---- fetching ---- */

static int choose_pulled(struct pull *p)
{
    hub_listing_sort(&p->listing);
    return hub_choose(&p->listing, p->reference.want, &p->first, p->err, sizeof(p->err));
}

/* Store the commit; a read-only cache that has all the files is enough. */
static void note_commit(struct pull *p)
{
    char quoted[400];

    if (hub_cache_set_commit(&p->place, &p->reference, p->commit, p->err, sizeof(p->err)) < 0)
        log_warn("hub", "event=revision-not-kept cause=%s",
                 log_quote(quoted, sizeof(quoted), p->err));
}

static int fetch_all(struct pull *p)
{
    uint64_t missing = 0;
    int rc;

    for (size_t i = 0; i < p->listing.n; i++)
        if (p->listing.files[i].is_chosen)
            missing += hub_download_missing(&p->asker, p->commit, &p->listing.files[i]);
    rc = hub_cache_check_room(&p->place, missing, p->err, sizeof(p->err));
    for (size_t i = 0; i < p->listing.n && rc == 0; i++)
        if (p->listing.files[i].is_chosen)
            rc = hub_download(&p->asker, p->commit, &p->listing.files[i], p->err, sizeof(p->err));
    if (rc == 0)
        note_commit(p);
    return rc;
}

/* Choose among cached files. Where the reference leaves the file open, the Hub's full listing might
 * have given another one. */
static int choose_cached(struct pull *p)
{
    const int rc = choose_pulled(p);
    char quoted[300];

    if (rc == 0 && p->reference.want[0] == '\0' && p->first[0] != '\0')
        log_warn("hub", "event=chosen-of-the-cache file=%s",
                 log_quote(quoted, sizeof(quoted), p->first));
    return rc;
}

static int look_up(struct pull *p)
{
    int rc = hub_cache_commit(&p->place, &p->reference, p->commit);

    hub_listing_release(&p->listing);
    if (rc == 0)
        rc = hub_cache_list(&p->listing, &p->place, p->reference.repo, p->commit, p->err,
                            sizeof(p->err));
    if (rc == ERR_NOENT || (rc == 0 && p->listing.n == 0))
        return hub_fail(ERR_NOENT, p->err, sizeof(p->err),
                        "it is not in the cache (%.300s), and the Hub is not asked offline: "
                        "`quire pull` fetches it",
                        p->place.cache);
    return rc == 0 ? choose_cached(p) : rc;
}

/* The Hub does not answer: use the files fetched before, and log it. */
static int fall_back(struct pull *p)
{
    char said[MAX_SENTENCE], quoted[400];
    const int rc = hub_cache_commit(&p->place, &p->reference, p->commit);

    snprintf(said, sizeof(said), "%s", p->err);
    if (rc == 0 && look_up(p) == 0) {
        log_warn("hub", "event=unreachable commit=%s cause=%s", p->commit,
                 log_quote(quoted, sizeof(quoted), said));
        return 0;
    }
    snprintf(p->err, sizeof(p->err), "%s", said);
    return ERR_IO;
}

static int pull_online(struct pull *p)
{
    int rc;

    p->asker = (struct hub_asker){.place = &p->place, .reference = &p->reference};
    rc = hub_transfer_open(&p->asker.transfer, &p->place, p->err, sizeof(p->err));
    if (rc == ERR_UNSUPPORTED)
        return fall_back(p) == 0 ? 0 : rc;
    if (rc < 0)
        return rc;
    hub_interrupt_begin();
    rc = ask_hub(p);
    if (rc == ERR_IO)
        rc = fall_back(p);
    else if (rc == 0)
        rc = choose_pulled(p) == 0 ? fetch_all(p) : ERR_NOENT;
    hub_interrupt_end();
    hub_transfer_close(&p->asker.transfer);
    return rc;
}

int hub_pull(const char *reference, bool is_offline, char path[HUB_PULL_MAX_PATH], char *err,
             size_t err_len)
{
    struct pull p = {0};
    int rc = hub_reference_parse(&p.reference, reference, err, err_len);

    if (rc == 0)
        rc = hub_place_init(&p.place, err, err_len);
    if (rc < 0)
        return rc;
    rc = is_offline || p.place.is_offline ? look_up(&p) : pull_online(&p);
    if (rc == 0) {
        _Static_assert(HUB_MAX_LOCAL <= HUB_PULL_MAX_PATH, "paths of the cache have room");
        hub_cache_path(path, &p.place, p.reference.repo, HUB_SNAPSHOTS, p.commit, p.first);
    } else {
        hub_fail(rc, err, err_len, "%.200s: %s", reference, p.err);
    }
    hub_listing_release(&p.listing);
    explicit_bzero(p.place.token, sizeof(p.place.token));
    return rc;
}
